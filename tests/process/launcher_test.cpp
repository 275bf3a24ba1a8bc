// What the launcher promises, with real processes: what a user sees, and what is left after failures.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/file_descriptor.hpp"
#include "tests/free_port.hpp"
#include "tests/process/program.hpp"
#include "tests/process/small_training.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::process_test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

/// How long it may take to end all processes, with an allowance for a loaded machine.
constexpr double kEndSeconds = 3.0;

class LauncherTest : public ::testing::Test {
 protected:
  LauncherTest() { std::filesystem::create_directory(scratch_ / "outputs"); }

  [[nodiscard]] std::string path(const std::string& name) const {
    return (scratch_ / "outputs" / name).string();
  }
  [[nodiscard]] std::string contents(const std::string& name) const {
    return verbena::testing::contents(path(name));
  }
  [[nodiscard]] std::set<std::string> outputs() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(scratch_ / "outputs")) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }

  [[nodiscard]] static std::vector<std::string> counter(const std::vector<std::string>& more = {}) {
    std::vector<std::string> all = {"run", "counter", "--servers", "2", "--workers", "2"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  [[nodiscard]] Ended run_counter(const std::vector<std::string>& more = {}) const {
    return run(COUNTER_PROGRAM, counter(more), scratch_);
  }
  /// Arguments for a run that writes all outputs and does not end by itself.
  [[nodiscard]] std::vector<std::string> long_run() const {
    return counter({"--iterations", "1000000", "--milliseconds", "20", "--output", path("count.txt"),
                    "--metrics", path("metrics.jsonl"), "--report", path("report.html")});
  }
  static std::vector<pid_t> all_children(const Program& program) {
    std::vector<pid_t> all = program.children("server");
    for (const pid_t pid : program.children("worker")) all.push_back(pid);
    return all;
  }
  /// Starts a long run and waits until it trains.
  void start_long_run(std::unique_ptr<Program>& program) const {
    program = std::make_unique<Program>(COUNTER_PROGRAM, long_run(), scratch_);
    ASSERT_TRUE(program->wait_for_children("server", 2) && program->wait_for_children("worker", 2));
    ASSERT_TRUE(program->wait_for_output("  counted "));
  }
  /// The run must have ended with `status` and with exactly one error, on the last line.
  static void expect_one_error(const Ended& ended, int status, const std::string& text) {
    EXPECT_EQ(ended.status, status) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr(text));
    const std::size_t error = ended.err.find("verbena: error: ");
    ASSERT_NE(error, std::string::npos) << ended.err;
    EXPECT_EQ(ended.err.find('\n', error), ended.err.size() - 1) << ended.err;
    EXPECT_EQ(ended.err.find("verbena: error: ", error + 1), std::string::npos) << ended.err;
  }

  verbena::testing::TemporaryFolder folder_;
  const std::filesystem::path scratch_ = folder_.path();
};

// --- runs that succeed

TEST_F(LauncherTest, TrainsUnderEachModelAndReadPath) {
  for (const std::string model : {"bsp", "a-bsp", "ssp:1", "essp:2"}) {
    for (const std::string read_path : {"in-place", "cached"}) {
      const Ended ended =
          run_counter({"--consistency", model, "--read-path", read_path, "--output", path("count.txt")});
      ASSERT_EQ(ended.status, 0) << model << " " << ended.err;
      EXPECT_EQ(contents("count.txt"), "10\n") << model;  // 2 workers × 5 iterations
      EXPECT_THAT(ended.out, AllOf(HasSubstr("counter, " + model + ", 2 servers × 2 workers, shm"),
                                   HasSubstr("mean clock differential"), HasSubstr("share of time waited")));
    }
  }
}

TEST_F(LauncherTest, ABudgetReachesServersAndWorkers) {
  const Ended ended = run_counter({"--consistency", "essp:1", "--read-path", "cached", "--budget", "2.5",
                                   "--output", path("count.txt"), "--metrics", path("metrics.jsonl"), "-v"});
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(contents("count.txt"), "10\n");
  EXPECT_THAT(ended.out, HasSubstr("shm, budget: 2.5 MB/s"));
  EXPECT_THAT(contents("metrics.jsonl"),
              AllOf(HasSubstr("\"budget_mb_per_s\":2.5"), HasSubstr("\"rows_shipped_ahead\":")));
  EXPECT_THAT(ended.err + ended.out, HasSubstr("--budget=2.5"));
}

TEST_F(LauncherTest, ThreadsAreWorkersOfTheirOwn) {
  const Ended ended =
      run_counter({"--threads", "2", "--output", path("count.txt"), "--metrics", path("metrics.jsonl")});
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(contents("count.txt"), "20\n");
  EXPECT_THAT(contents("metrics.jsonl"), HasSubstr("\"workers_heard\":4.0"));
}

TEST_F(LauncherTest, MetricsEndWithTheSummaryAsPrinted) {
  const Ended ended = run_counter({"--metrics", path("metrics.jsonl"), "--seed", "7", "--words", "said"});
  ASSERT_EQ(ended.status, 0) << ended.err;
  std::vector<json> lines;
  std::istringstream text(contents("metrics.jsonl"));
  for (std::string line; std::getline(text, line);) lines.push_back(json::parse(line));
  std::vector<std::string> kinds;
  for (const json& line : lines) {
    EXPECT_EQ(line.at("schema"), 1);
    kinds.push_back(line.at("kind"));
  }
  EXPECT_EQ(kinds, (std::vector<std::string>{"start", "iteration", "iteration", "iteration", "iteration",
                                             "iteration", "worker", "worker", "summary"}));
  const json& summary = lines.back();
  EXPECT_EQ(summary.at("model"), "counter");
  EXPECT_EQ(summary.at("consistency"), "bsp");
  EXPECT_EQ(summary.at("servers"), 2);
  EXPECT_EQ(summary.at("workers"), 2);
  EXPECT_EQ(summary.at("threads"), 1);
  EXPECT_EQ(summary.at("seed"), 7);
  const json options = {{"iterations", "5"}, {"seed", "7"}, {"words", "said"}};
  EXPECT_EQ(summary.at("options"), options);
  EXPECT_EQ(summary.at("throughput_unit"), "rows");
  EXPECT_EQ(summary.at("objectives").at("workers_heard"), 2);
  EXPECT_EQ(summary.at("mean_clock_differential"), -1);
  EXPECT_EQ(summary.at("model_summary").at("final_count"), 10);
  EXPECT_NEAR(summary.at("seconds"), 0.005, 1e-9);
  EXPECT_NEAR(summary.at("throughput"), 20'000, 1e-3);
  EXPECT_EQ(summary.at("share_waited_by_worker").size(), 2U);
  ASSERT_FALSE(summary.at("printed").empty());
  for (const auto& [label, value] : summary.at("printed").items()) {
    EXPECT_THAT(ended.out, ::testing::ContainsRegex(label + " +" + "[^\n]")) << label;
    EXPECT_THAT(ended.out, HasSubstr("  " + value.get<std::string>() + "\n")) << label;
  }
}

TEST_F(LauncherTest, SaysHowRowsMoved) {
  std::string ratings;
  for (int user = 0; user < 40; ++user) ratings += fmt::format("{}\t{}\t{}\n", user, user % 10, user % 5);
  verbena::testing::write_file(path("ratings"), ratings);
  const auto printed = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {
        "run", "mf",           "--data", path("ratings"),   "--rank", "4", "--servers", "2", "--workers",
        "2",   "--iterations", "3",      "--test-fraction", "0"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Ended ended = run(VERBENA_PROGRAM, arguments, scratch_);
    EXPECT_EQ(ended.status, 0) << ended.err;
    return ended.out;
  };
  EXPECT_THAT(printed({"--allocation", "localize"}),
              AllOf(::testing::ContainsRegex("rows moved +[^0 ].* rows/s\n"),
                    ::testing::ContainsRegex("time of a move +[0-9].*s \\(99th percentile [0-9].*s\\)\n")));
  EXPECT_THAT(printed({}), ::testing::Not(HasSubstr("move")));
}

TEST_F(LauncherTest, ARunCanBeRepeatedFromItsMetrics) {
  std::string ratings;
  for (int user = 0; user < 20; ++user) {
    for (int item = 0; item < 10; ++item)
      ratings += std::to_string(user) + '\t' + std::to_string(item) + '\t' +
                 std::to_string((user * item) % 5) + '\n';
  }
  verbena::testing::write_file(path("ratings"), ratings);
  const auto train = [&](const std::vector<std::string>& run_words, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = run_words;
    arguments.insert(arguments.end(), {"--metrics", path("metrics")});
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Ended ended = run(VERBENA_PROGRAM, arguments, scratch_);
    EXPECT_EQ(ended.status, 0) << ended.err;
    const std::string metrics = contents("metrics");
    const std::size_t last = metrics.rfind('\n', metrics.size() - 2) + 1;
    EXPECT_EQ(json::parse(metrics.substr(0, metrics.find('\n'))).at("options"),
              json::parse(metrics.substr(last)).at("options"));
    return json::parse(metrics.substr(last));
  };
  /// The options of both runs.
  const auto train_twice = [&](const std::vector<std::string>& run_words,
                               const std::vector<std::string>& more) {
    const json once = train(run_words, more);
    json options = once.at("options");
    std::vector<std::string> again;
    for (const auto& [name, value] : options.items())
      again.push_back("--" + name + "=" + value.get<std::string>());
    const json repeated = train(run_words, again);
    EXPECT_EQ(repeated.at("options"), options);
    EXPECT_EQ(repeated.at("objectives"), once.at("objectives"));
    return options;
  };
  const json options = train_twice({"run", "mf"}, {"--data", path("ratings"), "--rank", "4", "--iterations",
                                                   "3", "--no-biases", "--decay=0.5"});
  EXPECT_EQ(options.at("data"), path("ratings"));
  EXPECT_EQ(options.at("rank"), "4");
  EXPECT_EQ(options.at("no-biases"), "true");
  EXPECT_EQ(options.at("learning-rate"), "0.04");  // the default
  EXPECT_FALSE(options.contains("output"));
  // Options that would do nothing are refused, and so are not recorded.
  const json of_ftrl =
      train_twice({"run", "ctr", "--baseline"}, {"--data", path("ratings"), "--test-fraction", "0.2"});
  EXPECT_TRUE(of_ftrl.contains("alpha"));
  EXPECT_FALSE(of_ftrl.contains("kkt"));
}

TEST_F(LauncherTest, BaselineRunsWithoutServers) {
  const Ended ended = run_counter({"--baseline", "--metrics", path("metrics.jsonl"), "--output",
                                   path("count.txt"), "--report", path("report.html")});
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(contents("count.txt"), "5\n");
  EXPECT_THAT(ended.out, AllOf(HasSubstr("counter, plain loop in one process"), Not(HasSubstr("waited"))));
  EXPECT_THAT(contents("metrics.jsonl"), HasSubstr("\"baseline\":true"));
}

TEST_F(LauncherTest, ReportStandsAlone) {
  const Ended ended = run_counter({"--report", path("report.html"), "--words", "<b>words & \"more\"</b>"});
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("<b>words & \"more\"</b>"));
  std::string page = contents("report.html");
  EXPECT_THAT(page,
              AllOf(StartsWith("<!DOCTYPE html>"), HasSubstr("counted per iteration"),
                    HasSubstr("counted per second"), HasSubstr("Staleness of reads"),
                    HasSubstr("&lt;b&gt;words &amp; &quot;more&quot;&lt;/b&gt;"), Not(HasSubstr("<script"))));
  const std::string name_space = "http://www.w3.org/2000/svg";
  for (std::size_t at = page.find(name_space); at != std::string::npos; at = page.find(name_space)) {
    page.erase(at, name_space.size());
  }
  EXPECT_THAT(page, AllOf(Not(HasSubstr("http")), Not(HasSubstr("src=")), Not(HasSubstr("url("))));
  // Each element that is not empty has as many end tags as start tags.
  for (const std::string element :
       {"svg", "section", "table", "tr", "g", "text", "title", "main", "div", "h2"}) {
    const auto count = [&](const std::string& text) {
      std::size_t found = 0;
      for (std::size_t at = page.find(text); at != std::string::npos; at = page.find(text, at + 1)) ++found;
      return found;
    };
    EXPECT_EQ(count("<" + element + ">") + count("<" + element + " "), count("</" + element + ">"))
        << element;
  }
}

TEST_F(LauncherTest, TwoRunsDoNotMeet) {
  Program one(COUNTER_PROGRAM, counter({"--output", path("one"), "--milliseconds", "50"}), scratch_);
  Program two(COUNTER_PROGRAM, counter({"--output", path("two"), "--milliseconds", "50"}), scratch_);
  EXPECT_EQ(one.wait().status, 0);
  EXPECT_EQ(two.wait().status, 0);
  EXPECT_EQ(contents("one"), "10\n");
  EXPECT_EQ(contents("two"), "10\n");
}

TEST_F(LauncherTest, ProcessesStartedByHandFindEachOther) {
  const std::vector<std::string> job = {"--job", scratch_.filename().string(), "--servers", "1", "--workers",
                                        "2"};
  const auto with = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), job.begin(), job.end());
    return arguments;
  };
  Program worker0(COUNTER_PROGRAM, with({"worker", "counter", "--output", path("count")}), scratch_);
  Program worker1(COUNTER_PROGRAM, with({"worker", "counter", "--worker-rank", "1"}), scratch_);
  Program server(COUNTER_PROGRAM, with({"server"}), scratch_);
  const Ended first = worker0.wait();
  EXPECT_EQ(first.status, 0) << first.err;
  EXPECT_THAT(first.out,
              AllOf(HasSubstr("throughput"), HasSubstr("worker 0 of 2 processes alone: the objectives are")));
  EXPECT_EQ(worker1.wait().status, 0);
  EXPECT_EQ(server.wait().status, 0);
  EXPECT_EQ(contents("count"), "10\n");
}

TEST_F(LauncherTest, AWorkerThatWaitsForAServerSaysSoSoon) {
  const std::string place = "127.0.0.1:" + std::to_string(verbena::testing::free_port());
  const Program worker(COUNTER_PROGRAM,
                       {"worker", "counter", "--transport", "tcp", "--addresses", place, "--no-secret"},
                       scratch_);
  ASSERT_TRUE(worker.wait_for_output("worker 0 waits for server 0: tcp:" + place));
  EXPECT_FALSE(worker.has_said("error")) << "it has not given up";
}

TEST_F(LauncherTest, AServersPlaceThatAnotherHasIsTheUsersMistake) {
  const base::FileDescriptor other(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const std::uint16_t port = verbena::testing::free_port();
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_port = ::htons(port);
  place.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(other.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place), 0);
  ASSERT_EQ(::listen(other.get(), 1), 0);
  expect_one_error(
      run(COUNTER_PROGRAM,
          {"server", "--transport", "tcp", "--addresses", fmt::format("127.0.0.1:{}", port), "--no-secret"},
          scratch_),
      2, "someone else listens there; expected a port that nobody listens at");
}

TEST_F(LauncherTest, VerboseShowsEffectiveOptionsAndQuietNothing) {
  const Ended verbose = run_counter({"-v", "--consistency", "ssp:3"});
  EXPECT_THAT(verbose.err,
              AllOf(HasSubstr("--consistency=ssp:3"), HasSubstr("--seed=1"), HasSubstr("--transport=shm")));
  const Ended quiet = run_counter({"--quiet"});
  EXPECT_THAT(quiet.err, IsEmpty());
}

TEST_F(LauncherTest, EveryApplicationSaysItsChoices) {
  const std::vector<SmallTraining> trainings = trainings_of_all_applications();
  const std::map<std::string, std::vector<std::string>> of_application = {
      {"lda", {"allocation", "lookahead", "clocks-per-iteration", "batch"}},
      {"mf", {"allocation", "lookahead", "clocks-per-iteration", "batch"}},
      {"kge", {"allocation", "lookahead", "clocks-per-iteration", "batch", "share-out"}},
      {"ctr", {"batch"}},
      {"word2vec", {"allocation", "lookahead", "clocks-per-iteration", "batch"}},
      {"sketch", {"batch"}}};
  ASSERT_EQ(trainings.size(), of_application.size());
  for (const SmallTraining& training : trainings) {
    const std::string& name = training.application;
    SCOPED_TRACE(name);
    const std::string data = path("data of " + name);
    write_data(training, data);
    std::vector<std::string> arguments = {
        "run",           name,       "--data",           data, "-v", "--lanes", "2", "--metrics",
        path("metrics"), "--report", path("report.html")};
    arguments.insert(arguments.end(), training.options.begin(), training.options.end());
    const Ended ended = run(VERBENA_PROGRAM, arguments, scratch_);
    ASSERT_EQ(ended.status, 0) << ended.err;
    EXPECT_THAT(ended.err, AllOf(HasSubstr("choices: transport shm (chosen), consistency "),
                                 HasSubstr("lanes 2 (by hand)"), HasSubstr("batch ")));
    const std::string metrics = contents("metrics");
    const json start = json::parse(metrics.substr(0, metrics.find('\n')));
    std::vector<std::string> names;
    for (const json& choice : start.at("choices")) {
      names.push_back(choice.at("name"));
      EXPECT_FALSE(choice.at("value").get<std::string>().empty()) << choice;
      EXPECT_EQ(choice.at("by_hand"), choice.at("name") == "lanes") << choice;
      EXPECT_THAT(contents("report.html"), HasSubstr("<tr><th>" + names.back() + "</th><td>"));
    }
    std::vector<std::string> expected = {"transport", "consistency",    "read-path", "servers", "workers",
                                         "threads",   "server-threads", "lanes",     "spin"};
    expected.insert(expected.end(), of_application.at(name).begin(), of_application.at(name).end());
    EXPECT_EQ(names, expected);
    const std::size_t last = metrics.rfind('\n', metrics.size() - 2) + 1;
    EXPECT_EQ(json::parse(metrics.substr(last)).at("choices").size(), names.size());
    EXPECT_THAT(json::parse(metrics.substr(last)).at("choices").dump(), Not(HasSubstr("by the data")));
  }
}

TEST_F(LauncherTest, WhatIsSaidByHandIsDone) {
  const std::vector<std::string> by_hand = {"--spin", "never", "--lanes", "3", "--server-threads", "2"};
  std::vector<std::string> arguments = by_hand;
  arguments.insert(arguments.end(), {"-v", "--metrics", path("metrics"), "--output", path("count.txt")});
  const Ended ended = run_counter(arguments);
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(contents("count.txt"), "10\n");
  EXPECT_THAT(ended.err, AllOf(HasSubstr("spin never (by hand)"),
                               ::testing::ContainsRegex("server 1: [^\n]*--spin=never"),
                               ::testing::ContainsRegex("worker 1: [^\n]*--spin=never")));
  expect_one_error(run_counter({"--spin", "often"}), 2, "--spin: one of auto, briefly, never is expected");
  expect_one_error(run_counter({"--gather", "some"}), 2, "--gather: one of auto, always, never is expected");
  expect_one_error(run_counter({"--gather", "always"}), 2,
                   "--gather always: counter has no sparse tables, whose rows are gathered; expected auto");
}

TEST_F(LauncherTest, RowsAreGatheredAsSaid) {
  const std::string data = path("examples");
  write_data({.application = "ctr"}, data);
  const auto train = [&](const char* transport, const char* gather) {
    return run(VERBENA_PROGRAM,
               {"run", "ctr", "--data", data, "--passes", "2", "--transport", transport, "--gather", gather,
                "--metrics", path("metrics")},
               scratch_);
  };
  const auto share_gathered = [&](const char* gather) {
    const Ended ended = train("tcp", gather);
    EXPECT_EQ(ended.status, 0) << ended.err;
    double pulled = 0;
    double gathered = 0;
    std::istringstream lines(contents("metrics"));
    for (std::string line; std::getline(lines, line);) {
      const json object = json::parse(line);
      if (object.at("kind") == "worker") {
        pulled += object.at("rows_pulled").get<double>();
        gathered += object.at("rows_gathered").get<double>();
      }
      if (object.at("kind") != "summary") continue;
      EXPECT_NE(object.at("choices").dump().find(fmt::format(R"("name":"gather","value":"{}")", gather)),
                std::string::npos)
          << object.at("choices");
    }
    EXPECT_GT(pulled, 0);
    return gathered / pulled;
  };
  EXPECT_GT(share_gathered("always"), 0.1);
  EXPECT_EQ(share_gathered("never"), 0);
  expect_one_error(train("shm", "always"), 2, "--gather always: over shm rows are read in place");
  expect_one_error(run(VERBENA_PROGRAM,
                       {"worker", "ctr", "--job", "none", "--data", data, "--gather", "always"}, scratch_),
                   2, "--gather always: over shm rows are read in place");
}

/// What is shown and noted is what was saved: so a third run can go on from the second, with the option and
/// without.
TEST_F(LauncherTest, AResumedRunSaysTheClocksThatItTakes) {
  const std::string data = path("documents");
  write_data({.application = "lda"}, data);
  const auto train = [&](const std::string& iterations, std::vector<std::string> more) {
    more.insert(more.begin(),
                {"run",           "lda", "--data",       data,          "--topics",           "3",
                 "--top-words",   "0",   "--iterations", iterations,    "--workers",          "2",
                 "--consistency", "bsp", "--checkpoint", path("saved"), "--checkpoint-every", "1",
                 "--resume",      "-v"});
    return run(VERBENA_PROGRAM, more, scratch_);
  };
  const Ended first = train("2", {"--clocks-per-iteration", "7"});
  EXPECT_THAT(first.err, HasSubstr("clocks-per-iteration 7 (by hand)"));
  EXPECT_EQ(first.status, 0) << first.err;
  const Ended second = train("4", {});
  EXPECT_EQ(second.status, 0) << second.err;
  EXPECT_THAT(second.err, AllOf(HasSubstr("clocks-per-iteration 7 (chosen)"),
                                ::testing::ContainsRegex("worker 1: [^\n]*--clocks-per-iteration=7")));
  const Ended third = train("6", {"--clocks-per-iteration", "7"});
  EXPECT_EQ(third.status, 0) << third.err;
  const Ended fourth = train("8", {"--servers", "2"});
  EXPECT_EQ(fourth.status, 0) << fourth.err;
  EXPECT_THAT(fourth.err, HasSubstr("clocks-per-iteration 7 (chosen)"));
  const Ended other = train("9", {"--clocks-per-iteration", "5"});
  EXPECT_EQ(other.status, 2) << other.err;
  EXPECT_THAT(other.err, HasSubstr("--clocks-per-iteration was 7 when "));
}

TEST_F(LauncherTest, MetricsOnAPipeCanBeWatched) {
  const std::string fifo = path("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  // Opened for reading and writing, so that no end waits for the other.
  const int reader = ::open(fifo.c_str(), O_RDWR);
  const auto read_all = [&] {
    std::string text(1 << 16, '\0');
    text.resize(static_cast<std::size_t>(::read(reader, text.data(), text.size())));
    return text;
  };
  std::vector<std::string> arguments = long_run();
  std::replace(arguments.begin(), arguments.end(), path("metrics.jsonl"), fifo);
  {
    const Program program(COUNTER_PROGRAM, arguments, scratch_);
    std::string seen;
    while (seen.find("\"kind\":\"iteration\"") == std::string::npos) seen += read_all();
    EXPECT_THAT(seen, HasSubstr("\"kind\":\"start\""));
  }
  ::close(reader);
}

// --- bad input

struct BadOptions {
  std::vector<std::string> arguments;
  std::string error;
};

TEST_F(LauncherTest, ImpossibleOptionsAreOneClearLineEach) {
  const std::vector<BadOptions> all = {
      {{"run", "counter", "--workers", "0"},
       "--workers: a whole number from 1 to 4096 is expected, not \"0\""},
      {{"run", "counter", "--workers", "-1"},
       "--workers: a whole number from 1 to 4096 is expected, not \"-1\""},
      {{"run", "counter", "--workers", "two"},
       "--workers: a whole number from 1 to 4096 is expected, not \"two\""},
      {{"run", "counter", "--servers", "0"}, "--servers: a whole number"},
      {{"run", "counter", "--threads", "0"}, "--threads: a whole number"},
      {{"run", "counter", "--workers", "4096", "--threads", "4096"},
       "are 16777216 workers in all; at most 4096 can be"},
      {{"run", "counter", "--workers", "4096", "--servers", "4096"},
       "for the buffers between them; this host has"},
      {{"run", "counter", "--consistency", "ssp:-1"},
       "unknown consistency \"ssp:-1\": expected bsp, ssp:S, essp:S"},
      {{"run", "counter", "--consistency", "eventual"}, "unknown consistency \"eventual\": expected bsp"},
      {{"run", "counter", "--transport", "pigeon"},
       "--transport: one of auto, shm, verbs, tcp is expected, not \"pigeon\""},
      {{"run", "counter", "--read-path", "far"}, "--read-path: one of auto, in-place, cached is expected"},
      {{"run", "counter", "--budget", "0"}, "--budget: a number above 0 is expected, not \"0\""},
      {{"server", "--budget", "much"}, "--budget: a number is expected, not \"much\""},
      {{"run", "counter", "--lanes", "0"}, "--lanes: a whole number"},
      {{"run", "counter", "--server-threads", "0"}, "--server-threads: a whole number"},
      {{"run", "counter", "--no-such-option"}, "--no-such-option (see verbena run counter --help)"},
      {{"run", "counter", "--metrics", "/proc/no/metrics"}, "/proc/no/metrics: cannot create: No such file"},
      {{"run", "counter", "--report", "/"}, "/: cannot open for writing: Is a directory"},
      {{"run", "counter", "--bad-check", "data.txt:3: no number"}, "verbena: error: data.txt:3: no number"},
      {{"run"}, "(see verbena run --help)"},
      {{"run", "nonesuch"}, "nonesuch; expected counter (see verbena run --help)"},
      {{"server", "--job", "x", "--server-rank", "1"}, "--server-rank counts from 0"},
      {{"server"},
       "--job NAME is required on one host, --transport verbs|tcp --addresses HOST:PORT,… between"},
      {{"worker", "counter"}, "--job NAME is required"},
      {{"server", "--transport", "verbs"}, "needs --addresses HOST:PORT,… with one address for each server"},
      {{"worker", "counter", "--transport", "verbs"}, "needs --addresses HOST:PORT,…"},
      {{"server", "--transport", "verbs", "--addresses", "a:1,b:2"},
       "--addresses names 2 servers, --servers says 1"},
      {{"worker", "counter", "--servers", "2", "--addresses", "a:1,a:1"}, "two servers cannot share a:1"},
      {{"server", "--addresses", "a"}, "--addresses: HOST:PORT is expected, not \"a\""},
      {{"server", "--addresses", ":7001"}, "--addresses: HOST:PORT is expected, not \":7001\""},
      {{"server", "--addresses", "a:0"}, "--addresses: HOST:PORT is expected, not \"a:0\""},
      {{"server", "--transport", "shm", "--addresses", "a:1"}, "--addresses is for --transport verbs"},
      {{"server", "--job", "x", "--addresses", "a:1"}, "--job is for --transport shm"},
      {{"server", "--addresses", "a:1"}, "over verbs a job needs a secret"},
      {{"worker", "counter", "--addresses", "a:1"}, "over verbs a job needs a secret"},
      {{"server", "--job", "x", "--secret-file", "no_such_file"},
       "--secret-file no_such_file: there is no such secret"},
      {{"server", "--job", "x", "--secret-file", ""}, "--secret-file: a value is expected"},
      {{"server", "--job", "x", "--secret-file", "/dev/null"},
       "/dev/null: a secret is read from a regular file"},
      {{"server", "--addresses", "a:1", "--secret-file", "x", "--no-secret"}, "exclude each other"},
      {{"server", "--job", "x", "--device", "mlx5_0"}, "--device is for --transport verbs"},
      {{"server", "--job", "x", "--device-port", "1"}, "--device-port is for --transport verbs"},
      {{"server", "--addresses", "a:1", "--device-port", "256"},
       "--device-port: a whole number from 1 to 255"},
      {{"worker", "counter", "--addresses", "a:1", "--read-path", "in-place"},
       "--read-path in-place needs --transport shm"},
      {{"worker", "counter", "--job", "x", "--worker-rank", "1"}, "--worker-rank counts from 0"},
      {{}, "(see verbena --help)"},
  };
  for (const BadOptions& bad : all) {
    SCOPED_TRACE(::testing::PrintToString(bad.arguments));
    expect_one_error(run(COUNTER_PROGRAM, bad.arguments, scratch_), 2, bad.error);
  }
}

TEST_F(LauncherTest, DeviceThatIsNotThereIsAnErrorThatSaysWhatToDo) {
  for (std::vector<std::string> arguments : {std::vector<std::string>{"server"}, {"worker", "counter"}}) {
    arguments.insert(arguments.end(),
                     {"--addresses", "127.0.0.1:7001", "--no-secret", "--device", "no_such_device"});
    const Ended ended = run(COUNTER_PROGRAM, arguments, scratch_);
    expect_one_error(ended, 1, "`verbena doctor` says what is missing");
    EXPECT_THAT(ended.err, HasSubstr("--transport tcp needs no device"));
  }
}

TEST_F(LauncherTest, SynopsisShowsWhatIsRequired) {
  const auto synopsis = [&](const std::vector<std::string>& command) {
    std::vector<std::string> arguments = command;
    arguments.emplace_back("--help");
    const std::string help = run(VERBENA_PROGRAM, arguments, scratch_).out;
    const std::size_t begin = help.find("SYNOPSIS\n");
    std::istringstream text(help.substr(begin, help.find("\n\n", begin) - begin));
    std::string all;
    for (std::string word; text >> word;) all += word + " ";
    return all;
  };
  EXPECT_EQ(synopsis({"server"}),
            "SYNOPSIS verbena server (--job NAME | --addresses HOST:PORT,…) [OPTION]… ");
  EXPECT_EQ(synopsis({"worker", "lda"}),
            "SYNOPSIS verbena worker lda --data FILE (--job NAME | --addresses HOST:PORT,…) [OPTION]… ");
  EXPECT_EQ(synopsis({"run", "lda"}), "SYNOPSIS verbena run lda --data FILE [OPTION]… ");
  EXPECT_EQ(synopsis({"table", "stats"}), "SYNOPSIS verbena table stats [TABLE…] [OPTION]… ");
  EXPECT_EQ(synopsis({"table", "get"}), "SYNOPSIS verbena table get TABLE KEY… [OPTION]… ");
  EXPECT_EQ(synopsis({"table", "export"}), "SYNOPSIS verbena table export TABLE --output FILE [OPTION]… ");
  EXPECT_EQ(synopsis({"completion"}), "SYNOPSIS verbena completion SHELL [OPTION]… ");
}

TEST_F(LauncherTest, RealProgramHasHelpAndVersion) {
  const Ended version = run(VERBENA_PROGRAM, {"--version"}, scratch_);
  EXPECT_EQ(version.status, 0);
  EXPECT_THAT(version.out, MatchesRegex("verbena [0-9]+\\.[0-9]+\\.[0-9]+\n"));
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--help"}, {"run", "--help"}, {"server", "--help"}, {"worker", "--help"}}) {
    const Ended help = run(VERBENA_PROGRAM, arguments, scratch_);
    EXPECT_EQ(help.status, 0);
    EXPECT_THAT(help.err, IsEmpty());
    EXPECT_THAT(help.out, AllOf(StartsWith("NAME\n"), HasSubstr("\nSYNOPSIS\n"), HasSubstr("\nDESCRIPTION\n"),
                                HasSubstr("\nEXIT STATUS\n")));
  }
}

// --- processes that fail or are stopped

TEST_F(LauncherTest, KilledWorkerIsNamedAndAllEnds) {
  std::unique_ptr<Program> program;
  ASSERT_NO_FATAL_FAILURE(start_long_run(program));
  const std::vector<pid_t> all = all_children(*program);
  const pid_t victim = program->children("worker")[1];
  const auto start = std::chrono::steady_clock::now();
  ::kill(victim, SIGKILL);
  const Ended ended = program->wait();
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), kEndSeconds);
  expect_one_error(ended, 1, "worker 1 (pid " + std::to_string(victim) + ") was killed by SIGKILL");
  EXPECT_THAT(ended.err, HasSubstr("for want of memory"))
      << "lack of memory must be named as a possible cause, or ruled out";
  EXPECT_TRUE(gone(all, 0));
  EXPECT_THAT(outputs(), IsEmpty());
}

TEST_F(LauncherTest, KilledServerIsNamedAndAllEnds) {
  std::unique_ptr<Program> program;
  ASSERT_NO_FATAL_FAILURE(start_long_run(program));
  const std::vector<pid_t> all = all_children(*program);
  const pid_t victim = program->children("server")[0];
  const auto start = std::chrono::steady_clock::now();
  ::kill(victim, SIGKILL);
  const Ended ended = program->wait();
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), kEndSeconds);
  expect_one_error(ended, 1, "server 0 (pid " + std::to_string(victim) + ") was killed by SIGKILL");
  EXPECT_TRUE(gone(all, 0));
  EXPECT_THAT(outputs(), IsEmpty());
}

TEST_F(LauncherTest, KilledLauncherLeavesNothing) {
  std::unique_ptr<Program> program;
  ASSERT_NO_FATAL_FAILURE(start_long_run(program));
  const std::vector<pid_t> all = all_children(*program);
  ASSERT_EQ(all.size(), 4U);
  program->signal(SIGKILL);
  EXPECT_EQ(program->wait().status, 128 + SIGKILL);
  EXPECT_TRUE(gone(all, kEndSeconds));
  EXPECT_THAT(outputs(), IsEmpty());
}

TEST_F(LauncherTest, CtrlCEndsPolitely) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    std::unique_ptr<Program> program;
    ASSERT_NO_FATAL_FAILURE(start_long_run(program));
    const std::vector<pid_t> all = all_children(*program);
    const auto start = std::chrono::steady_clock::now();
    ::kill(-program->pid(), signal);  // to the whole group, as a terminal does
    const Ended ended = program->wait();
    EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), kEndSeconds);
    EXPECT_EQ(ended.status, 128 + signal) << ended.err;
    EXPECT_THAT(ended.err, AllOf(HasSubstr("verbena: stopped by SIG"), Not(HasSubstr("error"))));
    // Each worker ends by itself, as it has been asked to.
    EXPECT_THAT(ended.err, AllOf(HasSubstr("counter 0 ends\n"), HasSubstr("counter 1 ends\n")));
    EXPECT_TRUE(gone(all, 0));
    EXPECT_THAT(outputs(), IsEmpty());
  }
}

TEST_F(LauncherTest, WorkerThatDoesNotListenIsKilled) {
  Program program(COUNTER_PROGRAM, counter({"--fail", "hang", "--iterations", "1000000"}), scratch_);
  ASSERT_TRUE(program.wait_for_output("hanging"));
  const std::vector<pid_t> all = all_children(program);
  const auto start = std::chrono::steady_clock::now();
  program.signal(SIGINT);
  EXPECT_EQ(program.wait().status, 130);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), kEndSeconds);
  EXPECT_TRUE(gone(all, 0));
}

TEST_F(LauncherTest, StoppedProcessIsKilledToo) {
  std::unique_ptr<Program> program;
  ASSERT_NO_FATAL_FAILURE(start_long_run(program));
  const std::vector<pid_t> all = all_children(*program);
  ::kill(program->children("server")[1], SIGSTOP);
  const auto start = std::chrono::steady_clock::now();
  program->signal(SIGINT);
  EXPECT_EQ(program->wait().status, 130);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), kEndSeconds);
  EXPECT_TRUE(gone(all, 0));
}

TEST_F(LauncherTest, FailuresOfAWorkerAreToldOnce) {
  struct Case {
    std::string fail;
    int status;
    std::string error;
  };
  const std::vector<Case> cases = {
      {"error", 1, "): failed on purpose"},
      {"throw", 1, "): unexpected exception: thrown on purpose"},
      {"abort", 1, ") was killed by SIGABRT"},
      {"exit", 1, ") ended with status 3"},
      {"input", 2, "verbena: error: data.txt:17: a number was expected, not \"x\""}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.fail);
    const Ended ended = run_counter({"--fail", one.fail, "--iterations", "1000", "--output", path("count"),
                                     "--metrics", path("metrics"), "--report", path("report")});
    expect_one_error(ended, one.status, one.error);
    if (one.status == 1) {
      EXPECT_THAT(ended.err, HasSubstr("worker 0 (pid "));
    }
    EXPECT_THAT(outputs(), IsEmpty());
    expect_one_error(run_counter({"--baseline", "--fail", one.fail}), one.status, one.error);
  }
}

TEST_F(LauncherTest, FullDiskIsAnErrorAndLeavesNothing) {
  // A limit on the size of files stands for a full disk: the write fails in the middle. Shared memory is a
  // file, too, so the test uses the plain loop.
  const auto no_growth = [] {
    const rlimit limit = {1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  };
  const Ended ended = run(COUNTER_PROGRAM,
                          counter({"--baseline", "--quiet", "--iterations", "100", "--metrics",
                                   path("metrics"), "--output", path("count")}),
                          scratch_, no_growth);
  expect_one_error(ended, 1, path("metrics") + ": cannot write: File too large");
  EXPECT_EQ(outputs(), std::set<std::string>{"count"});  // the model was saved before the failure, completely
}

TEST_F(LauncherTest, FullFileSystemIsKnownBeforeTheTraining) {
  const std::string disk = path("disk");
  std::filesystem::create_directory(disk);
  if (::mount("verbena-test", disk.c_str(), "tmpfs", 0, "size=16k") != 0) {
    GTEST_SKIP() << "mounting a small file system needs root; RLIMIT_FSIZE is tested instead";
  }
  std::ofstream(disk + "/filler") << std::string(16'384, 'x');
  const Ended ended = run_counter({"--metrics", disk + "/metrics"});
  ::umount(disk.c_str());
  expect_one_error(ended, 2, disk + "/metrics: ");
  EXPECT_THAT(ended.err, AllOf(HasSubstr("o space"), Not(HasSubstr("counter 1/"))));
}

TEST_F(LauncherTest, FullStandardOutputIsAnError) {
  const Ended ended =
      run("/bin/sh", {"-c", std::string(COUNTER_PROGRAM) + " run counter --quiet > /dev/full"}, scratch_);
  expect_one_error(ended, 1, "standard output: No space left on device");
}

TEST_F(LauncherTest, LeavesNoSharedMemory) {
  const auto objects = [] {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
      names.insert(entry.path().string());
    return names;
  };
  const std::set<std::string> before = objects();
  ASSERT_EQ(run_counter().status, 0);
  std::unique_ptr<Program> program;
  ASSERT_NO_FATAL_FAILURE(start_long_run(program));
  ::kill(program->children("server")[0], SIGKILL);
  EXPECT_EQ(program->wait().status, 1);
  for (const std::string& name : objects()) {
    EXPECT_TRUE(before.contains(name) || name.find("verbena") == std::string::npos) << name;
  }
}

// --- servers that outlive workers

/// Starts three workers by hand. The first one hangs and is killed. Returns how the others end, and then the
/// server.
class OutlivingTest : public LauncherTest {
 protected:
  [[nodiscard]] std::unique_ptr<Program> start(const std::string& name,
                                               std::vector<std::string> arguments) const {
    std::filesystem::create_directory(scratch_ / name);
    arguments.insert(arguments.end(), {"--job", job_, "--workers", "3"});
    return std::make_unique<Program>(COUNTER_PROGRAM, arguments, scratch_ / name);
  }
  [[nodiscard]] std::vector<Ended> without_the_first(const std::vector<std::string>& of_server,
                                                     const std::vector<std::string>& of_workers) const {
    std::vector<std::string> server = {"server"};
    server.insert(server.end(), of_server.begin(), of_server.end());
    std::vector<std::unique_ptr<Program>> programs;
    for (int rank = 0; rank < 3; ++rank) {
      std::vector<std::string> worker = {"worker",        "counter",    "--worker-rank", std::to_string(rank),
                                         "--consistency", "sequential", "--iterations",  "3"};
      worker.insert(worker.end(), of_workers.begin(), of_workers.end());
      if (rank == 0) worker.insert(worker.end(), {"--fail", "hang"});
      programs.push_back(start(fmt::format("worker-{}", rank), worker));
    }
    programs.push_back(start("server", server));
    EXPECT_TRUE(programs[0]->wait_for_output("hanging"));
    programs[0]->signal(SIGKILL);
    std::vector<Ended> ended;
    for (const auto& program : programs) ended.push_back(program->wait());
    EXPECT_EQ(ended[0].status, 128 + SIGKILL);
    return {ended.begin() + 1, ended.end()};
  }

  const std::string job_ = fmt::format("outliving-{}", ::getpid());
};

TEST_F(OutlivingTest, TheOthersFinish) {
  for (const Ended& ended : without_the_first({"--outlive-workers"}, {"--dynamic"})) {
    EXPECT_EQ(ended.status, 0) << ended.err;
  }
}

TEST_F(OutlivingTest, OnlyWhereAsked) {
  for (const Ended& ended : without_the_first({}, {"--dynamic"})) EXPECT_EQ(ended.status, 1) << ended.err;
}

TEST_F(OutlivingTest, ClocksOfAStaticTableWouldWait) {
  for (const Ended& ended : without_the_first({"--outlive-workers"}, {}))
    EXPECT_EQ(ended.status, 1) << ended.err;
}

}  // namespace
}  // namespace verbena::process_test
