#include "consistency/model.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>

#include "absl/status/status.h"

namespace verbena::consistency {

namespace {

absl::Status bad_model(std::string_view text) {
  return absl::InvalidArgumentError(fmt::format(
      "unknown consistency \"{}\": expected bsp, ssp:S, essp:S, bounded-delay:S with 0 ≤ S ≤ {}, a-bsp, "
      "a-bsp:means, asp, sequential or vap:V with V > 0",
      text, kMaxStaleness));
}

/// The number behind a model's name, in the spelling of `Number`.
template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number number{};
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<ConsistencyModel> model_of(std::string_view name) {
  if (name == "bsp") return Bsp{};
  if (name == "a-bsp") return ABsp{};
  if (name == "ssp") return Ssp{};
  if (name == "essp") return Essp{};
  if (name == "bounded-delay") return BoundedDelay{};
  if (name == "asp") return Asp{};
  if (name == "sequential") return Sequential{};
  if (name == "vap") return Vap{};
  return std::nullopt;
}

/// A model's name and its number, of which it has one or none.
struct Name {
  std::string operator()(const Bsp&) const { return "bsp"; }
  std::string operator()(const ABsp& a_bsp) const {
    return a_bsp.updates == Updates::kMeans ? "a-bsp:means" : "a-bsp";
  }
  std::string operator()(const Ssp& ssp) const { return fmt::format("ssp:{}", ssp.staleness); }
  std::string operator()(const Essp& essp) const { return fmt::format("essp:{}", essp.staleness); }
  std::string operator()(const BoundedDelay& delay) const {
    return fmt::format("bounded-delay:{}", delay.delay);
  }
  std::string operator()(const Asp&) const { return "asp"; }
  std::string operator()(const Sequential&) const { return "sequential"; }
  std::string operator()(const Vap& vap) const { return fmt::format("vap:{}", vap.value_bound); }
};

/// Where a number is to be written, by type.
struct NumberOf {
  std::uint32_t* whole = nullptr;
  double* real = nullptr;
};
NumberOf number_of(ConsistencyModel& model) {
  if (auto* const ssp = std::get_if<Ssp>(&model)) return {.whole = &ssp->staleness};
  if (auto* const essp = std::get_if<Essp>(&model)) return {.whole = &essp->staleness};
  if (auto* const delay = std::get_if<BoundedDelay>(&model)) return {.whole = &delay->delay};
  if (auto* const vap = std::get_if<Vap>(&model)) return {.real = &vap->value_bound};
  return {};
}

}  // namespace

absl::StatusOr<ConsistencyModel> parse_model(std::string_view text) {
  if (text == to_string(ABsp{Updates::kMeans})) return ABsp{Updates::kMeans};
  const std::size_t colon = text.find(':');
  std::optional<ConsistencyModel> model = model_of(text.substr(0, colon));
  if (!model) return bad_model(text);
  const NumberOf number = number_of(*model);
  if (colon != std::string_view::npos) {
    const std::string_view written = text.substr(colon + 1);
    const auto whole = number_in<std::uint32_t>(written);
    const auto real = number_in<double>(written);
    if (number.whole != nullptr && whole) {
      *number.whole = *whole;
    } else if (number.real != nullptr && real) {
      *number.real = *real;
    } else {
      return bad_model(text);
    }
  } else if (number.real != nullptr) {
    return bad_model(text);  // nobody can guess how large a model's values are
  }
  return check(*model).ok() ? absl::StatusOr<ConsistencyModel>(*model) : bad_model(text);
}

std::string to_string(const ConsistencyModel& model) {
  return std::visit(Name{}, model);
}

absl::Status check(const ConsistencyModel& model) {
  const Rules rules = rules_of(model);
  const bool staleness_is_sane = staleness(model) <= kMaxStaleness;
  const auto* const vap = std::get_if<Vap>(&model);
  const bool value_is_sane = vap == nullptr || (rules.value_bound > 0 && std::isfinite(rules.value_bound));
  return staleness_is_sane && value_is_sane ? absl::OkStatus() : bad_model(to_string(model));
}

std::uint32_t staleness(const ConsistencyModel& model) {
  const Clock bound = rules_of(model).read_bound;
  return bound == kNoBound ? 0 : static_cast<std::uint32_t>(bound);
}

}  // namespace verbena::consistency
