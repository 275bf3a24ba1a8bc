#include "apps/report/drain_request.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace verbena::apps {
namespace {

using ::testing::HasSubstr;

TEST(DrainRequestTest, SurvivesTheJourneyAndNothingElseDoes) {
  for (const DrainRequest& request :
       {DrainRequest{.server = 3, .copy = std::nullopt}, DrainRequest{.server = 0, .copy = 7}})
    EXPECT_EQ(decode_drain_request(encode(request)).value(), request);
  for (const std::string text : {"", "[]", "{}", R"({"server":"0"})", R"({"server":0,"copy":-1})",
                                 R"({"server":0,"copy":[1]})", R"({"server":4294967296})"}) {
    EXPECT_THAT(std::string(decode_drain_request(text).status().message()), HasSubstr("expected a server"))
        << text;
  }
  EXPECT_FALSE(decode_drain_request(std::string(60'000, '[')).ok());
}

TEST(DrainRequestTest, TheAnswerSaysWhatHasBecomeOfItOrWhyNot) {
  EXPECT_EQ(decode_drain_answer(encode_drain_answer(std::string("\"gone\"\n"))).value(), "\"gone\"\n");
  const auto refused = decode_drain_answer(encode_drain_answer(absl::NotFoundError("no such one")));
  EXPECT_TRUE(absl::IsFailedPrecondition(refused.status()));
  EXPECT_EQ(refused.status().message(), "no such one");
  for (const std::string text : {"", "{}", R"({"done":1})", R"({"refused":{}})"})
    EXPECT_TRUE(absl::IsInternal(decode_drain_answer(text).status())) << text;
}

}  // namespace
}  // namespace verbena::apps
