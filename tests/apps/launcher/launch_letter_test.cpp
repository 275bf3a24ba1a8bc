#include "apps/launcher/launch_letter.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

namespace verbena::apps {
namespace {

/// Standard input of this process, put back at the end.
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
  const auto written = write_letter({.report_to = 71, .rendezvous = 72});
  ASSERT_TRUE(written.ok()) << written.status();
  const StandardInput input(*written);
  ::close(*written);
  const auto letter = take_letter();
  ASSERT_TRUE(letter.ok()) << letter.status();
  EXPECT_TRUE(letter->launched());
  EXPECT_EQ(letter->report_to, 71);
  EXPECT_EQ(letter->rendezvous, 72);
  char byte = 0;
  EXPECT_EQ(::read(STDIN_FILENO, &byte, 1), 0);  // nothing
  const auto again = take_letter();
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_FALSE(again->launched());
}

TEST(LaunchLetterTest, AUsersInputIsNoLetter) {
  const int file = ::memfd_create("verbena-launch-letter", MFD_CLOEXEC);  // not sealed
  const std::string text = R"({"report_to": 1, "rendezvous": 2})";
  ASSERT_EQ(::write(file, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  ASSERT_EQ(::lseek(file, 0, SEEK_SET), 0);
  const StandardInput input(file);
  ::close(file);
  const auto letter = take_letter();
  ASSERT_TRUE(letter.ok()) << letter.status();
  EXPECT_FALSE(letter->launched());
  char byte = 0;
  EXPECT_EQ(::read(STDIN_FILENO, &byte, 1), 1);  // still there
}

}  // namespace
}  // namespace verbena::apps
