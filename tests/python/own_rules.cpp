// An update rule and a server function of a program's own, which are there once this library is loaded.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tests/maximum_rule.hpp"
#include <verbena/server_function.hpp>
#include <verbena/update_rule.hpp>

namespace {

struct Sum {
  static constexpr std::string_view kName = "test-sum";
  explicit Sum(const verbena::FunctionCall& /*call*/) {}
  template <class Value>
  void on_row(const verbena::FunctionRow& row, const Value* values) {
    for (std::uint32_t i = 0; i < row.width(); ++i) sum += static_cast<double>(values[i]);
  }
  [[nodiscard]] verbena::FunctionResult result() const { return {.keys = {}, .numbers = {sum}}; }
  double sum = 0;
};

const bool kRegistered = [] {
  for (const absl::Status& status : {verbena::register_update_rule<verbena::testing::Maximum>(),
                                     verbena::register_server_function<Sum>()}) {
    if (status.ok()) continue;
    std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
    std::abort();
  }
  return true;
}();

}  // namespace
