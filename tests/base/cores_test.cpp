#include "base/cores.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>

#include "tests/on_one_core.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::base {
namespace {

class CoresTest : public ::testing::Test {
 protected:
  void put(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((folder_.path() / path).parent_path());
    verbena::testing::write_file(folder_.path(path), text);
  }
  [[nodiscard]] std::filesystem::path root() const { return folder_.path(); }

 private:
  const verbena::testing::TemporaryFolder folder_;
};

TEST_F(CoresTest, WithoutFilesOfTheKernelTheMaskDecides) {
  EXPECT_EQ(core_quota(root()), std::nullopt);
  EXPECT_EQ(control_group(root()), root() / "sys/fs/cgroup");
  EXPECT_GT(cores_to_run_on(), 0U);
  EXPECT_EQ(cores_at_hand(root()), cores_to_run_on());
}

TEST_F(CoresTest, TheSmallestQuotaOfAllGroupsCounts) {
  put("proc/self/cgroup", "1:cpu:/old\n0::/a/b\n");
  put("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(control_group(root()), root() / "sys/fs/cgroup/a/b");
  EXPECT_EQ(core_quota(root()), std::nullopt) << "the group has none";
  EXPECT_EQ(cores_at_hand(root()), cores_to_run_on());
  put("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  EXPECT_EQ(core_quota(root()), 1.5) << "that of the group around it";
  EXPECT_EQ(cores_at_hand(root()), 1U) << "whole ones";
  put("sys/fs/cgroup/a/b/cpu.max", "20000 100000\n");
  EXPECT_EQ(core_quota(root()), 0.2);
  EXPECT_EQ(cores_at_hand(root()), 1U) << "one, however slow";
  put("sys/fs/cgroup/a/b/cpu.max", "9000000000 100000\n");
  put("sys/fs/cgroup/a/cpu.max", "8000000000 100000\n");
  EXPECT_EQ(core_quota(root()), 80'000);
  EXPECT_EQ(cores_at_hand(root()), cores_to_run_on()) << "a quota adds no cores";
  put("sys/fs/cgroup/a/cpu.max", "nonsense\n");
  EXPECT_EQ(core_quota(root()), 90'000);
}

TEST_F(CoresTest, AMaskCounts) {
  verbena::testing::on_one_core([&] { EXPECT_EQ(cores_at_hand(root()), 1U); });
}

}  // namespace
}  // namespace verbena::base
