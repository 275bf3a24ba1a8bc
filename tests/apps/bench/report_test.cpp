#include "apps/bench/report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "apps/bench/backend.hpp"

namespace verbena::apps::bench {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Operations of 64 KiB: one at a time they take 100 µs each, and one takes 900 µs; many at a time reach 500
/// MB/s.
Result result() {
  Result result{.operation = "read", .what = "what is timed", .bytes = 65536, .samples = {}};
  for (int i = 0; i < 9; ++i) result.samples.add(100'000);
  result.samples.add(900'000);
  result.stream = Stream{.operations_per_second = 500e6 / 65536, .connections = 2, .depth = 16, .batch = 4};
  result.yardsticks = {
      {.name = "ib_read_lat", .value = 80'000, .budget = 1.1},
      {.name = "ib_read_bw", .figure = Yardstick::Figure::kBandwidth, .value = 510e6, .budget = 0.95},
      {.name = "memcpy", .value = 2000}};
  return result;
}

const Circumstances kPlace{
    .transport = "verbs", .device = "rxe0 port 1", .mtu_bytes = 4096, .other_side = "node2"};

TEST(ReportTest, BudgetsOfTimesAreUpperAndOfBandwidthLowerBounds) {
  Result read = result();
  EXPECT_NEAR(read.ratio(read.yardsticks[0]), 1.25, 0.01);
  EXPECT_FALSE(read.keeps(read.yardsticks[0]));
  EXPECT_NEAR(read.ratio(read.yardsticks[1]), 0.98, 0.01);
  EXPECT_TRUE(read.keeps(read.yardsticks[1]));
  read.yardsticks[0].ours = 81'000;  // measured by turns with the yardstick
  EXPECT_TRUE(read.keeps(read.yardsticks[0]));
  read.yardsticks[1].ours = 400e6;
  EXPECT_FALSE(read.keeps(read.yardsticks[1]));
}

TEST(ReportTest, TheLongestTimesCanBeCompared) {
  Result read = result();  // one of ten takes 900 µs
  read.yardsticks = {
      {.name = "a millisecond", .figure = Yardstick::Figure::kP99, .value = 1e6, .budget = 0.8}};
  EXPECT_NEAR(read.ratio(read.yardsticks[0]), 0.9, 0.01);
  EXPECT_FALSE(read.keeps(read.yardsticks[0]));
  EXPECT_THAT(to_table(kPlace, {read}), AllOf(HasSubstr("p99"), HasSubstr("≤ 0.8: MISSED")));
  EXPECT_EQ(to_json(kPlace, {read}).at("results").at(0).at("yardsticks").at(0).at("figure"), "p99_ns");
}

TEST(ReportTest, TableHasFiguresYardsticksAndWhatIsTimed) {
  const std::string table = to_table(kPlace, {result()});
  EXPECT_THAT(table, HasSubstr("verbs, rxe0 port 1, path MTU 4096; the other side: node2"));
  EXPECT_THAT(table, HasSubstr("64 KiB"));
  EXPECT_THAT(table, HasSubstr("≤ 1.1: MISSED"));
  EXPECT_THAT(table, HasSubstr("≥ 0.95: kept"));
  EXPECT_THAT(table, HasSubstr("read            what is timed"));
  EXPECT_THAT(table, Not(HasSubstr("Note")));
  Circumstances noted = kPlace;
  noted.notes = {"perftest had trouble"};
  EXPECT_THAT(to_table(noted, {}), HasSubstr("Note: perftest had trouble"));
}

TEST(ReportTest, EncryptionIsSaid) {
  const Circumstances plain{.transport = "tcp", .other_side = "node2"};
  Circumstances encrypted = plain;
  encrypted.encrypted = true;
  EXPECT_TRUE(to_table(plain, {}).starts_with("tcp; the other side: node2\n"));
  EXPECT_TRUE(to_table(encrypted, {}).starts_with("tcp, encrypted; the other side: node2\n"));
  EXPECT_EQ(to_json(plain, {}).at("encrypted"), false);
  EXPECT_EQ(to_json(encrypted, {}).at("encrypted"), true);
}

TEST(ReportTest, ColumnsAreAsWideAsTheLongestName) {
  Result usual = result();
  usual.posted = Posted{.requests = 5, .bytes = 1000, .doorbells = 4};
  Result longest = usual;
  longest.operation = "an-operation-with-a-long-name";
  const std::string table = to_table(kPlace, {usual, longest});
  EXPECT_THAT(table, HasSubstr("  read                           what is timed\n"));
  EXPECT_THAT(table, HasSubstr("  an-operation-with-a-long-name  what is timed\n"));
  std::size_t size_ends = 0;  // where it does in the header of each of the three tables
  int lines_with_size = 0;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(table, '\n'))) {
    if (line.starts_with("operation")) size_ends = line.find("size") + 4;
    if (line.find("64 KiB") == std::string::npos) continue;
    EXPECT_EQ(line.find("64 KiB") + 6, size_ends) << line;
    ++lines_with_size;
  }
  EXPECT_EQ(lines_with_size, 2 + 6 + 2);
}

TEST(ReportTest, OnSharedCoresNothingIsJudged) {
  Circumstances shared = kPlace;
  shared.shared_cores = "others ran on the core";
  const std::string table = to_table(shared, {result()});
  EXPECT_THAT(table, Not(HasSubstr("MISSED")));
  EXPECT_THAT(table, Not(HasSubstr("kept")));
  EXPECT_THAT(table, HasSubstr("≤ 1.1: not judged"));
  EXPECT_THAT(table, HasSubstr("Note: cores are shared: others ran on the core"));
  const nlohmann::json json = to_json(shared, {result()});
  EXPECT_EQ(json.at("cores_shared"), true);
  EXPECT_TRUE(json.at("results").at(0).at("yardsticks").at(0).at("kept").is_null());
}

TEST(ReportTest, JsonHasAllOfIt) {
  const nlohmann::json json = to_json(kPlace, {result()});
  EXPECT_EQ(json.at("kind"), "bench");
  EXPECT_EQ(json.at("schema"), 2);
  EXPECT_EQ(json.at("device"), "rxe0 port 1");
  EXPECT_EQ(json.at("mtu_bytes"), 4096);
  EXPECT_EQ(json.at("cores_shared"), false);
  const nlohmann::json& read = json.at("results").at(0);
  EXPECT_EQ(read.at("operations"), 10);
  EXPECT_EQ(read.at("max_ns"), 900'000);
  EXPECT_NEAR(read.at("megabytes_per_second"), 500, 1e-6);
  EXPECT_EQ(read.at("stream").at("depth"), 16);
  std::uint64_t samples = 0;
  for (const nlohmann::json& bucket : read.at("histogram")) samples += bucket.at(2).get<std::uint64_t>();
  EXPECT_EQ(samples, 10U);
  const nlohmann::json& bandwidth = read.at("yardsticks").at(1);
  EXPECT_EQ(bandwidth.at("figure"), "megabytes_per_second");
  EXPECT_EQ(bandwidth.at("value"), 510);
  EXPECT_EQ(bandwidth.at("kept"), true);
  EXPECT_FALSE(read.at("yardsticks").at(2).contains("budget"));
}

TEST(ReportTest, WhatIsPostedIsShownForARow) {
  Result push = result();
  push.keys = 1000;
  push.posted = Posted{.requests = 5, .bytes = 408'200, .doorbells = 4};
  EXPECT_THAT(to_table(kPlace, {push}),
              AllOf(HasSubstr("asks of this side's transport"), HasSubstr("408.2"), HasSubstr("0.004")));
  EXPECT_THAT(to_table(kPlace, {result()}), Not(HasSubstr("asks of this side's transport")));
  EXPECT_EQ(to_json(kPlace, {push}).at("results").at(0).at("posted").at("bytes"), 408'200);
  EXPECT_FALSE(to_json(kPlace, {result()}).at("results").at(0).contains("posted"));
}

GatherCrossover crossover(std::vector<double> shares) {
  GatherCrossover crossover{.row_floats = 16, .pulls = {}};
  for (std::size_t i = 0; i < shares.size(); ++i)
    crossover.pulls.push_back(
        {.keys = std::size_t{8} << i, .read_ns = 1000, .gathered_ns = 1000 * shares[i]});
  return crossover;
}

TEST(GatherCrossoverTest, CountsFromWhereGatheringIsFasterForGood) {
  EXPECT_EQ(crossover({2, 0.9, 1.1, 0.8, 0.7}).from_keys(), 64U);
  EXPECT_EQ(crossover({2, 0.9, 1.1, 0.8, 0.7}).from_keys_text(), "64");
  EXPECT_EQ(crossover({0.9, 0.9}).from_keys(), 8U);
  EXPECT_EQ(crossover({0.9, 0.9}).from_keys_text(), "always");
  EXPECT_EQ(crossover({0.5, 1}).from_keys(), std::nullopt);
  EXPECT_EQ(crossover({0.5, 1}).from_keys_text(), "never");
  EXPECT_EQ(crossover({}).from_keys_text(), "never");
}

TEST(GatherCrossoverTest, StandsBesideTheResultsOrAlone) {
  const std::vector<GatherCrossover> crossovers = {crossover({2, 0.25}), crossover({2, 3})};
  const std::string table = to_table(kPlace, {}, crossovers);
  EXPECT_THAT(table, HasSubstr("row           from keys  |         8        16\n"
                               "16 floats            16  |         2      0.25\n"
                               "16 floats         never  |         2         3\n"));
  EXPECT_THAT(table, HasSubstr("  gather-crossover  pulls of 8 to 1024 rows"));
  EXPECT_THAT(table, Not(HasSubstr("p99")));
  EXPECT_THAT(to_table(kPlace, {result()}, crossovers), HasSubstr("  read              what is timed"));
  const nlohmann::json json = to_json(kPlace, {}, crossovers).at("gather_crossover");
  EXPECT_EQ(json.at(0).at("from_keys"), 16);
  EXPECT_TRUE(json.at(1).at("from_keys").is_null());
  EXPECT_EQ(json.at(1).at("pulls").at(1).at("gathered_p50_ns"), 3000);
  EXPECT_FALSE(to_json(kPlace, {result()}).contains("gather_crossover"));
}

TEST(BackendTest, HostIsTakenFromWhatWasConnectedTo) {
  EXPECT_EQ(with_host("verbs::4000", "node2"), "verbs:node2:4000");
  EXPECT_EQ(with_host("verbs:10.0.0.1:4000", "node2"), "verbs:10.0.0.1:4000");
  EXPECT_EQ(with_host("shm:name", "node2"), "shm:name");
}

}  // namespace
}  // namespace verbena::apps::bench
