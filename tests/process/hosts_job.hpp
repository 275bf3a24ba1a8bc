// Jobs of a small training whose processes run on several hosts that are none.
#pragma once

#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/process/hosts_network.hpp"
#include "tests/process/program.hpp"
#include "tests/process/small_training.hpp"

namespace verbena::process_test {

/// They meet on the first host, and know a secret.
class HostsJobTest : public SmallTrainingTest {
 protected:
  static constexpr std::size_t kWorkers = 2;

  HostsJobTest();
  /// Makes the hosts. If the system does not let it, the test is skipped, and there is no network_.
  void connect(const HostsNetwork::Options& options);
  /// What a process of such a job is told; then these, too.
  [[nodiscard]] std::vector<std::string> training_words(
      const std::string& output, const std::vector<std::vector<std::string>>& more) const;
  /// What it is told of where they meet.
  [[nodiscard]] std::vector<std::string> meeting_words(std::size_t processes) const;
  /// Until the job has begun to write a checkpoint into saved(), every process of it in processes_.
  void wait_for_checkpoint();
  /// All that are there, and are none of the `lost`, end well. `only_leader_speaks`: the others have nothing
  /// to say. Returns what rank 0 has said.
  std::string wait_for_all(const std::set<std::size_t>& lost = {}, bool only_leader_speaks = true);
  /// The model of that name is the one that was trained on one host, as "one", under the same consistency; or
  /// no update of it is missing, and none counts twice.
  void expect_model_of_one_host(const std::string& name) const;

  std::string consistency_ = "bsp";
  std::string place_ = HostsNetwork::address(0) + ":7000";  ///< where they meet
  std::unique_ptr<HostsNetwork> network_;
  std::vector<std::unique_ptr<Program>> processes_;  ///< by rank; nullptr: it has ended
};

}  // namespace verbena::process_test
