// Trains an application with the workers of a real job, and in the plain loop.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "apps/conditions/slowdown.hpp"
#include "apps/resuming/checkpoints.hpp"
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
    /// Unless it is kAll, rows are cached and `read_path` is ignored.
    verbena::testing::Maps maps = verbena::testing::Maps::kAll;
    std::vector<SlowRule> slow = {};
    std::function<void(std::uint32_t rank, std::int64_t iteration)> after_iteration = {};
    CheckpointPlan checkpoints = {};
    std::string resume = {};  ///< the checkpoint that it goes on from; empty: from the beginning
    /// Worker r is asked to stop after this iteration + r, so that each comes later than the one before.
    /// REQUIRES: checkpoints.folder. −1: none is.
    std::int64_t stop_after = -1;
  };

  [[nodiscard]] std::string path(std::string_view name) const { return folder_.path(name); }
  /// The objectives at the end of the plain loop.
  static std::map<std::string, double> train_alone(Application& application);
  /// The objectives at the end of the job. recorders_ then has what each worker has reported.
  std::map<std::string, double> train(Application& application, const Job& job);
  /// How many items all workers together have processed in this iteration, from 1. REQUIRES: train().
  [[nodiscard]] double items(std::size_t iteration) const;

  /// Three workers get more than `least` of `objective` under SSP, ESSP, A-BSP, ASP and sequential
  /// consistency.
  void expect_to_learn_under_every_model(const Parsed& parsed, const std::string& objective, double least);
  /// The same for dynamic tables, with each lookahead.
  struct Moving {
    std::string allocation;
    ConsistencyModel consistency;
    std::vector<std::string> lookaheads;
    std::vector<std::string> arguments = {};
  };
  void expect_to_learn_with_rows_that_move(const Parsed& parsed, const Moving& moving,
                                           const std::string& objective, double least);
  /// Three workers under BSP save the same bytes, wherever they read rows: in the server's memory, in the row
  /// cache, or over a network. The number of servers and lanes makes no difference either. `saved(path)`
  /// returns all that was saved for --output `path`.
  void expect_the_same_bits_however_read(const Parsed& parsed,
                                         const std::function<std::string(const std::string& path)>& saved,
                                         const std::vector<std::string>& arguments = {});
  /// Three workers under BSP save the same bytes, whether they are stopped and gone on with, saved from time
  /// to time, or neither. `stop_after`: an iteration with at least four after it.
  void expect_the_same_bits_when_resumed(const Parsed& parsed,
                                         const std::function<std::string(const std::string& path)>& saved,
                                         const std::vector<std::string>& arguments, std::int64_t stop_after);
  /// The same where training ends, is saved, and is gone on with for as long again. `once` and `twice`: the
  /// arguments that say for how long, of iterations and twice as many.
  void expect_the_same_bits_in_two_halves(const Parsed& parsed,
                                          const std::function<std::string(const std::string& path)>& saved,
                                          const std::vector<std::string>& once,
                                          const std::vector<std::string>& twice);
  /// Stops the job after an iteration or some more, and goes on. Returns the objectives at the end.
  std::map<std::string, double> stop_and_resume(Application& application, Job job, std::int64_t stop_after);

  /// One worker has all of the data. Three more workers, which have none, change `objective` by at most the
  /// share `tolerance`, under all models that can have static tables but VAP.
  void expect_idle_workers_to_change_little(const Parsed& parsed, const std::string& objective,
                                            double tolerance);
  /// Under a model that lets workers drift apart, they wait for each other as often as --barrier-every says,
  /// and only then.
  void expect_to_meet(const Parsed& parsed);

  verbena::testing::TemporaryFolder folder_;
  std::vector<Recorder> recorders_;
  std::vector<SessionStatistics> statistics_;  ///< by rank
};

}  // namespace verbena::apps
