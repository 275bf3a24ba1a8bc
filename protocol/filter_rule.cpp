#include "protocol/filter_rule.hpp"

#include <fmt/format.h>

#include "protocol/named_parameters.hpp"

namespace verbena::protocol {
namespace {

constexpr std::string_view kTheFilter = "the filter";
constexpr NamedParameter kSignificance[] = {{.name = "least", .usual = 1, .least = 0, .most = 1e30},
                                            {.name = "power", .usual = 0, .least = 0, .most = 10}};
constexpr NamedParameter kShare[] = {{.name = "share", .usual = 0.1, .least = 0, .most = 1}};

/// The first that is not in parentheses, where it may belong to a number; npos: none.
std::size_t first_plus(std::string_view text) {
  const std::size_t begin = text.find('(');
  const std::size_t plus = text.find('+');
  if (plus < begin) return plus;
  const std::size_t end = text.find(')', begin);
  return end == std::string_view::npos ? end : text.find('+', end);
}

/// One of the texts between "+". False: it is none.
absl::StatusOr<bool> take(std::string_view text, FilterRule& rule) {
  using Kind = FilterRule::Kind;
  using Rounding = FilterRule::Rounding;
  const auto named = NamedParameters::parse(kTheFilter, text);
  if (!named.ok()) return named.status();
  const std::string_view name = named->name;
  const bool has_share = name == "top" || name == "random";
  const bool chooses = has_share || name == "significant";
  const bool rounds = name == "bf16" || name == "int8";
  if (!chooses && !rounds && name != kNoFilter) return false;
  if ((chooses && rule.kind != Kind::kNone) || (rounds && rule.rounding != Rounding::kNone)) return false;
  const auto values = named->values_of(kTheFilter, has_share ? std::span<const NamedParameter>(kShare)
                                                   : chooses ? std::span<const NamedParameter>(kSignificance)
                                                             : std::span<const NamedParameter>());
  if (!values.ok()) return values.status();
  if (has_share) {
    rule.kind = name == "top" ? Kind::kTop : Kind::kRandom;
    rule.share = (*values)[0];
  } else if (chooses) {
    rule.kind = Kind::kSignificant;
    rule.least = (*values)[0];
    rule.power = (*values)[1];
  } else if (rounds) {
    rule.rounding = name == "bf16" ? Rounding::kBfloat : Rounding::kInt8;
  }
  return true;
}

}  // namespace

absl::StatusOr<FilterRule> FilterRule::find(std::string_view text) {
  FilterRule rule;
  std::string_view rest = text;
  for (int part = 0; part < 2; ++part) {
    const std::size_t plus = first_plus(rest);
    const absl::StatusOr<bool> is_known = take(rest.substr(0, plus), rule);
    if (!is_known.ok()) return is_known.status();
    if (!*is_known) break;
    if (plus == std::string_view::npos) return rule;
    rest.remove_prefix(plus + 1);
  }
  return absl::InvalidArgumentError(fmt::format(
      "{} \"{}\": expected none, significant(least=NUMBER,power=NUMBER), top(share=NUMBER), "
      "random(share=NUMBER), bf16 or int8, or one that chooses rows and one that rounds, with a + "
      "between them",
      kTheFilter, text));
}

}  // namespace verbena::protocol
