// An application as the workers of a real job, and as the plain loop.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "apps/conditions/slowdown.hpp"
#include "tests/apps/application_fixture.hpp"
#include "tests/cluster/cluster.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::apps {

class JobTest : public ::testing::Test {
 protected:
  struct Job {
    ConsistencyModel consistency = Bsp{};
    std::uint32_t workers = 1;
    ReadPath read_path = ReadPath::kAuto;
    std::uint32_t servers = 2;
    std::uint32_t lanes = 1;
    verbena::testing::Maps maps =
        verbena::testing::Maps::kAll;  ///< else rows are cached, whatever `read_path`
    std::vector<SlowRule> slow = {};
    std::function<void(std::uint32_t rank, std::int64_t iteration)> after_iteration = {};
  };

  [[nodiscard]] std::string path(std::string_view name) const { return folder_.path(name); }
  /// What the plain loop reaches.
  static std::map<std::string, double> train_alone(Application& application);
  /// What the workers reach; recorders_ are what each of them said.
  std::map<std::string, double> train(Application& application, const Job& job);
  /// What all workers have processed in the iteration, from 1. REQUIRES: train().
  [[nodiscard]] double items(std::size_t iteration) const;

  /// Three workers get more than `least` of `objective` under each model that can have static tables but BSP.
  void expect_to_learn_under_every_model(const Parsed& parsed, const std::string& objective, double least);
  /// Likewise where rows come to the workers.
  struct Moving {
    std::string allocation;
    ConsistencyModel consistency;
    std::vector<std::string> lookaheads;
    std::vector<std::string> arguments = {};
  };
  void expect_to_learn_with_rows_that_move(const Parsed& parsed, const Moving& moving,
                                           const std::string& objective, double least);
  /// Three workers under BSP save the same to the bit wherever their rows are read: in the server's memory,
  /// in the cache, or from a network; and from however many servers and lanes. `saved(path)`: all that was
  /// saved for
  /// --output `path`.
  void expect_the_same_bits_however_read(const Parsed& parsed,
                                         const std::function<std::string(const std::string& path)>& saved,
                                         const std::vector<std::string>& arguments = {});
  /// Of data that one worker has all of, three more do not change what is learnt of it by more than the share
  /// `tolerance` of `objective`, under any model that can have static tables.
  void expect_idle_workers_to_change_little(const Parsed& parsed, const std::string& objective,
                                            double tolerance);
  /// Under a model that lets workers drift apart they wait for one another as --barrier-every says, and only
  /// then.
  void expect_to_meet(const Parsed& parsed);

  verbena::testing::TemporaryFolder folder_;
  std::vector<Recorder> recorders_;
  std::vector<SessionStatistics> statistics_;  ///< of each of the workers
};

}  // namespace verbena::apps
