// perftest's tools (ib_read_lat and its like) as yardsticks: how they are run and what they print.
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
#include "apps/bench/program.hpp"

namespace verbena::apps::bench {

struct PerftestRun {
  std::string tool;  ///< of perftest_tools()
  std::size_t bytes = 8;
  std::size_t iterations = 1000;
  std::size_t depth = 0;        ///< of the bandwidth tools; 0: their own default
  std::size_t connections = 1;  ///< likewise
};

/// ib_read_lat, ib_write_lat, ib_read_bw, ib_write_bw, ib_send_lat, ib_send_bw
[[nodiscard]] const std::vector<std::string>& perftest_tools();

[[nodiscard]] std::string encode_perftest(const PerftestRun& run);
/// nullopt for what is no such run: nothing else is ever started for a peer.
[[nodiscard]] std::optional<PerftestRun> decode_perftest(const std::string& text);

/// The figure of a tool's output: the typical latency in nanoseconds, or the average bandwidth in bytes a
/// second. nullopt if it is missing, or not a finite positive number: perftest measures the clock's rate
/// first, and where that fails, as on a busy host, it prints inf.
[[nodiscard]] std::optional<double> parse_perftest(std::string_view tool, std::string_view output);

/// The passive end of a run, in a process of its own.
class PerftestServer {
 public:
  /// Returns when it listens. Errors say what the tool said.
  static absl::StatusOr<std::unique_ptr<PerftestServer>> start(const PerftestRun& run,
                                                               const transport::RdmaDevice& device);
  [[nodiscard]] std::uint16_t port() const { return port_; }
  /// Waits for its end.
  absl::Status end();

 private:
  PerftestServer(std::unique_ptr<Program> program, std::uint16_t port)
      : program_(std::move(program)), port_(port) {}
  std::unique_ptr<Program> program_;
  std::uint16_t port_;
};

/// A run from this host to the client's other side: the figure as parse_perftest() has it. Tried some times
/// where no figure comes out; `retries` is increased by each try but the first.
absl::StatusOr<double> run_perftest(Client& client, const transport::RdmaDevice& device,
                                    const PerftestRun& run, std::size_t& retries);

}  // namespace verbena::apps::bench
