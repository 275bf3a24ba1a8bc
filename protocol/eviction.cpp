#include "protocol/eviction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "protocol/named_parameters.hpp"

namespace verbena::protocol {
namespace {

constexpr std::string_view kTheEviction = "the eviction";
constexpr double kMostClocks = 1e9;
constexpr double kMostMegabytes = 1e9;
constexpr NamedParameter kMostMb{.name = "most_mb", .usual = 0, .least = 0, .most = kMostMegabytes};
constexpr NamedParameter kAgeParameters[] = {
    {.name = "clocks", .usual = 1000, .least = 1, .most = kMostClocks}, kMostMb};
constexpr NamedParameter kCountParameters[] = {
    {.name = "least", .usual = 1, .least = 0, .most = std::numeric_limits<float>::max()},
    {.name = "half_life", .usual = 1000, .least = 1, .most = kMostClocks},
    kMostMb};
constexpr NamedParameter kNormParameters[] = {
    {.name = "least", .usual = 0.001, .least = 0, .most = std::numeric_limits<double>::max()},
    {.name = "clocks", .usual = 100, .least = 1, .most = kMostClocks},
    kMostMb};
constexpr NamedParameter kLruParameters[] = {kMostMb};

/// A sweep judges by the clock at which it began: rows that were pushed to since are younger than new.
std::uint32_t age_of(const RowUse& use, std::uint32_t now) {
  return now > use.last_push ? now - use.last_push : 0;
}

/// By how much pushes have lost weight.
double decay(std::uint32_t clocks, double half_life) {
  return clocks == 0 ? 1 : std::exp2(-static_cast<double>(clocks) / half_life);
}

}  // namespace

absl::StatusOr<EvictionRule> EvictionRule::find(std::string_view text) {
  const absl::StatusOr<NamedParameters> named = NamedParameters::parse(kTheEviction, text);
  if (!named.ok()) return named.status();
  EvictionRule rule;
  const auto take = [&](Kind kind, std::span<const NamedParameter> known, const auto& use) -> absl::Status {
    const auto values = named->values_of(kTheEviction, known);
    if (!values.ok()) return values.status();
    rule.kind_ = kind;
    const double most_mb = known.empty() ? 0 : (*values)[known.size() - 1];
    if (most_mb > 0) rule.most_bytes_ = std::max<std::uint64_t>(static_cast<std::uint64_t>(most_mb * 1e6), 1);
    use(*values);
    return absl::OkStatus();
  };
  const auto clocks = [](double value) { return static_cast<std::uint32_t>(std::ceil(value)); };
  absl::Status status;
  if (named->name == kEvictNever) {
    status = take(Kind::kNever, {}, [](const auto&) {});
  } else if (named->name == "age") {
    status = take(Kind::kAge, kAgeParameters, [&](const auto& values) { rule.clocks_ = clocks(values[0]); });
  } else if (named->name == "count") {
    status = take(Kind::kCount, kCountParameters, [&](const auto& values) {
      rule.least_pushes_ = values[0];
      rule.half_life_ = values[1];
    });
  } else if (named->name == "norm") {
    status = take(Kind::kNorm, kNormParameters, [&](const auto& values) {
      rule.least_norm_ = values[0];
      rule.clocks_ = clocks(values[1]);
    });
  } else if (named->name == "lru") {
    status = take(Kind::kLru, kLruParameters, [](const auto&) {});
    if (status.ok() && rule.most_bytes_ == 0) {
      return absl::InvalidArgumentError(fmt::format(
          "{} \"{}\": expected how much memory there is, lru(most_mb=NUMBER)", kTheEviction, text));
    }
  } else {
    status = absl::InvalidArgumentError(
        fmt::format("{} \"{}\": expected never, age(clocks=NUMBER), count(least=NUMBER,half_life=NUMBER), "
                    "norm(least=NUMBER,clocks=NUMBER) or lru(most_mb=NUMBER), or most_mb with another one",
                    kTheEviction, text));
  }
  if (!status.ok()) return status;
  return rule;
}

std::int64_t EvictionRule::clocks_between_sweeps() const {
  constexpr double kSweeps = 8;
  if (kind_ == Kind::kLru) return 1;
  const double given = kind_ == Kind::kCount ? half_life_ : clocks_;
  return std::max<std::int64_t>(static_cast<std::int64_t>(given / kSweeps), 1);
}

void EvictionRule::count_push(RowUse& use, std::uint32_t now) const {
  if (kind_ == Kind::kCount)
    use.pushes = static_cast<float>(use.pushes * decay(age_of(use, now), half_life_)) + 1;
  use.last_push = now;
}

bool EvictionRule::is_due(const RowUse& use, std::uint32_t now) const {
  switch (kind_) {
    case Kind::kAge:
    case Kind::kNorm:
      return age_of(use, now) >= clocks_;
    case Kind::kCount:
      return use.pushes * decay(age_of(use, now), half_life_) < least_pushes_;
    case Kind::kNever:
    case Kind::kLru:
      break;
  }
  return false;
}

}  // namespace verbena::protocol
