#include "transport/shm/host_memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

#include "transport/shm/shared_memory.hpp"
#include "transport/shm/shm_transport.hpp"

namespace verbena::transport::shm {
namespace {

/// A folder that stands for /proc and /sys/fs/cgroup.
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

/// With real processes, which only the real /proc shows.
TEST(PromisedMemoryTest, UntouchedMemoryFilesOfAllProcessesCount) {
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  const std::string name = fmt::format("verbena-test-{}", ::getpid());
  EXPECT_EQ(promised_memory(name).promised_bytes, 0U);
  auto first = create_memory(name.c_str(), kBytes);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(promised_memory(name).promised_bytes, kBytes);
  const int twice = ::dup(first->get());
  EXPECT_EQ(promised_memory(name).promised_bytes, kBytes) << "a file counts once";
  ::close(twice);
  std::array<int, 2> said{};
  std::array<int, 2> go{};
  ASSERT_EQ(::pipe(said.data()), 0);
  ASSERT_EQ(::pipe(go.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char byte = 0;
    const int file = ::memfd_create(name.c_str(), 0);
    const bool is_made = file >= 0 && ::ftruncate(file, 2 * kBytes) == 0 && ::write(said[1], &byte, 1) == 1;
    ::_exit(is_made && ::read(go[0], &byte, 1) == 1 ? 0 : 1);
  }
  char byte = 0;
  ASSERT_EQ(::read(said[0], &byte, 1), 1);
  EXPECT_EQ(promised_memory(name).promised_bytes, 3 * kBytes);
  ASSERT_EQ(::fallocate(first->get(), 0, 0, kBytes), 0);  // has the effect of touching each page
  EXPECT_EQ(promised_memory(name).promised_bytes, 2 * kBytes)
      << "memory that has been touched is promised no more: it is in use";
  ASSERT_EQ(::write(go[1], &byte, 1), 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(promised_memory(name).promised_bytes, 0U) << "the file of a process that has ended counts";
  for (const int end : {said[0], said[1], go[0], go[1]}) ::close(end);
}

/// Each of the two regions would fit by itself.
TEST(PromisedMemoryTest, TransportsDoNotPromiseTheSameMemoryTwice) {
  auto one = make_shm_transport();
  auto other = make_shm_transport();
  ASSERT_TRUE(one.ok() && other.ok());
  const std::uint64_t most = free_memory().bytes / 5 * 3;
  auto first = (*one)->allocate_region(most, Access::kRemoteRead);
  ASSERT_TRUE(first.ok()) << first.status();
  const absl::Status second = (*other)->allocate_region(most, Access::kRemoteRead).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kResourceExhausted) << second;
  EXPECT_THAT(std::string(second.message()), ::testing::HasSubstr("promised to processes of this user"));
  first->reset();
  EXPECT_TRUE((*other)->allocate_region(most, Access::kRemoteRead).ok());
}

TEST(PromisedMemoryTest, NorInManySmallPieces) {
  auto one = make_shm_transport();
  auto other = make_shm_transport();
  ASSERT_TRUE(one.ok() && other.ok());
  const std::uint64_t free = free_memory().bytes;
  const auto first = (*one)->allocate_region(free / 5 * 3, Access::kRemoteRead);
  ASSERT_TRUE(first.ok()) << first.status();
  // Half of the free memory, in pieces so small that the transport does not look at all processes for each.
  std::vector<std::unique_ptr<MemoryRegion>> pieces;
  absl::Status status;
  while (status.ok() && pieces.size() < 150) {
    auto piece = (*other)->allocate_region(free / 300, Access::kRemoteRead);
    status = piece.status();
    if (piece.ok()) pieces.push_back(*std::move(piece));
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << pieces.size();
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("promised to processes of this user"));
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
