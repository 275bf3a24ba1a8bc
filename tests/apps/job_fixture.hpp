// An application as the workers of a real job, and as the plain loop.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/apps/application_fixture.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::apps {

class JobTest : public ::testing::Test {
 protected:
  struct Job {
    ConsistencyModel consistency = Bsp{};
    std::uint32_t workers = 1;
    ReadPath read_path = ReadPath::kAuto;
    std::uint32_t servers = 2;
    std::vector<SlowRule> slow = {};
  };

  [[nodiscard]] std::string path(std::string_view name) const { return folder_.path(name); }
  /// What the plain loop reaches.
  static std::map<std::string, double> train_alone(Application& application);
  /// What the workers reach; recorders_ are what each of them said.
  std::map<std::string, double> train(Application& application, const Job& job);

  verbena::testing::TemporaryFolder folder_;
  std::vector<Recorder> recorders_;
  std::vector<SessionStatistics> statistics_;  ///< of each of the workers
};

}  // namespace verbena::apps
