// The measurements themselves. Each appends its results. The other side is a responder (responder.hpp), in
// another process of this host or on another host.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/bench/backend.hpp"
#include "apps/bench/client.hpp"
#include "apps/bench/report.hpp"

namespace verbena::apps::bench {

struct BenchOptions {
  std::vector<std::size_t> sizes_bytes{8, 64, 400, 4096, 65536, 1 << 20};
  std::vector<std::string> operations;  ///< empty: all
  TimingOptions timing;
  std::size_t depth = 128;  ///< requests under way on a connection, where bandwidth is measured
  std::size_t batch =
      64;  ///< requests posted together there (a quarter of the depth at most), and in read-batch
  std::size_t connections = 1;  ///< where bandwidth is measured
  std::size_t rounds = 1;       ///< of each figure and perftest's, in turns; perftest's median counts
  bool perftest = false;
  std::uint32_t replicas = 1;           ///< copies of the server in push-copied
  std::uint32_t checkpoint_mib = 256;   ///< of the table that is saved in kCheckpoint, 2^20 bytes each
  std::string checkpoint_folder = ".";  ///< where that writes; all is removed in the end
  /// Called before each measurement.
  std::function<void(std::string_view what)> progress = [](std::string_view) {};

  [[nodiscard]] bool wants(std::string_view operation) const;
  /// Not just among all others.
  [[nodiscard]] bool names(std::string_view operation) const;
};

/// Every name that BenchOptions::operations may hold.
[[nodiscard]] const std::vector<std::string>& operation_names();
inline constexpr const char* kPullGrowing = "pull-growing";
inline constexpr const char* kPushSequential = "push-sequential";
inline constexpr const char* kPushCopied = "push-copied";
/// Writes files, so that it is measured only if it is named.
inline constexpr const char* kCheckpoint = "checkpoint";

/// The size of the memory that the two sides open to each other.
[[nodiscard]] std::size_t memory_bytes(const BenchOptions& options);

struct Report {
  std::vector<Result> results;
  std::vector<GatherCrossover> crossovers;  ///< by the rows' width
  std::vector<std::string> notes;  ///< what did not go as it should, and what that means for the figures
};

/// Makes all measurements that the options ask for, over its own connections to the responder at `address`.
absl::StatusOr<Report> measure(const BenchOptions& options, const Backend& backend,
                               const std::string& address);

/// read, read-batch, read-busy, write, write-complete, write-notify: the transport alone.
absl::Status measure_transport(const BenchOptions& options, const Backend& backend, Client& client,
                               Report& report);
/// The other operations: tables over that transport.
absl::Status measure_tables(const BenchOptions& options, const Backend& backend, Client& client,
                            Report& report);
/// pull-growing.
absl::Status measure_growth(const BenchOptions& options, const Backend& backend, Client& client,
                            Report& report);
/// gather-crossover.
absl::Status measure_gather_crossover(const BenchOptions& options, const Backend& backend, Client& client,
                                      Report& report);

/// push-sequential, push-copied.
absl::Status measure_copies(const BenchOptions& options, const Backend& backend, Client& client,
                            Report& report);
/// checkpoint.
absl::Status measure_checkpoints(const BenchOptions& options, const Backend& backend, Client& client,
                                 Report& report);

/// Times a request that the other side answers at once. Over shared memory this is a cache line that goes to
/// another core and back; otherwise it is a write of 8 bytes with a notification, answered by the same.
absl::StatusOr<Yardstick> time_round_trip(const BenchOptions& options, const Backend& backend,
                                          Client& client);

}  // namespace verbena::apps::bench
