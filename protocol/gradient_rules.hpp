// The update rules that take steps along gradients, and that every process knows: sgd, momentum, adagrad,
// rowwise-adagrad, adam, ftrl. <verbena/update_rule.hpp> has their formulas, parameters and sources.
#pragma once

#include <span>

#include <verbena/update_rule.hpp>

namespace verbena::protocol {

std::span<const UpdateRuleKind> gradient_rules();

}  // namespace verbena::protocol
