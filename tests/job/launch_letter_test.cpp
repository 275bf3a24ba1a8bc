#include "job/launch_letter.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace verbena::job {
namespace {

/// Replaces this process's standard input, and restores it at the end.
class StandardInput {
 public:
  explicit StandardInput(int descriptor) { ::dup2(descriptor, STDIN_FILENO); }
  ~StandardInput() {
    ::dup2(before_, STDIN_FILENO);
    ::close(before_);
  }
  StandardInput(const StandardInput&) = delete;
  StandardInput& operator=(const StandardInput&) = delete;

 private:
  const int before_ = ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 10);
};

TEST(LaunchLetterTest, IsReadOnceAndLeavesNoInput) {
  const auto written = write_letter({.report_to = 71, .rendezvous = 72, .stop_word = 73, .decided = 74});
  ASSERT_TRUE(written.ok()) << written.status();
  const StandardInput input(*written);
  ::close(*written);
  const auto letter = take_letter();
  ASSERT_TRUE(letter.ok()) << letter.status();
  EXPECT_TRUE(letter->launched());
  EXPECT_EQ(letter->report_to, 71);
  EXPECT_EQ(letter->rendezvous, 72);
  EXPECT_EQ(letter->stop_word, 73);
  EXPECT_EQ(letter->decided, 74);
  char byte = 0;
  EXPECT_EQ(::read(STDIN_FILENO, &byte, 1), 0);  // the letter is no longer there
  const auto again = take_letter();
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_FALSE(again->launched());
}

TEST(LaunchLetterTest, AUsersInputIsNoLetter) {
  const int file = ::memfd_create("verbena-launch-letter", MFD_CLOEXEC);  // a letter would be sealed
  const std::string text = R"({"report_to": 1, "rendezvous": 2})";
  ASSERT_EQ(::write(file, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  ASSERT_EQ(::lseek(file, 0, SEEK_SET), 0);
  const StandardInput input(file);
  ::close(file);
  const auto letter = take_letter();
  ASSERT_TRUE(letter.ok()) << letter.status();
  EXPECT_FALSE(letter->launched());
  char byte = 0;
  EXPECT_EQ(::read(STDIN_FILENO, &byte, 1), 1);  // the input is still there
}

TEST(LaunchLetterTest, TellsAProgramItsRole) {
  const ProgramRole role{.rank = 3,
                         .workers = 4,
                         .servers = 2,
                         .scheme = "verbs",
                         .tls = true,
                         .device = "mlx5_0",
                         .device_port = 2,
                         .shares_cores = true,
                         .read_path = ReadPath::kCached,
                         .update_budget_mb_per_s = 1.5,
                         .silence_timeout_ms = 7000,
                         .copies = 2,
                         .store = "verbena/4711/store",
                         .ends_who_is_left_out = false,
                         .longest_absence_ms = 60000};
  const auto written = write_letter({.report_to = 71, .rendezvous = 72, .program = role});
  ASSERT_TRUE(written.ok()) << written.status();
  ::setenv(kLetterVariable, std::to_string(*written).c_str(), 1);
  const auto letter = take_letter_by_environment();
  ASSERT_TRUE(letter.ok()) << letter.status();
  ASSERT_TRUE(letter->has_value());
  EXPECT_EQ((*letter)->report_to, 71);
  EXPECT_EQ((*letter)->program, role);
  EXPECT_EQ(::fcntl(*written, F_GETFD), -1) << "the letter's descriptor must be closed";
  const auto again = take_letter_by_environment();
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_FALSE(again->has_value()) << "the variable must be removed";
}

/// If the variable were ignored, each of many processes would take itself for a job of its own.
TEST(LaunchLetterTest, AVariableWithoutALetterIsAnError) {
  for (const char* written : {"", "x", "-1", "99", "0", "4294967296"}) {
    ::setenv(kLetterVariable, written, 1);
    const auto letter = take_letter_by_environment();
    EXPECT_EQ(letter.status().code(), absl::StatusCode::kFailedPrecondition) << written;
  }
  ::unsetenv(kLetterVariable);
}

}  // namespace
}  // namespace verbena::job
