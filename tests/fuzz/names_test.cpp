// Short texts that name something: consistency models and addresses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "consistency/model.hpp"
#include "tests/fuzz/mutator.hpp"
#include "transport/verbs/address.hpp"

namespace verbena {
namespace {

using ::testing::HasSubstr;
using verbena::testing::GuardedMemory;
using verbena::testing::Mutator;

constexpr int kNameRounds = verbena::testing::rounds(200'000);

TEST(NamesFuzz, ConsistencyModels) {
  Mutator mutator(1,
                  {"bsp", "ssp", "ssp:1", "essp:2", "essp:1000000", "bounded-delay:3", "asp", "sequential",
                   "vap:0.5", "vap:1e-30", "a-bsp", "a-bsp:means"},
                  {":", "s", "e", "0", "-1", "+", ".5", " ", "999999999999", std::string(1, '\0')});
  GuardedMemory memory;
  int accepted = 0;
  for (int round = 0; round < kNameRounds; ++round) {
    const std::string text = mutator.next();
    const auto model = parse_consistency(memory.put(text));
    if (!model.ok()) {
      ASSERT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
      ASSERT_THAT(std::string(model.status().message()), HasSubstr("expected bsp, ssp:S, essp:S"));
      continue;
    }
    ++accepted;
    ASSERT_LE(consistency::staleness(*model), 1'000'000U) << text;
    const std::string again = to_string(*model);
    ASSERT_EQ(parse_consistency(again).value(), *model) << text;
    // to_string() may be longer only by a default that the text leaves out, or by the digits of a fraction.
    const std::size_t longer = std::holds_alternative<Vap>(*model) ? 20 : 2;
    ASSERT_LE(again.size(), text.size() + longer) << text;
    ASSERT_EQ(again.substr(0, 3), text.substr(0, 3)) << text;
  }
  EXPECT_GT(accepted, kNameRounds / 100);
}

TEST(NamesFuzz, VerbsAddresses) {
  using transport::verbs::parse_address;
  Mutator mutator(2,
                  {"verbs:192.0.2.1:4711", "verbs:[2001:db8::1]:80", "verbs:host.example:65535", "verbs::0"},
                  {":", "[", "]", "[]", "65536", "-1", "0", " ", "verbs:", std::string(1, '\0')});
  int accepted = 0;
  for (int round = 0; round < kNameRounds; ++round) {
    const std::string text = mutator.next();
    const auto address = parse_address(text);
    if (!address.ok()) {
      ASSERT_EQ(address.status().code(), absl::StatusCode::kInvalidArgument);
      ASSERT_THAT(std::string(address.status().message()), HasSubstr("expected verbs:HOST:PORT"));
      continue;
    }
    ++accepted;
    ASSERT_THAT(text, HasSubstr(address->host));
    const auto again = parse_address(transport::verbs::text_of(*address));
    ASSERT_TRUE(again.ok()) << text;
    ASSERT_EQ(again->host, address->host) << text;
    ASSERT_EQ(again->port, address->port) << text;
  }
  EXPECT_GT(accepted, kNameRounds / 100);
}

}  // namespace
}  // namespace verbena
