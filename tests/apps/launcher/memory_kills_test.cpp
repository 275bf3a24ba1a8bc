#include "apps/launcher/memory_kills.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/temporary_folder.hpp"

namespace verbena::apps {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class MemoryKillsTest : public ::testing::Test {
 protected:
  void put(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((folder_.path() / path).parent_path());
    verbena::testing::write_file(folder_.path(path), text);
  }
  [[nodiscard]] MemoryKills count() const { return count_memory_kills(folder_.path()); }

 private:
  verbena::testing::TemporaryFolder folder_;
};

TEST_F(MemoryKillsTest, OfControlGroupsOfBothVersionsAndTheHost) {
  EXPECT_FALSE(count().in_group || count().on_host) << "none of the files exists";
  put("proc/vmstat", "nr_free_pages 7\noom_kill 5\n");
  put("proc/self/cgroup", "0::/job/1\n");
  put("sys/fs/cgroup/job/1/memory.events", "low 0\noom 9\noom_kill 2\noom_group_kill 1\n");
  EXPECT_EQ(count().in_group, 2U);
  EXPECT_EQ(count().on_host, 5U);
  put("proc/self/cgroup", "7:cpu:/\n4:memory:/old\n0::/job/1\n");
  put("sys/fs/cgroup/memory/old/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
  EXPECT_EQ(count().in_group, 3U);
}

TEST_F(MemoryKillsTest, AGuessSaysWhatToDo) {
  EXPECT_THAT(guess_at_kill({2, 5}, {3, 6}), HasSubstr("for want of memory; give the group more"));
  EXPECT_THAT(guess_at_kill({{}, 5}, {{}, 6}), HasSubstr("dmesg has its name"));
  EXPECT_THAT(guess_at_kill({2, 5}, {2, 5}), HasSubstr("ulimit -t); the kernel has ended none"));
  EXPECT_THAT(guess_at_kill({}, {}), HasSubstr("or the kernel, for want of memory"));
}

}  // namespace
}  // namespace verbena::apps
