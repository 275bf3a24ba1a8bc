// The smallest program does what the comment in it says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/process/program.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::process_test {
namespace {

using ::testing::HasSubstr;

TEST(HelloTest, SeesItsOwnPushes) {
  const verbena::testing::TemporaryFolder folder;
  const Ended hello = run(HELLO_PROGRAM, {}, folder.path());
  EXPECT_EQ(hello.status, 0) << hello.err;
  EXPECT_EQ(hello.out,
            "clock 1: row 7 starts with 1, row 42 with 10\n"
            "clock 2: row 7 starts with 2, row 42 with 20\n"
            "clock 3: row 7 starts with 3, row 42 with 30\n");
}

TEST(HelloTest, IsOneOfMany) {
  const verbena::testing::TemporaryFolder folder;
  const Ended hello =
      run(VERBENA_PROGRAM, {"run", "--servers", "2", "--workers", "4", "--", HELLO_PROGRAM}, folder.path());
  EXPECT_EQ(hello.status, 0) << hello.err;
  EXPECT_THAT(hello.out, HasSubstr("clock 3: row 7 starts with "));
}

}  // namespace
}  // namespace verbena::process_test
