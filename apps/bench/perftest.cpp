#include "apps/bench/perftest.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <sstream>

namespace verbena::apps::bench {

namespace {

constexpr auto kListenPatience = std::chrono::seconds(20);
constexpr auto kRunPatience = std::chrono::seconds(90);
constexpr auto kEndPatience = std::chrono::seconds(10);
constexpr auto kOrderPatience = std::chrono::seconds(30);  // more than the two that the other side may need
constexpr std::size_t kMostIterations = 1'000'000;
constexpr int kAttempts = 4;

bool measures_latency(std::string_view tool) {
  return tool.ends_with("_lat");
}

std::vector<std::string> arguments_of(const PerftestRun& run, const transport::RdmaDevice& device,
                                      std::uint16_t port) {
  std::vector<std::string> arguments{run.tool,
                                     "-F",  // do not stop if the processor's rate changes
                                     "-d",     device.name,
                                     "-i",     std::to_string(device.port),
                                     "-s",     std::to_string(run.bytes),
                                     "-n",     std::to_string(run.iterations),
                                     "-p",     std::to_string(port)};
  const auto add = [&](std::string name, const std::string& value) {
    arguments.push_back(std::move(name));
    arguments.push_back(value);
  };
  if (device.gid_index >= 0) add("-x", std::to_string(device.gid_index));
  if (!measures_latency(run.tool)) {
    if (run.depth > 0) add("-t", std::to_string(run.depth));
    if (run.connections > 1) add("-q", std::to_string(run.connections));
    arguments.emplace_back("--report_gbits");  // the size of its MB depends on its version
  }
  return arguments;
}

/// Whether a process of this network namespace listens on that TCP port.
bool listens_on(std::uint16_t port) {
  const std::string wanted = fmt::format(":{:04X}", port);
  constexpr std::string_view kListening = "0A";
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream lines(table);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string number;
      std::string local;
      std::string remote;
      std::string state;
      if (words >> number >> local >> remote >> state && state == kListening && local.ends_with(wanted)) {
        return true;
      }
    }
  }
  return false;
}

/// A port that was free just now; 0 if there is none.
std::uint16_t free_port() {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in place{};
  place.sin_family = AF_INET;
  socklen_t bytes = sizeof(place);
  auto* address = reinterpret_cast<sockaddr*>(&place);
  const bool found = descriptor >= 0 && ::bind(descriptor, address, bytes) == 0 &&
                     ::getsockname(descriptor, address, &bytes) == 0;
  if (descriptor >= 0) ::close(descriptor);
  return found ? ntohs(place.sin_port) : std::uint16_t{0};
}

std::vector<double> numbers_of(const std::string& line) {
  std::vector<double> numbers;
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    double number = 0;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc() || stop != word.data() + word.size()) return {};
    numbers.push_back(number);
  }
  return numbers;
}

absl::StatusOr<std::string> run_once(Client& client, const transport::RdmaDevice& device,
                                     const PerftestRun& run) {
  Message order{.kind = Message::Kind::kStartPerftest};
  order.set_text(encode_perftest(run));
  auto listening = client.request(order, kOrderPatience);
  if (!listening.ok()) return listening.status();
  std::vector<std::string> arguments =
      arguments_of(run, device, static_cast<std::uint16_t>(listening->number));
  arguments.emplace_back(transport::host_of(client.address()));
  auto program = Program::start(arguments);
  if (!program.ok()) return program.status();
  const absl::Status ended = (*program)->wait(kRunPatience);
  auto both_ended = client.request({.kind = Message::Kind::kEndPerftest}, kOrderPatience);
  if (!ended.ok()) return ended;
  if (!both_ended.ok()) return both_ended.status();
  return (*program)->output();
}

}  // namespace

const std::vector<std::string>& perftest_tools() {
  static const std::vector<std::string> kTools{"ib_read_lat", "ib_write_lat", "ib_read_bw",
                                               "ib_write_bw", "ib_send_lat",  "ib_send_bw"};
  return kTools;
}

std::string encode_perftest(const PerftestRun& run) {
  return fmt::format("{} {} {} {} {}", run.tool, run.bytes, run.iterations, run.depth, run.connections);
}

std::optional<PerftestRun> decode_perftest(const std::string& text) {
  PerftestRun run;
  std::istringstream words(text);
  if (!(words >> run.tool >> run.bytes >> run.iterations >> run.depth >> run.connections))
    return std::nullopt;
  const auto& tools = perftest_tools();
  const bool known = std::find(tools.begin(), tools.end(), run.tool) != tools.end();
  return known && run.iterations <= kMostIterations ? std::optional(run) : std::nullopt;
}

std::optional<double> parse_perftest(std::string_view tool, std::string_view output) {
  // Latency: bytes, iterations, least, most, typical, …; bandwidth: bytes, iterations, peak, average, rate.
  const bool latency = measures_latency(tool);
  const std::size_t column = latency ? 4 : 3;
  std::istringstream lines{std::string(output)};
  for (std::string line; std::getline(lines, line);) {
    const std::vector<double> numbers = numbers_of(line);
    if (numbers.size() < 5) continue;
    const double figure = numbers[column];
    if (!std::isfinite(figure) || figure <= 0) return std::nullopt;
    return latency ? figure * 1e3 : figure * 1e9 / 8;
  }
  return std::nullopt;
}

absl::StatusOr<std::unique_ptr<PerftestServer>> PerftestServer::start(const PerftestRun& run,
                                                                      const transport::RdmaDevice& device) {
  const std::uint16_t port = free_port();
  auto program = Program::start(arguments_of(run, device, port));
  if (!program.ok()) return program.status();
  const auto end = std::chrono::steady_clock::now() + kListenPatience;
  while (!listens_on(port)) {
    if (!(*program)->read(std::chrono::milliseconds(20))) {
      absl::Status ended = (*program)->wait(kEndPatience);
      return ended.ok() ? absl::UnknownError(fmt::format("{} did not listen", run.tool)) : ended;
    }
    if (std::chrono::steady_clock::now() >= end) {
      return absl::DeadlineExceededError(
          fmt::format("{} does not listen within {} s", run.tool, kListenPatience.count()));
    }
  }
  return std::unique_ptr<PerftestServer>(new PerftestServer(std::move(*program), port));
}

absl::Status PerftestServer::end() {
  return program_->wait(kEndPatience);
}

absl::StatusOr<double> run_perftest(Client& client, const transport::RdmaDevice& device,
                                    const PerftestRun& run, std::size_t& retries) {
  absl::Status failure;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (attempt > 0) ++retries;
    const absl::StatusOr<std::string> output = run_once(client, device, run);
    if (!output.ok()) {
      failure = output.status();
      continue;
    }
    if (const std::optional<double> figure = parse_perftest(run.tool, *output)) return *figure;
    failure =
        absl::UnknownError(fmt::format("{} has printed no figure; on a busy host its calibration of the "
                                       "clock fails",
                                       run.tool));
  }
  return failure;
}

}  // namespace verbena::apps::bench
