// What a push means: the update rule of a table. Only the rule knows; all other code just carries updates and
// rows.
//
//   combine   a worker adds up its updates of a row until they travel
//   apply     the writer of a row applies the update: a lane of the server, or the holder of the row's lock
//   predict   a worker that reads a row puts in those of its own updates that the row does not have yet
//
// Addition is the first rule, "add", and is compiled into its callers, behind a branch that the processor
// predicts. Other rules are called through a pointer: those that every process knows (gradient_rules.hpp),
// and those that a program registers by name (<verbena/update_rule.hpp>, which says what each rule does).
//
// Thread safety: rules may be bound in several threads. A bound rule belongs to one writer, because of
// set_clock(); until that is called, it may be used and copied in several threads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/word_copy.hpp"
#include <verbena/update_rule.hpp>
#include <verbena/value_type.hpp>

namespace verbena::protocol {

inline constexpr std::string_view kAddition = "add";

/// A row, what the rule keeps of it, and an update of it.
struct RuleStep {
  std::byte* row;
  std::byte* state;
  const std::byte* update;
};

/// A rule bound to rows of one type and width. A small value, to be copied.
class UpdateRule {
 public:
  /// `text`: as in TableOptions::rule. INVALID_ARGUMENT: the text is no rule's, or nobody has registered such
  /// a rule in this process, or not for this type; or its parameters are wrong. The message says what is
  /// expected.
  static absl::StatusOr<UpdateRule> find(std::string_view text, ValueType type, std::uint32_t width);
  /// Addition.
  UpdateRule(ValueType type, std::uint32_t width) : type_(type), width_(width) {}

  /// Whether pushes are added to rows. Models that weight updates or bound their sums need this.
  [[nodiscard]] bool is_addition() const { return functions_.apply == nullptr; }
  /// Whether predict() shows a worker its own updates.
  [[nodiscard]] bool predicts() const { return is_addition() || functions_.predict != nullptr; }
  /// Whether the updates of all workers in a clock wait for each other, and become one step.
  [[nodiscard]] bool takes_one_step_a_clock() const { return one_step_a_clock_; }
  /// Whether two updates of a row that are combined are their sum, as far as a try of this rule can tell.
  [[nodiscard]] bool sums_updates() const;
  [[nodiscard]] std::size_t state_bytes() const { return state_bytes_; }
  /// Whether its steps depend on the clock.
  [[nodiscard]] bool changes_with_clock() const { return changes_with_clock_; }
  /// How many clocks all workers have finished before the next steps; 0 at first.
  void set_clock(std::int64_t clock) {
    if (changes_with_clock_ && clock != clock_) make_constants(clock);
  }
  [[nodiscard]] ValueType type() const { return type_; }
  [[nodiscard]] std::uint32_t width() const { return width_; }

  void combine(std::byte* update, const std::byte* later) const {
    visit_value_type(type_, [&]<class Value>() { combine_as<Value>(update, later); });
  }
  void apply(std::byte* row, std::byte* state, const std::byte* update) const {
    if (!is_addition()) [[unlikely]] {
      functions_.apply(row, state, update, width_, constants_.data());
      return;
    }
    visit_value_type(type_, [&]<class Value>() {
      base::add_words(reinterpret_cast<Value*>(row), reinterpret_cast<const Value*>(update), width_);
    });
  }
  /// All of them, in their order. REQUIRES: !is_addition(), for which there is base::add_rows()
  void apply(std::span<const RuleStep> steps) const {
    for (const RuleStep& step : steps)
      functions_.apply(step.row, step.state, step.update, width_, constants_.data());
  }
  /// The row has been set to other values: what is kept of it becomes what goes with them.
  void adopt(const std::byte* row, std::byte* state) const {
    if (functions_.adopt != nullptr) {
      functions_.adopt(row, state, width_, constants_.data());
    } else if (state != nullptr) {
      std::memset(state, 0, state_bytes_);
    }
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
    } else if (functions_.predict != nullptr) {
      functions_.predict(row, update, width_);
    }
  }

 private:
  void make_constants(std::int64_t clock);

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
  void (*to_constants_)(const double* parameters, std::int64_t clock, double* constants) = nullptr;
  std::array<double, kMaxNamedParameters> parameters_ = {};
  std::array<double, kMaxNamedParameters> constants_ = {};  ///< those of clock_
  std::int64_t clock_ = 0;
  bool changes_with_clock_ = false;
  bool one_step_a_clock_ = false;
};

}  // namespace verbena::protocol
