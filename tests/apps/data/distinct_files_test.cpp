#include "apps/data/distinct_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/temporary_folder.hpp"

namespace verbena::apps {
namespace {

using ::testing::HasSubstr;

class DistinctFilesTest : public ::testing::Test {
 protected:
  DistinctFilesTest() { verbena::testing::write_file(data_, "1 2 3\n"); }

  /// The result for an output of that name and the input.
  [[nodiscard]] absl::Status beside_data(const std::string& output) const {
    Files files;
    files.reads("--data", data_);
    files.writes("--output", output);
    return check_distinct(files);
  }
  static absl::Status both(const std::string& one, const std::string& other) {
    Files files;
    files.writes("--metrics", one);
    files.writes("--report", other);
    return check_distinct(files);
  }

  verbena::testing::TemporaryFolder folder_;
  const std::string data_ = folder_.path("data.tsv");
};

TEST_F(DistinctFilesTest, AnOutputIsNoInput) {
  EXPECT_TRUE(beside_data(folder_.path("model")).ok());
  EXPECT_TRUE(beside_data("").ok());
  EXPECT_EQ(std::string(beside_data(data_).message()),
            "--output: " + data_ + " would be written over " + data_ + ", which --data reads");
}

TEST_F(DistinctFilesTest, WhateverItIsCalled) {
  std::filesystem::create_directory(folder_.path("inner"));
  std::filesystem::create_symlink("data.tsv", folder_.path("symbolic"));
  std::filesystem::create_symlink(folder_.path("symbolic"), folder_.path("twice"));
  std::filesystem::create_hard_link(data_, folder_.path("hard"));
  std::filesystem::create_directory_symlink(folder_.path().string(), folder_.path("folder"));
  for (const char* const name : {"symbolic", "twice", "hard", "folder/data.tsv", "inner/../data.tsv",
                                 "./data.tsv", ".//data.tsv", "folder/hard"}) {
    EXPECT_EQ(beside_data(folder_.path(name)).code(), absl::StatusCode::kInvalidArgument) << name;
  }
  EXPECT_FALSE(beside_data(std::filesystem::relative(data_).string()).ok());
}

TEST_F(DistinctFilesTest, TwoOutputsAreTwoFiles) {
  EXPECT_TRUE(both(folder_.path("a"), folder_.path("b")).ok());
  EXPECT_THAT(std::string(both(folder_.path("a"), folder_.path("a")).message()),
              HasSubstr("is the same file as " + folder_.path("a") + ", which --metrics writes"));
  // Files that do not exist yet, under several names.
  std::filesystem::create_symlink("a", folder_.path("leads-to-a"));
  std::filesystem::create_symlink("leads-to-a", folder_.path("leads-there-too"));
  std::filesystem::create_directory_symlink(folder_.path().string(), folder_.path("folder"));
  for (const char* const name : {"./a", "leads-to-a", "leads-there-too", "folder/a"}) {
    EXPECT_FALSE(both(folder_.path("a"), folder_.path(name)).ok()) << name;
    EXPECT_FALSE(both(folder_.path(name), folder_.path("a")).ok()) << name;
  }
  EXPECT_FALSE(both(folder_.path("none/a"), folder_.path("none/../none/a")).ok());
  EXPECT_TRUE(both(folder_.path("none/a"), folder_.path("other/a")).ok());
}

TEST_F(DistinctFilesTest, DevicesTakeBothPipesDoNot) {
  EXPECT_TRUE(both("/dev/null", "/dev/null").ok());
  ASSERT_EQ(::mkfifo(folder_.path("pipe").c_str(), 0600), 0);
  EXPECT_FALSE(both(folder_.path("pipe"), folder_.path("pipe")).ok());
}

}  // namespace
}  // namespace verbena::apps
