// What a push means: the update rule of a table. It alone knows; all else carries updates and rows.
//
//   combine   a worker adds up its updates of a row until they travel
//   apply     whoever may write the row takes what has come: a lane of the server, or who has the row's lock
//   predict   a worker that reads a row puts in those of its own updates that the row does not have yet
//
// Addition is the first rule, "add", and compiled into its callers: for it there is a branch that the
// processor foresees. Others are called by a pointer. They are registered by name, in every process of a job
// alike:
//
//   struct Maximum {
//     static constexpr std::string_view kName = "max";
//     template <class Value>
//     static void combine(Value* update, const Value* later, std::uint32_t width) { … }
//     …as UpdateRuleFunctions says
//   };
//   const absl::Status status = protocol::register_update_rule<Maximum>();
//
// Thread safety: bound rules are constant. Registering and binding may go on in several threads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/word_copy.hpp"
#include "protocol/value_type.hpp"

namespace verbena::protocol {

/// Of rows of one value type. Rows and updates are arrays of `width` values.
struct UpdateRuleFunctions {
  /// `update` becomes what stands for both, in this order. Memory of the caller's own. How many updates are
  /// combined before they are applied is the same in every run under BSP only; elsewhere it depends on how
  /// they travel, and so does the result of a rule for which both together do something else than one after
  /// the other (a step of a sum of gradients).
  void (*combine)(std::byte* update, const std::byte* later, std::uint32_t width) = nullptr;
  /// The row takes an update. It may lie where a peer can still write: load each value once. Others read the
  /// row at the same time: each value must be stored whole, once (base/word_copy.hpp). `state`: state_bytes
  /// of this rule's own for this row, zeros at first; aligned to 8 bytes.
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
inline constexpr std::string_view kAddition = "add";

/// ALREADY_EXISTS: another one has the name. INVALID_ARGUMENT: no name, or no functions.
absl::Status register_update_rule(const UpdateRuleKind& kind);

/// `Rule` has kName and the functions of UpdateRuleFunctions as templates over Value; and, where it keeps a
/// state, state_bytes(type, width).
template <class Rule>
absl::Status register_update_rule();

/// A rule bound to rows of one type and width. A small value, to be copied.
class UpdateRule {
 public:
  /// INVALID_ARGUMENT: nobody has registered such a rule in this process. The message lists those there are.
  static absl::StatusOr<UpdateRule> find(std::string_view name, ValueType type, std::uint32_t width);
  /// Addition.
  UpdateRule(ValueType type, std::uint32_t width) : type_(type), width_(width) {}

  /// Sums of updates are what the table is about: what weights them or bounds them needs this.
  [[nodiscard]] bool is_addition() const { return functions_.apply == nullptr; }
  [[nodiscard]] std::size_t state_bytes() const { return state_bytes_; }
  [[nodiscard]] ValueType type() const { return type_; }
  [[nodiscard]] std::uint32_t width() const { return width_; }

  void combine(std::byte* update, const std::byte* later) const {
    visit_value_type(type_, [&]<class Value>() { combine_as<Value>(update, later); });
  }
  void apply(std::byte* row, std::byte* state, const std::byte* update) const {
    if (!is_addition()) [[unlikely]] {
      functions_.apply(row, state, update, width_);
      return;
    }
    visit_value_type(type_, [&]<class Value>() {
      base::add_words(reinterpret_cast<Value*>(row), reinterpret_cast<const Value*>(update), width_);
    });
  }
  void predict(std::byte* row, const std::byte* update) const {
    visit_value_type(type_, [&]<class Value>() { predict_as<Value>(row, update); });
  }

  /// For loops over rows of a type that the compiler knows.
  template <class Value>
  void combine_as(std::byte* update, const std::byte* later) const {
    if (is_addition()) [[likely]] {
      add<Value>(update, later);
    } else {
      functions_.combine(update, later, width_);
    }
  }
  template <class Value>
  void predict_as(std::byte* row, const std::byte* update) const {
    if (is_addition()) [[likely]] {
      add<Value>(row, update);
    } else {
      functions_.predict(row, update, width_);
    }
  }

 private:
  template <class Value>
  void add(std::byte* to, const std::byte* update) const {
    auto* const values = reinterpret_cast<Value*>(to);
    const auto* const added = reinterpret_cast<const Value*>(update);
    for (std::uint32_t i = 0; i < width_; ++i) values[i] = base::sum_of(values[i], added[i]);
  }

  ValueType type_;
  std::uint32_t width_;
  std::size_t state_bytes_ = 0;
  UpdateRuleFunctions functions_;  ///< none: addition
};

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

}  // namespace verbena::protocol
