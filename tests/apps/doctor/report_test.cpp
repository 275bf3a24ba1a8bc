#include "apps/doctor/report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/apps/doctor/facts.hpp"

namespace verbena::apps::doctor {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(ReportTest, TextShowsFindingsCommandsAndTheVerdict) {
  const Facts facts = laptop();
  const std::string text = to_text(facts, diagnose(facts), false);
  EXPECT_THAT(text, HasSubstr("problem  devices        there is none"));
  EXPECT_THAT(text, HasSubstr("\n                            sudo modprobe rdma_rxe\n"));
  EXPECT_THAT(text, EndsWith("\nverbs will not work on this host, shared memory and tcp do\n"));
  EXPECT_THAT(text, Not(HasSubstr("\033")));
  EXPECT_THAT(to_text(facts, diagnose(facts), true), HasSubstr("\033"));
}

TEST(ReportTest, TextSaysWhatWouldBeUsed) {
  const Facts facts = server();
  EXPECT_THAT(to_text(facts, diagnose(facts), false),
              EndsWith("\nwould use: mlx5_0 port 1, the only one that can be used; GID 3 (RoCEv2 10.0.0.1)\n"
                       "verbs will work on this host\n"));
}

TEST(ReportTest, JsonHoldsTheSame) {
  Facts facts = server();
  facts.host.locked_bytes_limit = facts.host.locked_bytes_hard_limit = 8 << 20;
  const nlohmann::json json = to_json(facts, diagnose(facts));
  EXPECT_EQ(json.at("schema"), 1);
  EXPECT_EQ(json.at("verbs"), true);
  EXPECT_EQ(json.at("shared_memory"), true);
  EXPECT_EQ(json.at("would_use").at("device"), "mlx5_0");
  EXPECT_EQ(json.at("would_use").at("address"), "10.0.0.1");
  EXPECT_EQ(json.at("would_use").at("mtu_bytes"), 4096);
  EXPECT_EQ(json.at("devices").at(0).at("ports").at(0).at("gids").size(), 4U);
  EXPECT_EQ(json.at("host").at("locked_bytes_limit"), 8 << 20);
  bool found = false;
  for (const nlohmann::json& finding : json.at("findings")) {
    if (finding.at("subject") != "locked memory") continue;
    found = true;
    EXPECT_EQ(finding.at("level"), "warning");
    EXPECT_THAT(finding.at("remedies").at(0).at("commands").at(0), HasSubstr("prlimit"));
  }
  EXPECT_TRUE(found);

  const Facts without = laptop();
  const nlohmann::json none = to_json(without, diagnose(without));
  EXPECT_EQ(none.at("verbs"), false);
  EXPECT_TRUE(none.at("would_use").is_null());
  EXPECT_TRUE(none.at("host").at("locked_bytes_limit").is_null());
}

}  // namespace
}  // namespace verbena::apps::doctor
