// `verbena cluster status` beside jobs of real processes.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/free_port.hpp"
#include "tests/process/program.hpp"
#include "tests/process/small_training.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::process_test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

class StatusTest : public ::testing::Test {
 protected:
  void SetUp() override { write_data(small_trainings().front(), scratch_.path("data")); }

  /// A run that goes on until it is stopped.
  [[nodiscard]] std::vector<std::string> training(const std::vector<std::string>& more) const {
    std::vector<std::string> all = {"run",           "lda",     "--data",    scratch_.path("data"),
                                    "--servers",     "2",       "--workers", "2",
                                    "--consistency", "bsp",     "--topics",  "3",
                                    "--iterations",  "1000000", "--slow",    "worker=all,pause=10ms,every=1"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  [[nodiscard]] Ended status(std::vector<std::string> words) const {
    words.insert(words.begin(), {"cluster", "status"});
    return run(VERBENA_PROGRAM, words, scratch_.path());
  }
  /// Looks until what is seen is as wanted; returns what was seen last.
  [[nodiscard]] json look_until(const std::string& job,
                                const std::function<bool(const json&)>& wanted) const {
    json seen;
    EXPECT_TRUE(wait_until([&] {
      const Ended looked = status({"--json", "--job", job});
      if (looked.status != 0) return false;
      seen = json::parse(looked.out);
      return wanted(seen);
    })) << seen.dump(1);
    return seen;
  }

  const verbena::testing::TemporaryFolder scratch_;
};

/// "copy role, …" of a server.
std::string chain_of(const json& seen, std::size_t server) {
  std::string text;
  for (const json& one : seen["servers"][server]["copies"])
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", one["copy"].get<int>(),
                        one["role"].get<std::string>());
  return text;
}

TEST_F(StatusTest, ShowsWhoServesBeforeAndAfterADeath) {
  const verbena::testing::TemporaryFolder of_run;
  const Program running(
      VERBENA_PROGRAM,
      training({"--replicas", "1", "--checkpoint", scratch_.path("saved"), "--checkpoint-every", "5"}),
      of_run.path());
  const std::string job = fmt::format("run-{}", running.pid());
  json seen = look_until(job, [](const json& now) {
    return !now["checkpoint"].is_null() && now["workers"][1]["iteration"] > 0 && !now["clock"].is_null();
  });
  EXPECT_EQ(seen["configuration"], 1);
  EXPECT_EQ(seen["failovers"], 0);
  for (const std::size_t server : {0U, 1U}) EXPECT_EQ(chain_of(seen, server), "0 serves, 1 follows");
  ASSERT_EQ(seen["workers"].size(), 2U);
  EXPECT_LE(seen["workers"][0]["behind"], 1) << "under BSP nobody is farther behind";
  EXPECT_GT(seen["workers"][0]["pid"], 1);
  EXPECT_THAT(seen["checkpoint"]["path"].get<std::string>(), HasSubstr(scratch_.path("saved") + "/ckpt-"));
  EXPECT_THAT(seen["title"].get<std::string>(), HasSubstr("lda, bsp"));

  const pid_t victim = seen["servers"][0]["copies"][0]["pid"];
  ASSERT_GT(victim, 1);
  ::kill(victim, SIGKILL);
  seen = look_until(job, [](const json& now) { return now["joins"] == 1; });
  EXPECT_EQ(chain_of(seen, 0), "1 serves, 2 follows");
  EXPECT_EQ(chain_of(seen, 1), "0 serves, 1 follows");
  EXPECT_EQ(seen["configuration"], 4)
      << "without the dead one, with one that joins, with one that has joined";
  EXPECT_EQ(seen["failovers"], 1);
  EXPECT_EQ(seen["events"][0]["kind"], "failover");
  EXPECT_EQ(seen["events"][1]["kind"], "join");
  const Ended shown = status({"--job", job});
  EXPECT_EQ(shown.status, 0) << shown.err;
  EXPECT_THAT(shown.out, AllOf(HasSubstr("configuration 4: 1 failover, 1 join"), HasSubstr("follows"),
                               HasSubstr(fmt::format("server 0 (pid {}) was killed by SIGKILL", victim)),
                               HasSubstr("last checkpoint: ")));
  EXPECT_TRUE(alive(running.pid()));
}

TEST_F(StatusTest, ServersWithoutCopiesServe) {
  const verbena::testing::TemporaryFolder of_run;
  const Program running(VERBENA_PROGRAM, training({}), of_run.path());
  const std::string job = fmt::format("run-{}", running.pid());
  const json seen = look_until(job, [](const json& now) { return now["workers"][0]["iteration"] > 0; });
  for (const std::size_t server : {0U, 1U}) EXPECT_EQ(chain_of(seen, server), "0 serves");
  EXPECT_TRUE(seen["configuration"].is_null());
  EXPECT_TRUE(seen["checkpoint"].is_null());
  // One that is stopped is no error of whoever looks.
  const pid_t silent = seen["servers"][1]["copies"][0]["pid"];
  ASSERT_GT(silent, 1);
  ::kill(silent, SIGSTOP);
  const Ended shown = status({"--job", job});
  ::kill(silent, SIGCONT);
  EXPECT_EQ(shown.status, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("the servers do not answer: "));
}

/// Processes that somebody has started one by one, here all on this host.
TEST_F(StatusTest, OfProcessesThatMeetAtAnAddressRankZeroTells) {
  verbena::testing::write_file(scratch_.path("secret"), "a secret that nobody knows\n");
  std::filesystem::permissions(scratch_.path("secret"), std::filesystem::perms::owner_read);
  const std::string place = "127.0.0.1:" + std::to_string(verbena::testing::free_port());
  const verbena::testing::TemporaryFolder of_run;
  std::vector<std::unique_ptr<Program>> processes;
  for (int rank = 0; rank < 6; ++rank) {
    processes.push_back(std::make_unique<Program>(
        VERBENA_PROGRAM,
        training({"--replicas", "1", "--transport", "tcp", "--rendezvous", place, "--processes", "6",
                  "--process", std::to_string(rank), "--secret-file", scratch_.path("secret"), "--checkpoint",
                  scratch_.path("saved"), "--checkpoint-every", "5"}),
        of_run.path()));
  }
  const std::string job = fmt::format("run-{}", processes[0]->pid());
  json seen = look_until(job, [](const json& now) {
    return !now["checkpoint"].is_null() && now["workers"][1]["iteration"] > 0;
  });
  for (const std::size_t server : {0U, 1U}) EXPECT_EQ(chain_of(seen, server), "0 serves, 1 follows");
  EXPECT_EQ(seen["servers"][1]["copies"][0]["pid"], processes[1]->pid());
  EXPECT_NE(seen["servers"][1]["copies"][0]["host"], "");
  EXPECT_EQ(seen["workers"][1]["pid"], processes[5]->pid());
  EXPECT_TRUE(seen["clock"].is_null());
  EXPECT_FALSE(seen.contains("silence"));

  processes[1]->signal(SIGKILL);
  seen = look_until(job, [](const json& now) { return now["failovers"] == 1; });
  EXPECT_EQ(chain_of(seen, 1), "1 serves");
  const Ended shown = status({"--job", job});
  EXPECT_THAT(shown.out, AllOf(HasSubstr("lda, bsp"), HasSubstr("serves"), HasSubstr("last checkpoint: ")));
  EXPECT_THAT(shown.out, ::testing::Not(HasSubstr("do not answer")));
  const Ended drained =
      run(VERBENA_PROGRAM, {"cluster", "drain", "--server", "0", "--job", job}, scratch_.path());
  EXPECT_NE(drained.status, 0);
  EXPECT_THAT(drained.err, HasSubstr("SIGTERM"));
}

TEST_F(StatusTest, OfAJobWithoutALauncherItShowsWhatServersKnow) {
  const std::string job = fmt::format("status-test-{}", ::getpid());
  const verbena::testing::TemporaryFolder of_server;
  const Program server(VERBENA_PROGRAM, {"server", "--job", job, "--servers", "1", "--workers", "3"},
                       of_server.path());
  Ended shown;
  ASSERT_TRUE(wait_until([&] {
    shown = status({"--job", job});
    return shown.status == 0;
  })) << shown.err;
  EXPECT_THAT(shown.out, AllOf(HasSubstr("1 server, 3 workers"), HasSubstr("No process of this host leads")));
  const Ended other = status({"--job", "nonsense"});
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err, AllOf(HasSubstr("no job \"nonsense\""), HasSubstr(job)));
}

}  // namespace
}  // namespace verbena::process_test
