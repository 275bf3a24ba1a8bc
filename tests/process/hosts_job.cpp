#include "tests/process/hosts_job.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "tests/temporary_folder.hpp"

namespace verbena::process_test {

HostsJobTest::HostsJobTest() {
  verbena::testing::write_file(folder_.path("secret"), "a secret that nobody knows\n");
  std::filesystem::permissions(folder_.path("secret"), std::filesystem::perms::owner_read);
}

void HostsJobTest::connect(const HostsNetwork::Options& options) {
  auto network = HostsNetwork::make(options);
  if (!network.ok()) GTEST_SKIP() << "skipped: no networks of its own: " << network.status();
  network_ = *std::move(network);
}

std::vector<std::string> HostsJobTest::training_words(
    const std::string& output, const std::vector<std::vector<std::string>>& more) const {
  const SmallTraining& training = GetParam();
  std::vector<std::string> all = {"run",       training.application,     "--data",   folder_.path("data"),
                                  "--workers", std::to_string(kWorkers), "--output", folder_.path(output)};
  all.insert(all.end(), training.options.begin(), training.options.end());
  for (const std::vector<std::string>& words : more) all.insert(all.end(), words.begin(), words.end());
  return all;
}

std::vector<std::string> HostsJobTest::meeting_words(std::size_t processes) const {
  return {"--rendezvous",        place_, "--processes", std::to_string(processes), "--secret-file",
          folder_.path("secret")};
}

void HostsJobTest::wait_for_checkpoint() {
  ASSERT_TRUE(wait_until([&] {
    std::error_code none;
    return std::filesystem::directory_iterator(saved(), none) != std::filesystem::directory_iterator() ||
           !alive(processes_[0]->pid());
  }));
  ASSERT_TRUE(alive(processes_[0]->pid())) << processes_[0]->wait().err;
}

std::string HostsJobTest::wait_for_all(const std::set<std::size_t>& lost, bool only_leader_speaks) {
  std::string said;
  for (std::size_t rank = 0; rank < processes_.size(); ++rank) {
    if (processes_[rank] == nullptr || lost.contains(rank)) continue;
    const Ended ended = processes_[rank]->wait();
    EXPECT_EQ(ended.status, 0) << "rank " << rank << ": " << ended.err;
    if (rank == 0) {
      said = ended.out + ended.err;
    } else if (only_leader_speaks) {
      EXPECT_EQ(ended.err, "") << "rank " << rank;
    }
  }
  return said;
}

void HostsJobTest::expect_model_of_one_host(const std::string& name) const {
  if (consistency_ == "bsp") {
    EXPECT_EQ(model("one"), model(name));
  } else {
    EXPECT_EQ(tokens(name), kTokens);
  }
  for (const std::string& file : model(name)) EXPECT_NE(file, "");
}

}  // namespace verbena::process_test
