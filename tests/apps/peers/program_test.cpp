#include "apps/peers/program.hpp"

#include <gtest/gtest.h>

namespace verbena::apps {
namespace {

constexpr std::chrono::seconds kPatience{30};

TEST(ProgramTest, OutputAndErrorsAreCollected) {
  auto program = Program::start({"sh", "-c", "echo one; echo two >&2"});
  ASSERT_TRUE(program.ok());
  EXPECT_TRUE((*program)->wait(kPatience).ok());
  EXPECT_EQ((*program)->output(), "one\ntwo\n");
}

TEST(ProgramTest, FailureSaysWhatTheProgramSaidLast) {
  auto program = Program::start({"sh", "-c", "echo no device; echo ---; exit 3"});
  ASSERT_TRUE(program.ok());
  EXPECT_EQ((*program)->wait(kPatience).message(), "sh ended with status 3: no device");
}

TEST(ProgramTest, OverdueOneIsKilled) {
  auto program = Program::start({"sleep", "1000"});
  ASSERT_TRUE(program.ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded((*program)->wait(std::chrono::milliseconds(50))));
}

TEST(ProgramTest, MissingOneIsSaid) {
  auto program = Program::start({"no-such-program-of-ours"});
  ASSERT_TRUE(program.ok());
  EXPECT_TRUE(absl::IsNotFound((*program)->wait(kPatience)));
  EXPECT_FALSE(is_installed("no-such-program-of-ours"));
  EXPECT_TRUE(is_installed("sh"));
}

}  // namespace
}  // namespace verbena::apps
