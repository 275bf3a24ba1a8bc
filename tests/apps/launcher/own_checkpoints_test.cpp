#include "apps/launcher/own_checkpoints.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "apps/resuming/checkpoints.hpp"
#include "checkpoint/folder.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::apps {
namespace {

constexpr std::uint64_t kOther = 7;
constexpr std::uint64_t kOwn = 8;

class OwnCheckpointsTest : public ::testing::Test {
 protected:
  void write(std::uint64_t run, std::uint64_t clock, std::int64_t iteration) {
    ASSERT_TRUE(folder_.begin(clock).ok());
    checkpoint::Manifest manifest{.clock = clock, .run = run, .written = {}, .program = {}};
    manifest.options = {{"notes", {{kIterationNote, std::to_string(iteration)}}}};
    ASSERT_EQ(folder_.commit(manifest), absl::OkStatus());
  }
  [[nodiscard]] std::string path_of(std::uint64_t clock) const {
    return settings_.folder + "/ckpt-" + std::to_string(clock);
  }
  void expect_newest(const OwnCheckpoints& own, const std::string& path, std::int64_t iteration) {
    const absl::StatusOr<Beginning> found = own.newest();
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->checkpoint, path);
    EXPECT_EQ(found->after_iteration, iteration);
  }

  const verbena::testing::TemporaryFolder scratch_;
  CheckpointSettings settings_{.folder = scratch_.path("saved")};
  checkpoint::Folder folder_{checkpoint::host_file_system(), settings_.folder};
};

TEST_F(OwnCheckpointsTest, WithoutAnyTheTrainingBeginsAtItsBeginning) {
  const auto own = OwnCheckpoints::begin(settings_);
  ASSERT_TRUE(own.ok()) << own.status();
  expect_newest(*own, "", 0);
  std::filesystem::create_directory(settings_.folder);
  expect_newest(*own, "", 0);
}

TEST_F(OwnCheckpointsTest, ThoseOfOtherRunsDoNotCount) {
  write(kOther, 20, 2);
  write(kOther, 30, 3);
  const auto own = OwnCheckpoints::begin(settings_);
  ASSERT_TRUE(own.ok()) << own.status();
  expect_newest(*own, "", 0);
  write(kOwn, 10, 1);
  expect_newest(*own, path_of(10), 1);
  write(kOwn, 20, 4);  // takes the other's place
  expect_newest(*own, path_of(20), 4);
}

TEST_F(OwnCheckpointsTest, TheOneThatTheRunWentOnFromCountsUntilThereIsAnother) {
  write(kOther, 20, 2);
  settings_.resume_from = path_of(20);
  const auto own = OwnCheckpoints::begin(settings_);
  ASSERT_TRUE(own.ok()) << own.status();
  expect_newest(*own, path_of(20), 2);
  write(kOwn, 30, 3);
  expect_newest(*own, path_of(30), 3);
  std::filesystem::resize_file(path_of(30) + "/manifest.json", 10);
  expect_newest(*own, path_of(20), 2);
  std::filesystem::remove_all(path_of(20));
  EXPECT_FALSE(own->newest().ok());
}

}  // namespace
}  // namespace verbena::apps
