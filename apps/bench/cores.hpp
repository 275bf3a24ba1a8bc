// Whether a measurement had the processor for itself. On shared cores, the measured times are those of the
// scheduler.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace verbena::apps::bench {

/// What this process was given, over some time.
struct CoreUse {
  std::uint32_t needed = 2;           ///< threads that poll at once on this host: both sides', or one
  std::uint32_t usable = 0;           ///< cores that this process may run on; 0: unknown
  std::optional<double> quota_cores;  ///< cores that its control group may use
  bool throttled = false;             ///< the group reached its quota during the measurement
  double seconds = 0;                 ///< measured
  std::optional<double>
      kept_waiting;  ///< seconds of them in which the measuring thread could have run, and did not
};

/// Why budgets cannot be judged, in one line; empty: each side had a core of its own.
std::string shared_cores(const CoreUse& use);

/// Watches the thread that makes it.
class CoreWatch {
 public:
  /// `root` is the root of the file system; tests give another folder.
  explicit CoreWatch(std::uint32_t needed, std::filesystem::path root = "/");
  [[nodiscard]] CoreUse so_far() const;

 private:
  struct Counts {
    double seconds = 0;
    std::optional<double> kept_waiting;
    std::uint64_t throttled = 0;
  };
  [[nodiscard]] Counts now() const;

  const std::uint32_t needed_;
  const std::filesystem::path root_;
  const Counts before_;
};

}  // namespace verbena::apps::bench
