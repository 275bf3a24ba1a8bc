// A server function that says what the rows are, as a pull would.
#pragma once

#include <cstdint>
#include <string_view>

#include <verbena/server_function.hpp>

namespace verbena::simulation {

struct ReadRows {
  static constexpr std::string_view kName = "simulation-read";
  explicit ReadRows(const FunctionCall& /*call*/) {}
  template <class Value>
  void on_row(const FunctionRow& row, const Value* values) {
    read.keys.push_back(row.key());
    for (std::uint32_t i = 0; i < row.width(); ++i) read.numbers.push_back(static_cast<double>(values[i]));
  }
  [[nodiscard]] FunctionResult result() const { return read; }
  static void merge(FunctionResult& result, const FunctionResult& part, const FunctionCall& /*call*/) {
    result.keys.insert(result.keys.end(), part.keys.begin(), part.keys.end());
    result.numbers.insert(result.numbers.end(), part.numbers.begin(), part.numbers.end());
  }
  FunctionResult read;
};

}  // namespace verbena::simulation
