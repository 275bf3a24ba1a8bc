#include "consistency/model.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>

#include "absl/status/status.h"

namespace verbena {
namespace consistency {

namespace {

absl::Status bad_model(std::string_view text) {
  return absl::InvalidArgumentError(fmt::format(
      "unknown consistency \"{}\": expected bsp, ssp:S, essp:S, bounded-delay:S with 0 ≤ S ≤ {}, a-bsp, "
      "a-bsp:means, asp, sequential or vap:V with V > 0",
      text, kMaxStaleness));
}

/// A model with a number that may be written behind its name, in the format of `Number`.
template <class Model, class Number>
std::optional<ConsistencyModel> with_number(Number Model::*number, std::optional<std::string_view> written) {
  Model model;
  if (written) {
    const char* const end = written->data() + written->size();
    const auto [stop, error] = std::from_chars(written->data(), end, model.*number);
    if (error != std::errc() || stop != end) return std::nullopt;
  }
  return model;
}

std::optional<ConsistencyModel> model_of(std::string_view name, std::optional<std::string_view> written) {
  if (name == "ssp") return with_number(&Ssp::staleness, written);
  if (name == "essp") return with_number(&Essp::staleness, written);
  if (name == "bounded-delay") return with_number(&BoundedDelay::delay, written);
  // Nobody can guess how large a model's values are.
  if (name == "vap" && written) return with_number(&Vap::value_bound, written);
  if (name == "a-bsp" && written == "means") return ABsp{Updates::kMeans};
  if (written) return std::nullopt;
  if (name == "bsp") return Bsp{};
  if (name == "a-bsp") return ABsp{};
  if (name == "asp") return Asp{};
  if (name == "sequential") return Sequential{};
  return std::nullopt;
}

/// A model's name, with its number if it has one.
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

}  // namespace

absl::Status check(const ConsistencyModel& model) {
  const auto* const vap = std::get_if<Vap>(&model);
  const bool is_sane = vap == nullptr ? staleness(model) <= kMaxStaleness
                                      : vap->value_bound > 0 && std::isfinite(vap->value_bound);
  return is_sane ? absl::OkStatus() : bad_model(to_string(model));
}

std::uint32_t staleness(const ConsistencyModel& model) {
  const Clock bound = rules_of(model).read_bound;
  return bound == kNoBound ? 0 : static_cast<std::uint32_t>(bound);
}

}  // namespace consistency

absl::StatusOr<ConsistencyModel> parse_consistency(std::string_view text) {
  const std::size_t colon = text.find(':');
  std::optional<std::string_view> written;
  if (colon != std::string_view::npos) written = text.substr(colon + 1);
  const std::optional<ConsistencyModel> model = consistency::model_of(text.substr(0, colon), written);
  if (!model || !consistency::check(*model).ok()) return consistency::bad_model(text);
  return *model;
}

std::string to_string(const ConsistencyModel& model) {
  return std::visit(consistency::Name{}, model);
}

}  // namespace verbena
