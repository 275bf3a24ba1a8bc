#include "tests/cluster/cluster.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <thread>
#include <utility>

#include "transport/shm/shm_transport.hpp"

namespace verbena::testing {

namespace {

constexpr auto kGrace = std::chrono::seconds(3);

std::unique_ptr<transport::Transport> make_shared_memory() {
  auto transport = transport::make_shm_transport();
  assert(transport.ok());
  return std::move(*transport);
}

std::shared_ptr<transport::Transport> make_transport(const ClusterOptions& options, std::uint32_t number) {
  if (options.make_transport) return options.make_transport(number);
  return make_shared_memory();
}

}  // namespace

std::function<std::shared_ptr<transport::Transport>(std::uint32_t number)> faulty_shared_memory(
    std::function<std::optional<transport::FaultOptions>(std::uint32_t number)> faults) {
  return [faults = std::move(faults)](std::uint32_t number) -> std::shared_ptr<transport::Transport> {
    const std::optional<transport::FaultOptions> own = faults(number);
    if (!own) return make_shared_memory();
    return std::make_shared<transport::FaultyTransport>(make_shared_memory(), *own);
  };
}

std::string message_of(const absl::Status& status) {
  return std::string(status.message());
}

std::string to_string(Maps maps) {
  if (maps == Maps::kNone) return "NoneMapped";
  return maps == Maps::kAll ? "AllMapped" : "OwnNodeMapped";
}

ClusterOptions over(Maps maps, std::uint32_t servers, std::uint32_t workers) {
  ClusterOptions options{.servers = servers,
                         .workers = workers,
                         .read_path = maps == Maps::kAll ? ReadPath::kAuto : ReadPath::kCached};
  if (maps != Maps::kNone) return options;
  options.make_transport = faulty_shared_memory([](std::uint32_t number) {
    return transport::FaultOptions{.seed = number,
                                   .request_delay_probability = 0.1,
                                   .event_delay_probability = 0.1,
                                   .split_probability = 0.5,
                                   .mapped = false};
  });
  return options;
}

ClusterOptions with_broken_worker(std::uint64_t request) {
  ClusterOptions options = over(Maps::kOwnNode, 2, 2);
  const std::uint32_t broken = options.servers + 1;
  options.make_transport = faulty_shared_memory([=](std::uint32_t number) {
    return number == broken ? std::optional(transport::FaultOptions{.fail_at_request = request})
                            : std::nullopt;
  });
  return options;
}

struct ServerThreads::Node {
  std::shared_ptr<transport::Transport> transport;
  std::unique_ptr<server::Server> server;
  std::atomic<bool> stop = false;
  std::atomic<bool> ended = false;
  absl::Status status;
  std::thread thread;
};

absl::Status ClusterResult::first_error() const {
  absl::Status first;
  for (const auto& statuses : {servers, workers}) {
    for (const absl::Status& status : statuses) {
      // Who gave up because of others says so; those say why.
      const bool is_cause = !status.ok() && !absl::IsAborted(status);
      if (is_cause) return status;
      if (first.ok()) first = status;
    }
  }
  return first;
}

ServerThreads::ServerThreads(const ClusterOptions& options) : options_(options) {
  static std::atomic<int> jobs = 0;
  job_ = fmt::format("test-{}-{}", ::getpid(), ++jobs);
  for (std::uint32_t rank = 0; rank < options.servers; ++rank) {
    auto node = std::make_unique<Node>();
    node->transport = make_transport(options, rank);
    auto server =
        server::Server::create(*node->transport, {.address = fmt::format("shm:{}/{}", job_, rank),
                                                  .rank = rank,
                                                  .servers = options.servers,
                                                  .workers = options.workers,
                                                  .outlives_workers = options.outlives_workers,
                                                  .replaces_workers = options.replaces_workers,
                                                  .silence_timeout_ms = options.silence_timeout_ms,
                                                  .threads = options.server_threads,
                                                  .lanes = options.lanes + rank * options.lanes_step,
                                                  .push_budget_mb_per_s = options.push_budget_mb_per_s});
    node->status = server.status();
    node->ended = !server.ok();
    if (server.ok()) {
      node->server = std::move(*server);
      node->thread = std::thread([&node = *node] {
        node.status = server::drive(*node.server, *node.transport, node.stop, server::AtStop::kEnd);
        node.server.reset();
        node.transport.reset();
        node.ended = true;
      });
    }
    nodes_.push_back(std::move(node));
  }
}

ServerThreads::~ServerThreads() {
  for (std::uint32_t server = 0; server < nodes_.size(); ++server) stop(server);
}

SessionOptions ServerThreads::session_options(std::uint32_t rank) const {
  SessionOptions session;
  for (std::uint32_t server = 0; server < options_.servers; ++server) {
    session.servers.push_back(fmt::format("shm:{}/{}", job_, server));
  }
  session.rank = rank;
  session.workers = options_.workers;
  session.read_path = options_.read_path;
  session.timeout_ms = options_.timeout_ms;
  session.clock_timeout_ms = options_.timeout_ms;
  session.silence_timeout_ms = options_.silence_timeout_ms;
  session.inbox_bytes = options_.inbox_bytes;
  if (options_.gathers) {
    session.gather_row_bytes = *options_.gathers ? SIZE_MAX : 0;
    session.gather_keys = 1;
  }
  session.push_ring_bytes = options_.push_ring_bytes;
  session.update_budget_mb_per_s = options_.update_budget_mb_per_s;
  session.resume = options_.resume;
  session.transport = make_transport(options_, options_.servers + rank);
  return session;
}

void ServerThreads::stop(std::uint32_t server) {
  Node& node = *nodes_[server];
  // No interrupt: the transport may be gone already. The driver looks at `stop` at least every 100 ms.
  node.stop = true;
  if (node.thread.joinable()) node.thread.join();
}

std::vector<absl::Status> ServerThreads::join(std::chrono::milliseconds patience) {
  std::vector<absl::Status> statuses;
  const auto end = std::chrono::steady_clock::now() + patience;
  for (const auto& node : nodes_) {
    while (!node->ended && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    node->stop = true;
    if (node->thread.joinable()) node->thread.join();
    statuses.push_back(node->status);
  }
  return statuses;
}

ClusterResult run_cluster(const ClusterOptions& options, const std::function<absl::Status(Session&)>& work) {
  ServerThreads servers(options);
  ClusterResult result;
  result.workers.resize(options.workers);
  std::vector<std::thread> workers;
  for (std::uint32_t rank = 0; rank < options.workers; ++rank) {
    workers.emplace_back([&, rank] {
      absl::Status& status = result.workers[rank];
      auto session = Session::connect(servers.session_options(rank));
      status = session.status();
      if (!status.ok()) return;
      status = work(**session);
      if (!status.ok()) static_cast<void>((*session)->give_up(status));
    });
  }
  for (std::thread& worker : workers) worker.join();
  // A server that some worker never reached would wait for it. It is ended, as whoever runs a job does.
  const bool failed = std::any_of(result.workers.begin(), result.workers.end(),
                                  [](const absl::Status& status) { return !status.ok(); });
  result.servers = servers.join(failed ? kGrace : std::chrono::hours(1));
  return result;
}

}  // namespace verbena::testing
