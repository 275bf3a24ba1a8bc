#include "protocol/update_rule.hpp"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <string>

namespace verbena {
namespace protocol {
namespace {

/// All rules except addition, by name.
struct Registry {
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

}  // namespace

absl::StatusOr<UpdateRule> UpdateRule::find(std::string_view name, ValueType type, std::uint32_t width) {
  UpdateRule rule(type, width);
  if (name == kAddition) return rule;
  const absl::StatusOr<UpdateRuleKind> kind = find_kind(name);
  if (!kind.ok()) return kind.status();
  if (kind->state_bytes != nullptr) rule.state_bytes_ = (kind->state_bytes(type, width) + 7) / 8 * 8;
  rule.functions_ = kind->functions(type);
  const UpdateRuleFunctions& all = rule.functions_;
  if (all.combine == nullptr || all.apply == nullptr || all.predict == nullptr) {
    return absl::InvalidArgumentError(
        fmt::format("the update rule \"{}\" has not all functions for {}", name, name_of(type)));
  }
  return rule;
}

}  // namespace protocol

absl::Status register_update_rule(const UpdateRuleKind& kind) {
  if (kind.name.empty() || kind.name.size() > kMaxRuleNameBytes || kind.functions == nullptr) {
    return absl::InvalidArgumentError(
        fmt::format("an update rule has functions, and a name of 1 to {} bytes", kMaxRuleNameBytes));
  }
  const std::lock_guard lock(protocol::registry().mutex);
  if (kind.name == protocol::kAddition || !protocol::registry().kinds.emplace(kind.name, kind).second)
    return absl::AlreadyExistsError(fmt::format("there is an update rule \"{}\"", kind.name));
  return absl::OkStatus();
}

}  // namespace verbena
