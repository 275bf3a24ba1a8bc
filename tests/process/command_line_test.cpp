// What a user writes on the command line, and what a pipe, a disk or a limit does to a command. A command
// does what was asked, or fails with one line and an exit status.
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/process/program.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::process_test {
namespace {

using nlohmann::json;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class CommandLineTest : public ::testing::Test {
 protected:
  CommandLineTest() {
    std::string ratings;
    for (int user = 0; user < 12; ++user) {
      for (int item = 0; item < 5; ++item) {
        ratings += fmt::format("{}\t{}\t{}\t1\n", user, item, 1 + (user * 7 + item * 3) % 5);
      }
    }
    verbena::testing::write_file(data_, ratings);
    verbena::testing::write_file(text_,
                                 "sun and tea and sun\ntea and sun and tea\nand tea sun\nsun tea and\n");
    for (const char* const name : {"train.txt", "valid.txt", "test.txt"}) {
      verbena::testing::write_file(folder_.path(name), "a\tr\tb\nb\tr\ta\n");
    }
  }

  /// Names and contents of all files.
  [[nodiscard]] std::set<std::pair<std::string, std::string>> files() const {
    std::set<std::pair<std::string, std::string>> all;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path())) {
      const std::string path = entry.path().string();
      if (entry.path().filename().string().starts_with(".streams")) continue;
      if (path.find("/.streams") != std::string::npos) continue;
      all.emplace(path, entry.is_regular_file() ? verbena::testing::contents(path) : "");
    }
    return all;
  }
  [[nodiscard]] Ended verbena(
      const std::vector<std::string>& arguments, const std::function<void()>& prepare = [] {}) const {
    return run(VERBENA_PROGRAM, arguments, folder_.path(), prepare);
  }
  /// The command must fail with status 2 and one line that contains `error`, and must write nothing.
  void expect_refused(const std::vector<std::string>& arguments, const std::string& error) const {
    SCOPED_TRACE(fmt::format("{}", fmt::join(arguments, " ")));
    const auto before = files();
    const Ended ended = verbena(arguments);
    EXPECT_EQ(ended.status, 2) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr(error));
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
    EXPECT_EQ(files(), before);
  }
  [[nodiscard]] std::vector<std::string> mf(const std::vector<std::string>& more) const {
    std::vector<std::string> all = {"run", "mf", "--data", data_, "--iterations", "2", "--rank", "2"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  verbena::testing::TemporaryFolder folder_;
  const std::string data_ = folder_.path("u.data");
  const std::string text_ = folder_.path("text");
};

// --- values

TEST_F(CommandLineTest, AnOptionWithoutAValueIsRefused) {
  for (const std::string option :
       {"--output", "--report", "--metrics", "--consistency", "--network", "--seed"}) {
    expect_refused(mf({option, ""}), option);
    expect_refused(mf({option + "="}), option + "=: a value is expected");
    expect_refused(mf({option + "=", "--workers=1"}), option + "=: a value is expected");
    expect_refused(mf({option, "--workers=1"}), option);
  }
  const std::vector<std::string> word2vec = {"run", "word2vec", "--data", text_, "--iterations", "1"};
  for (const std::string option : {"--neighbours", "--load"}) {
    std::vector<std::string> arguments = word2vec;
    arguments.insert(arguments.end(), {option, ""});
    expect_refused(arguments, option + ": a value is expected");
  }
  expect_refused({"generate", "mf", "--output", ""}, "--output: a value is expected");
  expect_refused({"bench", "--json", ""}, "--json: a value is expected");
  expect_refused({"experiment", "staleness", "--output", ""}, "--output: a value is expected");
}

TEST_F(CommandLineTest, ChildrenAreGivenWhatTheUserHasWrittenAndNothingElse) {
  Program program(
      COUNTER_PROGRAM,
      {"run", "counter", "--workers=2", "--iterations=1000000", "--milliseconds=20", "--words=-1 =x"},
      folder_.path());
  ASSERT_TRUE(program.wait_for_children("worker", 2) && program.wait_for_children("server", 1));
  for (const char* const kind : {"worker", "server"}) {
    for (const pid_t pid : program.children(kind)) {
      std::ifstream file(fmt::format("/proc/{}/cmdline", pid));
      std::vector<std::string> words;
      for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
      ASSERT_GT(words.size(), 5U);
      for (std::size_t i = 2; i < words.size(); ++i) {
        if (words[i] == "counter") continue;
        EXPECT_THAT(words[i], ::testing::StartsWith("--"));  // each option is one word
        EXPECT_THAT(words[i], Not(HasSubstr("report")));
        EXPECT_THAT(words[i], Not(HasSubstr("rendezvous")));
      }
    }
  }
}

// --- numbers

TEST_F(CommandLineTest, NumbersAreDecimalAndRecordedAsUsed) {
  const auto model = [&](const std::string& seed) {
    const Ended ended = verbena(mf({"--seed", seed, "--workers", "01", "--output", folder_.path("model"),
                                    "--metrics", folder_.path("metrics.jsonl")}));
    EXPECT_EQ(ended.status, 0) << ended.err;
    std::istringstream lines(verbena::testing::contents(folder_.path("metrics.jsonl")));
    std::string first;
    std::getline(lines, first);
    const json start = json::parse(first);
    return std::pair(start.at("seed").get<std::uint64_t>(),
                     verbena::testing::contents(folder_.path("model.users.tsv")));
  };
  const auto ten = model("10");
  EXPECT_EQ(ten.first, 10U);
  EXPECT_EQ(model("010"), ten);
  const auto eight = model("08");
  EXPECT_EQ(eight.first, 8U);
  EXPECT_NE(eight.second, ten.second);
  const auto largest = model("18446744073709551615");
  EXPECT_EQ(largest.first, UINT64_MAX);
  EXPECT_NE(model("9223372036854775807").second, largest.second);  // the highest bit counts
  for (const char* const seed : {"-1", "0x10", "18446744073709551616", "+1", " 1", "1.5"}) {
    expect_refused(mf({"--seed", seed}),
                   "--seed: a whole number from 0 to 18446744073709551615 is expected, not");
  }
}

TEST_F(CommandLineTest, TenIsTenEverywhere) {
  const std::string made = folder_.path("made.tsv");
  ASSERT_EQ(verbena({"generate", "mf", "--ratings", "010", "--users", "5", "--items", "5", "--output", made})
                .status,
            0);
  const std::string ratings = verbena::testing::contents(made);
  EXPECT_EQ(std::count(ratings.begin(), ratings.end(), '\n'), 10);
  const Ended ended = verbena({"run", "mf", "--data", data_, "--rank", "2", "--iterations", "010",
                               "--metrics", folder_.path("metrics")});
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(verbena::testing::contents(folder_.path("metrics")), HasSubstr("\"iteration\":10"));
}

// --- files

TEST_F(CommandLineTest, AnOutputIsNeitherAnInputNorAnotherOutput) {
  expect_refused(mf({"--metrics", data_}), "--metrics: " + data_ + " would be written over " + data_);
  expect_refused(mf({"--report", data_}), "which --data reads");
  expect_refused(mf({"--report", folder_.path("x"), "--metrics", folder_.path("./x")}),
                 "is the same file as");
  expect_refused(mf({"--output", folder_.path("x"), "--metrics", folder_.path("x.items.tsv")}),
                 "which --output writes");
  for (const char* const input : {"--train-data", "--test-data"}) {
    const std::string same = std::string(input) == "--train-data" ? data_ : text_;
    expect_refused({"run", "mf", "--train-data", data_, "--test-data", text_, "--report", same},
                   std::string("which ") + input + " reads");
  }
  const std::string users = folder_.path("prefix.users.tsv");
  std::filesystem::copy(data_, users);
  expect_refused({"run", "mf", "--data", users, "--output", folder_.path("prefix")}, "--output: " + users);
  std::filesystem::create_hard_link(text_, folder_.path("hard"));
  std::filesystem::create_symlink(text_, folder_.path("soft"));
  for (const char* const application : {"lda", "word2vec"}) {
    for (const char* const name : {"text", "hard", "soft"}) {
      expect_refused({"run", application, "--data", text_, "--output", folder_.path(name)},
                     "which --data reads");
    }
  }
  expect_refused({"run", "lda", "--data", text_, "--stop-words", data_, "--output", data_},
                 "which --stop-words reads");
  expect_refused({"run", "word2vec", "--data", text_, "--load", data_, "--output", data_},
                 "which --load reads");
  const std::string graph = folder_.path().string();
  expect_refused({"run", "kge", "--data", graph, "--report", folder_.path("train.txt")},
                 "which --data reads");
  expect_refused({"run", "kge", "--data", graph, "--report", folder_.path("valid.tsv.gz")},
                 "which --data reads");
  expect_refused({"run", "kge", "--data", graph, "--load", folder_.path("e"), "--output", folder_.path("e")},
                 "which --load reads");
  expect_refused({"worker", "lda", "--job", "none", "--data", text_, "--output", text_},
                 "which --data reads");
  std::filesystem::create_directory(folder_.path("out"));
  verbena::testing::write_file(folder_.path("out/table.txt"), verbena::testing::contents(data_));
  expect_refused(
      {"experiment", "staleness", "--data", folder_.path("out/table.txt"), "--output", folder_.path("out")},
      "which --data reads");
  expect_refused({"bench", "--json", folder_.path("b"), "--report", folder_.path("b")},
                 "which --json writes");
  expect_refused({"bench", "--listen", "--secret-file", data_, "--json", data_}, "which --secret-file reads");
  expect_refused(
      {"worker", "lda", "--job", "none", "--data", text_, "--secret-file", data_, "--output", data_},
      "which --secret-file reads");
}

// --- processes that others have started together

TEST_F(CommandLineTest, ProcessesThatCannotFindEachOtherAreOneErrorEach) {
  const auto hydra = [] {
    ::setenv("PMI_RANK", "1", 1);
    ::setenv("PMI_SIZE", "2", 1);
    ::setenv("PMI_FD", "7", 1);
  };
  const auto flux = [] {
    ::setenv("FLUX_TASK_RANK", "0", 1);
    ::setenv("FLUX_JOB_SIZE", "4", 1);
  };
  const auto open_mpi = [] { ::setenv("OMPI_COMM_WORLD_SIZE", "2", 1); };
  const auto before = files();
  for (const auto& [variables, name] : std::initializer_list<std::pair<std::function<void()>, std::string>>{
           {hydra, "mpiexec (of MPICH, Intel MPI or alike) has started 2 processes"},
           {flux, "flux run has started 4 processes"},
           {open_mpi, "mpirun has started 2 processes"}}) {
    for (const std::vector<std::string>& command : {
             mf({"--output", folder_.path("model")}),
             {"generate", "mf", "--output", folder_.path("made")},
             {"experiment", "scale", "--output", folder_.path("out")},
             {"experiment", "staleness", "--output", folder_.path("out")},
             {"bench", "--json", folder_.path("json")},
         }) {
      const Ended ended = verbena(command, variables);
      EXPECT_EQ(ended.status, 2) << ended.err;
      EXPECT_THAT(ended.err, HasSubstr(name));
    }
  }
  EXPECT_EQ(files(), before);
}

// --- closed pipes, full disks, limits

/// Nobody reads the program's standard output.
void close_reader() {
  std::array<int, 2> ends = {};
  if (::pipe(ends.data()) != 0) ::_exit(99);
  ::close(ends[0]);
  ::dup2(ends[1], STDOUT_FILENO);
}
void fill_disk() {
  ::dup2(::open("/dev/full", O_WRONLY), STDOUT_FILENO);
}

const std::vector<std::vector<std::string>> kPrinting = {
    {"--help"},
    {"--version"},
    {"run", "lda", "--help"},
    {"bench", "--seconds", "0.01", "--operations", "read", "--sizes", "8"},
    {"bench", "--seconds", "0.01", "--operations", "read", "--sizes", "8", "--json", "-"},
};

TEST_F(CommandLineTest, AReaderThatGoesAwayIsNoFailure) {
  for (const std::vector<std::string>& arguments : kPrinting) {
    SCOPED_TRACE(arguments[0]);
    const Ended ended = verbena(arguments, close_reader);
    EXPECT_EQ(ended.status, 0);
    EXPECT_THAT(ended.err, Not(HasSubstr("error")));
  }
  EXPECT_LT(verbena({"doctor"}, close_reader).status, 2);
  const Ended trained = verbena(mf({"--output", folder_.path("model"), "--workers", "2"}), close_reader);
  EXPECT_EQ(trained.status, 0) << trained.err;
  EXPECT_TRUE(std::filesystem::exists(folder_.path("model.users.tsv")));  // the model is written all the same
}

TEST_F(CommandLineTest, NothingIsTakenForAStreamThatWasClosed) {
  for (const int stream : {STDIN_FILENO, STDERR_FILENO}) {
    const Ended trained = verbena(mf({"--workers", "2"}), [=] { ::close(stream); });
    EXPECT_EQ(trained.status, 0) << stream << trained.err;
  }
  const std::string model = folder_.path("model");
  const Ended silent = verbena(mf({"--workers", "2", "--output", model}), [] { ::close(STDOUT_FILENO); });
  EXPECT_EQ(silent.status, 1);
  EXPECT_THAT(silent.err, HasSubstr("standard output: Bad file descriptor (EBADF)"));
  EXPECT_THAT(verbena::testing::contents(model + ".users.tsv"), Not(HasSubstr("mf")));
}

TEST_F(CommandLineTest, AFullDiskHasItsName) {
  for (const std::vector<std::string>& arguments : kPrinting) {
    SCOPED_TRACE(arguments[0]);
    const Ended ended = verbena(arguments, fill_disk);
    EXPECT_EQ(ended.status, 1);
    EXPECT_THAT(ended.err, HasSubstr("verbena: error: standard output: No space left on device (ENOSPC)"));
  }
  EXPECT_EQ(verbena(mf({}), fill_disk).status, 1);
  const Ended doctor = verbena({"doctor"}, fill_disk);  // it fails, whatever it has found
  EXPECT_EQ(doctor.status, 1);
  EXPECT_THAT(doctor.err, HasSubstr("No space left on device (ENOSPC)"));
}

void expect_own_status(const Ended& ended) {
  EXPECT_LT(ended.status, 128) << ended.err;
  EXPECT_THAT(ended.err, Not(HasSubstr("terminate called")));
}
/// The program must end by itself, not by a signal, and must say why if the status is not 0.
void expect_no_crash(const Ended& ended) {
  expect_own_status(ended);
  EXPECT_TRUE(ended.status == 0 || !ended.err.empty());
}

/// For `prepare`: runs in the child, before it becomes the program.
void limit_address_space(std::uint64_t bytes) {
  const rlimit limit{bytes, bytes};
  ::setrlimit(RLIMIT_AS, &limit);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
}

TEST_F(CommandLineTest, GeneratedClicksHaveAKnownAnswer) {
  const std::string made = folder_.path("clicks");
  const Ended said = verbena({"generate", "ctr", "--examples", "200", "--output", made});
  EXPECT_EQ(said.status, 0) << said.err;
  EXPECT_THAT(said.out, HasSubstr("the best possible: AUC 0."));
  // Where the examples go to standard output, nothing else does.
  const Ended piped = verbena({"generate", "ctr", "--examples", "200", "--output", "/dev/stdout"});
  EXPECT_EQ(piped.out, verbena::testing::contents(made));
  EXPECT_THAT(piped.err, HasSubstr("the best possible: AUC 0."));
}

TEST_F(CommandLineTest, TheReportOfClicksHasCurvesAndCalibration) {
  const std::string made = folder_.path("clicks");
  ASSERT_EQ(verbena({"generate", "ctr", "--examples", "2000", "--output", made}).status, 0);
  const std::string page = folder_.path("page.html");
  const Ended ended = verbena(
      {"run", "ctr", "--data", made, "--batch", "100", "--passes", "2", "--workers", "2", "--report", page});
  ASSERT_EQ(ended.status, 0) << ended.err;
  const std::string report = verbena::testing::contents(page);
  for (const char* const title : {"progressive_log_loss per iteration", "test_log_loss per iteration",
                                  "test_auc per iteration", "Calibration"})
    EXPECT_THAT(report, HasSubstr(fmt::format("<h2>{}</h2>", title)));
  EXPECT_THAT(report, HasSubstr(">right predictions</text>"));
}

TEST_F(CommandLineTest, MemoryThatRunsOutIsAStatus) {
  bool was_refused = false;
  bool was_enough = false;
  for (std::uint64_t megabytes = 16; megabytes <= 4096; megabytes *= 2) {
    SCOPED_TRACE(megabytes);
    const auto limited = [&] { limit_address_space(megabytes << 20); };
    const Ended made = verbena({"generate", "lda", "--documents", "10", "--topics", "500",
                                "--words-per-topic", "1000000", "--output", folder_.path("made")},
                               limited);
    expect_no_crash(made);
    was_refused = was_refused || made.status == 1;
    was_enough = was_enough || made.status == 0;
    expect_no_crash(verbena(mf({"--workers", "2"}), limited));
    expect_no_crash(verbena({"--help"}, limited));
    const Ended doctor = verbena({"doctor"}, limited);
    expect_own_status(doctor);
    EXPECT_FALSE((doctor.out + doctor.err).empty());  // doctor reports what does not work in its findings
  }
  EXPECT_TRUE(was_refused);
  EXPECT_TRUE(was_enough);
}

// Some limits allow the libraries to be loaded, but not to be initialized. Then no code of the program has
// run that could catch an error.
TEST_F(CommandLineTest, MemoryThatRunsOutBeforeTheStartIsAStatus) {
  bool was_refused = false;
  int status = -1;
  for (std::uint64_t megabytes = 16; status != 0 && megabytes <= 1024; ++megabytes) {
    SCOPED_TRACE(megabytes);
    const auto started_with = [this](std::uint64_t bytes) {
      return verbena({"--version"}, [&] { limit_address_space(bytes); });
    };
    Ended ended = started_with(megabytes << 20);
    // glibc's loader itself crashes, in init_tls(), if the limit ends within some 40 KB behind the libraries.
    if (ended.status == 128 + SIGSEGV) ended = started_with((megabytes << 20) + (std::uint64_t{256} << 10));
    expect_no_crash(ended);
    was_refused = was_refused || ended.err.find("ulimit -v") != std::string::npos;
    status = ended.status;
  }
  EXPECT_TRUE(was_refused);
  EXPECT_EQ(status, 0);
}

TEST_F(CommandLineTest, ThreadsThatCannotBeMadeAreAStatus) {
  const auto limited = [] {
    // Each thread's stack is as large as all memory that the process may have.
    const rlimit stack{std::uint64_t{1} << 33, RLIM_INFINITY};
    ::setrlimit(RLIMIT_STACK, &stack);
    const rlimit memory{std::uint64_t{1} << 33, std::uint64_t{1} << 33};
    ::setrlimit(RLIMIT_AS, &memory);
  };
  const Ended ended = verbena(mf({"--workers", "2"}), limited);
  EXPECT_EQ(ended.status, 1) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("cannot start a thread"));
  const Ended bench =
      verbena({"bench", "--seconds", "0.01", "--operations", "read", "--sizes", "8"}, limited);
  expect_no_crash(bench);
  EXPECT_NE(bench.status, 0);
}

}  // namespace
}  // namespace verbena::process_test
