// Server functions: what a server does with rows of a table, where they lie, when a worker asks for it
// (Table::call(); Li et al., OSDI'14, section 3.3).
//
// A call names its function with its parameters: "norms", "top(count=100)". Parameters that are not named
// have their usual values. Functions that every process knows; w are the values of the call's rows:
//
//   norms                 numbers: rows, values that are not 0, sum of |w|, sum of w², largest |w|
//   top(count=10)         keys: those of the rows with the largest norms √(sum of w²), at most 65,536, the
//                         largest first; numbers: these norms
//   values                keys: those of the rows; numbers: their values. At most 65,536 numbers in each
//                         lane
//   memory                what the table takes; Table::memory() makes a TableMemory of it
//   gather(rows=0)        for pulls of sparse tables from another host; what it says is not for others
//   regularizer(l1=0,l2=0)    numbers: one, the sum of l1 |w| + l2 w² / 2
//   regularize(l1=0,l2=0)     changes rows: as if somebody had pushed the gradient of that, l1 sgn(w) + l2 w.
//                         For tables whose rule takes gradients
//   scale(factor=1)       changes rows: w *= factor
//   set                   changes rows, and makes those that a sparse table does not have: w becomes the
//                         numbers that the call gives for the row. The rule goes on from there: "ftrl" as if
//                         it had come to these weights, others with all that they keep of a row at 0
//
// Numbers are doubles, also where the table holds whole numbers: those beyond 2⁵³ are rounded.
//
// A call's rows are those of its list of keys, without keys that a sparse table has no row for, or those of
// its range; kAllKeys means all. Each lane of each server does its part of the work, beside its other work, a
// piece at a time, and the worker puts together what they say.
//
// What a function sees: all that a pull by the caller would see, if it called it now; but under BSP and
// A-BSP, and with a rule that takes one step a clock, nothing of this clock, nor what a filter keeps back
// (TableOptions::filter). While a function that does not change rows is at work, pushes go on: under models
// that apply them at once, a row may be looked at before or after those that come meanwhile. A function that
// changes rows is like a push, all of it at one moment of each lane (a list of keys that takes several
// messages, each of an eighth of the inbox, at one moment for each of them): after what the caller has pushed
// and called before; under BSP and A-BSP, and with a rule that takes one step a clock, after all updates of
// the clock, in the order of the callers' ranks.
//
// A program's own function:
//
//   struct Sum {
//     static constexpr std::string_view kName = "sum";
//     explicit Sum(const verbena::FunctionCall&) {}
//     template <class Value>
//     void on_row(const verbena::FunctionRow& row, const Value* values) {
//       for (std::uint32_t i = 0; i < row.width(); ++i) sum += static_cast<double>(values[i]);
//     }
//     verbena::FunctionResult result() const { return {.numbers = {sum}}; }
//     double sum = 0;
//   };
//   const absl::Status status = verbena::register_server_function<Sum>();
//
// As with update rules, every process of the job must register it, workers before they call it.
//
// Thread safety: functions may be registered in several threads. Each message of a call has an object of its
// own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include <verbena/keys.hpp>
#include <verbena/named_parameter.hpp>
#include <verbena/value_type.hpp>

namespace verbena {

namespace protocol {
class RowPlace;
class UpdateRule;
}  // namespace protocol

/// What a call comes to. What the elements mean is for the function to say.
struct FunctionResult {
  std::vector<Key> keys;
  std::vector<double> numbers;
  friend bool operator==(const FunctionResult&, const FunctionResult&) = default;
};

/// What a table takes on its servers: Table::memory(), and what the function "memory" says. Bytes are those
/// that are in use, of memory that is taken in larger pieces.
struct TableMemory {
  std::uint64_t rows = 0;          ///< that keys have
  std::uint64_t rows_waiting = 0;  ///< that were taken away, until no worker reads them any more
  std::uint64_t rows_free = 0;     ///< that were, and wait for other keys
  std::uint64_t value_bytes = 0;   ///< of all these rows, with their keys
  std::uint64_t state_bytes = 0;   ///< what the update rule keeps
  std::uint64_t book_bytes = 0;    ///< who is to be told of which rows, and when they were used
  std::uint64_t index_bytes = 0;   ///< where a key's row is
  std::uint64_t count_bytes = 0;   ///< how often keys without rows have come
  std::uint64_t refused = 0;       ///< pushes to keys that got no row, since the memory was used up

  /// In the order in which "memory" says them.
  static constexpr std::size_t kNumbers = 9;
  [[nodiscard]] std::array<std::uint64_t*, kNumbers> numbers() {
    return {&rows,       &rows_waiting, &rows_free,   &value_bytes, &state_bytes,
            &book_bytes, &index_bytes,  &count_bytes, &refused};
  }
  /// Of the result of "memory".
  [[nodiscard]] static TableMemory of(const FunctionResult& result) {
    TableMemory memory;
    const auto numbers = memory.numbers();
    for (std::size_t i = 0; i < kNumbers && i < result.numbers.size(); ++i) {
      constexpr double kMost = 1e18;  // what is no count of bytes comes from no honest server
      const double number = result.numbers[i];
      *numbers[i] = number >= 0 && number <= kMost ? static_cast<std::uint64_t>(number) : 0;
    }
    return memory;
  }
  [[nodiscard]] std::uint64_t bytes() const {
    return value_bytes + state_bytes + book_bytes + index_bytes + count_bytes;
  }
};

/// The most keys, and the most numbers, of a result.
inline constexpr std::size_t kMaxFunctionResults = 65'536;

/// What a function knows of a call before its first row.
struct FunctionCall {
  ValueType type = ValueType::kFloat;  ///< of the table
  std::uint32_t width = 0;             ///< of the table
  bool is_addition = true;             ///< the table's rule is "add"
  /// kMaxNamedParameters, in the order of the kind's. They live as long as the function's object.
  const double* parameters = nullptr;
  std::uint32_t numbers_a_key = 0;  ///< that come with the call's keys
};

/// A row of a call.
class FunctionRow {
 public:
  /// `index`: which of the keys of its message this is; `row`: its number in the lane's part.
  FunctionRow(Key key, std::size_t index, std::uint64_t row, std::byte* values, std::byte* state,
              const protocol::UpdateRule& rule, std::span<const double> numbers)
      : key_(key), index_(index), row_(row), values_(values), state_(state), rule_(rule), numbers_(numbers) {}

  [[nodiscard]] Key key() const { return key_; }
  [[nodiscard]] std::uint32_t width() const;
  /// Those that the caller gave for the key.
  [[nodiscard]] std::span<const double> numbers() const { return numbers_; }

  // For functions that change rows. Others read them at the same time, each value whole. `Value`: the
  // table's type; as many as the row's width.
  /// Sets the row to values, from which the table's rule goes on.
  template <class Value>
  void set(const Value* values) const {
    set_bytes(reinterpret_cast<const std::byte*>(values));
  }
  /// Does what a push of the update would do.
  template <class Value>
  void push(const Value* update) const {
    push_bytes(reinterpret_cast<const std::byte*>(update));
  }

 private:
  friend class protocol::RowPlace;
  void set_bytes(const std::byte* values) const;
  void push_bytes(const std::byte* update) const;

  Key key_;
  std::size_t index_;
  std::uint64_t row_;
  std::byte* values_;
  std::byte* state_;
  const protocol::UpdateRule& rule_;
  std::span<const double> numbers_;
};

/// One lane's part of a call.
class ServerFunction {
 public:
  virtual ~ServerFunction() = default;
  /// For functions that look at no rows: called once, with what the lane has of the table.
  virtual void on_part(const TableMemory& /*memory*/) {}
  /// Called for each row. `values`: those of the row.
  virtual void on_row(const FunctionRow& row, const std::byte* values) = 0;
  /// Called once, after the last row.
  virtual FunctionResult result() = 0;
};

struct ServerFunctionKind {
  std::string_view name;  ///< 1 to kMaxKindNameBytes bytes without "(" and blanks; must live forever
  /// It may call FunctionRow::set() and push(). Otherwise it only looks.
  bool changes_rows = false;
  /// on_part() is called instead of on_row().
  bool looks_at_no_rows = false;
  /// Rows that a sparse table does not have are made, with their initial values. Only with changes_rows.
  bool makes_rows = false;
  std::span<const NamedParameter> parameters = {};  ///< at most kMaxNamedParameters; must live forever
  /// Why the table or the parameters are not for this function. nullptr: all are.
  absl::Status (*check)(const FunctionCall& call) = nullptr;
  std::unique_ptr<ServerFunction> (*make)(const FunctionCall& call) = nullptr;
  /// Puts the result of another part into `result`, that of the first one; the parts come in the same order
  /// in every run. nullptr: the numbers are added up, and the lists of keys become one.
  void (*merge)(FunctionResult& result, const FunctionResult& part, const FunctionCall& call) = nullptr;
};

/// ALREADY_EXISTS: another function has the name, maybe one of those above. INVALID_ARGUMENT: no such name,
/// no make(), or too many parameters.
absl::Status register_server_function(const ServerFunctionKind& kind);

/// `Function` has kName, a constructor that takes a FunctionCall, and on_row() and result() as above,
/// on_row() as a template over the type of the values. It may have other members of ServerFunctionKind:
/// kChangesRows, kMakesRows, kLooksAtNoRows, kParameters, on_part(memory), check(call), merge(result, part,
/// call).
template <class Function>
absl::Status register_server_function();

/// The kind of `Function`.
template <class Function>
ServerFunctionKind server_function_kind() {
  ServerFunctionKind kind{.name = Function::kName, .make = [](const FunctionCall& call) {
                            return visit_value_type(
                                call.type, [&]<class Value>() -> std::unique_ptr<ServerFunction> {
                                  class OfType final : public ServerFunction {
                                   public:
                                    explicit OfType(const FunctionCall& of) : function_(of) {}
                                    void on_part(const TableMemory& memory) override {
                                      if constexpr (requires { function_.on_part(memory); })
                                        function_.on_part(memory);
                                    }
                                    void on_row(const FunctionRow& row, const std::byte* values) override {
                                      function_.on_row(row, reinterpret_cast<const Value*>(values));
                                    }
                                    FunctionResult result() override { return function_.result(); }

                                   private:
                                    Function function_;
                                  };
                                  return std::make_unique<OfType>(call);
                                });
                          }};
  if constexpr (requires { Function::kChangesRows; }) kind.changes_rows = Function::kChangesRows;
  if constexpr (requires { Function::kLooksAtNoRows; }) kind.looks_at_no_rows = Function::kLooksAtNoRows;
  if constexpr (requires { Function::kMakesRows; }) kind.makes_rows = Function::kMakesRows;
  if constexpr (requires { Function::kParameters; }) kind.parameters = Function::kParameters;
  if constexpr (requires { &Function::check; }) kind.check = &Function::check;
  if constexpr (requires { &Function::merge; }) kind.merge = &Function::merge;
  return kind;
}

template <class Function>
absl::Status register_server_function() {
  return register_server_function(server_function_kind<Function>());
}

}  // namespace verbena
