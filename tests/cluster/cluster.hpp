// A whole job in this process. Servers and workers are threads, each with a transport of its own.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/driver.hpp"
#include "server/server.hpp"
#include "tests/transport/faulty_transport.hpp"
#include "transport/transport.hpp"
#include <verbena/session.hpp>
#include <verbena/table.hpp>

namespace verbena::testing {

struct ClusterOptions {
  std::uint32_t servers = 2;
  std::uint32_t workers = 2;
  std::uint32_t lanes = 1;       ///< of the first server
  std::uint32_t lanes_step = 0;  ///< each further server has so many more than the one before
  std::uint32_t server_threads = 1;
  ReadPath read_path = ReadPath::kAuto;
  std::uint32_t timeout_ms = 20'000;
  std::uint32_t silence_timeout_ms = 5'000;
  std::size_t inbox_bytes = std::size_t{1} << 20;
  std::size_t push_ring_bytes = std::size_t{1} << 20;
  bool outlives_workers = false;
  bool replaces_workers = false;
  double push_budget_mb_per_s = 0;
  double update_budget_mb_per_s = 0;
  /// Whether all that is pulled from sparse tables from afar is gathered, or nothing; nullopt: as usual.
  std::optional<bool> gathers = std::nullopt;
  std::string resume = {};  ///< SessionOptions::resume of all workers
  /// Makes the transport of server `number`, or of worker `number` − servers. Empty: shared memory.
  std::function<std::shared_ptr<transport::Transport>(std::uint32_t number)> make_transport;
};

/// For ClusterOptions::make_transport: shared memory with the faults that `faults` returns; std::nullopt:
/// without faults.
std::function<std::shared_ptr<transport::Transport>(std::uint32_t number)> faulty_shared_memory(
    std::function<std::optional<transport::FaultOptions>(std::uint32_t number)> faults);

/// Whose memory the workers can map.
enum class Maps : std::uint8_t { kAll, kOwnNode, kNone };
std::string to_string(Maps maps);
/// A job with so many servers and workers. With kNone, transfers are also delayed and split.
ClusterOptions over(Maps maps, std::uint32_t servers, std::uint32_t workers);
/// A job of two workers, each on a node of its own. Worker 1's connection breaks at this request of its
/// transport.
ClusterOptions with_broken_worker(std::uint64_t request);

struct ClusterResult {
  std::vector<absl::Status> servers;
  std::vector<absl::Status> workers;
  [[nodiscard]] absl::Status first_error() const;
};

/// The message, of a type that GoogleMock's string matchers accept.
std::string message_of(const absl::Status& status);

/// Runs `work` in each worker. Returns when all workers have returned and all servers have ended. A worker
/// whose `work` fails gives up (Session::give_up()).
ClusterResult run_cluster(const ClusterOptions& options, const std::function<absl::Status(Session&)>& work);

/// The servers of a job, for tests that have their own workers.
class ServerThreads {
 public:
  explicit ServerThreads(const ClusterOptions& options);
  ~ServerThreads();
  ServerThreads(const ServerThreads&) = delete;
  ServerThreads& operator=(const ServerThreads&) = delete;

  [[nodiscard]] SessionOptions session_options(std::uint32_t rank) const;
  /// Ends a server without a message to anybody, as a crash would.
  void stop(std::uint32_t server);
  /// Waits until all servers have ended; stops those that have not after `patience`.
  std::vector<absl::Status> join(std::chrono::milliseconds patience);

 private:
  struct Node;
  ClusterOptions options_;
  std::string job_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

}  // namespace verbena::testing
