// The function of a call (<verbena/server_function.hpp>), found by its name, and how a call and its result
// travel: bulk messages kCall and kResult.
//
// Thread safety: functions may be found in several threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protocol/messages.hpp"
#include "protocol/named_parameters.hpp"
#include "protocol/update_rule.hpp"
#include <verbena/server_function.hpp>

namespace verbena::protocol {

/// A function with the parameters of one call, for tables of one type, width and rule. A small value, to be
/// copied.
class BoundFunction {
 public:
  /// INVALID_ARGUMENT: nobody has registered such a function in this process, its parameters are wrong, or it
  /// is not for such a table, or not with so many numbers for each key. The message says what is expected.
  /// `checks`: false if there are no keys, and so nobody knows how many numbers each would have.
  static absl::StatusOr<BoundFunction> find(std::string_view text, const UpdateRule& rule,
                                            std::uint32_t numbers_a_key, bool checks = true);

  [[nodiscard]] bool changes_rows() const { return kind_.changes_rows; }
  [[nodiscard]] bool makes_rows() const { return kind_.makes_rows; }
  [[nodiscard]] bool looks_at_no_rows() const { return kind_.looks_at_no_rows; }
  /// For one lane's part of the call.
  [[nodiscard]] std::unique_ptr<ServerFunction> make() const { return kind_.make(call()); }
  void merge(FunctionResult& result, const FunctionResult& part) const;

 private:
  [[nodiscard]] FunctionCall call() const {
    FunctionCall with_parameters = call_;
    with_parameters.parameters = parameters_.data();
    return with_parameters;
  }

  ServerFunctionKind kind_;
  FunctionCall call_;  ///< but for its parameters
  NamedParameters::Values parameters_ = {};
};

/// What only functions of Verbena's own may know of a row.
class RowPlace {
 public:
  /// Which of the keys of its message it is. REQUIRES: the call is for a list of keys.
  [[nodiscard]] static std::size_t index(const FunctionRow& row) { return row.index_; }
  /// Its number in the lane's part.
  [[nodiscard]] static std::uint64_t row(const FunctionRow& row) { return row.row_; }
};

constexpr std::size_t kMaxFunctionTextBytes = 256;
/// A worker that waits for more results of one lane breaks the rules.
constexpr std::uint32_t kMaxOpenCalls = 64;
constexpr std::uint32_t kMaxNumbersAKey = kMaxWidth;

/// The payload of a kCall.
struct CallMessage {
  Tag tag = 0;
  KeyRange range;         ///< the rows, if there are no keys
  std::vector<Key> keys;  ///< the header's `count`
  std::uint32_t numbers_a_key = 0;
  std::vector<double> numbers;
  std::string text;
};

/// What a message takes with its header, and what it takes for each key.
constexpr std::size_t call_bytes(std::size_t text_bytes) {
  return sizeof(BulkHeader) + 32 + (text_bytes + 7) / 8 * 8;
}
constexpr std::size_t call_bytes_a_key(std::uint32_t numbers_a_key) {
  return sizeof(Key) + numbers_a_key * sizeof(double);
}
/// Views of what a CallMessage has.
struct CallView {
  Tag tag = 0;
  KeyRange range;
  std::span<const Key> keys;
  std::uint32_t numbers_a_key = 0;
  std::span<const double> numbers;
  std::string_view text;
};
/// Writes header and payload; returns how many bytes. REQUIRES: `to` has room for them, and is aligned to 8.
std::size_t encode_call(const BulkHeader& header, const CallView& call, std::span<std::byte> to);
/// Copies it: the sender may write there. Which keys it has is not checked.
absl::StatusOr<CallMessage> decode_call(const BulkMessage& message);

/// What a lane has to say about a call: its result, or why there is none.
struct CallAnswer {
  absl::Status status;
  FunctionResult result;
};

/// An answer travels as words, in as many pieces as it needs. The payload of a kResult is the call's tag, how
/// many words follow in later messages, and `count` words.
struct ResultPiece {
  Tag tag = 0;
  std::uint64_t words_left = 0;
};
static_assert(sizeof(ResultPiece) == 16);

/// If there is too much of it, it is the answer that there is.
[[nodiscard]] std::vector<std::uint64_t> encode_answer(const CallAnswer& answer);
absl::StatusOr<CallAnswer> decode_answer(std::span<const std::uint64_t> words);
/// The most words that an answer may have.
constexpr std::size_t kMaxAnswerWords = 2 + 2 * kMaxFunctionResults + (kMaxReasonBytes + 7) / 8;

/// Takes the piece off its message and appends its words. INVALID_ARGUMENT: it has not the length that it
/// says, or there are too many words.
absl::StatusOr<ResultPiece> take_piece(const BulkMessage& message, std::vector<std::uint64_t>& words);

}  // namespace verbena::protocol
