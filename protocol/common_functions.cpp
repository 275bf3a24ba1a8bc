#include "protocol/common_functions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "protocol/server_function.hpp"

namespace verbena::protocol {
namespace {

constexpr double kMostPenalty = 1e30;

/// Of a row's values, as doubles.
template <class Value>
double sum_of_squares(const Value* values, std::uint32_t width) {
  double sum = 0;
  for (std::uint32_t i = 0; i < width; ++i) {
    const auto value = static_cast<double>(values[i]);
    sum += value * value;
  }
  return sum;
}

/// The nearest value; not a number becomes 0 where values are whole.
template <class Value>
Value to_value(double number) {
  if constexpr (std::is_integral_v<Value>) {
    if (std::isnan(number)) return 0;
    // As doubles, limits of 64 bits are rounded up, to numbers that are too large.
    if (number >= static_cast<double>(std::numeric_limits<Value>::max()))
      return std::numeric_limits<Value>::max();
    if (number <= static_cast<double>(std::numeric_limits<Value>::min()))
      return std::numeric_limits<Value>::min();
  }
  return static_cast<Value>(number);
}

struct Norms {
  static constexpr std::string_view kName = "norms";
  explicit Norms(const FunctionCall& /*call*/) {}
  template <class Value>
  void on_row(const FunctionRow& row, const Value* values) {
    ++rows;
    for (std::uint32_t i = 0; i < row.width(); ++i) {
      const double size = std::abs(static_cast<double>(values[i]));
      if (size != 0) ++non_zeros;
      sum += size;
      squares += size * size;
      if (size > most || std::isnan(size)) most = size;
    }
  }
  [[nodiscard]] FunctionResult result() const {
    return {.numbers = {static_cast<double>(rows), static_cast<double>(non_zeros), sum, squares, most}};
  }
  static void merge(FunctionResult& result, const FunctionResult& part, const FunctionCall& /*call*/) {
    constexpr std::size_t kMost = 4;
    result.numbers.resize(kMost + 1);
    for (std::size_t i = 0; i < std::min(kMost, part.numbers.size()); ++i)
      result.numbers[i] += part.numbers[i];
    if (part.numbers.size() <= kMost) return;
    const double most = part.numbers[kMost];
    if (most > result.numbers[kMost] || std::isnan(most)) result.numbers[kMost] = most;
  }

  std::uint64_t rows = 0;
  std::uint64_t non_zeros = 0;
  double sum = 0;
  double squares = 0;
  double most = 0;
};

/// Of rows with equal norms, that with the smaller key comes first.
struct Top {
  static constexpr std::string_view kName = "top";
  static constexpr std::array kParameters = {
      NamedParameter{.name = "count", .usual = 10, .least = 1, .most = double{kMaxFunctionResults}}};
  using Ranked = std::pair<double, Key>;

  explicit Top(const FunctionCall& call) : count(static_cast<std::size_t>(call.parameters[0])) {}
  /// What is no number counts as infinite.
  static bool is_before(const Ranked& a, const Ranked& b) {
    const double norm_a = std::isnan(a.first) ? HUGE_VAL : a.first;
    const double norm_b = std::isnan(b.first) ? HUGE_VAL : b.first;
    return norm_a != norm_b ? norm_a > norm_b : a.second < b.second;
  }
  template <class Value>
  void on_row(const FunctionRow& row, const Value* values) {
    const Ranked one{std::sqrt(sum_of_squares(values, row.width())), row.key()};
    if (largest.size() == count && !is_before(one, largest.front())) return;
    if (largest.size() == count) {
      std::pop_heap(largest.begin(), largest.end(), is_before);
      largest.pop_back();
    }
    largest.push_back(one);
    std::push_heap(largest.begin(), largest.end(), is_before);  // the last of them in front
  }
  [[nodiscard]] FunctionResult result() { return sorted(largest); }
  static FunctionResult sorted(std::vector<Ranked>& ranked) {
    std::sort(ranked.begin(), ranked.end(), is_before);
    FunctionResult result;
    for (const auto& [norm, key] : ranked) {
      result.keys.push_back(key);
      result.numbers.push_back(norm);
    }
    return result;
  }
  static void merge(FunctionResult& result, const FunctionResult& part, const FunctionCall& call) {
    std::vector<Ranked> all;
    for (const FunctionResult* const one : {&std::as_const(result), &part}) {
      for (std::size_t i = 0; i < std::min(one->keys.size(), one->numbers.size()); ++i)
        all.emplace_back(one->numbers[i], one->keys[i]);
    }
    result = sorted(all);
    const std::size_t most = std::min(all.size(), static_cast<std::size_t>(call.parameters[0]));
    result.keys.resize(most);
    result.numbers.resize(most);
  }

  std::size_t count;
  std::vector<Ranked> largest;  ///< a heap
};

constexpr std::array kPenalties = {
    NamedParameter{.name = "l1", .usual = 0, .least = 0, .most = kMostPenalty},
    NamedParameter{.name = "l2", .usual = 0, .least = 0, .most = kMostPenalty}};

struct Regularizer {
  static constexpr std::string_view kName = "regularizer";
  static constexpr std::array kParameters = kPenalties;
  explicit Regularizer(const FunctionCall& call) : l1(call.parameters[0]), l2(call.parameters[1]) {}
  template <class Value>
  void on_row(const FunctionRow& row, const Value* values) {
    for (std::uint32_t i = 0; i < row.width(); ++i) {
      const auto value = static_cast<double>(values[i]);
      sum += l1 * std::abs(value) + l2 / 2 * value * value;
    }
  }
  [[nodiscard]] FunctionResult result() const { return {.numbers = {sum}}; }

  double l1;
  double l2;
  double sum = 0;
};

struct Regularize {
  static constexpr std::string_view kName = "regularize";
  static constexpr bool kChangesRows = true;
  static constexpr std::array kParameters = kPenalties;
  static absl::Status check(const FunctionCall& call) {
    if (!call.is_addition && !is_whole(call.type)) return absl::OkStatus();
    return absl::FailedPreconditionError(
        "it pushes a gradient, so the table's rule must be one that takes gradients, and not \"add\"");
  }
  explicit Regularize(const FunctionCall& call)
      : l1(call.parameters[0]), l2(call.parameters[1]), words(call.width) {}
  template <class Value>
  void on_row(const FunctionRow& row, const Value* values) {
    static_assert(sizeof(Value) <= sizeof words[0]);
    auto* const update = reinterpret_cast<Value*>(words.data());
    for (std::uint32_t i = 0; i < row.width(); ++i) {
      const auto value = static_cast<double>(values[i]);
      const double sign = value > 0 ? 1 : value < 0 ? -1 : 0;
      update[i] = to_value<Value>(l1 * sign + l2 * value);
    }
    row.push(update);
  }
  [[nodiscard]] static FunctionResult result() { return {}; }

  double l1;
  double l2;
  std::vector<double> words;  ///< room for a row
};

struct Scale {
  static constexpr std::string_view kName = "scale";
  static constexpr bool kChangesRows = true;
  static constexpr std::array kParameters = {NamedParameter{.name = "factor", .usual = 1}};
  explicit Scale(const FunctionCall& call) : factor(call.parameters[0]), words(call.width) {}
  template <class Value>
  void on_row(const FunctionRow& row, const Value* values) {
    auto* const scaled = reinterpret_cast<Value*>(words.data());
    for (std::uint32_t i = 0; i < row.width(); ++i)
      scaled[i] = to_value<Value>(static_cast<double>(values[i]) * factor);
    row.set(scaled);
  }
  [[nodiscard]] static FunctionResult result() { return {}; }

  double factor;
  std::vector<double> words;  ///< room for a row
};

struct Set {
  static constexpr std::string_view kName = "set";
  static constexpr bool kChangesRows = true;
  static constexpr bool kMakesRows = true;
  static absl::Status check(const FunctionCall& call) {
    if (call.numbers_a_key == call.width) return absl::OkStatus();
    return absl::InvalidArgumentError(fmt::format(
        "expected a list of keys with {} numbers for each, found {}", call.width, call.numbers_a_key));
  }
  explicit Set(const FunctionCall& call) : words(call.width) {}
  template <class Value>
  void on_row(const FunctionRow& row, const Value* /*values*/) {
    auto* const values = reinterpret_cast<Value*>(words.data());
    for (std::uint32_t i = 0; i < row.width(); ++i) values[i] = to_value<Value>(row.numbers()[i]);
    row.set(values);
  }
  [[nodiscard]] static FunctionResult result() { return {}; }

  std::vector<double> words;  ///< room for a row
};

/// The rows themselves, in the order of their keys in a list, or in no order that means anything.
struct Values {
  static constexpr std::string_view kName = "values";
  static absl::Status check(const FunctionCall& call) {
    if (call.width <= kMaxFunctionResults) return absl::OkStatus();
    return absl::FailedPreconditionError(
        fmt::format("rows of {} values are too wide for a result, which has "
                    "{} numbers at most",
                    call.width, kMaxFunctionResults));
  }
  explicit Values(const FunctionCall& /*call*/) {}
  template <class Value>
  void on_row(const FunctionRow& row, const Value* values) {
    if (all.numbers.size() > kMaxFunctionResults) return;  // too many, which will be said
    all.keys.push_back(row.key());
    all.numbers.insert(all.numbers.end(), values, values + row.width());
  }
  [[nodiscard]] FunctionResult result() { return std::move(all); }
  static void merge(FunctionResult& result, const FunctionResult& part, const FunctionCall& /*call*/) {
    result.keys.insert(result.keys.end(), part.keys.begin(), part.keys.end());
    result.numbers.insert(result.numbers.end(), part.numbers.begin(), part.numbers.end());
  }

  FunctionResult all;
};

/// Rows as they are, for a pull (worker/fixed/gather_pull.hpp): how many words of a bitmap follow; these
/// words, in which a bit is set for each of the message's keys that has a row; with rows=1, the numbers of
/// these rows; the values of these rows, one behind the other. All as keys of the result, which are words.
struct Gather {
  static constexpr std::string_view kName = "gather";
  static constexpr std::array kParameters = {
      NamedParameter{.name = "rows", .usual = 0, .least = 0, .most = 1}};
  explicit Gather(const FunctionCall& call) : tells_rows(call.parameters[0] != 0) {}
  template <class Value>
  void on_row(const FunctionRow& row, const Value* values) {
    const std::size_t word = RowPlace::index(row) / 64;
    is_too_much |= word + rows.size() + bytes.size() / sizeof(Key) > kMaxFunctionResults;
    if (is_too_much) return;
    if (word >= has_row.size()) has_row.resize(word + 1);
    has_row[word] |= std::uint64_t{1} << RowPlace::index(row) % 64;
    if (tells_rows) rows.push_back(RowPlace::row(row));
    const auto* const from = reinterpret_cast<const std::byte*>(values);
    bytes.insert(bytes.end(), from, from + row.width() * sizeof(Value));
  }
  [[nodiscard]] FunctionResult result() {
    FunctionResult all;
    all.keys.push_back(has_row.size());
    all.keys.insert(all.keys.end(), has_row.begin(), has_row.end());
    all.keys.insert(all.keys.end(), rows.begin(), rows.end());
    const std::size_t before = all.keys.size();
    all.keys.resize(before + (bytes.size() + sizeof(Key) - 1) / sizeof(Key));
    if (!bytes.empty()) std::memcpy(all.keys.data() + before, bytes.data(), bytes.size());
    if (is_too_much) all.keys.resize(kMaxFunctionResults + 1);  // which will be said
    return all;
  }

  bool tells_rows;
  bool is_too_much = false;
  std::vector<std::uint64_t> has_row;
  std::vector<std::uint64_t> rows;
  std::vector<std::byte> bytes;
};

/// What the table takes, by part: TableMemory.
struct Memory {
  static constexpr std::string_view kName = "memory";
  static constexpr bool kLooksAtNoRows = true;
  explicit Memory(const FunctionCall& /*call*/) {}
  void on_part(const TableMemory& of_part) { memory = of_part; }
  template <class Value>
  void on_row(const FunctionRow& /*row*/, const Value* /*values*/) {}
  [[nodiscard]] FunctionResult result() {
    FunctionResult all;
    for (const std::uint64_t* const number : memory.numbers())
      all.numbers.push_back(static_cast<double>(*number));
    return all;
  }

  TableMemory memory;
};

}  // namespace

std::span<const ServerFunctionKind> common_functions() {
  static const std::array kKinds = {
      server_function_kind<Norms>(),      server_function_kind<Top>(),    server_function_kind<Regularizer>(),
      server_function_kind<Regularize>(), server_function_kind<Scale>(),  server_function_kind<Set>(),
      server_function_kind<Values>(),     server_function_kind<Gather>(), server_function_kind<Memory>()};
  return kKinds;
}

}  // namespace verbena::protocol
