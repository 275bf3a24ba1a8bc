#include "apps/resuming/saved_state.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace verbena::apps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

nlohmann::json something() {
  const std::vector<float> numbers = {1.5F, -2, 1e-30F};
  nlohmann::json state = nlohmann::json::object();
  state["count"] = std::uint64_t{7};
  state["share"] = 3.0;
  state["done"] = true;
  state["words"] = "a text";
  state["numbers"] = saved_array(std::span(numbers));
  state["inner"] = {{"count", std::uint64_t{8}}};
  return state;
}

std::string error_of(const absl::Status& status) {
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  return std::string(status.message());
}

TEST(SavedStateTest, ComesBackAsItWas) {
  const absl::StatusOr<nlohmann::json> read = decode_state(encode_state(something()));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, something());
  const SavedState state(*read);
  EXPECT_EQ(*state.whole_number("count"), 7U);
  EXPECT_EQ(*state.number("share"), 3.0);
  EXPECT_TRUE(*state.flag("done"));
  EXPECT_EQ(*state.text("words"), "a text");
  EXPECT_THAT(*state.array<float>("numbers", 3), ElementsAre(1.5F, -2, 1e-30F));
  EXPECT_EQ(*SavedState(**state.object("inner")).whole_number("count"), 8U);
}

TEST(SavedStateTest, WhatIsNotAsExpectedIsNamed) {
  const nlohmann::json something = apps::something();
  const SavedState state(something);
  EXPECT_THAT(error_of(state.whole_number("none").status()), HasSubstr("\"none\" is missing"));
  EXPECT_THAT(error_of(state.whole_number("share").status()), HasSubstr("\"share\" is no whole number"));
  EXPECT_THAT(error_of(state.number("words").status()), HasSubstr("\"words\" is no number"));
  EXPECT_THAT(error_of(state.flag("count").status()), HasSubstr("\"count\" is neither"));
  EXPECT_THAT(error_of(state.text("done").status()), HasSubstr("\"done\" is no text"));
  EXPECT_THAT(error_of(state.object("words").status()), HasSubstr("\"words\" is no object"));
  EXPECT_THAT(error_of(state.array<float>("words").status()), HasSubstr("\"words\" is no array"));
  EXPECT_THAT(error_of(state.array<double>("numbers").status()), HasSubstr("\"numbers\" is no array"));
  EXPECT_THAT(error_of(state.array<float>("numbers", 4).status()),
              HasSubstr("\"numbers\" has 3 numbers, expected 4"));
  const nlohmann::json list = nlohmann::json::array();
  EXPECT_THAT(error_of(SavedState(list).text("words").status()), HasSubstr("missing"));
}

TEST(SavedStateTest, BytesThatAreNoneAreRefused) {
  const std::vector<std::byte> whole = encode_state(something());
  for (std::size_t size = 0; size < whole.size(); ++size)
    std::ignore = error_of(decode_state(std::span(whole).first(size)).status());
  std::vector<std::byte> longer = whole;
  longer.push_back(std::byte{0});
  std::ignore = error_of(decode_state(longer).status());
  const std::vector<std::byte> nested(10'000'000, std::byte{0x81});  // arrays in arrays
  std::ignore = error_of(decode_state(nested).status());
  // An array of 2⁶⁴ − 1 elements, and as many bytes.
  for (const std::byte kind : {std::byte{0x9b}, std::byte{0x5b}}) {
    std::vector<std::byte> endless(9, std::byte{0xff});
    endless[0] = kind;
    std::ignore = error_of(decode_state(endless).status());
  }
}

}  // namespace
}  // namespace verbena::apps
