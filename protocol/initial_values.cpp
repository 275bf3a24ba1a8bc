#include "protocol/initial_values.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include "protocol/named_parameters.hpp"
#include "protocol/random_bits.hpp"

namespace verbena::protocol {
namespace {

constexpr std::string_view kTheValues = "the initial values";
constexpr double kMost = std::numeric_limits<float>::max();
constexpr NamedParameter kConstant[] = {{.name = "value", .usual = 0, .least = -kMost, .most = kMost}};
constexpr NamedParameter kUniform[] = {{.name = "low", .usual = -0.01, .least = -kMost, .most = kMost},
                                       {.name = "high", .usual = 0.01, .least = -kMost, .most = kMost}};
constexpr NamedParameter kNormal[] = {{.name = "mean", .usual = 0, .least = -kMost, .most = kMost},
                                      {.name = "deviation", .usual = 0.01, .least = 0, .most = kMost}};

}  // namespace

absl::StatusOr<InitialValues> InitialValues::find(std::string_view text, std::uint64_t seed, ValueType type) {
  const absl::StatusOr<NamedParameters> named = NamedParameters::parse(kTheValues, text);
  if (!named.ok()) return named.status();
  struct Choice {
    std::string_view name;
    Kind kind;
    std::span<const NamedParameter> parameters;
  };
  static constexpr std::array<Choice, 4> kChoices = {Choice{kZeros, Kind::kZero, {}},
                                                     {"constant", Kind::kConstant, kConstant},
                                                     {"uniform", Kind::kUniform, kUniform},
                                                     {"normal", Kind::kNormal, kNormal}};
  for (const Choice& choice : kChoices) {
    if (choice.name != named->name) continue;
    const auto values = named->values_of(kTheValues, choice.parameters);
    if (!values.ok()) return values.status();
    InitialValues initial;
    initial.kind_ = choice.kind;
    initial.seed_ = random_bits(seed);
    initial.first_ = (*values)[0];
    initial.second_ = (*values)[1];
    if (choice.kind == Kind::kUniform && initial.first_ > initial.second_) {
      return absl::InvalidArgumentError(fmt::format("{} \"{}\": low is {}, which is above high, {}",
                                                    kTheValues, text, initial.first_, initial.second_));
    }
    const bool is_spread = choice.kind == Kind::kUniform || choice.kind == Kind::kNormal;
    const bool is_not_whole =
        std::abs(initial.first_) > 0x1p31 - 1 || initial.first_ != std::floor(initial.first_);
    if (is_whole(type) && (is_spread || is_not_whole)) {
      return absl::InvalidArgumentError(
          fmt::format("{} \"{}\" are not whole numbers of type {}", kTheValues, text, name_of(type)));
    }
    if (choice.kind == Kind::kConstant && initial.first_ == 0) return InitialValues();
    return initial;
  }
  return absl::InvalidArgumentError(
      fmt::format("{} \"{}\": expected zero, constant, uniform or normal", kTheValues, text));
}

double InitialValues::value(std::uint64_t key_seed, std::uint32_t index) const {
  switch (kind_) {
    case Kind::kZero:
      return 0;
    case Kind::kConstant:
      return first_;
    case Kind::kUniform:
      return first_ + (second_ - first_) * random_fraction(random_bits(key_seed + index));
    case Kind::kNormal: {
      // Box and Muller, 1958: two fractions make two values.
      const std::uint64_t pair = key_seed + (index & ~1U);
      const double radius = std::sqrt(-2 * std::log(random_fraction(random_bits(pair))));
      const double angle = 2 * std::numbers::pi * random_fraction(random_bits(pair + 1));
      return first_ + second_ * radius * (index % 2 == 0 ? std::cos(angle) : std::sin(angle));
    }
  }
  return 0;
}

void InitialValues::write(Key key, ValueType type, std::uint32_t width, std::byte* values) const {
  if (is_zero()) {
    std::memset(values, 0, value_bytes(type) * width);
    return;
  }
  // So that keys that follow one another do not share parts of their sequences.
  const std::uint64_t key_seed = random_bits(seed_ ^ key);
  visit_value_type(type, [&]<class Value>() {
    for (std::uint32_t i = 0; i < width; ++i) {
      const auto one = static_cast<Value>(value(key_seed, i));
      std::memcpy(values + i * sizeof one, &one, sizeof one);
    }
  });
}

}  // namespace verbena::protocol
