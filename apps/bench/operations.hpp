// The measurements themselves. Each appends its results; the other side runs as a thread of this process with
// a transport of its own.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/bench/report.hpp"
#include "transport/transport.hpp"

namespace verbena::apps::bench {

struct BenchOptions {
  std::vector<std::size_t> sizes_bytes{8, 64, 400, 4096, 65536, 1 << 20};
  std::vector<std::string> operations;  ///< empty: all
  TimingOptions timing;
  std::function<absl::StatusOr<std::unique_ptr<transport::Transport>>()> make_transport;
  /// Told before each measurement.
  std::function<void(std::string_view what)> progress = [](std::string_view) {};

  [[nodiscard]] bool wants(std::string_view operation) const;
};

/// Every name that BenchOptions::operations may hold.
[[nodiscard]] const std::vector<std::string>& operation_names();

/// read, read-batch, write, write-notify: the transport alone.
absl::Status measure_transport(const BenchOptions& options, std::vector<Result>& results);
/// The rest: tables over it.
absl::Status measure_tables(const BenchOptions& options, std::vector<Result>& results);

}  // namespace verbena::apps::bench
