// Jobs on several hosts without RDMA devices and without mpirun, whose network delays packets and loses some.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/process/hosts_network.hpp"
#include "tests/process/small_training.hpp"

namespace verbena::process_test {
namespace {

constexpr std::size_t kWorkersOnHosts = 2;

class HostsTest : public SmallTrainingTest {
 protected:
  /// Makes the hosts.
  void connect(const HostsNetwork::Options& options) {
    auto network = HostsNetwork::make(options);
    if (!network.ok()) GTEST_SKIP() << "skipped: no networks of its own: " << network.status();
    network_ = *std::move(network);
  }
  void SetUp() override {
    verbena::testing::write_file(folder_.path("secret"), "a secret that nobody knows\n");
    std::filesystem::permissions(folder_.path("secret"), std::filesystem::perms::owner_read);
  }
  [[nodiscard]] std::vector<std::string> words(const std::string& output,
                                               const std::vector<std::string>& more) const {
    const SmallTraining& training = GetParam();
    std::vector<std::string> all = {"run",           training.application,
                                    "--data",        folder_.path("data"),
                                    "--servers",     std::to_string(kServersOfSmallTraining),
                                    "--workers",     std::to_string(kWorkersOnHosts),
                                    "--consistency", "bsp",
                                    "--output",      folder_.path(output)};
    all.insert(all.end(), training.options.begin(), training.options.end());
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  /// The same under BSP on one host, and on two, each with a server and a worker. `more`: options of these.
  void train_on_both(const std::vector<std::string>& more = {});

  std::unique_ptr<HostsNetwork> network_;
};

void HostsTest::train_on_both(const std::vector<std::string>& more) {
  const Ended on_one = run(VERBENA_PROGRAM, words("one", {}), folder_.path());
  ASSERT_EQ(on_one.status, 0) << on_one.err;
  constexpr std::size_t kProcesses = kServersOfSmallTraining + kWorkersOnHosts;
  std::vector<std::unique_ptr<Program>> processes;
  for (std::size_t rank = 0; rank < kProcesses; ++rank) {
    std::vector<std::string> all =
        words("two", {"--rendezvous", HostsNetwork::address(0) + ":7000", "--process", std::to_string(rank),
                      "--processes", std::to_string(kProcesses), "--secret-file", folder_.path("secret")});
    all.insert(all.end(), more.begin(), more.end());
    processes.push_back(
        std::make_unique<Program>(VERBENA_PROGRAM, all, folder_.path(), network_->on(rank % 2)));
  }
  for (std::size_t rank = 0; rank < kProcesses; ++rank) {
    const Ended ended = processes[rank]->wait();
    EXPECT_EQ(ended.status, 0) << "rank " << rank << ": " << ended.err;
    if (rank == 0) {
      EXPECT_NE(ended.out.find(", tcp"), std::string::npos) << ended.out;
    }
  }
  EXPECT_GT(network_->forwarded(), 0U);
  EXPECT_EQ(model("one"), model("two"));
  for (const std::string& file : model("one")) EXPECT_NE(file, "");
}

TEST_P(HostsTest, UnderBspTheyTrainWhatOneHostTrains) {
  connect({.delay = std::chrono::microseconds(300), .loss = 0.002});
  if (network_ != nullptr) train_on_both();
}

/// Of those that worker 0 has to server 1. Those to the first host are also the ones over which the run is
/// led.
TEST_P(HostsTest, NobodyNoticesThatConnectionsBreak) {
  connect({.delay = std::chrono::microseconds(300), .reset_every = 31, .most_resets = 20, .resets_to = 1});
  if (network_ == nullptr) return;
  const bool encrypts = GetParam().application < "l";  // some do, and some do not
  train_on_both(encrypts ? std::vector<std::string>{"--tls"} : std::vector<std::string>());
  EXPECT_GT(network_->resets(), 0U);
}

TEST(CutTest, WhenTheNetworkIsCutEachHostEndsByItself) {
  auto network = HostsNetwork::make({});
  if (!network.ok()) GTEST_SKIP() << "skipped: no networks of its own: " << network.status();
  const verbena::testing::TemporaryFolder folder;
  std::vector<std::unique_ptr<Program>> processes;
  for (const int rank : {0, 1}) {
    const std::vector<std::string> words = {"run",
                                            "counter",
                                            "--iterations",
                                            "1000000",
                                            "--milliseconds",
                                            "20",
                                            "--rendezvous",
                                            HostsNetwork::address(0) + ":7000",
                                            "--process",
                                            std::to_string(rank),
                                            "--processes",
                                            "2",
                                            "--no-secret"};
    processes.push_back(std::make_unique<Program>(COUNTER_PROGRAM, words, folder.path(),
                                                  (*network)->on(static_cast<std::size_t>(rank))));
  }
  ASSERT_TRUE(processes[0]->wait_for_output("  counted "));
  (*network)->cut();
  for (const auto& process : processes) {
    const Ended ended = process->wait();
    EXPECT_NE(ended.status, 0);
    EXPECT_NE(ended.err.find("has not answered"), std::string::npos) << ended.err;
  }
}

INSTANTIATE_TEST_SUITE_P(Each, HostsTest, ::testing::ValuesIn(small_trainings()),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace verbena::process_test
