#include "consistency/model.hpp"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "absl/status/status.h"

namespace verbena::consistency {

namespace {

absl::Status bad_model(std::string_view text) {
  return absl::InvalidArgumentError(
      fmt::format("unknown consistency \"{}\": expected bsp, ssp:S or essp:S with a staleness S of 0 to {}",
                  text, kMaxStaleness));
}

}  // namespace

absl::StatusOr<ConsistencyModel> parse_model(std::string_view text) {
  if (text == "bsp") return Bsp{};
  const std::string_view name = text.substr(0, text.find(':'));
  std::optional<std::uint32_t> bound;
  if (name.size() < text.size()) {
    const char* const end = text.data() + text.size();
    std::uint32_t number = 0;
    const auto [stop, error] = std::from_chars(text.data() + name.size() + 1, end, number);
    if (error != std::errc() || stop != end || number > kMaxStaleness) return bad_model(text);
    bound = number;
  }
  if (name == "ssp") return Ssp{bound.value_or(Ssp{}.staleness)};
  if (name == "essp") return Essp{bound.value_or(Essp{}.staleness)};
  return bad_model(text);
}

std::string to_string(const ConsistencyModel& model) {
  if (const auto* ssp = std::get_if<Ssp>(&model)) return fmt::format("ssp:{}", ssp->staleness);
  if (const auto* essp = std::get_if<Essp>(&model)) return fmt::format("essp:{}", essp->staleness);
  return "bsp";
}

std::uint32_t staleness(const ConsistencyModel& model) {
  if (const auto* ssp = std::get_if<Ssp>(&model)) return ssp->staleness;
  if (const auto* essp = std::get_if<Essp>(&model)) return essp->staleness;
  return 0;
}

}  // namespace verbena::consistency
