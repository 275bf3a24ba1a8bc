#include "protocol/filter_rule.hpp"

#include <fmt/format.h>

#include "protocol/named_parameters.hpp"

namespace verbena::protocol {
namespace {

constexpr std::string_view kTheFilter = "the filter";
constexpr NamedParameter kSignificance[] = {{.name = "least", .usual = 1, .least = 0, .most = 1e30},
                                            {.name = "power", .usual = 0, .least = 0, .most = 10}};
constexpr NamedParameter kShare[] = {{.name = "share", .usual = 0.1, .least = 0, .most = 1}};

}  // namespace

absl::StatusOr<FilterRule> FilterRule::find(std::string_view text) {
  const auto named = NamedParameters::parse(kTheFilter, text);
  if (!named.ok()) return named.status();
  FilterRule rule;
  if (named->name == "significant") {
    const auto values = named->values_of(kTheFilter, kSignificance);
    if (!values.ok()) return values.status();
    rule = {.kind = Kind::kSignificant, .least = (*values)[0], .power = (*values)[1]};
  } else if (named->name == "top" || named->name == "random") {
    const auto values = named->values_of(kTheFilter, kShare);
    if (!values.ok()) return values.status();
    rule = {.kind = named->name == "top" ? Kind::kTop : Kind::kRandom, .share = (*values)[0]};
  } else if (named->name == kNoFilter) {
    const auto none = named->values_of(kTheFilter, {});
    if (!none.ok()) return none.status();
  } else {
    return absl::InvalidArgumentError(
        fmt::format("{} \"{}\": expected none, significant(least=NUMBER,power=NUMBER), top(share=NUMBER) or "
                    "random(share=NUMBER)",
                    kTheFilter, text));
  }
  return rule;
}

}  // namespace verbena::protocol
