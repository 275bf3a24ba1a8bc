// `--metrics-port` and `--log-format json` of jobs of real processes.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/free_port.hpp"
#include "tests/http_client.hpp"
#include "tests/process/program.hpp"
#include "tests/process/small_training.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::process_test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using testing::connect_to;
using testing::free_port;
using ::testing::HasSubstr;
using testing::http_get;
using ::testing::Not;

/// The sample's value in a scrape; nullopt: there is none, or it is not over yet.
std::optional<double> value_of(const std::string& scrape, const std::string& sample) {
  const std::size_t found = ("\n" + scrape).find("\n" + sample + " ");
  if (found == std::string::npos) return std::nullopt;
  return std::stod(scrape.substr(found + sample.size() + 1));
}

/// All counters of a scrape.
std::map<std::string, double> counters_of(const std::string& scrape) {
  std::map<std::string, double> counters;
  std::istringstream lines(scrape);
  for (std::string line; std::getline(lines, line);) {
    const std::string sample = line.substr(0, line.rfind(' '));
    if (!line.starts_with('#') && sample.find("_total") != std::string::npos)
      counters[sample] = value_of(scrape, sample).value_or(0);
  }
  EXPECT_FALSE(counters.empty());
  return counters;
}

/// TCP sockets at which the process listens.
std::size_t listening_sockets(pid_t pid) {
  std::set<std::string> listening;
  for (const char* const table : {"tcp", "tcp6"}) {
    std::istringstream lines(verbena::testing::contents(fmt::format("/proc/{}/net/{}", pid, table)));
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      const std::vector<std::string> fields((std::istream_iterator<std::string>(words)), {});
      constexpr std::size_t kState = 3;
      constexpr std::size_t kInode = 9;
      if (fields.size() > kInode && fields[kState] == "0A")
        listening.insert("socket:[" + fields[kInode] + "]");
    }
  }
  std::size_t count = 0;
  std::error_code error;
  for (const auto& descriptor : std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", pid)))
    count += listening.count(std::filesystem::read_symlink(descriptor.path(), error).string());
  return count;
}

/// A training that goes on until it is stopped, but for sketch, which has one pass.
struct Watched {
  std::string application;
  std::vector<std::string> options;
  std::string pause = "10ms";  ///< before each clock
};
std::ostream& operator<<(std::ostream& out, const Watched& watched) {
  return out << watched.application;
}
const std::string kForever = "1000000";
Watched watched_lda(const std::string& iterations) {
  return {"lda", {"--topics", "3", "--top-words", "0", "--iterations", iterations}};
}
std::vector<Watched> all_watched() {
  return {watched_lda(kForever),
          {"mf", {"--rank", "4", "--iterations", kForever}},
          {"kge", {"--dimension", "4", "--iterations", kForever}},
          {"ctr", {"--rank", "2", "--passes", kForever}},
          {"word2vec", {"--dimension", "4", "--min-count", "1", "--iterations", kForever}},
          {"sketch", {"--batch", "1"}, "200ms"}};
}

class MonitoringTest : public ::testing::TestWithParam<Watched> {
 protected:
  /// Two servers and two workers, slowly.
  [[nodiscard]] std::vector<std::string> training(const Watched& watched,
                                                  const std::vector<std::string>& more) const {
    const std::map<std::string, std::string> alike = {{"word2vec", "lda"}, {"sketch", "ctr"}};
    const auto found = alike.find(watched.application);
    write_data({found == alike.end() ? watched.application : found->second, {}, {}}, scratch_.path("data"));
    std::vector<std::string> all = {"run",       watched.application,
                                    "--data",    scratch_.path("data"),
                                    "--servers", "2",
                                    "--workers", "2",
                                    "--slow",    fmt::format("worker=all,pause={},every=1", watched.pause)};
    all.insert(all.end(), watched.options.begin(), watched.options.end());
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  [[nodiscard]] std::vector<std::string> watched_training(const Watched& watched,
                                                          std::vector<std::string> more = {}) const {
    more.insert(more.end(), {"--metrics-port", "0"});
    return training(watched, more);
  }
  /// Of a run that has been started.
  void learn_port() {
    static const std::regex kUrl(R"(http://127\.0\.0\.1:(\d+)/ shows the run; )");
    ASSERT_TRUE(wait_until([&] {
      for (const auto& streams : std::filesystem::directory_iterator(of_run_.path())) {
        const std::string said = verbena::testing::contents(streams.path() / "err");
        std::smatch match;
        if (!std::regex_search(said, match, kUrl)) continue;
        port_ = static_cast<std::uint16_t>(std::stoi(match[1]));
        return true;
      }
      return false;
    })) << "no port is said";
  }
  /// Scrapes until it is as wanted; returns the last scrape.
  std::string scrape_until(const std::function<bool(const std::string&)>& wanted) const {
    std::string scrape;
    EXPECT_TRUE(wait_until([&] {
      scrape = http_get(port_, "/metrics");
      return !scrape.empty() && wanted(scrape);
    })) << scrape;
    return scrape;
  }

  std::uint16_t port_ = 0;
  const verbena::testing::TemporaryFolder scratch_;
  const verbena::testing::TemporaryFolder of_run_;
};

TEST_P(MonitoringTest, SaysWhatEachWorkerHasDone) {
  Program running(VERBENA_PROGRAM, watched_training(GetParam()), of_run_.path());
  learn_port();
  const std::string scrape = scrape_until([](const std::string& text) {
    return value_of(text, "verbena_items_total{worker=\"0\"}").value_or(0) > 0 &&
           value_of(text, "verbena_rows_pushed_total{worker=\"1\"}").value_or(0) > 0;
  });
  EXPECT_THAT(scrape, HasSubstr("verbena_run_info{model=\"" + GetParam().application + "\","));
  EXPECT_EQ(value_of(scrape, "verbena_server_processes{server=\"1\",role=\"serves\"}"), 1);
  EXPECT_EQ(value_of(scrape, "verbena_workers"), 2);
  EXPECT_GT(value_of(scrape, "verbena_session_seconds_total{worker=\"1\"}"), 0);
  const json live = json::parse(http_get(port_, "/status.json"));
  EXPECT_EQ(live["workers"].size(), 2U);
  EXPECT_THAT(live["title"].get<std::string>(), HasSubstr(GetParam().application));
  running.signal(SIGINT);
  EXPECT_EQ(running.wait().status, 130);
  EXPECT_FALSE(connect_to(port_).valid()) << "the port is closed";
}

INSTANTIATE_TEST_SUITE_P(All, MonitoringTest, ::testing::ValuesIn(all_watched()),
                         [](const auto& chosen) { return chosen.param.application; });

using MonitoringOfLdaTest = MonitoringTest;

/// Clients that read nothing, say nothing or come in crowds do not keep it from training, nor others from an
/// answer.
TEST_F(MonitoringOfLdaTest, TrainingGoesOnWhateverClientsDo) {
  Program running(VERBENA_PROGRAM, watched_training(watched_lda(kForever)), of_run_.path());
  learn_port();
  const auto iteration = [&] {
    return value_of(http_get(port_, "/metrics"), "verbena_iteration").value_or(0);
  };
  ASSERT_TRUE(wait_until([&] { return iteration() > 0; }));
  std::vector<base::FileDescriptor> strange;
  for (int i = 0; i < 200; ++i) {
    strange.push_back(connect_to(port_));
    ASSERT_TRUE(strange.back().valid());
    const std::string_view said = i % 3 == 0   ? "GET /metrics HTTP/1.1\r\n\r\n"  // and never reads
                                  : i % 3 == 1 ? "GET /metr"
                                               : "";
    (void)!::send(strange.back().get(), said.data(), said.size(), MSG_NOSIGNAL);
  }
  const double before = iteration();
  EXPECT_GT(before, 0);
  EXPECT_TRUE(wait_until([&] { return iteration() > before + 20; }));
  EXPECT_TRUE(alive(running.pid()));
}

/// Whoever asks while the run ends gets a whole answer or none, and the run ends well.
TEST_F(MonitoringOfLdaTest, MayBeAskedWhileItEnds) {
  Program running(VERBENA_PROGRAM, watched_training(watched_lda("40")), of_run_.path());
  learn_port();
  std::atomic<bool> stop = false;
  std::atomic<int> answers = 0;
  constexpr std::size_t kClients = 4;
  std::vector<std::thread> clients;
  clients.reserve(kClients);
  for (std::size_t client = 0; client < kClients; ++client) {
    clients.emplace_back([&] {
      while (!stop) {
        const std::string scrape = http_get(port_, "/metrics");
        if (scrape.empty()) continue;
        ++answers;
        EXPECT_THAT(scrape, HasSubstr("\nverbena_read_staleness_clocks_count{worker=\"1\"} "));
      }
    });
  }
  const Ended ended = running.wait();
  stop = true;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_GT(answers, 0);
  EXPECT_THAT(ended.err, HasSubstr(fmt::format("verbena: http://127.0.0.1:{}/ shows the run", port_)));
}

TEST_F(MonitoringOfLdaTest, SaysWhoHasDiedAndTookOver) {
  Program running(VERBENA_PROGRAM, watched_training(watched_lda(kForever), {"--replicas", "1"}),
                  of_run_.path());
  learn_port();
  const std::string counted_before = scrape_until([](const std::string& text) {
    return value_of(text, "verbena_transport_bytes_total{worker=\"1\"}").value_or(0) > 0 &&
           value_of(text, "verbena_iteration").value_or(0) > 20 &&
           value_of(text, "verbena_configuration") == 1;
  });
  const json before = json::parse(http_get(port_, "/status.json"));
  const pid_t victim = before["servers"][0]["copies"][0]["pid"];
  ASSERT_GT(victim, 1);
  ::kill(victim, SIGKILL);
  const double iterations = value_of(counted_before, "verbena_iteration").value_or(0);
  const std::string scrape = scrape_until([&](const std::string& text) {
    // No count goes back when another connection takes a place.
    for (const auto& [sample, value] : counters_of(counted_before))
      EXPECT_GE(value_of(text, sample).value_or(-1), value) << sample;
    return value_of(text, "verbena_events_total{kind=\"join\"}") == 1 &&
           value_of(text, "verbena_iteration").value_or(0) > iterations + 5;
  });
  EXPECT_EQ(value_of(scrape, "verbena_events_total{kind=\"failover\"}"), 1);
  const json after = json::parse(http_get(port_, "/status.json"));
  EXPECT_THAT(after["events"][0]["what"].get<std::string>(),
              HasSubstr(fmt::format("server 0 (pid {}) was killed by SIGKILL", victim)));
}

/// Processes that nobody of ours has started: rank 0 listens to them.
TEST_F(MonitoringOfLdaTest, OnSeveralHostsRankZeroShowsTheRun) {
  const std::string meeting = fmt::format("127.0.0.1:{}", free_port());
  std::vector<std::unique_ptr<Program>> ranks;
  for (const char* const rank : {"0", "1", "2", "3"}) {
    ranks.push_back(std::make_unique<Program>(
        VERBENA_PROGRAM,
        watched_training(watched_lda(kForever),
                         {"--rendezvous", meeting, "--process", rank, "--processes", "4", "--no-secret",
                          "--consistency", "ssp:1", "--read-path", "cached"}),
        of_run_.path()));
  }
  learn_port();
  const std::string scrape = scrape_until([](const std::string& text) {
    return value_of(text, "verbena_iteration").value_or(0) > 0 &&
           value_of(text, "verbena_read_staleness_clocks_count{worker=\"1\"}").value_or(0) > 0;
  });
  for (const char* const server : {"0", "1"}) {
    EXPECT_EQ(
        value_of(scrape, fmt::format("verbena_server_processes{{server=\"{}\",role=\"serves\"}}", server)),
        1);
  }
  EXPECT_TRUE(ranks[0]->has_said("shows the run"));
  for (const std::size_t other : {1U, 2U, 3U}) EXPECT_FALSE(ranks[other]->has_said("shows the run"));
  ranks[0]->signal(SIGINT);
  EXPECT_EQ(ranks[0]->wait().status, 130);
}

TEST_F(MonitoringOfLdaTest, WhatCannotBeListenedAtIsAnErrorBeforeAnythingIsTrained) {
  const base::FileDescriptor taken(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in place = verbena::testing::loopback(0);
  socklen_t length = sizeof place;
  ASSERT_EQ(::bind(taken.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place), 0);
  ASSERT_EQ(::listen(taken.get(), 1), 0);
  ASSERT_EQ(::getsockname(taken.get(), reinterpret_cast<sockaddr*>(&place), &length), 0);
  const int port = ntohs(place.sin_port);
  const auto refused = [&](const std::vector<std::string>& more) {
    const Ended ended = run(VERBENA_PROGRAM, training(watched_lda("1"), more), of_run_.path());
    EXPECT_EQ(ended.status, 2) << ended.err;
    EXPECT_EQ(ended.out, "");
    return ended.err;
  };
  EXPECT_THAT(refused({"--metrics-port", std::to_string(port)}),
              AllOf(HasSubstr(fmt::format("--metrics-port {}", port)), HasSubstr("Address already in use"),
                    HasSubstr("expected a port that nobody listens at")));
  EXPECT_THAT(refused({"--metrics-port", "0", "--metrics-address", "192.0.2.1"}),
              HasSubstr("expected an address of an interface of this host"));
  EXPECT_THAT(refused({"--metrics-port", "0", "--metrics-address", "localhost"}),
              HasSubstr("an IPv4 or IPv6 address is expected"));
  EXPECT_THAT(refused({"--metrics-port", "65536"}), HasSubstr("--metrics-port"));
  EXPECT_THAT(refused({"--metrics-address", "0.0.0.0"}), HasSubstr("expected with --metrics-port"));
}

/// Nobody could know it otherwise.
TEST_F(MonitoringOfLdaTest, AnyFreePortIsSaidEvenIfTheRunIsQuiet) {
  const Program running(VERBENA_PROGRAM, watched_training(watched_lda(kForever), {"--quiet"}),
                        of_run_.path());
  learn_port();
  EXPECT_TRUE(wait_until([&] { return http_get(port_, "/").find("<html") != std::string::npos; }));
  EXPECT_EQ(listening_sockets(running.pid()), 1U);
}

TEST_F(MonitoringOfLdaTest, WithoutTheOptionNobodyListens) {
  const Program running(VERBENA_PROGRAM, training(watched_lda(kForever), {"--verbose"}), of_run_.path());
  ASSERT_TRUE(running.wait_for_output("/" + kForever));
  EXPECT_FALSE(running.has_said("http://"));
  EXPECT_EQ(listening_sockets(running.pid()), 0U);
  for (const char* const kind : {"server", "worker"}) {
    for (const pid_t child : running.children(kind)) EXPECT_EQ(listening_sockets(child), 0U) << kind;
  }
}

/// The first of these programs that is there; empty: none.
std::string find_program(const std::vector<std::string>& names) {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    for (const std::string& name : names) {
      if (std::filesystem::exists(std::filesystem::path(folder) / name)) return folder + "/" + name;
    }
  }
  return "";
}

/// Prometheus' own check: the format, and how metrics are named.
TEST_F(MonitoringOfLdaTest, PromtoolAcceptsAScrape) {
  const std::string promtool = find_program({"promtool"});
  if (promtool.empty()) GTEST_SKIP() << "skipped: no promtool (Debian's package prometheus has it)";
  const Program running(
      VERBENA_PROGRAM,
      watched_training(watched_lda(kForever), {"--consistency", "ssp:1", "--read-path", "cached"}),
      of_run_.path());
  learn_port();
  const std::string scrape = scrape_until([](const std::string& text) {
    return value_of(text, "verbena_read_staleness_clocks_count{worker=\"1\"}").value_or(0) > 0;
  });
  std::ofstream(scratch_.path("scrape")) << scrape;
  const verbena::testing::TemporaryFolder of_check;
  const Ended checked =
      run("/bin/sh", {"-c", fmt::format("{} check metrics < {}", promtool, scratch_.path("scrape"))},
          of_check.path());
  EXPECT_EQ(checked.status, 0) << checked.err;
  EXPECT_EQ(checked.out + checked.err, "");
}

/// What the page's script has made of a run in which a server has died.
TEST_F(MonitoringOfLdaTest, ThePageShowsTheRunInABrowser) {
  const std::string browser = find_program({"chromium-headless-shell", "chromium"});
  if (browser.empty()) GTEST_SKIP() << "skipped: no chromium-headless-shell (scripts/setup installs it)";
  const Program running(VERBENA_PROGRAM, watched_training(watched_lda(kForever), {"--replicas", "1"}),
                        of_run_.path());
  learn_port();
  const json before = [&] {
    scrape_until([](const std::string& text) { return value_of(text, "verbena_configuration") == 1; });
    return json::parse(http_get(port_, "/status.json"));
  }();
  const pid_t victim = before["servers"][0]["copies"][0]["pid"];
  ASSERT_GT(victim, 1);
  ::kill(victim, SIGKILL);
  scrape_until([](const std::string& text) {
    return value_of(text, "verbena_events_total{kind=\"join\"}") == 1 &&
           value_of(text, "verbena_iteration").value_or(0) > 20;
  });
  const verbena::testing::TemporaryFolder of_browser;
  const Ended shown = run(browser,
                          {"--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=3000",
                           "--user-data-dir=" + of_browser.path("profile"), "--dump-dom",
                           fmt::format("http://127.0.0.1:{}/", port_)},
                          of_browser.path());
  ASSERT_EQ(shown.status, 0) << shown.err;
  const auto part = [&](const std::string& from, const std::string& to) {
    const std::size_t begin = std::min(shown.out.find(from), shown.out.size());
    return shown.out.substr(begin, shown.out.find(to, begin) - begin);
  };
  EXPECT_THAT(part("id=\"state\"", "</p>"), AllOf(HasSubstr("as it was at "), Not(HasSubstr("has ended"))));
  EXPECT_THAT(part("id=\"figures\"", "<section>"),
              AllOf(HasSubstr(" of 1000000</b>"), HasSubstr("<span>log_likelihood_per_token</span>")));
  EXPECT_THAT(part("id=\"objective\"", "</section>"), HasSubstr("<polyline class=\"curve\" points=\""));
  EXPECT_THAT(part("id=\"workers\"", "</table>"), AllOf(HasSubstr("<th>0</th>"), HasSubstr("<th>1</th>")));
  EXPECT_THAT(part("id=\"servers\"", "</table>"),
              AllOf(HasSubstr(">serves</td>"), HasSubstr(">follows</td>")));
  EXPECT_THAT(part("id=\"events\"", "</table>"),
              HasSubstr(fmt::format("server 0 (pid {}) was killed by SIGKILL", victim)));
}

TEST_F(MonitoringOfLdaTest, LinesOfTheLogAreObjects) {
  const Ended ended =
      run(VERBENA_PROGRAM, watched_training(watched_lda("3"), {"--log-format", "json", "--verbose"}),
          of_run_.path());
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("log_likelihood_per_token"));
  std::istringstream lines(ended.err);
  std::set<std::int64_t> processes;
  std::string messages;
  for (std::string line; std::getline(lines, line);) {
    const json object = json::parse(line, nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(object.is_object()) << line;
    EXPECT_EQ(object.size(), 4U) << line;
    EXPECT_EQ(object["level"], "info") << line;
    static const std::regex kTime(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)");
    EXPECT_TRUE(std::regex_match(object["time"].get<std::string>(), kTime)) << line;
    processes.insert(object["process"].get<std::int64_t>());
    messages += object["message"].get<std::string>() + "\n";
  }
  EXPECT_EQ(processes.size(), 5U) << "the launcher, two servers, two workers";
  EXPECT_THAT(messages, AllOf(HasSubstr("lda 3/3"), HasSubstr("shows the run"), HasSubstr("run lda: ")));
}

/// The messages of these lines of a log in JSON that are warnings.
std::string warnings_of(const std::string& log) {
  std::istringstream lines(log);
  std::string messages;
  for (std::string line; std::getline(lines, line);) {
    const json object = json::parse(line, nullptr, /*allow_exceptions=*/false);
    EXPECT_TRUE(object.is_object()) << line;
    if (object.is_object() && object["level"] == "warning")
      messages += object["message"].get<std::string>() + "\n";
  }
  return messages;
}

TEST_F(MonitoringOfLdaTest, WhatHappensToProcessesIsAWarningOfTheLog) {
  Program running(VERBENA_PROGRAM,
                  watched_training(watched_lda(kForever), {"--replicas", "1", "--log-format", "json"}),
                  of_run_.path());
  learn_port();
  scrape_until([](const std::string& text) { return value_of(text, "verbena_configuration") == 1; });
  const pid_t victim = json::parse(http_get(port_, "/status.json"))["servers"][0]["copies"][0]["pid"];
  ASSERT_GT(victim, 1);
  ::kill(victim, SIGKILL);
  scrape_until(
      [](const std::string& text) { return value_of(text, "verbena_events_total{kind=\"join\"}") == 1; });
  running.signal(SIGINT);
  const Ended ended = running.wait();
  EXPECT_THAT(ended.out, Not(HasSubstr("SIGKILL"))) << "it is no result";
  EXPECT_THAT(warnings_of(ended.err),
              AllOf(HasSubstr(fmt::format("server 0 (pid {}) was killed by SIGKILL", victim)),
                    HasSubstr("has all that server 0 has"), HasSubstr("stopped by SIGINT")));
}

TEST_F(MonitoringOfLdaTest, ARestartIsAWarningOfTheLog) {
  Program running(VERBENA_PROGRAM,
                  watched_training(watched_lda(kForever), {"--checkpoint", scratch_.path("saved"),
                                                           "--restarts", "1", "--log-format", "json"}),
                  of_run_.path());
  learn_port();
  scrape_until([](const std::string& text) { return value_of(text, "verbena_iteration").value_or(0) > 0; });
  const pid_t victim = json::parse(http_get(port_, "/status.json"))["servers"][0]["copies"][0]["pid"];
  ASSERT_GT(victim, 1);
  ::kill(victim, SIGKILL);
  scrape_until(
      [](const std::string& text) { return value_of(text, "verbena_events_total{kind=\"restart\"}") == 1; });
  running.signal(SIGKILL);
  EXPECT_THAT(warnings_of(running.wait().err), HasSubstr("the training goes back to "));
}

TEST_F(MonitoringOfLdaTest, ErrorsAreObjectsToo) {
  for (const std::vector<std::string>& wrong :
       {std::vector<std::string>{"--topics", "none"}, {"--metrics-address", "0.0.0.0"}}) {
    std::vector<std::string> more = {"--log-format=json"};
    more.insert(more.end(), wrong.begin(), wrong.end());
    const Ended ended = run(VERBENA_PROGRAM, training({"lda", {}}, more), of_run_.path());
    EXPECT_EQ(ended.status, 2);
    const json object = json::parse(ended.err, nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(object.is_object()) << ended.err;
    EXPECT_EQ(object["level"], "error");
    EXPECT_THAT(object["message"].get<std::string>(), HasSubstr(wrong.front()));
  }
}

}  // namespace
}  // namespace verbena::process_test
