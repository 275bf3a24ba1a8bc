// perftest's tools (ib_read_lat and similar ones) as yardsticks: how they are run and what they print.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/bench/backend.hpp"
#include "apps/bench/client.hpp"
#include "apps/peers/program.hpp"

namespace verbena::apps::bench {

struct PerftestRun {
  std::string tool;  ///< one of perftest_tools()
  std::size_t bytes = 8;
  std::size_t iterations = 1000;
  std::size_t depth = 0;        ///< for the bandwidth tools; 0: their own default
  std::size_t connections = 1;  ///< for the bandwidth tools
};

/// ib_read_lat, ib_write_lat, ib_read_bw, ib_write_bw, ib_send_lat, ib_send_bw
[[nodiscard]] const std::vector<std::string>& perftest_tools();

[[nodiscard]] std::string encode_perftest(const PerftestRun& run);
/// nullopt if the text does not describe a run of these tools: nothing else is ever started for a peer.
[[nodiscard]] std::optional<PerftestRun> decode_perftest(const std::string& text);

/// The figure in a tool's output: the typical latency in nanoseconds, or the average bandwidth in bytes a
/// second. nullopt if it is missing, or not a finite positive number: perftest first measures the clock's
/// rate, and if that fails, as on a busy host, it prints inf.
[[nodiscard]] std::optional<double> parse_perftest(std::string_view tool, std::string_view output);

/// The passive side of a run, in its own process.
class PerftestServer {
 public:
  /// Returns when the tool listens. An error contains the tool's own message.
  static absl::StatusOr<std::unique_ptr<PerftestServer>> start(const PerftestRun& run,
                                                               const transport::RdmaDevice& device);
  [[nodiscard]] std::uint16_t port() const { return port_; }
  /// Waits for the process to end.
  absl::Status end();

 private:
  PerftestServer(std::unique_ptr<Program> program, std::uint16_t port)
      : program_(std::move(program)), port_(port) {}
  std::unique_ptr<Program> program_;
  std::uint16_t port_;
};

/// Runs the tool between this host and the client's other side. Returns the figure as parse_perftest() does.
/// A run without a figure is tried again a few times; each try but the first increases `retries`.
absl::StatusOr<double> run_perftest(Client& client, const transport::RdmaDevice& device,
                                    const PerftestRun& run, std::size_t& retries);

}  // namespace verbena::apps::bench
