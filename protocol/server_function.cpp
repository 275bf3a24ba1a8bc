#include "protocol/server_function.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/peer_memory.hpp"
#include "base/return_if_error.hpp"
#include "protocol/common_functions.hpp"
#include "protocol/kind_registry.hpp"

namespace verbena {

std::uint32_t FunctionRow::width() const {
  return rule_.width();
}

void FunctionRow::set_bytes(const std::byte* values) const {
  visit_value_type(rule_.type(), [&]<class Value>() {
    base::copy_words(reinterpret_cast<Value*>(values_), reinterpret_cast<const Value*>(values),
                     rule_.width());
  });
  rule_.adopt(values_, state_);
}

void FunctionRow::push_bytes(const std::byte* update) const {
  rule_.apply(values_, state_, update);
}

namespace protocol {
namespace {

KindRegistry<ServerFunctionKind>& functions() {
  // Never destroyed: threads of others may outlive main().
  static auto& the_functions = *new KindRegistry<ServerFunctionKind>("server function", common_functions());
  return the_functions;
}

constexpr std::string_view kTheFunction = "the server function";

/// What comes first in the payload of a call.
struct CallStart {
  Tag tag = 0;
  Key first = 0;
  Key last = 0;
  std::uint32_t numbers_a_key = 0;
  std::uint32_t text_bytes = 0;
};
static_assert(sizeof(CallStart) == 32 && call_bytes(0) == sizeof(BulkHeader) + sizeof(CallStart));

struct AnswerStart {
  std::uint32_t code = 0;
  std::uint32_t reason_bytes = 0;
  std::uint32_t keys = 0;
  std::uint32_t numbers = 0;
};
static_assert(sizeof(AnswerStart) == 16);

constexpr std::size_t words_for(std::size_t bytes) {
  return (bytes + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t);
}

/// Each word is loaded once.
void append_words(std::span<const std::byte> from, std::vector<std::uint64_t>& to) {
  for (std::size_t i = 0; i + sizeof(std::uint64_t) <= from.size(); i += sizeof(std::uint64_t))
    to.push_back(base::load_once<std::uint64_t>(from.data() + i));
}

}  // namespace

absl::StatusOr<BoundFunction> BoundFunction::find(std::string_view text, const UpdateRule& rule,
                                                  std::uint32_t numbers_a_key, bool checks) {
  BoundFunction function;
  if (text.size() > kMaxFunctionTextBytes) {
    return absl::InvalidArgumentError(
        fmt::format("{} and its parameters: expected at most {} bytes, found {}", kTheFunction,
                    kMaxFunctionTextBytes, text.size()));
  }
  const absl::StatusOr<NamedParameters> named = NamedParameters::parse(kTheFunction, text);
  if (!named.ok()) return named.status();
  const absl::StatusOr<ServerFunctionKind> kind = functions().find(named->name);
  if (!kind.ok()) return kind.status();
  function.kind_ = *kind;
  const auto values = named->values_of(kTheFunction, kind->parameters);
  if (!values.ok()) return values.status();
  function.parameters_ = *values;
  function.call_ = {.type = rule.type(),
                    .width = rule.width(),
                    .is_addition = rule.is_addition(),
                    .numbers_a_key = numbers_a_key};
  if (checks && kind->check != nullptr) {
    if (absl::Status status = kind->check(function.call()); !status.ok()) {
      return absl::Status(status.code(), fmt::format("{} \"{}\": {}", kTheFunction, named->name,
                                                     std::string(status.message())));
    }
  }
  return function;
}

void BoundFunction::merge(FunctionResult& result, const FunctionResult& part) const {
  if (kind_.merge != nullptr) return kind_.merge(result, part, call());
  result.keys.insert(result.keys.end(), part.keys.begin(), part.keys.end());
  if (result.numbers.size() < part.numbers.size()) result.numbers.resize(part.numbers.size());
  for (std::size_t i = 0; i < part.numbers.size(); ++i) result.numbers[i] += part.numbers[i];
}

std::size_t encode_call(const BulkHeader& header, const CallView& call, std::span<std::byte> to) {
  const CallStart start{.tag = call.tag,
                        .first = call.range.first,
                        .last = call.range.last,
                        .numbers_a_key = call.numbers_a_key,
                        .text_bytes = static_cast<std::uint32_t>(call.text.size())};
  std::size_t at = 0;
  const auto put = [&](const void* from, std::size_t bytes) {
    if (bytes > 0) std::memcpy(to.data() + at, from, bytes);
    at += bytes;
  };
  put(&header, sizeof header);
  put(&start, sizeof start);
  put(call.text.data(), call.text.size());
  const std::uint64_t padding = 0;
  put(&padding, words_for(call.text.size()) * sizeof padding - call.text.size());
  put(call.keys.data(), call.keys.size_bytes());
  put(call.numbers.data(), call.numbers.size_bytes());
  return at;
}

absl::StatusOr<CallMessage> decode_call(const BulkMessage& message) {
  const std::span<const std::byte> payload = message.payload;
  if (payload.size() < sizeof(CallStart))
    return absl::InvalidArgumentError(fmt::format("a call of {} bytes has no beginning", payload.size()));
  const auto start = base::load_once<CallStart>(payload.data());
  const std::uint64_t keys = message.header.count;
  if (start.text_bytes > kMaxFunctionTextBytes || start.numbers_a_key > kMaxNumbersAKey ||
      start.first > start.last || (keys == 0 && start.numbers_a_key > 0)) {
    return absl::InvalidArgumentError(
        fmt::format("a call with a text of {} bytes, {} keys or the range {} to {}, and {} numbers a key",
                    start.text_bytes, keys, start.first, start.last, start.numbers_a_key));
  }
  const std::size_t expected = sizeof start + words_for(start.text_bytes) * sizeof(std::uint64_t) +
                               keys * call_bytes_a_key(start.numbers_a_key);
  if (payload.size() != expected) {
    return absl::InvalidArgumentError(
        fmt::format("a call of {} bytes, expected {}", payload.size(), expected));
  }
  std::vector<std::uint64_t> words;
  words.reserve((expected - sizeof start) / sizeof(std::uint64_t));
  append_words(payload.subspan(sizeof start), words);
  CallMessage call{.tag = start.tag,
                   .range = {start.first, start.last},
                   .numbers_a_key = start.numbers_a_key,
                   .text = std::string(reinterpret_cast<const char*>(words.data()), start.text_bytes)};
  const auto first_key = words.begin() + static_cast<std::ptrdiff_t>(words_for(start.text_bytes));
  const auto first_number = first_key + static_cast<std::ptrdiff_t>(keys);
  call.keys.assign(first_key, first_number);
  call.numbers.reserve(keys * start.numbers_a_key);
  std::transform(first_number, words.end(), std::back_inserter(call.numbers),
                 [](std::uint64_t word) { return std::bit_cast<double>(word); });
  return call;
}

std::vector<std::uint64_t> encode_answer(const CallAnswer& answer) {
  const FunctionResult& result = answer.result;
  if (result.keys.size() > kMaxFunctionResults || result.numbers.size() > kMaxFunctionResults) {
    return encode_answer({absl::ResourceExhaustedError(
                              fmt::format("a result of {} keys and {} numbers, expected at most {}",
                                          result.keys.size(), result.numbers.size(), kMaxFunctionResults)),
                          {}});
  }
  std::string reason(answer.status.message());
  reason.resize(std::min(reason.size(), kMaxReasonBytes));
  const AnswerStart start{.code = static_cast<std::uint32_t>(answer.status.code()),
                          .reason_bytes = static_cast<std::uint32_t>(reason.size()),
                          .keys = static_cast<std::uint32_t>(result.keys.size()),
                          .numbers = static_cast<std::uint32_t>(result.numbers.size())};
  std::vector<std::uint64_t> words(sizeof start / sizeof(std::uint64_t) + words_for(reason.size()));
  std::memcpy(words.data(), &start, sizeof start);
  if (!reason.empty())
    std::memcpy(words.data() + sizeof start / sizeof(std::uint64_t), reason.data(), reason.size());
  words.insert(words.end(), result.keys.begin(), result.keys.end());
  for (const double number : result.numbers) words.push_back(std::bit_cast<std::uint64_t>(number));
  return words;
}

absl::StatusOr<CallAnswer> decode_answer(std::span<const std::uint64_t> words) {
  AnswerStart start;
  constexpr std::size_t kStartWords = sizeof start / sizeof(std::uint64_t);
  if (words.size() < kStartWords)
    return absl::InvalidArgumentError(fmt::format("an answer of {} words has no beginning", words.size()));
  start = std::bit_cast<AnswerStart>(std::array{words[0], words[1]});
  const std::size_t reason_words = words_for(start.reason_bytes);
  if (start.reason_bytes > kMaxReasonBytes || start.keys > kMaxFunctionResults ||
      start.numbers > kMaxFunctionResults ||
      words.size() != kStartWords + reason_words + start.keys + start.numbers) {
    return absl::InvalidArgumentError(
        fmt::format("an answer of {} words with a reason of {} bytes, {} keys and {} numbers", words.size(),
                    start.reason_bytes, start.keys, start.numbers));
  }
  CallAnswer answer;
  if (start.code != 0) {
    const auto* const reason = reinterpret_cast<const char*>(words.data() + kStartWords);
    answer.status =
        absl::Status(static_cast<absl::StatusCode>(start.code), std::string(reason, start.reason_bytes));
  }
  const std::span<const std::uint64_t> keys = words.subspan(kStartWords + reason_words, start.keys);
  answer.result.keys.assign(keys.begin(), keys.end());
  for (const std::uint64_t word : words.last(start.numbers))
    answer.result.numbers.push_back(std::bit_cast<double>(word));
  return answer;
}

absl::StatusOr<ResultPiece> take_piece(const BulkMessage& message, std::vector<std::uint64_t>& words) {
  const std::size_t bytes = sizeof(ResultPiece) + message.header.count * sizeof(std::uint64_t);
  if (message.payload.size() != bytes) {
    return absl::InvalidArgumentError(
        fmt::format("a result of {} words in {} bytes", message.header.count, message.payload.size()));
  }
  const auto piece = base::load_once<ResultPiece>(message.payload.data());
  const std::size_t all = words.size() + message.header.count;
  if (all > kMaxAnswerWords || piece.words_left > kMaxAnswerWords - all) {
    return absl::InvalidArgumentError(fmt::format("a result of {} words and {} more, expected at most {}",
                                                  all, piece.words_left, kMaxAnswerWords));
  }
  append_words(message.payload.subspan(sizeof piece), words);
  return piece;
}

}  // namespace protocol

absl::Status register_server_function(const ServerFunctionKind& kind) {
  if (kind.make == nullptr || (kind.makes_rows && !kind.changes_rows)) {
    return absl::InvalidArgumentError(fmt::format(
        "server function \"{}\": it has make(), and makes rows only if it changes rows", kind.name));
  }
  return protocol::functions().add(kind);
}

}  // namespace verbena
