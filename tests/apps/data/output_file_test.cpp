#include "apps/data/output_file.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/temporary_folder.hpp"

namespace verbena::apps {
namespace {

using ::testing::HasSubstr;
using verbena::testing::contents;

class OutputFileTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string path(std::string_view name = "file.txt") const { return folder_.path(name); }
  [[nodiscard]] std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder_.path()),
                                                  std::filesystem::directory_iterator()));
  }

  verbena::testing::TemporaryFolder folder_;
};

TEST_F(OutputFileTest, IsThereAfterCommitAndNotBefore) {
  absl::StatusOr<OutputFile> file = OutputFile::create(path());
  ASSERT_TRUE(file.ok()) << file.status();
  const std::string large(300'000, 'x');
  file->write(large);
  file->write("end");
  file->flush();
  EXPECT_EQ(files(), 0U);
  ASSERT_TRUE(file->commit().ok());
  EXPECT_EQ(contents(path()), large + "end");
  EXPECT_EQ(files(), 1U);
}

TEST_F(OutputFileTest, LeavesAnOlderFileWithoutCommit) {
  std::ofstream(path()) << "older";
  {
    absl::StatusOr<OutputFile> file = OutputFile::create(path());
    ASSERT_TRUE(file.ok()) << file.status();
    file->write("newer");
    file->flush();
  }
  EXPECT_EQ(contents(path()), "older");
  EXPECT_EQ(files(), 1U);
}

TEST_F(OutputFileTest, ReplacesAnOlderFile) {
  std::ofstream(path()) << "older and longer";
  absl::StatusOr<OutputFile> file = OutputFile::create(path());
  ASSERT_TRUE(file.ok()) << file.status();
  OutputFile moved = std::move(*file);
  moved.write("newer");
  ASSERT_TRUE(moved.commit().ok());
  EXPECT_EQ(contents(path()), "newer");
}

TEST_F(OutputFileTest, FollowsTheUmask) {
  const mode_t before = ::umask(0027);
  absl::StatusOr<OutputFile> file = OutputFile::create(path());
  ASSERT_TRUE(file.ok() && file->commit().ok());
  ::umask(before);
  struct stat made = {};
  ASSERT_EQ(::stat(path().c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 0777U, 0640U);
}

TEST_F(OutputFileTest, KilledProcessLeavesNothing) {
  const pid_t child = ::fork();
  if (child == 0) {
    absl::StatusOr<OutputFile> file = OutputFile::create(path());
    file->write(std::string(1 << 20, 'x'));
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(files(), 0U);
}

TEST_F(OutputFileTest, SaysWhatIsWrongWithThePath) {
  const absl::Status missing = OutputFile::check(path("no/such/file"));
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("no/such/file: cannot create: No such file"));
  EXPECT_EQ(OutputFile::check("").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(OutputFile::check(folder_.path().string()).message()), HasSubstr("Is a directory"));
  EXPECT_THAT(std::string(OutputFile::check("/proc/verbena").message()), HasSubstr("/proc/verbena: cannot"));
  const absl::Status large = OutputFile::check(path(), std::uint64_t{1} << 60);
  EXPECT_THAT(std::string(large.message()), HasSubstr("no space: about 1152921504606846976 bytes"));
  EXPECT_TRUE(OutputFile::check(path(), 1000).ok());
  EXPECT_EQ(files(), 0U);
}

TEST_F(OutputFileTest, FullDeviceIsAnErrorThatNamesThePath) {
  absl::StatusOr<OutputFile> file = OutputFile::create("/dev/full");
  ASSERT_TRUE(file.ok()) << file.status();
  file->write("some bytes");
  const absl::Status status = file->commit();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "/dev/full: cannot write: No space left on device");
}

TEST_F(OutputFileTest, WritesAPipeAsItGoes) {
  int ends[2] = {};
  ASSERT_EQ(::pipe(ends), 0);
  absl::StatusOr<OutputFile> file = OutputFile::create("/proc/self/fd/" + std::to_string(ends[1]));
  ASSERT_TRUE(file.ok()) << file.status();
  file->write("line\n");
  file->flush();
  char got[16] = {};
  EXPECT_EQ(::read(ends[0], got, sizeof got), 5);
  EXPECT_STREQ(got, "line\n");
  EXPECT_TRUE(file->commit().ok());
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_F(OutputFileTest, ReplacesTheFileAndNotTheLinkToIt) {
  std::ofstream(path("real.txt")) << "older";
  std::filesystem::create_symlink("real.txt", path());
  absl::StatusOr<OutputFile> file = OutputFile::create(path());
  ASSERT_TRUE(file.ok()) << file.status();
  file->write("newer");
  ASSERT_TRUE(file->commit().ok());
  EXPECT_TRUE(std::filesystem::is_symlink(path()));
  EXPECT_EQ(contents(path("real.txt")), "newer");
}

TEST_F(OutputFileTest, WritesWhatIsOpenAsItIs) {
  const int open_file = ::open(path().c_str(), O_WRONLY | O_CREAT, 0600);
  absl::StatusOr<OutputFile> file = OutputFile::create("/proc/self/fd/" + std::to_string(open_file));
  ASSERT_TRUE(file.ok()) << file.status();
  file->write("line\n");
  file->flush();
  EXPECT_EQ(contents(path()), "line\n");
  EXPECT_TRUE(file->commit().ok());
  ::close(open_file);
}

}  // namespace
}  // namespace verbena::apps
