#include "protocol/server_function.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace verbena::protocol {
namespace {

using ::testing::ElementsAre;

std::span<const std::byte> piece_of(const std::vector<std::uint64_t>& words, std::size_t bytes) {
  return std::as_bytes(std::span(words)).first(bytes);
}

/// A call as it lies in a ring.
std::vector<std::uint64_t> encoded(const CallView& call) {
  std::vector<std::uint64_t> words(1000);
  const BulkHeader header{.kind = BulkKind::kCall,
                          .table = 3,
                          .lane = 1,
                          .count = static_cast<std::uint32_t>(call.keys.size()),
                          .clock = 7};
  const std::size_t bytes = encode_call(header, call, std::as_writable_bytes(std::span(words)));
  EXPECT_EQ(bytes % 8, 0U);
  EXPECT_EQ(bytes, call_bytes(call.text.size()) + call.keys.size() * call_bytes_a_key(call.numbers_a_key));
  words.resize(bytes / 8);
  return words;
}

TEST(CallMessageTest, ArrivesAsItWasSent) {
  const std::vector<Key> keys = {5, kNoKey - 1, 0};
  const std::vector<double> numbers = {1, 2, -3, 4, 5, std::numeric_limits<double>::infinity()};
  for (const std::string text : {"", "set", "12345678", "top(count=3)"}) {
    for (const bool has_keys : {false, true}) {
      const CallView sent{.tag = 99,
                          .range = has_keys ? KeyRange{} : KeyRange{3, kNoKey},
                          .keys = has_keys ? std::span(keys) : std::span<const Key>(),
                          .numbers_a_key = has_keys ? 2U : 0U,
                          .numbers = has_keys ? std::span(numbers) : std::span<const double>(),
                          .text = text};
      const std::vector<std::uint64_t> words = encoded(sent);
      const auto message = decode_bulk(std::as_bytes(std::span(words)));
      ASSERT_TRUE(message.ok());
      const auto call = decode_call(*message);
      ASSERT_TRUE(call.ok()) << call.status();
      EXPECT_EQ(call->tag, 99U);
      EXPECT_EQ(call->text, text);
      EXPECT_EQ(call->range, sent.range);
      EXPECT_EQ(call->keys, std::vector<Key>(sent.keys.begin(), sent.keys.end()));
      EXPECT_EQ(call->numbers, std::vector<double>(sent.numbers.begin(), sent.numbers.end()));
      EXPECT_EQ(call->numbers_a_key, sent.numbers_a_key);
    }
  }
}

TEST(CallMessageTest, NonsenseIsRefused) {
  const std::vector<Key> keys = {5, 6};
  const std::vector<std::uint64_t> good = encoded({.tag = 1, .keys = keys, .text = "norms"});
  for (std::size_t bytes = sizeof(BulkHeader); bytes < good.size() * 8; bytes += 8) {
    const auto message = decode_bulk(piece_of(good, bytes));
    ASSERT_TRUE(message.ok());
    EXPECT_FALSE(decode_call(*message).ok()) << bytes;
  }
  const auto error_of = [](std::vector<std::uint64_t> words, std::size_t word, std::uint64_t value) {
    words[sizeof(BulkHeader) / 8 + word] = value;
    return std::string(decode_call(*decode_bulk(std::as_bytes(std::span(words)))).status().message());
  };
  EXPECT_THAT(error_of(good, 1, 3), ::testing::HasSubstr("the range 3 to 0"));
  EXPECT_THAT(error_of(good, 3, (std::uint64_t{257} << 32)), ::testing::HasSubstr("a text of 257 bytes"));
  EXPECT_THAT(error_of(good, 3, (std::uint64_t{5} << 32) + kMaxNumbersAKey + 1),
              ::testing::HasSubstr("1048577 numbers"));
  EXPECT_THAT(error_of(good, 3, (std::uint64_t{5} << 32) + 1),
              ::testing::HasSubstr("a call of 56 bytes, expected 72"));
  const std::vector<std::uint64_t> of_range = encoded({.range = {0, 9}, .text = "norms"});
  EXPECT_THAT(error_of(of_range, 3, (std::uint64_t{5} << 32) + 1), ::testing::HasSubstr("1 numbers a key"));
}

TEST(CallAnswerTest, ArrivesAsItWasSent) {
  const std::vector<CallAnswer> answers = {{},
                                           {.result = {.keys = {1, kNoKey}, .numbers = {0.5}}},
                                           {.status = absl::NotFoundError("no such thing")},
                                           {.status = absl::InternalError(std::string(5000, 'x'))}};
  for (const CallAnswer& answer : answers) {
    const std::vector<std::uint64_t> words = encode_answer(answer);
    const auto back = decode_answer(words);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->result, answer.result);
    EXPECT_EQ(back->status.code(), answer.status.code());
    EXPECT_EQ(back->status.message(), answer.status.message().substr(0, kMaxReasonBytes));
    for (std::size_t count = 0; count < words.size(); ++count)
      EXPECT_FALSE(decode_answer(std::span(words).first(count)).ok()) << count;
  }
  const auto too_large = decode_answer(encode_answer({.result = {.keys = std::vector<Key>(65'537)}}));
  ASSERT_TRUE(too_large.ok());
  EXPECT_EQ(too_large->status.code(), absl::StatusCode::kResourceExhausted);
}

TEST(CallAnswerTest, PiecesHaveBounds) {
  std::vector<std::uint64_t> words;
  std::vector<std::uint64_t> piece(sizeof(BulkHeader) / 8 + 4);
  const auto take = [&](std::uint32_t count, std::uint64_t left) {
    const BulkHeader header{.kind = BulkKind::kResult, .count = count};
    std::memcpy(piece.data(), &header, sizeof header);
    piece[sizeof(BulkHeader) / 8 + 1] = left;
    return take_piece(*decode_bulk(std::as_bytes(std::span(piece))), words);
  };
  EXPECT_TRUE(take(2, 5).ok());
  EXPECT_EQ(words.size(), 2U);
  EXPECT_FALSE(take(1, 5).ok()) << "the length";
  EXPECT_FALSE(take(2, kMaxAnswerWords).ok());
  EXPECT_FALSE(take(2, std::numeric_limits<std::uint64_t>::max()).ok());
  words.resize(kMaxAnswerWords - 1);
  EXPECT_FALSE(take(2, 0).ok());
}

/// Runs a function over rows of floats; their keys count from 0.
FunctionResult run(std::string_view text, std::vector<float>& rows, std::uint32_t width,
                   std::span<const double> numbers = {}, std::string_view rule_text = "sgd(rate=1)") {
  const auto numbers_a_key = static_cast<std::uint32_t>(numbers.size() * width / rows.size());
  UpdateRule rule = UpdateRule::find(rule_text, ValueType::kFloat, width).value();
  const auto function = BoundFunction::find(text, rule, numbers_a_key);
  EXPECT_TRUE(function.ok()) << function.status();
  const std::unique_ptr<ServerFunction> one = function->make();
  std::vector<std::uint64_t> state(rule.state_bytes() / 8 + 1);
  for (std::size_t i = 0; i < rows.size() / width; ++i) {
    auto* const values = reinterpret_cast<std::byte*>(&rows[i * width]);
    one->on_row(FunctionRow(i, i, i, values, reinterpret_cast<std::byte*>(state.data()), rule,
                            numbers.subspan(i * numbers_a_key, numbers_a_key)),
                values);
  }
  return one->result();
}

TEST(CommonFunctionsTest, DoWhatTheHeaderSays) {
  std::vector<float> rows = {1, -2, 0, 0, 3, 4};
  EXPECT_THAT(run("norms", rows, 2).numbers, ElementsAre(3, 4, 10, 30, 4));
  EXPECT_THAT(run("regularizer(l1=2,l2=3)", rows, 2).numbers, ElementsAre(20 + 45));
  const FunctionResult top = run("top(count=2)", rows, 2);
  EXPECT_THAT(top.keys, ElementsAre(2, 0));
  EXPECT_THAT(top.numbers, ElementsAre(5, std::sqrt(5.0)));
  run("regularize(l1=0.5,l2=0.25)", rows, 2);
  EXPECT_THAT(rows, ElementsAre(0.25F, -1, 0, 0, 1.75F, 2.5F));
  run("scale(factor=-2)", rows, 2);
  EXPECT_THAT(rows, ElementsAre(-0.5F, 2, 0, 0, -3.5F, -5));
  run("set", rows, 2, std::vector<double>{6, 5, 4, 3, 2, 1});
  EXPECT_THAT(rows, ElementsAre(6, 5, 4, 3, 2, 1));
}

/// A table that has diverged is one that people look at.
TEST(CommonFunctionsTest, WhatIsNoNumberIsTheLargest) {
  const float none = std::nanf("");
  std::vector<float> rows = {1, none, 5, none, 7};
  EXPECT_THAT(run("top(count=3)", rows, 1).keys, ElementsAre(1, 3, 4));
  EXPECT_TRUE(std::isnan(run("norms", rows, 1).numbers[4]));
}

/// What a rule keeps of a row that was set is what it keeps of a new one.
TEST(CommonFunctionsTest, StatesBeginAgain) {
  const UpdateRule rule = UpdateRule::find("adam", ValueType::kFloat, 1).value();
  std::vector<std::uint64_t> state(rule.state_bytes() / 8, 12345);
  float value = 3;
  rule.adopt(reinterpret_cast<const std::byte*>(&value), reinterpret_cast<std::byte*>(state.data()));
  EXPECT_EQ(state, std::vector<std::uint64_t>(state.size(), 0));
}

/// Rows with equal norms: the smaller keys first, whatever the parts are.
TEST(CommonFunctionsTest, TopPartsBecomeOne) {
  const auto function =
      BoundFunction::find("top(count=3)", UpdateRule(ValueType::kFloat, 1), /*numbers_a_key=*/0);
  ASSERT_TRUE(function.ok());
  FunctionResult result;
  function->merge(result, {.keys = {9, 8}, .numbers = {4, 2}});
  function->merge(result, {.keys = {3, 4, 5}, .numbers = {4, 4, 1}});
  EXPECT_THAT(result.keys, ElementsAre(3, 4, 9));
  EXPECT_THAT(result.numbers, ElementsAre(4, 4, 4));
}

TEST(CommonFunctionsTest, WholeNumbersStayInTheirLimits) {
  const UpdateRule rule(ValueType::kInt32, 1);
  std::int32_t value = 0;
  const auto set = [&](double number) {
    const auto function = BoundFunction::find("set", rule, 1);
    auto* const bytes = reinterpret_cast<std::byte*>(&value);
    function->make()->on_row(FunctionRow(0, 0, 0, bytes, nullptr, rule, std::span(&number, 1)), bytes);
    return value;
  };
  EXPECT_EQ(set(1e20), std::numeric_limits<std::int32_t>::max());
  EXPECT_EQ(set(-1e20), std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(set(-7.9), -7);
  EXPECT_EQ(set(std::nan("")), 0);
}

/// After set(), the rule goes on from there: a gradient of 0 changes nothing.
TEST(CommonFunctionsTest, FtrlGoesOnFromWhatIsSet) {
  std::vector<float> rows = {0.5F, -2, 0};
  const UpdateRule rule =
      UpdateRule::find("ftrl(alpha=0.3,beta=2,l1=1.5,l2=0.7)", ValueType::kFloat, 3).value();
  std::vector<std::uint64_t> state(rule.state_bytes() / 8, 12345);
  auto* const values = reinterpret_cast<std::byte*>(rows.data());
  auto* const kept = reinterpret_cast<std::byte*>(state.data());
  rule.adopt(values, kept);
  const std::vector<float> zeros(3, 0);
  rule.apply(values, kept, reinterpret_cast<const std::byte*>(zeros.data()));
  EXPECT_THAT(rows, ElementsAre(::testing::FloatEq(0.5F), ::testing::FloatEq(-2), 0));
}

}  // namespace
}  // namespace verbena::protocol
