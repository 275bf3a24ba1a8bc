// How rank 0 of a job on several hosts lets other processes take the places of workers that have died
// (docs/elasticity.md). Nobody starts them but whoever has started the ones before; and one that was lost may
// go on, where nobody can end it: docs/decisions/0063-workers-that-come-back.md.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/launcher/leader.hpp"
#include "base/file_descriptor.hpp"
#include "base/own_time.hpp"
#include "cluster/word.hpp"
#include "job/peer_news.hpp"

namespace verbena::apps {

/// begin() and the functions of listener() may be called by any thread; all else belongs to one.
class HostsReplacement final : public Leader::Replacement {
 public:
  struct Options {
    std::uint32_t first_rank = 0;  ///< of the workers' processes, which come last
    std::uint32_t processes = 0;
    std::uint32_t workers = 1;  ///< of each process
    /// How long a place is kept for another process. 0: nobody is waited for.
    std::chrono::seconds patience{60};
    /// How long a process must have been there before it can be silent.
    std::chrono::milliseconds silence_timeout{5000};
    /// For tests.
    std::function<base::OwnTime::TimePoint()> clock = std::chrono::steady_clock::now;
  };
  /// RESOURCE_EXHAUSTED: no descriptor.
  static absl::StatusOr<std::unique_ptr<HostsReplacement>> make(const Options& options, job::PeerNews& news);
  ~HostsReplacement() override { news_.listen({}); }
  HostsReplacement(const HostsReplacement&) = delete;
  HostsReplacement& operator=(const HostsReplacement&) = delete;

  [[nodiscard]] job::PeerNews::Listener listener();
  /// All processes have met: from now on workers may die.
  void begin();

  void add_descriptors(std::vector<pollfd>& wanted) const override;
  void tell(Host& host) override;
  absl::StatusOr<std::string> await(std::uint32_t rank, const std::string& why, bool is_expected) override;
  std::string keep_place(std::uint32_t rank) override;
  void keep_longer(std::uint32_t rank) override;
  bool note_iteration(std::uint32_t rank, std::int64_t iteration) override;
  [[nodiscard]] std::optional<std::uint32_t> rank_of_silent(std::uint32_t worker) const override;
  [[nodiscard]] std::optional<std::pair<std::uint32_t, std::string>> overdue() const override;

 private:
  using TimePoint = base::OwnTime::TimePoint;
  /// What a rank's process has of those that were the same worker before it.
  struct Life {
    std::int64_t newest_iteration = 0;                   ///< that any of them has reported
    std::uint32_t deaths = 0;                            ///< since then
    TimePoint came_at;                                   ///< the newest one
    std::optional<TimePoint> kept_until = std::nullopt;  ///< its place, for another one
    std::chrono::seconds kept_for{0};                    ///< since that was decided
  };
  struct Heard {
    std::uint32_t rank = 0;
    std::optional<cluster::Arrival> arrival;  ///< nullopt: the rank's process is gone
  };

  HostsReplacement(const Options& options, job::PeerNews& news, base::FileDescriptor bell);
  [[nodiscard]] Life* life_of(std::uint32_t rank);
  std::string keep(Life& life, std::chrono::seconds how_long);
  void add(Heard heard);
  void take(const Heard& heard, Host& host);

  const Options options_;
  job::PeerNews& news_;
  const base::FileDescriptor bell_;  ///< rings when there is something to take
  base::OwnTime time_;               ///< places are kept by it: nobody can come while this process is stopped
  std::vector<Life> lives_;          ///< by process

  mutable std::mutex mutex_;
  // Under the lock:
  bool has_begun_ = false;
  std::vector<Heard> heard_;
};

/// A listener that tells both what it hears. on_news is neither's.
job::PeerNews::Listener both(job::PeerNews::Listener one, job::PeerNews::Listener other);

}  // namespace verbena::apps
