// What the real program shows to people, on a terminal and in files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/process/program.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::process_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class PresentationTest : public ::testing::Test {
 protected:
  Ended verbena(const std::vector<std::string>& arguments) const {
    return run(VERBENA_PROGRAM, arguments, folder_.path());
  }
  Ended counter(const std::vector<std::string>& arguments) const {
    return run(COUNTER_PROGRAM, arguments, folder_.path());
  }

  verbena::testing::TemporaryFolder folder_;
};

TEST_F(PresentationTest, AFileNameDrivesNoTerminalAndEndsNoLine) {
  const std::string name = folder_.path("a\x1b[31m\nb\xe2\x80\xae\xff");
  const Ended missing = verbena({"run", "mf", "--data", name});
  EXPECT_EQ(missing.status, 2);
  EXPECT_THAT(missing.err, HasSubstr(R"(a\u001b[31m\nb\u202e\xff: cannot be read)"));

  verbena::testing::write_file(name, "1\t2\t3\n2\t1\t4\n1\t1\t5\n2\t2\t1\n");
  const Ended ended =
      verbena({"run", "mf", "-v", "--data", name, "--iterations", "1", "--rank", "2", "--test-fraction", "0",
               "--metrics", folder_.path("metrics"), "--report", folder_.path("report")});
  EXPECT_EQ(ended.status, 0) << ended.err;
  const std::string metrics = verbena::testing::contents(folder_.path("metrics"));
  const std::string report = verbena::testing::contents(folder_.path("report"));
  EXPECT_THAT(ended.err, HasSubstr(R"(a\u001b[31m\nb)")) << "the log has the options";
  EXPECT_THAT(ended.err, HasSubstr("--clocks-per-iteration=1 --allocation=localize --lookahead=0 "))
      << "those that were chosen, too";
  for (const std::string* text : {&missing.err, &ended.err, &ended.out, &metrics, &report}) {
    EXPECT_THAT(*text, Not(HasSubstr("\x1b")));
    EXPECT_THAT(*text, Not(HasSubstr("\xe2\x80\xae")));
    EXPECT_THAT(*text, Not(HasSubstr("\nb\\u202e")));
  }
  std::istringstream lines(metrics);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_FALSE(nlohmann::json::parse(line, nullptr, false).is_discarded()) << line;
  }
}

TEST_F(PresentationTest, TheModelsWordsComeEscaped) {
  const Ended ended =
      counter({"run", "counter", "--iterations", "1", "--words", "topic\x1b[2J\nverbena: error: x"});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr(R"(topic\u001b[2J\nverbena: error: x)"));
  EXPECT_THAT(ended.out, Not(HasSubstr("\x1b")));
}

TEST_F(PresentationTest, HelpIsACommandToo) {
  EXPECT_EQ(verbena({"help"}).out, verbena({"--help"}).out);
  EXPECT_EQ(verbena({"help", "run"}).out, verbena({"run", "--help"}).out);
  const Ended help = verbena({"help", "run", "lda"});
  EXPECT_EQ(help.status, 0);
  EXPECT_EQ(help.out, verbena({"run", "lda", "--help"}).out);
  EXPECT_THAT(help.out, StartsWith("NAME\n       verbena run lda - "));
  const Ended unknown = verbena({"help", "run", "nonesuch"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(unknown.err, HasSubstr("verbena run has no command nonesuch (see verbena run --help)"));
}

TEST_F(PresentationTest, WrongUseIsSaidInSentences) {
  struct Wrong {
    std::vector<std::string> arguments;
    std::string sentence;
  };
  const std::vector<Wrong> all = {
      {{"run", "counter", "--workers", "1", "--workers", "2"},
       "--workers is given 2 times; once is meant (see verbena run counter --help)"},
      {{"run", "counter", "--workers"}, "--workers needs a value (see verbena run counter --help)"},
      {{"run", "counter", "--baseline=maybe"}, "--baseline takes no value"},
      {{"run", "counter", "--nonesuch"}, "there is no option --nonesuch (see"},
      {{"run", "counter", "one", "two"}, "nothing is known of one two (see"},
      {{"run"}, "verbena run: the name of what to do is missing (see verbena run --help)"},
      {{"run", "nonesuch"}, "there is no nonesuch; expected counter (see verbena run --help)"},
  };
  for (const Wrong& wrong : all) {
    SCOPED_TRACE(wrong.sentence);
    const Ended ended = counter(wrong.arguments);
    EXPECT_EQ(ended.status, 2);
    EXPECT_THAT(ended.err, StartsWith("verbena: error: " + wrong.sentence));
  }
  const auto says = [&](const std::vector<std::string>& arguments) {
    const Ended ended = verbena(arguments);
    EXPECT_EQ(ended.status, 2);
    return ended.err;
  };
  EXPECT_THAT(says({"run", "ldaa"}),
              AllOf(HasSubstr("there is no ldaa; expected "), HasSubstr(" lda, "), HasSubstr(" or ")));
  EXPECT_THAT(says({"run", "lda", "--bogus"}), StartsWith("verbena: error: there is no option --bogus"));
  EXPECT_THAT(says({"run", "lda", "--data", "x", "--iterations", "1e3"}),
              HasSubstr("--iterations: a whole number from 1 to "));
  EXPECT_THAT(says({"table", "get", "weights", "abc"}),
              HasSubstr("KEY: a whole number from 0 to 18446744073709551614 or SLOT:INDEX is expected"));
  EXPECT_THAT(says({"table", "stats", "--transport", "tcp", "--no-secret"}),
              HasSubstr("expected --addresses HOST:PORT,…"));
  for (const char* const place : {"localhost", "localhost:99999"})
    EXPECT_THAT(says({"cluster", "status", "--transport", "tcp", "--no-secret", "--addresses", place}),
                HasSubstr("--addresses: HOST:PORT is expected"));
}

TEST_F(PresentationTest, HelpIsNoWiderThanAScreen) {
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"--help"}, {"run", "--help"}, {"table", "--help"}}) {
    std::istringstream lines(verbena(command).out);
    for (std::string line; std::getline(lines, line);) {
      // In characters, and not in what is shown as it is written.
      const auto width = std::ranges::count_if(line, [](char byte) { return (byte & 0xC0) != 0x80; });
      if (line.find("verbena ") == std::string::npos) {
        EXPECT_LE(width, 92) << line;
      }
    }
  }
  EXPECT_THAT(verbena({"worker", "--help"}).out, HasSubstr("worker APP --help"));
}

TEST_F(PresentationTest, AnAddressThatCannotBeListenedAtIsSaidWithWhatIsExpected) {
  const auto says = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "server");
    const Ended ended = verbena(arguments);
    EXPECT_EQ(ended.status, 2) << ended.err;
    return ended.err;
  };
  EXPECT_THAT(says({"--addresses", "192.0.2.1:7001", "--transport", "tcp", "--no-secret"}),
              HasSubstr("expected an address of this host"));
  const std::string job = folder_.path().filename().string();
  std::filesystem::create_directories(folder_.path("first"));
  const Program first(VERBENA_PROGRAM, {"server", "--job", job, "--workers", "1"}, folder_.path("first"));
  ASSERT_TRUE(wait_until([&] { return verbena({"table", "stats", "--job", job}).status == 0; }));
  EXPECT_THAT(says({"--job", job, "--workers", "1"}), HasSubstr("expected a name that no running job has"));
}

TEST_F(PresentationTest, AWorkerStartedByHandSaysWhichItIs) {
  const std::string output = folder_.path("count");
  const std::vector<std::string> job = {"--job", folder_.path().filename().string(), "--workers", "2"};
  const auto with = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), job.begin(), job.end());
    return arguments;
  };
  std::filesystem::create_directories(folder_.path("server"));
  std::filesystem::create_directories(folder_.path("first"));
  std::filesystem::create_directories(folder_.path("second"));
  Program server(COUNTER_PROGRAM, with({"server"}), folder_.path("server"));
  Program first(COUNTER_PROGRAM, with({"worker", "counter", "--worker-rank", "0", "--output", output}),
                folder_.path("first"));
  Program second(COUNTER_PROGRAM, with({"worker", "counter", "--worker-rank", "1", "--output", output}),
                 folder_.path("second"));
  const Ended of_first = first.wait();
  const Ended of_second = second.wait();
  EXPECT_EQ(server.wait().status, 0);
  EXPECT_EQ(of_first.status, 0) << of_first.err;
  EXPECT_EQ(of_second.status, 0) << of_second.err;
  EXPECT_THAT(of_first.out, AllOf(HasSubstr("worker 0: counter"), Not(HasSubstr("is not written here"))));
  EXPECT_THAT(of_second.out,
              AllOf(HasSubstr("worker 1: --output " + output + " is not written here but by worker 0"),
                    HasSubstr("\nworker 1: counter, "), HasSubstr("\n  1       ")))
      << "the table must have this worker's number, too";
  EXPECT_THAT(of_second.err, HasSubstr("worker 1: counter "));
  EXPECT_TRUE(std::filesystem::exists(output));
}

TEST_F(PresentationTest, StandardOutputThatIsFullIsSaidByItsOwnError) {
  const std::string program = VERBENA_PROGRAM;
  for (const std::string arguments : {"--help", "help", "help run lda", "--version"}) {
    const Ended ended = run("/bin/sh", {"-c", program + " " + arguments + " > /dev/full"}, folder_.path());
    EXPECT_EQ(ended.status, 1) << arguments;
    EXPECT_THAT(ended.err, HasSubstr("standard output: No space left on device")) << arguments;
  }
  const Ended nobody = run("/bin/sh", {"-c", program + " --help | true"}, folder_.path());
  EXPECT_THAT(nobody.err, IsEmpty());
}

TEST_F(PresentationTest, DivergenceHasAStatusOfItsOwn) {
  std::string ratings;
  for (int user = 0; user < 20; ++user) {
    for (int item = 0; item < 5; ++item) {
      ratings +=
          std::to_string(user) + "\t" + std::to_string(item) + "\t" + std::to_string(user % 5 + 1) + "\n";
    }
  }
  verbena::testing::write_file(folder_.path("ratings.tsv"), ratings);
  for (const std::vector<std::string>& how : {std::vector<std::string>{"--baseline"}, {"--workers", "2"}}) {
    std::vector<std::string> arguments = {"run",
                                          "mf",
                                          "--data",
                                          folder_.path("ratings.tsv"),
                                          "--learning-rate",
                                          "20",
                                          "--decay",
                                          "1",
                                          "--regularization",
                                          "0",
                                          "--rank",
                                          "4",
                                          "--test-fraction",
                                          "0",
                                          "--output",
                                          folder_.path("model")};
    arguments.insert(arguments.end(), how.begin(), how.end());
    const Ended ended = verbena(arguments);
    EXPECT_EQ(ended.status, 3) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr("verbena: error: training has diverged in iteration "));
    EXPECT_FALSE(std::filesystem::exists(folder_.path("model.users.tsv")));
  }
}

}  // namespace
}  // namespace verbena::process_test
