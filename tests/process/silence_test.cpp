// Processes that are stopped by a signal. Such a process is named within seconds, and not a process that
// waits for it. A job that is stopped as a whole goes on when it is continued.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <thread>

#include "tests/process/program.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::process_test {
namespace {

using ::testing::HasSubstr;

class StoppedTest : public ::testing::Test {
 protected:
  static constexpr int kSilenceMs = 2000;

  [[nodiscard]] std::unique_ptr<Program> start(const std::vector<std::string>& more) const {
    std::vector<std::string> all = {"run",       "counter", "--servers",      "2",
                                    "--workers", "2",       "--milliseconds", "20"};
    all.insert(all.end(), more.begin(), more.end());
    auto program = std::make_unique<Program>(COUNTER_PROGRAM, all, folder_.path());
    EXPECT_TRUE(program->wait_for_children("server", 2) && program->wait_for_children("worker", 2));
    return program;
  }
  /// A job under BSP that trains and does not end by itself.
  [[nodiscard]] std::unique_ptr<Program> start_long(std::vector<std::string> more = {}) const {
    more.insert(more.end(), {"--iterations", "1000000"});
    auto program = start(more);
    EXPECT_TRUE(program->wait_for_output("  counted "));
    return program;
  }
  static std::string silence_timeout() { return fmt::format("--silence-timeout={}", kSilenceMs); }
  /// Stops this process. The job must end, and name it as the reason.
  static void stop_and_expect(Program& program, pid_t victim, const std::string& name) {
    ::kill(victim, SIGSTOP);
    const Ended ended = program.wait();
    EXPECT_EQ(ended.status, 1) << ended.err;
    EXPECT_THAT(ended.err,
                HasSubstr(fmt::format("{} (pid {}) has shown no sign of life for ", name, victim)));
    EXPECT_TRUE(gone({victim}, 0));
  }

  verbena::testing::TemporaryFolder folder_;
};

TEST_F(StoppedTest, AServerIsNamedUnderBspByDefault) {
  const auto program = start_long();
  stop_and_expect(*program, program->children("server")[1], "server 1");
}

TEST_F(StoppedTest, AWorkerIsNamedUnderBsp) {
  const auto program = start_long({silence_timeout()});
  stop_and_expect(*program, program->children("worker")[1], "worker 1");
}

TEST_F(StoppedTest, TheWorkerThatHoldsARowIsNamedAndNotTheServerThatWaitsForIt) {
  const auto program = start({"--hold", silence_timeout()});
  ASSERT_TRUE(program->wait_for_output("holding"));
  stop_and_expect(*program, program->children("worker")[0], "worker 0");
}

TEST_F(StoppedTest, AJobThatIsStoppedAsAWholeGoesOn) {
  const auto program = start({"--iterations", "100", silence_timeout()});
  ASSERT_TRUE(program->wait_for_output("  counted "));
  ::kill(-program->pid(), SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(2 * kSilenceMs));
  ::kill(-program->pid(), SIGCONT);
  const Ended ended = program->wait();
  EXPECT_EQ(ended.status, 0) << ended.err;
}

TEST_F(StoppedTest, WithoutABoundItIsWaitedFor) {
  const auto program = start({"--iterations", "100", "--silence-timeout", "0"});
  ASSERT_TRUE(program->wait_for_output("  counted "));
  const pid_t worker = program->children("worker")[1];
  ::kill(worker, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(2 * kSilenceMs));
  ::kill(worker, SIGCONT);
  const Ended ended = program->wait();
  EXPECT_EQ(ended.status, 0) << ended.err;
}

TEST_F(StoppedTest, ABoundThatABeatWouldBreakIsRefused) {
  const Ended ended = run(COUNTER_PROGRAM, {"run", "counter", "--silence-timeout", "1999"}, folder_.path());
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(ended.err, HasSubstr("a silence of 1999 ms: expected at least 2000, or 0 for any"));
}

}  // namespace
}  // namespace verbena::process_test
