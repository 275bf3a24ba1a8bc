#include "protocol/update_rule.hpp"

#include <fmt/format.h>

#include "protocol/gradient_rules.hpp"
#include "protocol/kind_registry.hpp"
#include "protocol/named_parameters.hpp"

namespace verbena {
namespace protocol {
namespace {

/// All rules except addition.
KindRegistry<UpdateRuleKind>& rules() {
  // Never destroyed: threads of others may outlive main().
  static auto& the_rules =
      *new KindRegistry<UpdateRuleKind>("update rule", gradient_rules(), fmt::format("\"{}\", ", kAddition));
  return the_rules;
}

constexpr std::string_view kTheRule = "the update rule";

}  // namespace

absl::StatusOr<UpdateRule> UpdateRule::find(std::string_view text, ValueType type, std::uint32_t width) {
  UpdateRule rule(type, width);
  const absl::StatusOr<NamedParameters> named = NamedParameters::parse(kTheRule, text);
  if (!named.ok()) return named.status();
  if (named->name == kAddition && named->parameters.empty()) return rule;
  if (named->name == kAddition) return named->values_of(kTheRule, {}).status();
  const absl::StatusOr<UpdateRuleKind> kind = rules().find(named->name);
  if (!kind.ok()) return kind.status();
  if (kind->state_bytes != nullptr) rule.state_bytes_ = (kind->state_bytes(type, width) + 7) / 8 * 8;
  rule.functions_ = kind->functions(type);
  const UpdateRuleFunctions& all = rule.functions_;
  if (all.combine == nullptr || all.apply == nullptr) {
    return absl::InvalidArgumentError(
        fmt::format("the update rule \"{}\" has not all functions for {}", named->name, name_of(type)));
  }
  if (kind->one_step_a_clock && all.predict != nullptr) {
    return absl::InvalidArgumentError(fmt::format(
        "the update rule \"{}\" takes one step for all workers, and cannot show one what its updates will do",
        named->name));
  }
  if (width % kind->width_multiple != 0) {
    return absl::InvalidArgumentError(
        fmt::format("the update rule \"{}\": expected a width that is a multiple of {}, found {}",
                    named->name, kind->width_multiple, width));
  }
  const auto values = named->values_of(kTheRule, kind->parameters);
  if (!values.ok()) return values.status();
  rule.parameters_ = *values;
  rule.to_constants_ = kind->constants;
  rule.one_step_a_clock_ = kind->one_step_a_clock;
  rule.changes_with_clock_ = kind->constants != nullptr && (kind->changes_with_clock == nullptr ||
                                                            kind->changes_with_clock(values->data()));
  rule.make_constants(0);
  return rule;
}

bool UpdateRule::sums_updates() const {
  if (is_addition()) return true;
  return visit_value_type(type_, [&]<class Value>() {
    std::vector<Value> update(width_, Value{1});
    const std::vector<Value> later(width_, Value{2});
    combine(reinterpret_cast<std::byte*>(update.data()), reinterpret_cast<const std::byte*>(later.data()));
    return std::all_of(update.begin(), update.end(), [](Value value) { return value == 3; });
  });
}

void UpdateRule::make_constants(std::int64_t clock) {
  clock_ = clock;
  constants_ = parameters_;
  if (to_constants_ != nullptr) to_constants_(parameters_.data(), clock, constants_.data());
}

}  // namespace protocol

absl::Status register_update_rule(const UpdateRuleKind& kind) {
  if (kind.functions == nullptr)
    return absl::InvalidArgumentError(fmt::format("update rule \"{}\": it has functions", kind.name));
  return kind.name == protocol::kAddition ? protocol::rules().exists(kind.name) : protocol::rules().add(kind);
}

}  // namespace verbena
