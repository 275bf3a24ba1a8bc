// `verbena table` beside jobs of real processes.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "tests/process/program.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::process_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class TableCommandTest : public ::testing::Test {
 protected:
  [[nodiscard]] Ended table(std::vector<std::string> words) const {
    words.insert(words.begin(), "table");
    return run(VERBENA_PROGRAM, words, scratch_.path());
  }
  const verbena::testing::TemporaryFolder scratch_;
};

/// A run that goes on until it is stopped is looked at from all sides.
TEST_F(TableCommandTest, LooksIntoARun) {
  const std::string clicks = scratch_.path("clicks.ffm");
  ASSERT_EQ(
      run(VERBENA_PROGRAM, {"generate", "ctr", "--output", clicks, "--examples", "2000"}, scratch_.path())
          .status,
      0);
  const verbena::testing::TemporaryFolder of_run;
  const Program running(VERBENA_PROGRAM,
                        {"run", "ctr", "--data", clicks, "--passes", "1000000", "--servers", "2", "--workers",
                         "1", "--consistency", "ssp:1"},
                        of_run.path());
  const std::string job = fmt::format("run-{}", running.pid());
  Ended stats;
  ASSERT_TRUE(wait_until([&] {
    stats = table({"stats", "--json", "--job", job});
    return stats.status == 0 && stats.out.find("weights") != std::string::npos;
  })) << stats.err;
  const auto seen = nlohmann::json::parse(stats.out);
  EXPECT_EQ(seen["servers"], 2);
  const std::string weights = "ctr.weights";
  Ended top;
  ASSERT_TRUE(wait_until([&] {
    top = table({"top", weights, "--count", "3", "--json", "--job", job});
    return top.status == 0 && nlohmann::json::parse(top.out).size() == 3;
  })) << top.err;
  const std::uint64_t largest = nlohmann::json::parse(top.out)[0]["key"];
  const Ended row = table({"get", weights, std::to_string(largest), "--job", job});
  EXPECT_EQ(row.status, 0) << row.err;
  EXPECT_THAT(row.out, AllOf(HasSubstr(std::to_string(largest)), ::testing::Not(HasSubstr("no row"))));
  // The second way to say a key, in which ctr's keys have a meaning: its bias is always there.
  const Ended bias = table({"get", weights, "4095:0", "0:00", "--slots", "--job", job});
  EXPECT_EQ(bias.status, 0) << bias.err;
  EXPECT_THAT(bias.out, AllOf(::testing::ContainsRegex("4095:0 -?[0-9]"), HasSubstr("0:0 ")));
  const Ended no_index = table({"get", weights, "3:x", "--job", job});
  EXPECT_EQ(no_index.status, 2);
  EXPECT_THAT(no_index.err, HasSubstr("KEY: SLOT:INDEX is expected, a slot up to 4095 and an index up to "
                                      "4503599627370495, not \"3:x\""));
  const Ended exported = table({"export", weights, "--output", scratch_.path("rows.txt"), "--job", job});
  EXPECT_EQ(exported.status, 0) << exported.err;
  EXPECT_THAT(verbena::testing::contents(scratch_.path("rows.txt")), HasSubstr(std::to_string(largest)));
  const Ended no_key = table({"get", weights, "18446744073709551615", "--job", job});
  EXPECT_EQ(no_key.status, 2);
  EXPECT_THAT(no_key.err,
              HasSubstr("KEY: a whole number from 0 to 18446744073709551614 or SLOT:INDEX is expected"));
  const Ended none = table({"get", "nonsense", "1", "--job", job});
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.err, AllOf(HasSubstr("\"nonsense\""), HasSubstr(weights)));
  EXPECT_TRUE(alive(running.pid()));
  running.signal(SIGTERM);
}

TEST_F(TableCommandTest, HelpSaysThatTheyAreCommands) {
  for (const char* const tool : {"table", "checkpoint", "cluster"}) {
    const Ended help = run(VERBENA_PROGRAM, {tool, "--help"}, scratch_.path());
    EXPECT_THAT(help.out, AllOf(HasSubstr(fmt::format("verbena {} COMMAND [OPTION]…", tool)),
                                HasSubstr("\nCOMMANDS\n"), ::testing::Not(HasSubstr("APPLICATIONS"))));
  }
}

TEST_F(TableCommandTest, SaysWhichJobsThereAre) {
  const std::string job = fmt::format("table-test-{}", ::getpid());
  const verbena::testing::TemporaryFolder of_server;
  const Program server(VERBENA_PROGRAM, {"server", "--job", job, "--servers", "1", "--workers", "1"},
                       of_server.path());
  Ended stats;
  ASSERT_TRUE(wait_until([&] {
    stats = table({"stats", "--job", job});
    return stats.status == 0;
  })) << stats.err;
  EXPECT_THAT(stats.out, HasSubstr("no table is open"));
  const Ended other = table({"stats", "--job", "nonsense"});
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err, AllOf(HasSubstr("no job \"nonsense\""), HasSubstr(job)));
  const Ended both = table({"stats", "--job", job, "--addresses", "node1:7001", "--no-secret"});
  EXPECT_EQ(both.status, 2);
  EXPECT_THAT(both.err, HasSubstr("--addresses are enough"));
}

}  // namespace
}  // namespace verbena::process_test
