// One node of a job over verbs, for tests/soft_roce: a server, and a worker that checks its reads.
//
//   cluster_node MODEL RING_BYTES RANK HOST:PORT...       the address of each node, by rank
#include <fmt/format.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "tests/cluster/promises.hpp"
#include <verbena/consistency.hpp>
#include <verbena/server.hpp>
#include <verbena/session.hpp>

namespace verbena::testing {
namespace {

constexpr std::int64_t kClocks = 40;
constexpr std::int64_t kSequentialClocks = 10;

struct NodeOptions {
  ConsistencyModel model;
  std::size_t ring_bytes = 0;
  std::uint32_t rank = 0;
  std::vector<std::string> addresses;
};

absl::StatusOr<NodeOptions> parse_options(const std::vector<std::string>& arguments) {
  NodeOptions options;
  if (arguments.size() < 4 || !absl::SimpleAtoi(arguments[1], &options.ring_bytes) ||
      !absl::SimpleAtoi(arguments[2], &options.rank)) {
    return absl::InvalidArgumentError("expected: MODEL RING_BYTES RANK HOST:PORT...");
  }
  absl::StatusOr<ConsistencyModel> model = parse_consistency(arguments[0]);
  if (!model.ok()) return model.status();
  options.model = *model;
  for (std::size_t i = 3; i < arguments.size(); ++i) options.addresses.push_back("verbs:" + arguments[i]);
  if (options.rank >= options.addresses.size())
    return absl::InvalidArgumentError("a rank without an address");
  return options;
}

absl::Status serve(const NodeOptions& options, const std::atomic<bool>& stop) {
  const auto nodes = static_cast<std::uint32_t>(options.addresses.size());
  return run_server({.address = options.addresses[options.rank],
                     .rank = options.rank,
                     .servers = nodes,
                     .workers = nodes,
                     .network = {.no_secret = true}},
                    stop);
}

absl::Status work(const NodeOptions& options) {
  auto session = Session::connect({.servers = options.addresses,
                                   .rank = options.rank,
                                   .workers = static_cast<std::uint32_t>(options.addresses.size()),
                                   .network = {.no_secret = true},
                                   .inbox_bytes = options.ring_bytes,
                                   .push_ring_bytes = options.ring_bytes});
  if (!session.ok()) return session.status();
  absl::Status status = check_reads(**session, options.model, kClocks);
  if (status.ok() && std::holds_alternative<Bsp>(options.model)) {
    status = check_sequential(**session, kSequentialClocks);
  }
  if (!status.ok()) {
    static_cast<void>((*session)->give_up(status));
    return status;
  }
  const SessionStatistics statistics = (*session)->statistics();
  fmt::print("{} rows pulled, {} pushed, {} eagerly received\n", statistics.rows_pulled,
             statistics.rows_pushed, statistics.rows_eagerly_received);
  return absl::OkStatus();
}

absl::Status run_node(const std::vector<std::string>& arguments) {
  const absl::StatusOr<NodeOptions> options = parse_options(arguments);
  if (!options.ok()) return options.status();
  std::atomic<bool> stop = false;
  absl::Status served;
  std::thread server([&] { served = serve(*options, stop); });
  const absl::Status worked = work(*options);
  stop = !worked.ok();  // otherwise the server ends when all workers have left
  server.join();
  return worked.ok() ? served : worked;
}

}  // namespace
}  // namespace verbena::testing

int main(int argc, char** argv) {
  const absl::Status status = verbena::testing::run_node({argv + 1, argv + argc});
  if (!status.ok()) fmt::print(stderr, "cluster_node: {}\n", std::string(status.message()));
  return status.ok() ? EXIT_SUCCESS : EXIT_FAILURE;
}
