#include "apps/launcher/cluster_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace verbena::apps {
namespace {

using ::testing::HasSubstr;

RunOptions given(std::optional<std::uint32_t> servers, std::optional<std::uint32_t> workers) {
  RunOptions run;
  run.job.servers = servers.value_or(1);
  run.job.workers = workers.value_or(1);
  if (servers) run.job.given["servers"] = std::to_string(*servers);
  if (workers) run.job.given["workers"] = std::to_string(*workers);
  return run;
}

TEST(ShareOutTest, WhatIsLeftOpenIsChosen) {
  struct Case {
    std::uint32_t size;
    std::optional<std::uint32_t> servers;
    std::optional<std::uint32_t> workers;
    std::uint32_t expected_servers;
    std::uint32_t expected_workers;
    std::uint32_t replicas = 0;
  };
  for (const Case& one : std::vector<Case>{{2, {}, {}, 1, 1},
                                           {3, {}, {}, 1, 2},
                                           {4, {}, {}, 2, 2},
                                           {9, {}, {}, 4, 5},
                                           {4, 1, {}, 1, 3},
                                           {4, {}, 1, 3, 1},
                                           {4, 3, 1, 3, 1},
                                           {3, {}, {}, 1, 1, 1},
                                           {4, {}, {}, 1, 2, 1},
                                           {8, {}, {}, 2, 4, 1},
                                           {9, {}, {}, 2, 5, 1},
                                           {7, 2, {}, 2, 3, 1},
                                           {7, {}, 3, 2, 3, 1}}) {
    RunOptions run = given(one.servers, one.workers);
    run.job.replicas = one.replicas;
    EXPECT_TRUE(share_out(one.size, run).ok()) << one.size;
    EXPECT_EQ(run.job.servers, one.expected_servers) << one.size;
    EXPECT_EQ(run.job.workers, one.expected_workers) << one.size;
  }
}

TEST(ShareOutTest, WhatDoesNotComeOutIsAnError) {
  for (auto [servers, workers] :
       std::vector<std::pair<std::optional<std::uint32_t>, std::optional<std::uint32_t>>>{
           {2, 3}, {1, 1}, {4, {}}, {5, {}}, {{}, 4}, {{}, 5}}) {
    RunOptions run = given(servers, workers);
    const absl::Status status = share_out(4, run);
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    EXPECT_THAT(std::string(status.message()), HasSubstr("4 processes were started"));
  }
  RunOptions baseline;
  baseline.baseline = true;
  EXPECT_THAT(std::string(share_out(2, baseline).message()), HasSubstr("--baseline is one process"));
  RunOptions restarting;
  restarting.job.checkpoints.restarts = 1;
  EXPECT_THAT(std::string(share_out(2, restarting).message()),
              HasSubstr("--restarts: only what has started"));
}

TEST(OwnServerTest, IsOnTheWorkersHost) {
  const std::vector<std::string> hosts{"a", "b", "a", "a",
                                       "b", "a", "a", "c"};  // three servers, five workers
  std::vector<std::optional<std::uint32_t>> own;
  for (std::uint32_t rank = 3; rank < hosts.size(); ++rank) own.push_back(own_server(hosts, 3, 3, rank));
  EXPECT_THAT(own, ::testing::ElementsAre(0, 1, 2, 0, std::nullopt));
  // One server on "a", and a copy of it on "b".
  EXPECT_EQ(own_server(hosts, 1, 2, 2), 0);
  EXPECT_EQ(own_server(hosts, 1, 2, 4), std::nullopt);
}

}  // namespace
}  // namespace verbena::apps
