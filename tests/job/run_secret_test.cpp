#include "job/run_secret.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/temporary_folder.hpp"

namespace verbena::job {
namespace {

using verbena::testing::TemporaryFolder;

class RunSecretTest : public ::testing::Test {
 protected:
  RunSecretTest() {
    ::chmod(runtime_.path().c_str(), S_IRWXU);
    ::setenv("XDG_RUNTIME_DIR", runtime_.path().c_str(), 1);
  }
  ~RunSecretTest() override { ::unsetenv("XDG_RUNTIME_DIR"); }
  const TemporaryFolder runtime_;
};

TEST_F(RunSecretTest, CanBeReadWhileTheRunLasts) {
  std::string path;
  {
    const auto run = RunSecret::make(::getpid());
    ASSERT_TRUE(run.ok()) << run.status();
    path = RunSecret::path_of(::getpid());
    struct stat info {};
    ASSERT_EQ(::stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777U, 0600U);
    const auto read = transport::Secret::read_file(path);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ((*read)->to_hex(), run->secret()->to_hex());
    // The next run of the same process has another one.
    const std::string before = run->secret()->to_hex();
    const auto next = RunSecret::make(::getpid());
    ASSERT_TRUE(next.ok()) << next.status();
    EXPECT_NE(next->secret()->to_hex(), before);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(RunSecretTest, OfARunThatWasKilledGoesWithTheNext) {
  const pid_t killed = ::fork();
  if (killed == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(killed, nullptr, 0), killed);
  {
    const auto own = RunSecret::make(::getpid());
    ASSERT_TRUE(own.ok()) << own.status();
  }
  std::ofstream(RunSecret::path_of(killed)) << "left behind";
  const auto own = RunSecret::make(::getpid());
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_FALSE(std::filesystem::exists(RunSecret::path_of(killed)));
  EXPECT_TRUE(std::filesystem::exists(RunSecret::path_of(::getpid())));
}

TEST_F(RunSecretTest, IsNotWrittenWhereOthersMayRead) {
  const std::string folder = runtime_.path("verbena");
  std::filesystem::create_directory(folder);
  ::chmod(folder.c_str(), S_IRWXU | S_IRGRP | S_IXGRP);
  EXPECT_FALSE(RunSecret::make(::getpid()).ok());
  EXPECT_EQ(RunSecret::path_of(::getpid()), "");
}

}  // namespace
}  // namespace verbena::job
