#include "transport/shm/host_memory.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

namespace verbena::transport::shm {
namespace {

/// Pretends to be /proc and /sys/fs/cgroup.
class HostMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    put("proc/meminfo", "MemTotal:       9000 kB\nMemFree:         100 kB\nMemAvailable:    4000 kB\n");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void put(const std::string& file, const std::string& text) {
    std::filesystem::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  FreeMemory free() const { return free_memory(root_ / "proc", root_ / "cgroup"); }

  const std::filesystem::path root_ =
      std::filesystem::path(::testing::TempDir()) /
      fmt::format("verbena-{}", ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(HostMemory, TheHostSetsTheLimitWithoutGroups) {
  EXPECT_EQ(free().bytes, 4000U * 1024);
  EXPECT_EQ(free().limit, "the host's free memory");
}

TEST_F(HostMemory, TheTightestGroupAboveSetsTheLimit) {
  put("proc/self/cgroup", "0::/job/step\n");
  put("cgroup/job/step/memory.max", "max\n");
  put("cgroup/job/step/memory.current", "500000\n");
  put("cgroup/job/memory.max", "1000000\n");
  put("cgroup/job/memory.current", "700000\n");
  EXPECT_EQ(free().bytes, 300000U);
  EXPECT_THAT(free().limit, ::testing::HasSubstr("cgroup/job"));
}

TEST_F(HostMemory, TheGroupsPageCacheIsFree) {
  put("proc/self/cgroup", "0::/\n");
  put("cgroup/memory.max", "1000000\n");
  put("cgroup/memory.current", "900000\n");
  put("cgroup/memory.stat", "anon 300000\nfile 600000\ninactive_file 150000\nactive_file 50000\n");
  EXPECT_EQ(free().bytes, 300000U);
}

TEST_F(HostMemory, GroupsOfTheFirstVersion) {
  put("proc/self/cgroup", "7:cpu:/job\n5:memory:/job\n");
  put("cgroup/memory/job/memory.limit_in_bytes", "2000000\n");
  put("cgroup/memory/job/memory.usage_in_bytes", "2500000\n");
  EXPECT_EQ(free().bytes, 0U) << "over its limit already";
}

TEST_F(HostMemory, WhatIsNotToldSetsNoLimit) {
  std::filesystem::remove_all(root_);
  EXPECT_EQ(free().bytes, UINT64_MAX);
  put("proc/meminfo", "nonsense\n\n:::");
  put("proc/self/cgroup", "nonsense\n:\n");
  EXPECT_EQ(free().bytes, UINT64_MAX);
}

TEST_F(HostMemory, OvercommitIsForbiddenByTwo) {
  EXPECT_FALSE(overcommit_forbidden(root_ / "proc"));
  put("proc/sys/vm/overcommit_memory", "0\n");
  EXPECT_FALSE(overcommit_forbidden(root_ / "proc"));
  put("proc/sys/vm/overcommit_memory", "2\n");
  EXPECT_TRUE(overcommit_forbidden(root_ / "proc"));
}

}  // namespace
}  // namespace verbena::transport::shm
