#include "apps/bench/cores.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/temporary_folder.hpp"

namespace verbena::apps::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

const CoreUse kQuiet{.needed = 2, .usable = 2, .quota_cores = 2.0, .seconds = 10, .kept_waiting = 0.1};

TEST(CoresTest, BudgetsAreJudgedOnCoresOfOnesOwnOnly) {
  EXPECT_THAT(shared_cores(kQuiet), IsEmpty());
  EXPECT_THAT(shared_cores({.needed = 1, .usable = 1, .seconds = 10}), IsEmpty())
      << "one core is enough: the other side runs on another host";
  CoreUse use = kQuiet;
  use.usable = 1;
  EXPECT_THAT(shared_cores(use), HasSubstr("one core"));
  use = kQuiet;
  use.quota_cores = 1.5;
  EXPECT_THAT(shared_cores(use), HasSubstr("1.5 cores"));
  use = kQuiet;
  use.throttled = true;
  EXPECT_THAT(shared_cores(use), HasSubstr("quota"));
  use = kQuiet;
  use.kept_waiting = 3.3;
  EXPECT_THAT(shared_cores(use), HasSubstr("33 % of the time"));
}

TEST(CoresTest, TheKernelsFilesAreRead) {
  const verbena::testing::TemporaryFolder folder;
  const auto put = [&](const std::string& path, const std::string& text) {
    std::filesystem::create_directories((folder.path() / path).parent_path());
    verbena::testing::write_file(folder.path(path), text);
  };
  EXPECT_FALSE(CoreWatch(2, folder.path()).so_far().kept_waiting.has_value()) << "none of the files exists";
  put("proc/self/cgroup", "0::/a/b\n");
  put("proc/thread-self/schedstat", "7000000000 1000000000 9\n");
  put("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  put("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  put("sys/fs/cgroup/a/b/cpu.stat", "usage_usec 5\nnr_periods 9\nnr_throttled 3\nthrottled_usec 8\n");
  const CoreWatch watch(2, folder.path());
  EXPECT_FALSE(watch.so_far().throttled);
  put("proc/thread-self/schedstat", "8000000000 3500000000 9\n");
  put("sys/fs/cgroup/a/b/cpu.stat", "usage_usec 5\nnr_periods 9\nnr_throttled 4\nthrottled_usec 8\n");
  const CoreUse use = watch.so_far();
  EXPECT_EQ(use.quota_cores, 1.5) << "the quota of the enclosing control group";
  EXPECT_TRUE(use.throttled);
  EXPECT_EQ(use.kept_waiting, 2.5);
  EXPECT_GT(use.usable, 0U);
}

}  // namespace
}  // namespace verbena::apps::bench
