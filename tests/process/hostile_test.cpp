// A real server, real workers, and processes that attack them (hostile.cpp). Each attack is refused or
// harmless, the job does not wait for it to end, and what is trained is the same to the last bit.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <list>
#include <map>
#include <sstream>
#include <string>

#include "tests/process/program.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::process_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string bytes_of_file(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

std::size_t count_of(const std::string& text, const std::string& words) {
  std::size_t count = 0;
  for (std::size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) ++count;
  return count;
}

class HostileTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new verbena::testing::TemporaryFolder();
    std::ofstream(secret()) << "a secret of this test's own jobs\n";
    ::chmod(secret().c_str(), S_IRUSR | S_IWUSR);
    const Ended made =
        run(VERBENA_PROGRAM,
            {"generate", "mf", "--ratings", "20000", "--users", "300", "--items", "200", "--output", data()},
            path("generate"));
    ASSERT_EQ(made.status, 0) << made.err;
    undisturbed_ = new std::map<std::string, std::string>(train("undisturbed", {}));
    ASSERT_FALSE(undisturbed_->empty());
  }
  static void TearDownTestSuite() {
    delete undisturbed_;
    delete folder_;
  }

  static std::filesystem::path path(const std::string& name) {
    std::filesystem::create_directories(folder_->path() / name);
    return folder_->path() / name;
  }
  static std::string secret() { return folder_->path() / "secret"; }
  static std::string data() { return folder_->path() / "ratings.tsv"; }

  /// Trains during the attacks, and returns the model's files by name.
  static std::map<std::string, std::string> train(const std::string& name,
                                                  const std::vector<std::string>& attacks) {
    const std::string job = fmt::format("{}-{}", folder_->path().filename().string(), name);
    const std::vector<std::string> common = {"--job", job, "--workers", "2", "--secret-file", secret()};
    std::vector<std::string> serve = {"server"};
    serve.insert(serve.end(), common.begin(), common.end());
    // Allows only a few descriptors more than a job of two workers needs, so that an attack could use them
    // up.
    Program server(VERBENA_PROGRAM, serve, path(name + "-server"), [] {
      rlimit files{};
      ::getrlimit(RLIMIT_NOFILE, &files);
      files.rlim_cur = files.rlim_max = 128;  // the program takes all that it may
      ::setrlimit(RLIMIT_NOFILE, &files);
    });
    const std::string address = job + "/server-0";
    std::list<Program> hostile;
    EXPECT_TRUE(wait_until([&] {
      return bytes_of_file("/proc/net/unix").find(fmt::format("@verbena/{}/{}", ::getuid(), address)) !=
             std::string::npos;
    }));
    for (const std::string& attack : attacks) {
      hostile.emplace_back(HOSTILE_PROGRAM,
                           std::vector<std::string>{attack, fmt::format("verbena/{}/{}", ::getuid(), address),
                                                    "shm:" + address, secret()},
                           path(fmt::format("{}-{}-{}", name, attack, hostile.size())));
      EXPECT_TRUE(hostile.back().wait_for_output("ready")) << attack;
    }
    const std::string model = path(name + "-model") / "model";
    std::list<Program> workers;
    for (int rank = 0; rank < 2; ++rank) {
      std::vector<std::string> work = {"worker",        "mf",
                                       "--data",        data(),
                                       "--rank",        "8",
                                       "--iterations",  "3",
                                       "--consistency", "bsp",
                                       "--seed",        "1",
                                       "--worker-rank", std::to_string(rank)};
      work.insert(work.end(), common.begin(), common.end());
      if (rank == 0) work.insert(work.end(), {"--output", model});
      workers.emplace_back(VERBENA_PROGRAM, work, path(fmt::format("{}-worker-{}", name, rank)));
    }
    for (Program& worker : workers) {
      const Ended ended = worker.wait();
      EXPECT_EQ(ended.status, 0) << name << ": " << ended.err;
    }
    // The job ends although the attacks go on.
    const Ended ended = server.wait();
    EXPECT_EQ(ended.status, 0) << name << ": " << ended.err;
    EXPECT_LE(count_of(ended.err + ended.out, "refused"),
              4 + 2 * static_cast<std::size_t>(ended.seconds / 10));
    EXPECT_THAT(ended.err + ended.out, Not(HasSubstr("\x1b")));
    for (Program& each : hostile) {
      EXPECT_TRUE(alive(each.pid())) << name << ": the attacking process has died";
      each.signal(SIGKILL);
      EXPECT_THAT(each.wait().out, Not(HasSubstr("let in"))) << name;
    }
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(path(name + "-model"))) {
      files[entry.path().filename()] = bytes_of_file(entry.path());
    }
    return files;
  }
  static void expect_unmoved(const std::string& name, const std::vector<std::string>& attacks) {
    const auto files = train(name, attacks);
    ASSERT_EQ(files.size(), undisturbed_->size());
    for (const auto& [file, bytes] : *undisturbed_) {
      EXPECT_TRUE(files.contains(file) && files.at(file) == bytes)
          << file << " differs from that of the undisturbed job";
    }
  }

  static verbena::testing::TemporaryFolder* folder_;
  static std::map<std::string, std::string>* undisturbed_;
};

verbena::testing::TemporaryFolder* HostileTest::folder_ = nullptr;
std::map<std::string, std::string>* HostileTest::undisturbed_ = nullptr;

TEST_F(HostileTest, CrowdsThatSayNothing) {
  expect_unmoved("silent", {"silent"});
}
TEST_F(HostileTest, Floods) {
  expect_unmoved("flood", {"flood", "garbage"});
}
TEST_F(HostileTest, StrangersThatWantIn) {
  expect_unmoved("strangers", {"hello-first", "wrong-secret", "replay"});
}
TEST_F(HostileTest, ProcessesThatDieAmidTheirHello) {
  expect_unmoved("killed", {"killed-amid-hello"});
}
TEST_F(HostileTest, OnesWithTheSecretThatBreakTheRules) {
  expect_unmoved("insiders", {"insider", "insider"});
}
TEST_F(HostileTest, AllAtOnce) {
  expect_unmoved("all", {"silent", "garbage", "hello-first", "replay", "killed-amid-hello", "insider"});
}

}  // namespace
}  // namespace verbena::process_test
