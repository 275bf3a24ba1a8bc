// Update rules of a program's own: what a push does to a row, where it is not to be added.
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
// A table has it by its name (TableOptions::rule). Every process of a job registers it before it opens such a
// table, servers too: so they are a program's own (<verbena/server.hpp>), or in its processes
// (Session::from_environment(), alone and under mpirun). Those that `verbena run` starts know addition only.
//
// Thread safety: rules may be registered in several threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include <verbena/value_type.hpp>

namespace verbena {

/// Of rows of one value type. Rows and updates are arrays of `width` values.
struct UpdateRuleFunctions {
  /// `update` becomes what stands for both, in this order. Memory of the caller's own. How many updates are
  /// combined before they are applied is the same in every run under BSP only; elsewhere it depends on how
  /// they travel, and so does the result of a rule for which both together do something else than one after
  /// the other (a step of a sum of gradients).
  void (*combine)(std::byte* update, const std::byte* later, std::uint32_t width) = nullptr;
  /// The row takes an update. It may lie where a peer can still write: load each value once (load_whole()).
  /// Others read the row at the same time: each value must be stored whole, once (store_whole()). `state`:
  /// state_bytes of this rule's own for this row, zeros at first; aligned to 8 bytes.
  void (*apply)(std::byte* row, std::byte* state, const std::byte* update, std::uint32_t width) = nullptr;
  /// What a worker sees of an update of its own before the row has it. A rule that cannot tell does nothing:
  /// then a worker sees its own pushes when it sees those of others. Memory of the caller's own.
  void (*predict)(std::byte* row, const std::byte* update, std::uint32_t width) = nullptr;
};

struct UpdateRuleKind {
  std::string_view name;  ///< of at most kMaxRuleNameBytes; lives for ever
  /// Beside each row, in the memory of who applies. nullptr, or 0: nothing.
  std::size_t (*state_bytes)(ValueType type, std::uint32_t width) = nullptr;
  /// All of them, for each type.
  UpdateRuleFunctions (*functions)(ValueType type) = nullptr;
};

inline constexpr std::size_t kMaxRuleNameBytes = 64;

/// ALREADY_EXISTS: another one has the name. INVALID_ARGUMENT: no name, or no functions.
absl::Status register_update_rule(const UpdateRuleKind& kind);

/// `Rule` has kName and the functions of UpdateRuleFunctions as templates over Value; and, where it keeps a
/// state, state_bytes(type, width).
template <class Rule>
absl::Status register_update_rule();

/// Of memory that others write, or read, at the same time: each value is loaded and stored whole, once, and
/// orders nothing.
template <class Value>
Value load_whole(const Value* from) {
  return std::atomic_ref<Value>(*const_cast<Value*>(from)).load(std::memory_order_relaxed);
}
template <class Value>
void store_whole(Value* to, Value value) {
  std::atomic_ref<Value>(*to).store(value, std::memory_order_relaxed);
}

template <class Rule>
absl::Status register_update_rule() {
  constexpr auto kFunctions = [](ValueType type) {
    return visit_value_type(type, []<class Value>() -> UpdateRuleFunctions {
      return {
          .combine =
              [](std::byte* update, const std::byte* later, std::uint32_t width) {
                Rule::combine(reinterpret_cast<Value*>(update), reinterpret_cast<const Value*>(later), width);
              },
          .apply =
              [](std::byte* row, std::byte* state, const std::byte* update, std::uint32_t width) {
                Rule::apply(reinterpret_cast<Value*>(row), state, reinterpret_cast<const Value*>(update),
                            width);
              },
          .predict =
              [](std::byte* row, const std::byte* update, std::uint32_t width) {
                Rule::predict(reinterpret_cast<Value*>(row), reinterpret_cast<const Value*>(update), width);
              }};
    });
  };
  constexpr auto kStateBytes = [](ValueType type, std::uint32_t width) -> std::size_t {
    if constexpr (requires { Rule::state_bytes(type, width); }) return Rule::state_bytes(type, width);
    return 0;
  };
  return register_update_rule({.name = Rule::kName, .state_bytes = kStateBytes, .functions = kFunctions});
}

}  // namespace verbena
