// Custom update rules: what a push does to a row if it does not add.
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
// A table refers to a rule by its name (TableOptions::rule). Every process of a job, servers included, must
// register the rule before it opens a table with it. So the servers must be programs of your own
// (<verbena/server.hpp>) or run inside your processes (Session::from_environment(), alone and under mpirun).
// Servers that `verbena run` starts know addition only.
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

/// A rule's functions for one value type. Rows and updates are arrays of `width` values.
struct UpdateRuleFunctions {
  /// `update` becomes an update that stands for both: first `update`, then `later`. All memory is the
  /// caller's own. Only under BSP is the number of updates that are combined before they are applied the same
  /// in every run. Otherwise it depends on how they travel, and so does the result of a rule for which a
  /// combined update does something else than the two updates one after the other (for example a step along a
  /// sum of gradients).
  void (*combine)(std::byte* update, const std::byte* later, std::uint32_t width) = nullptr;
  /// Applies an update to the row. The update may lie in memory that a peer can still write: load each value
  /// once (load_whole()). Others read the row at the same time: each value must be stored whole, once
  /// (store_whole()). `state`: this rule's own state_bytes for this row, zeros at first, aligned to 8 bytes.
  void (*apply)(std::byte* row, std::byte* state, const std::byte* update, std::uint32_t width) = nullptr;
  /// Puts into the worker's copy of a row what the worker sees of its own update before the row has it. A
  /// rule that cannot tell does nothing: then a worker sees its own pushes when it sees the pushes of others.
  /// All memory is the caller's own.
  void (*predict)(std::byte* row, const std::byte* update, std::uint32_t width) = nullptr;
};

struct UpdateRuleKind {
  std::string_view name;  ///< at most kMaxRuleNameBytes long; must live forever
  /// The size of the state for each row, in the memory of the process that applies updates. nullptr, or 0:
  /// none.
  std::size_t (*state_bytes)(ValueType type, std::uint32_t width) = nullptr;
  /// All functions, for each value type.
  UpdateRuleFunctions (*functions)(ValueType type) = nullptr;
};

inline constexpr std::size_t kMaxRuleNameBytes = 64;

/// ALREADY_EXISTS: another rule has the name. INVALID_ARGUMENT: no name, or no functions.
absl::Status register_update_rule(const UpdateRuleKind& kind);

/// `Rule` has kName and the functions of UpdateRuleFunctions as templates over Value and, if it keeps a
/// state, state_bytes(type, width).
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
