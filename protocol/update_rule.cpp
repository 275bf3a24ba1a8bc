#include "protocol/update_rule.hpp"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <string>

namespace verbena::protocol {
namespace {

/// Those beside addition, by name.
struct Registry {
  std::mutex mutex;
  std::map<std::string_view, UpdateRuleKind> kinds;
};

Registry& registry() {
  static Registry& the_registry = *new Registry;  // others' threads may outlive main()
  return the_registry;
}

}  // namespace

absl::Status register_update_rule(const UpdateRuleKind& kind) {
  if (kind.name.empty() || kind.name.size() > kMaxRuleNameBytes)
    return absl::InvalidArgumentError(
        fmt::format("an update rule's name has 1 to {} bytes", kMaxRuleNameBytes));
  const std::lock_guard lock(registry().mutex);
  if (kind.name == kAddition || !registry().kinds.emplace(kind.name, kind).second)
    return absl::AlreadyExistsError(fmt::format("there is an update rule \"{}\"", kind.name));
  return absl::OkStatus();
}

absl::StatusOr<UpdateRule> UpdateRule::find(std::string_view name, ValueType type, std::uint32_t width) {
  UpdateRule rule(type, width);
  if (name == kAddition) return rule;
  const std::lock_guard lock(registry().mutex);
  const auto& kinds = registry().kinds;
  const auto found = kinds.find(name);
  if (found == kinds.end()) {
    std::string known = fmt::format("\"{}\"", kAddition);
    for (const auto& [other, kind] : kinds) known += fmt::format(", \"{}\"", other);
    return absl::InvalidArgumentError(
        fmt::format("no update rule \"{}\" is registered in this process, but {}", name, known));
  }
  rule.state_bytes_ = (found->second.state_bytes(type, width) + 7) / 8 * 8;
  rule.functions_ = found->second.functions(type);
  return rule;
}

}  // namespace verbena::protocol
