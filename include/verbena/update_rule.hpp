// Update rules: what a push does to a row.
//
// A table names its rule (TableOptions::rule), with its parameters: "add", "adagrad", "ftrl(alpha=0.1,l1=1)".
// Parameters that are not named have their usual values. Rules that every process knows; g is what workers
// have pushed, w is the row, which starts as zeros, or as the table's initial values. What a rule keeps
// starts as zeros, too, but the z of "ftrl" as what gives the initial w:
//
//   add               w += g
//   sgd               w -= η g                                  rate 0.01, decay 1, power 0
//   momentum          m = μ m + g; w -= η m                     rate 0.01, decay 1, power 0, momentum 0.9
//   adagrad           n += g²; w -= η g / (√(n₀ + n) + ε)       rate 0.01, decay 1, power 0, initial 0,
//                                                               epsilon 1e-10
//   rowwise-adagrad   as adagrad, but with one n for the row: n += mean of g²;     epsilon 1e-8
//   adam              m = β₁ m + (1 − β₁) g; v = β₂ v + (1 − β₂) g²;
//                     w -= η √(1 − β₂ᵗ) / (1 − β₁ᵗ) · m / (√v + ε)    rate 0.001, decay 1, power 0,
//                                                               beta1 0.9, beta2 0.999, epsilon 1e-8
//   ftrl              σ = (√(n + g²) − √n) / α; z += g − σ w; n += g²; w = 0 if |z| ≤ λ₁, else
//                     −(z − sgn(z) λ₁) / ((β + √n) / α + λ₂)    alpha 0.1, beta 1, l1 0, l2 0
//   proximal          rows of w and g, pushes of g and u: w takes the step that makes
//                     g d + u d² / 2 + λ₁ |w + d| least, but |d| ≤ Δ; then Δ = min(5, 2 |d| + 0.1), Δ₀ = 1.
//                     The row tells the g of the newest step, too                         l1 0, damping 1
//
// η = rate · decay^c / (1 + c)^power, where c is the clock of the step: how many clocks all workers had
// finished before; t = c + 1. Rows that nobody has pushed to do not change, and neither does what is kept of
// them (lazy momentum, lazy Adam: torch.optim.SparseAdam). Sources: Adagrad: Duchi et al., JMLR'11; Adam:
// Kingma & Ba, ICLR'15, with ε where PyTorch's SparseAdam has it; FTRL: McMahan et al., KDD'13; proximal: the
// block algorithm of Li et al., OSDI'14, section 5.1, with the trust region of their program; u is multiplied
// by the damping. These rules are for float and double; of "proximal", the width is even: all w, then all g.
//
// One step or many: under BSP and A-BSP all updates of a row in a clock are combined, in the order of the
// workers' ranks, and the rule takes one step. So does "proximal" under any model with clocks, since a part
// of the gradient would be another step: what is pushed waits until all workers have finished the clock.
// Under the other models other rules take a step for what one worker has pushed to a row until it travelled,
// which mostly is in a clock. So a row may then take a step for each worker at the same c and t, and c and t
// are what the row's part of the server knew when it took it.
//
// Own pushes: these rules do not say what a worker may see of its own pushes before they are applied. So it
// sees them when the table's model shows it those of others. Only with "add" it sees them at once.
//
// A program's own rule:
//
//   struct Maximum {
//     static constexpr std::string_view kName = "max";
//     template <class Value>
//     static void combine(Value* update, const Value* later, std::uint32_t width) {
//       for (std::uint32_t i = 0; i < width; ++i) update[i] = std::max(update[i], later[i]);
//     }
//     template <class Value>
//     static void apply(Value* row, std::byte*, const Value* update, std::uint32_t width) {
//       for (std::uint32_t i = 0; i < width; ++i)
//         verbena::store_whole(row + i, std::max(row[i], verbena::load_whole(update + i)));
//     }
//     template <class Value>
//     static void predict(Value* row, const Value* update, std::uint32_t width) {
//       combine(row, update, width);
//     }
//   };
//   const absl::Status status = verbena::register_update_rule<Maximum>();
//
// Every process of a job, servers included, must register the rule before it opens a table with it. So the
// servers must be programs of your own (<verbena/server.hpp>) or run inside your processes
// (Session::from_environment(), alone and under mpirun). Servers that `verbena run` starts know the rules
// above only.
//
// Thread safety: rules may be registered in several threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include <verbena/named_parameter.hpp>
#include <verbena/value_type.hpp>

namespace verbena {

/// A rule's functions for one value type. Rows and updates are arrays of `width` values.
struct UpdateRuleFunctions {
  /// `update` becomes an update that stands for both: first `update`, then `later`. All memory is the
  /// caller's own. Only under BSP and A-BSP, and with one_step_a_clock, is the number of updates that are
  /// combined before they are applied the same in every run. Otherwise it depends on how they travel, and so
  /// does the result of a rule for which a combined update does something else than the two updates one after
  /// the other (for example a step along a sum of gradients).
  void (*combine)(std::byte* update, const std::byte* later, std::uint32_t width) = nullptr;
  /// Applies an update to the row. The update may lie in memory that a peer can still write: load each value
  /// once (load_whole()). Others read the row at the same time: each value must be stored whole, once
  /// (store_whole()). `state`: this rule's own state_bytes for this row, zeros at first, aligned to 8 bytes.
  /// `constants`: what UpdateRuleKind::constants has made of the table's parameters.
  void (*apply)(std::byte* row, std::byte* state, const std::byte* update, std::uint32_t width,
                const double* constants) = nullptr;
  /// Puts into the worker's copy of a row what the worker sees of its own update before the row has it.
  /// nullptr: the rule cannot tell, and a worker sees its own pushes when it sees the pushes of others; a
  /// function that does nothing makes pulls wait until they are applied. All memory is the caller's own.
  void (*predict)(std::byte* row, const std::byte* update, std::uint32_t width) = nullptr;
  /// The row has been set to other values than the rule has given it (FunctionRow::set()): makes a state from
  /// which the rule goes on. nullptr: that is zeros. Otherwise as apply().
  void (*adopt)(const std::byte* row, std::byte* state, std::uint32_t width,
                const double* constants) = nullptr;
};

struct UpdateRuleKind {
  std::string_view name;  ///< 1 to kMaxKindNameBytes bytes without "(" and blanks; must live forever
  /// The size of the state for each row, in the memory of the process that applies updates. nullptr, or 0:
  /// none.
  std::size_t (*state_bytes)(ValueType type, std::uint32_t width) = nullptr;
  /// The functions for each value type; none for a type that the rule is not for.
  UpdateRuleFunctions (*functions)(ValueType type) = nullptr;
  /// At most kMaxNamedParameters; must live forever.
  std::span<const NamedParameter> parameters = {};
  /// Makes `constants`, kMaxNamedParameters numbers, of the values of the parameters, in their order. Called
  /// once for each clock and not for each row, so that a step need not compute powers. nullptr: the
  /// constants are the parameters. `clock`: how many clocks all workers have finished.
  void (*constants)(const double* parameters, std::int64_t clock, double* constants) = nullptr;
  /// Whether constants() depends on the clock; the table is then a static one, which knows it. nullptr: it
  /// does.
  bool (*changes_with_clock)(const double* parameters) = nullptr;
  /// Takes one step for the updates of all workers in a clock, whatever the table's model, which must bound
  /// how many clocks workers are apart. Not with predict().
  bool one_step_a_clock = false;
  /// The width of the table's rows is a multiple of it.
  std::uint32_t width_multiple = 1;
};

/// ALREADY_EXISTS: another rule has the name, maybe one of those above. INVALID_ARGUMENT: no such name, no
/// functions, or too many parameters.
absl::Status register_update_rule(const UpdateRuleKind& kind);

/// `Rule` has kName and the functions of UpdateRuleFunctions as templates over Value; predict() and adopt()
/// may be missing. It may have the other members of UpdateRuleKind: state_bytes(type, width), kParameters,
/// constants(parameters, clock, constants), changes_with_clock(parameters), kOneStepAClock, kWidthMultiple.
/// With kParameters, apply() takes the constants as a fifth argument.
template <class Rule>
absl::Status register_update_rule();

/// For memory that others write or read at the same time: each value is loaded and stored whole, once. These
/// accesses order no other accesses.
template <class Value>
Value load_whole(const Value* from) {
  return std::atomic_ref<Value>(*const_cast<Value*>(from)).load(std::memory_order_relaxed);
}
template <class Value>
void store_whole(Value* to, Value value) {
  std::atomic_ref<Value>(*to).store(value, std::memory_order_relaxed);
}

/// The functions of `Rule` for one value type.
template <class Rule, class Value>
UpdateRuleFunctions update_rule_functions() {
  UpdateRuleFunctions functions{
      .combine =
          [](std::byte* update, const std::byte* later, std::uint32_t width) {
            Rule::combine(reinterpret_cast<Value*>(update), reinterpret_cast<const Value*>(later), width);
          },
      .apply =
          [](std::byte* row, std::byte* state, const std::byte* update, std::uint32_t width,
             const double* constants) {
            auto* const values = reinterpret_cast<Value*>(row);
            const auto* const pushed = reinterpret_cast<const Value*>(update);
            if constexpr (requires { Rule::kParameters; }) {
              Rule::apply(values, state, pushed, width, constants);
            } else {
              Rule::apply(values, state, pushed, width);
            }
          }};
  if constexpr (requires(Value * values) { Rule::predict(values, values, 1U); }) {
    functions.predict = [](std::byte* row, const std::byte* update, std::uint32_t width) {
      Rule::predict(reinterpret_cast<Value*>(row), reinterpret_cast<const Value*>(update), width);
    };
  }
  if constexpr (requires(Value * values) { Rule::adopt(values, nullptr, 1U, nullptr); }) {
    functions.adopt = [](const std::byte* row, std::byte* state, std::uint32_t width,
                         const double* constants) {
      Rule::adopt(reinterpret_cast<const Value*>(row), state, width, constants);
    };
  }
  return functions;
}

/// The kind of `Rule`, with these functions.
template <class Rule>
UpdateRuleKind update_rule_kind(UpdateRuleFunctions (*functions)(ValueType type)) {
  UpdateRuleKind kind{.name = Rule::kName, .functions = functions};
  if constexpr (requires { Rule::state_bytes(ValueType::kFloat, 1U); }) {
    kind.state_bytes = [](ValueType type, std::uint32_t width) -> std::size_t {
      return Rule::state_bytes(type, width);
    };
  }
  if constexpr (requires { Rule::kParameters; }) kind.parameters = Rule::kParameters;
  if constexpr (requires { Rule::kWidthMultiple; }) kind.width_multiple = Rule::kWidthMultiple;
  if constexpr (requires { Rule::kOneStepAClock; }) kind.one_step_a_clock = Rule::kOneStepAClock;
  if constexpr (requires { &Rule::constants; }) kind.constants = &Rule::constants;
  if constexpr (requires { &Rule::changes_with_clock; }) kind.changes_with_clock = &Rule::changes_with_clock;
  return kind;
}

template <class Rule>
absl::Status register_update_rule() {
  return register_update_rule(update_rule_kind<Rule>([](ValueType type) {
    return visit_value_type(type, []<class Value>() { return update_rule_functions<Rule, Value>(); });
  }));
}

}  // namespace verbena
