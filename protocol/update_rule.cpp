#include "protocol/update_rule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "protocol/gradient_rules.hpp"

namespace verbena {
namespace protocol {
namespace {

/// All rules except addition, by name.
struct Registry {
  Registry() {
    for (const UpdateRuleKind& kind : gradient_rules()) kinds.emplace(kind.name, kind);
  }
  std::mutex mutex;
  std::map<std::string_view, UpdateRuleKind> kinds;
};

Registry& registry() {
  static Registry& the_registry = *new Registry;  // never destroyed: threads of others may outlive main()
  return the_registry;
}

absl::StatusOr<UpdateRuleKind> find_kind(std::string_view name) {
  const std::lock_guard lock(registry().mutex);
  const auto& kinds = registry().kinds;
  if (const auto found = kinds.find(name); found != kinds.end()) return found->second;
  std::string known = fmt::format("\"{}\"", kAddition);
  for (const auto& [other, kind] : kinds) known += fmt::format(", \"{}\"", other);
  return absl::InvalidArgumentError(
      fmt::format("no update rule \"{}\" is registered in this process, but {}", name, known));
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

/// A rule as a table names it.
struct Named {
  std::string_view name;
  std::vector<std::pair<std::string_view, double>> parameters;
};

absl::StatusOr<Named> parse(std::string_view text) {
  const auto wrong = [&](std::string_view what) {
    return absl::InvalidArgumentError(fmt::format(
        "the update rule \"{}\": expected NAME or NAME(PARAMETER=NUMBER,…), found {}", text, what));
  };
  Named named;
  const std::size_t open = text.find('(');
  named.name = trimmed(text.substr(0, open));
  if (open == std::string_view::npos) return named;
  std::string_view rest = trimmed(text);
  if (rest.back() != ')') return wrong("no \")\" at its end");
  rest = rest.substr(rest.find('(') + 1);
  rest.remove_suffix(1);
  if (trimmed(rest).empty()) return named;
  for (bool is_last = false; !is_last;) {
    const std::size_t comma = rest.find(',');
    is_last = comma == std::string_view::npos;
    const std::string_view each = rest.substr(0, comma);
    if (!is_last) rest.remove_prefix(comma + 1);
    const std::size_t equals = each.find('=');
    if (equals == std::string_view::npos) return wrong(fmt::format("\"{}\"", each));
    const std::string_view number = trimmed(each.substr(equals + 1));
    double value = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (error != std::errc() || end != number.data() + number.size() || !std::isfinite(value))
      return wrong(fmt::format("\"{}\"", each));
    named.parameters.emplace_back(trimmed(each.substr(0, equals)), value);
  }
  return named;
}

/// The values of the kind's parameters, in their order.
absl::StatusOr<std::array<double, kMaxRuleParameters>> values_of(const UpdateRuleKind& kind,
                                                                 const Named& named) {
  std::array<double, kMaxRuleParameters> values = {};
  for (std::size_t i = 0; i < kind.parameters.size(); ++i) values[i] = kind.parameters[i].usual;
  std::array<bool, kMaxRuleParameters> given = {};
  for (const auto& [name, value] : named.parameters) {
    const auto found =
        std::find_if(kind.parameters.begin(), kind.parameters.end(),
                     [&name = name](const RuleParameter& parameter) { return parameter.name == name; });
    if (found == kind.parameters.end()) {
      std::string known;
      for (const RuleParameter& parameter : kind.parameters)
        known += fmt::format("{}{}", known.empty() ? "" : ", ", parameter.name);
      return absl::InvalidArgumentError(fmt::format("the update rule \"{}\" has no parameter \"{}\", but {}",
                                                    kind.name, name, known.empty() ? "none" : known));
    }
    if (!(value >= found->least && value <= found->most)) {
      return absl::InvalidArgumentError(
          fmt::format("{} of the update rule \"{}\": expected {} to {}, found {}", name, kind.name,
                      found->least, found->most, value));
    }
    const auto index = static_cast<std::size_t>(found - kind.parameters.begin());
    if (std::exchange(given[index], true)) {
      return absl::InvalidArgumentError(
          fmt::format("{} of the update rule \"{}\" is given twice", name, kind.name));
    }
    values[index] = value;
  }
  return values;
}

}  // namespace

absl::StatusOr<UpdateRule> UpdateRule::find(std::string_view text, ValueType type, std::uint32_t width) {
  UpdateRule rule(type, width);
  const absl::StatusOr<Named> named = parse(text);
  if (!named.ok()) return named.status();
  if (named->name == kAddition && named->parameters.empty()) return rule;
  if (named->name == kAddition) return values_of({.name = kAddition}, *named).status();
  const absl::StatusOr<UpdateRuleKind> kind = find_kind(named->name);
  if (!kind.ok()) return kind.status();
  if (kind->state_bytes != nullptr) rule.state_bytes_ = (kind->state_bytes(type, width) + 7) / 8 * 8;
  rule.functions_ = kind->functions(type);
  const UpdateRuleFunctions& all = rule.functions_;
  if (all.combine == nullptr || all.apply == nullptr || all.predict == nullptr) {
    return absl::InvalidArgumentError(
        fmt::format("the update rule \"{}\" has not all functions for {}", named->name, name_of(type)));
  }
  const auto values = values_of(*kind, *named);
  if (!values.ok()) return values.status();
  rule.parameters_ = *values;
  rule.to_constants_ = kind->constants;
  rule.changes_with_clock_ = kind->constants != nullptr && (kind->changes_with_clock == nullptr ||
                                                            kind->changes_with_clock(values->data()));
  rule.make_constants(0);
  return rule;
}

void UpdateRule::make_constants(std::int64_t clock) {
  clock_ = clock;
  constants_ = parameters_;
  if (to_constants_ != nullptr) to_constants_(parameters_.data(), clock, constants_.data());
}

}  // namespace protocol

absl::Status register_update_rule(const UpdateRuleKind& kind) {
  if (kind.name.empty() || kind.name.size() > kMaxRuleNameBytes ||
      kind.name.find_first_of("( ") != std::string_view::npos || kind.functions == nullptr ||
      kind.parameters.size() > kMaxRuleParameters) {
    return absl::InvalidArgumentError(
        fmt::format("an update rule has functions, a name of 1 to {} bytes without \"(\" and blanks, and at "
                    "most {} parameters",
                    kMaxRuleNameBytes, kMaxRuleParameters));
  }
  const std::lock_guard lock(protocol::registry().mutex);
  if (kind.name == protocol::kAddition || !protocol::registry().kinds.emplace(kind.name, kind).second)
    return absl::AlreadyExistsError(fmt::format("there is an update rule \"{}\"", kind.name));
  return absl::OkStatus();
}

}  // namespace verbena
