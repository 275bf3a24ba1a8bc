// One process of the job that recorded_history_test.cpp runs: a server, or a worker that records what it
// does.
//
//   history_node server|worker MODEL SEED RANK FOLDER
//
// The last part of FOLDER is the job's name. FOLDER has the file "numbers" of 8 bytes, the counter that
// numbers all events. A worker writes "worker-RANK" there.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "server/driver.hpp"
#include "server/server.hpp"
#include "tests/cluster/recording.hpp"
#include "tests/simulation/rows.hpp"
#include "transport/shm/shm_transport.hpp"

namespace verbena::process_test {
namespace {

constexpr std::uint32_t kTimeoutMs = 20'000;

struct NodeOptions {
  bool serves = false;
  simulation::Scenario scenario;
  std::uint32_t rank = 0;
  std::filesystem::path folder;
};

absl::StatusOr<NodeOptions> parse_options(const std::vector<std::string>& arguments) {
  NodeOptions options;
  std::uint64_t seed = 0;
  if (arguments.size() != 5 || (arguments[0] != "server" && arguments[0] != "worker") ||
      !absl::SimpleAtoi(arguments[2], &seed) || !absl::SimpleAtoi(arguments[3], &options.rank)) {
    return absl::InvalidArgumentError("expected: server|worker MODEL SEED RANK FOLDER");
  }
  const absl::StatusOr<simulation::Model> model = simulation::parse_model(arguments[1]);
  if (!model.ok()) return model.status();
  options.serves = arguments[0] == "server";
  options.scenario = testing::native_scenario(*model, seed);
  options.folder = arguments[4];
  return options;
}

std::string address_of(const NodeOptions& options, std::uint32_t server) {
  return fmt::format("shm:{}/server-{}", options.folder.filename().string(), server);
}

absl::Status serve(const NodeOptions& options) {
  simulation::register_row_rules();
  auto transport = transport::make_shm_transport();
  if (!transport.ok()) return transport.status();
  const simulation::Scenario& scenario = options.scenario;
  auto server = server::Server::create(**transport, {.address = address_of(options, options.rank),
                                                     .rank = options.rank,
                                                     .servers = scenario.servers,
                                                     .workers = scenario.workers,
                                                     .threads = scenario.lane_tasks ? scenario.lanes + 1 : 1,
                                                     .lanes = scenario.lanes,
                                                     .push_budget_mb_per_s = scenario.push_budget_mb_per_s});
  if (!server.ok()) return server.status();
  const std::atomic<bool> stop = false;
  return server::drive(**server, **transport, stop);
}

/// Maps the counter for as long as the process lives.
absl::StatusOr<std::uint64_t*> map_numbers(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  void* const memory = ::mmap(nullptr, sizeof(std::uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) return absl::UnavailableError(fmt::format("{}: {}", path, std::strerror(errno)));
  ::close(file);
  return static_cast<std::uint64_t*>(memory);
}

absl::Status work(const NodeOptions& options) {
  const absl::StatusOr<std::uint64_t*> numbers = map_numbers(options.folder / "numbers");
  if (!numbers.ok()) return numbers.status();
  const simulation::Scenario& scenario = options.scenario;
  SessionOptions session_options{.rank = options.rank,
                                 .workers = scenario.workers,
                                 .read_path = scenario.read_path,
                                 .timeout_ms = kTimeoutMs,
                                 .clock_timeout_ms = kTimeoutMs,
                                 .inbox_bytes = scenario.inbox_bytes,
                                 .push_ring_bytes = scenario.push_ring_bytes,
                                 .update_budget_mb_per_s = scenario.update_budget_mb_per_s};
  for (std::uint32_t server = 0; server < scenario.servers; ++server)
    session_options.servers.push_back(address_of(options, server));
  auto session = Session::connect(session_options);
  if (!session.ok()) return session.status();
  testing::Recording recording;
  const std::atomic_ref<std::uint64_t> next(**numbers);
  const auto next_number = [&] { return next.fetch_add(1, std::memory_order_acq_rel); };
  absl::Status status = testing::record_workload(scenario, **session, next_number, recording);
  if (!status.ok()) static_cast<void>((*session)->give_up(status));
  session->reset();
  const absl::Status written =
      testing::write_recording(recording, options.folder / fmt::format("worker-{}", options.rank));
  return status.ok() ? written : status;
}

int run_node(const std::vector<std::string>& arguments) {
  const absl::StatusOr<NodeOptions> options = parse_options(arguments);
  const absl::Status status = !options.ok()     ? options.status()
                              : options->serves ? serve(*options)
                                                : work(*options);
  if (!status.ok()) fmt::print(stderr, "history_node: {}\n", std::string(status.message()));
  return status.ok() ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace verbena::process_test

int main(int argc, char** argv) {
  return verbena::process_test::run_node({argv + 1, argv + argc});
}
