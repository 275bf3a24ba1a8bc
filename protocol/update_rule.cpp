#include "protocol/update_rule.hpp"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <string>

#include "protocol/gradient_rules.hpp"
#include "protocol/named_parameters.hpp"

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

constexpr std::string_view kTheRule = "the update rule";

}  // namespace

absl::StatusOr<UpdateRule> UpdateRule::find(std::string_view text, ValueType type, std::uint32_t width) {
  UpdateRule rule(type, width);
  const absl::StatusOr<NamedParameters> named = NamedParameters::parse(kTheRule, text);
  if (!named.ok()) return named.status();
  if (named->name == kAddition && named->parameters.empty()) return rule;
  if (named->name == kAddition) return named->values_of(kTheRule, {}).status();
  const absl::StatusOr<UpdateRuleKind> kind = find_kind(named->name);
  if (!kind.ok()) return kind.status();
  if (kind->state_bytes != nullptr) rule.state_bytes_ = (kind->state_bytes(type, width) + 7) / 8 * 8;
  rule.functions_ = kind->functions(type);
  const UpdateRuleFunctions& all = rule.functions_;
  if (all.combine == nullptr || all.apply == nullptr) {
    return absl::InvalidArgumentError(
        fmt::format("the update rule \"{}\" has not all functions for {}", named->name, name_of(type)));
  }
  const auto values = named->values_of(kTheRule, kind->parameters);
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
