// The smallest program against a server started by hand, as its own comment says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/process/program.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::process_test {
namespace {

using ::testing::HasSubstr;

TEST(HelloTest, SeesItsOwnPushes) {
  const verbena::testing::TemporaryFolder folder;
  const std::string job = folder.path().filename().string();  // unlike any other's
  Program server(VERBENA_PROGRAM, {"server", "--job", job}, folder.path());
  const Ended hello = run(HELLO_PROGRAM, {"shm:" + job + "/server-0"}, folder.path());
  EXPECT_EQ(hello.status, 0) << hello.err;
  EXPECT_EQ(hello.out,
            "clock 1: row 7 starts with 1, row 42 with 10\n"
            "clock 2: row 7 starts with 2, row 42 with 20\n"
            "clock 3: row 7 starts with 3, row 42 with 30\n");
  EXPECT_EQ(server.wait().status, 0) << "it ends when its workers have left";
}

TEST(HelloTest, SaysWhatIsMissing) {
  const verbena::testing::TemporaryFolder folder;
  const Ended hello = run(HELLO_PROGRAM, {}, folder.path());
  EXPECT_EQ(hello.status, 1);
  EXPECT_THAT(hello.err, HasSubstr("at least one server"));
}

}  // namespace
}  // namespace verbena::process_test
