#include "apps/launcher/job_options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/cores.hpp"
#include "tests/on_one_core.hpp"

namespace verbena::apps {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(JobOptionsTest, AddressesChooseVerbs) {
  JobOptions job;
  job.servers = 2;
  job.addresses = {"10.0.0.1:7001", "[fd00::1]:7002"};
  EXPECT_TRUE(check_by_hand(job).ok());
  EXPECT_EQ(decided_by_hand(job).transport, "verbs");
  EXPECT_THAT(server_addresses(job), ElementsAre("verbs:10.0.0.1:7001", "verbs:[fd00::1]:7002"));
}

TEST(JobOptionsTest, JobNameChoosesSharedMemory) {
  JobOptions job;
  job.servers = 2;
  job.job = "demo";
  EXPECT_TRUE(check_by_hand(job).ok());
  EXPECT_EQ(decided_by_hand(job).transport, "shm");
  EXPECT_THAT(server_addresses(job), ElementsAre("shm:demo/server-0", "shm:demo/server-1"));
}

TEST(JobOptionsTest, WhatWasChosenStays) {
  TransportOptions options;
  options.transport = "verbs";
  options.device = "rxe0";
  EXPECT_EQ(decided(options, transport::Reach::kHost).transport, "verbs");
  EXPECT_EQ(decided(options, transport::Reach::kHost).device, "rxe0");
  EXPECT_EQ(decided({}, transport::Reach::kHosts).transport, "verbs");
}

TEST(JobOptionsTest, MemoryIsCountedForThisHostOnly) {
  JobOptions job;
  job.servers = 2048;
  job.workers = 2048;
  EXPECT_THAT(std::string(check_memory(job, job.servers, job.workers).message()),
              HasSubstr("2048 servers × 2048 workers need"));
  EXPECT_TRUE(check_memory(job, 0, 0).ok());
}

/// A job on this host, of one server and one worker, unless the arguments say otherwise.
JobOptions parsed(const std::vector<std::string>& arguments) {
  CLI::App command;
  JobOptions job;
  add_size_options(command, job);
  add_thread_option(command, job);
  add_transport_options(command, job.transport, "");
  add_spin_option(command, job);
  add_consistency_options(command, job);
  add_server_options(command, job);
  std::vector<std::string> backwards(arguments.rbegin(), arguments.rend());  // as CLI11 wants them
  command.parse(backwards);
  job.given = given_options(command);
  if (job.consistency.empty()) job.consistency = "bsp";
  job.transport = decided(job.transport, transport::Reach::kHost);
  return job;
}

std::map<std::string, std::string> values_of(const Choices& choices) {
  std::map<std::string, std::string> values;
  for (const Choice& choice : choices)
    values[choice.name] = choice.value + (choice.by_hand ? ", by hand" : "");
  return values;
}

TEST(JobChoicesTest, EachIsChosenOrSaidByHand) {
  const auto chosen = values_of(choices_of(parsed({}), true));
  EXPECT_EQ(chosen.at("transport"), "shm");
  EXPECT_EQ(chosen.at("consistency"), "bsp");
  EXPECT_EQ(chosen.at("read-path"), "in-place");
  EXPECT_FALSE(chosen.contains("gather")) << "rows are read in place";
  EXPECT_EQ(values_of(choices_of(parsed({"--read-path=cached"}), true)).at("gather"), "measured");
  EXPECT_FALSE(values_of(choices_of(parsed({"--read-path=cached"}), false)).contains("gather"));
  for (const char* name : {"servers", "workers", "threads", "server-threads", "lanes", "spin"}) {
    EXPECT_THAT(chosen.at(name), AllOf(Not(""), Not(HasSubstr("by hand")))) << name;
  }
  const std::vector<std::string> all = {
      "--transport=shm", "--consistency=ssp:1", "--read-path=cached", "--servers=2",  "--workers=3",
      "--threads=4",     "--server-threads=5",  "--lanes=6",          "--spin=never", "--gather=always"};
  const std::map<std::string, std::string> said = {
      {"transport", "shm, by hand"},    {"consistency", "ssp:1, by hand"}, {"read-path", "cached, by hand"},
      {"servers", "2, by hand"},        {"workers", "3, by hand"},         {"threads", "4, by hand"},
      {"server-threads", "5, by hand"}, {"lanes", "6, by hand"},           {"spin", "never, by hand"},
      {"gather", "always, by hand"}};
  EXPECT_EQ(values_of(choices_of(parsed(all), true)), said);
}

TEST(JobChoicesTest, AutoIsNotSaidByHand) {
  const auto values = values_of(
      choices_of(parsed({"--transport=auto", "--read-path=auto", "--spin=auto", "--gather=auto"}), true));
  for (const char* name : {"transport", "read-path", "spin"})
    EXPECT_THAT(values.at(name), Not(HasSubstr("by hand"))) << name;
}

TEST(JobChoicesTest, ReadPathIsWhatTheTransportCanDo) {
  JobOptions job = parsed({});
  job.transport.network = "latency=1us";
  EXPECT_EQ(values_of(choices_of(job, true)).at("read-path"), "cached");
  job = parsed({"--transport=tcp"});
  EXPECT_EQ(values_of(choices_of(job, true)).at("read-path"), "cached");
  job = parsed({"--transport=verbs"});
  EXPECT_EQ(values_of(choices_of(job, true)).at("read-path"),
            "in-place of a server on its host, else cached");
}

TEST(JobChoicesTest, AProgramOfOnesOwnHasItsOwnModel) {
  JobOptions job = parsed({});
  job.consistency.clear();
  const auto values = values_of(choices_of(job, false));
  for (const char* name : {"consistency", "read-path", "threads", "gather"})
    EXPECT_FALSE(values.contains(name)) << name;
  EXPECT_TRUE(values.contains("lanes"));
}

TEST(JobChoicesTest, WhoSharesCoresDoesNotSpin) {
  EXPECT_FALSE(spins(parsed({"--workers=4000"})));
  EXPECT_FALSE(spins(parsed({"--workers=4000", "--transport=tcp"}))) << "of one host, too";
  EXPECT_FALSE(spins(parsed({"--workers=4000", "--transport=verbs"})));
  JobOptions apart = parsed({"--workers=4000", "--transport=tcp"});
  apart.transport.has_other_hosts = true;
  EXPECT_TRUE(spins(apart));
  apart.transport = {};
  apart.addresses = {"10.0.0.1:7001"};
  EXPECT_TRUE(decided_by_hand(apart).has_other_hosts) << "as far as one can know";
  apart.addresses = {};
  EXPECT_FALSE(decided_by_hand(apart).has_other_hosts);
  EXPECT_TRUE(spins(parsed({"--workers=4000", "--spin=briefly"})));
  EXPECT_FALSE(spins(parsed({"--spin=never"})));
  for (const char* transport : {"--transport=tcp", "--transport=verbs"})
    EXPECT_TRUE(check(parsed({"--spin=never", transport})).ok()) << transport;
}

TEST(JobChoicesTest, CopiesOfServersNeedCoresAsServersDo) {
  const std::uint32_t cores = base::cores_at_hand();
  if (cores < 2) GTEST_SKIP() << "nobody spins on one core";
  JobOptions job = parsed({});
  job.workers = cores - job.servers;
  EXPECT_TRUE(spins(job));
  job.replicas = 1;
  EXPECT_FALSE(spins(job));
  job.workers = 1;
  EXPECT_EQ(job.chosen_server_threads(), threads_of_a_server(cores, 1, 2));
}

TEST(JobChoicesTest, CoresThatItMayNotUseDoNotCount) {
  verbena::testing::on_one_core([] {
    EXPECT_FALSE(spins(parsed({})));
    EXPECT_EQ(parsed({}).chosen_server_threads(), 1U);
    EXPECT_EQ(parsed({}).chosen_lanes(), 1U);
  });
}

TEST(JobChoicesTest, WorkersComeBeforeServers) {
  EXPECT_EQ(threads_of_a_server(/*cores=*/8, /*workers=*/1, /*servers=*/1), 7U);
  EXPECT_EQ(threads_of_a_server(8, 2, 3), 2U);
  EXPECT_EQ(threads_of_a_server(8, 8, 1), 1U);
  EXPECT_EQ(threads_of_a_server(2, 100, 4), 1U);
  EXPECT_EQ(threads_of_a_server(200, 1, 1), 8U) << "more are of no use";
  JobOptions on_hosts = parsed({});
  on_hosts.agreed_server_threads = 3;
  EXPECT_EQ(on_hosts.chosen_server_threads(), 3U);
  EXPECT_EQ(on_hosts.chosen_lanes(), 2U);
  on_hosts.server_threads = 5;
  EXPECT_EQ(on_hosts.chosen_server_threads(), 5U) << "by hand";
}

class WithSparseTables final : public Application {
 public:
  [[nodiscard]] std::string_view name() const override { return "sparse"; }
  [[nodiscard]] std::string_view description() const override { return ""; }
  [[nodiscard]] std::string_view throughput_unit() const override { return ""; }
  [[nodiscard]] std::string_view main_objective() const override { return ""; }
  void add_options(CLI::App& /*command*/) override {}
  [[nodiscard]] bool has_sparse_tables() const override { return true; }
  [[nodiscard]] Files files() const override { return {}; }
  absl::Status check(std::uint32_t /*workers*/) override { return absl::OkStatus(); }
  [[nodiscard]] std::int64_t iterations() const override { return 1; }
  [[nodiscard]] std::map<std::string, double> objectives(
      const std::map<std::string, double>& /*sums*/) const override {
    return {};
  }
  absl::Status run_worker(WorkerContext& /*context*/) const override { return absl::OkStatus(); }
  absl::Status run_baseline(BaselineContext& /*context*/) const override { return absl::OkStatus(); }
};

TEST(JobChoicesTest, WhereNothingIsGatheredItCannotBeSaid) {
  const WithSparseTables application;
  for (const char* said : {"always", "never"}) {
    JobOptions job = parsed({std::string("--gather=") + said});
    EXPECT_THAT(
        std::string(check_gather(application, job).message()),
        AllOf(StartsWith(std::string("--gather ") + said), HasSubstr("over shm rows are read in place")));
    job.transport.transport = "auto";
    EXPECT_TRUE(check_gather(application, job).ok()) << "who decides it asks again";
    job.transport.transport = "tcp";
    EXPECT_TRUE(check_gather(application, job).ok());
    EXPECT_TRUE(check_gather(application, parsed({"--gather=always", "--read-path=cached"})).ok());
  }
  EXPECT_TRUE(check_gather(application, parsed({})).ok());
}

/// Its servers have options of their own.
TEST(JobChoicesTest, AWorkerByHandDoesNotChooseHowServersAre) {
  JobOptions job = parsed({});
  job.starts_servers = false;
  const auto values = values_of(choices_of(job, false));
  EXPECT_FALSE(values.contains("server-threads") || values.contains("lanes"));
  EXPECT_TRUE(values.contains("spin"));
}

TEST(JobChoicesTest, WhoDoesNotSpinLeavesItsCore) {
  EXPECT_TRUE(waiting_transport(parsed({"--spin=never"})).shares_cores);
  EXPECT_FALSE(waiting_transport(parsed({"--workers=4000", "--spin=briefly"})).shares_cores);
  EXPECT_TRUE(waiting_transport(parsed({"--workers=4000"})).shares_cores);
  EXPECT_EQ(waiting_transport(parsed({"--transport=tcp"})).transport, "tcp");
}

TEST(JobChoicesTest, GatheringIsMeasuredUnlessItIsSaid) {
  EXPECT_EQ(gather_row_bytes_of(parsed({})), std::nullopt);
  EXPECT_EQ(gather_row_bytes_of(parsed({"--gather=never"})), 0U);
  EXPECT_EQ(gather_row_bytes_of(parsed({"--gather=always"})), std::numeric_limits<std::size_t>::max());
}

TEST(MeetingTest, AddressesAreNobodyElses) {
  TransportOptions shm;
  shm.transport = "shm";
  EXPECT_THAT(*fresh_address(shm, 4711, 2), AllOf(StartsWith("shm:run-4711-"), EndsWith("/server-2")));
  EXPECT_NE(*fresh_address(shm, 4711, 2), *fresh_address(shm, 4711, 2));
  TransportOptions verbs;
  verbs.transport = "verbs";
  EXPECT_EQ(*fresh_address(verbs, 4711, 2), "verbs::0");  // any port
  TransportOptions tcp;
  tcp.transport = "tcp";
  EXPECT_EQ(*fresh_address(tcp, 4711, 2), "tcp::0") << "of this host alone";
  tcp.has_other_hosts = true;
  const absl::StatusOr<std::string> reachable = fresh_address(tcp, 4711, 2);
  // A host without a network has no such address.
  if (reachable.ok()) {
    EXPECT_THAT(*reachable, AllOf(EndsWith(":0"), Not(StartsWith("tcp::")), Not(StartsWith("tcp:127."))));
  }
}

}  // namespace
}  // namespace verbena::apps
