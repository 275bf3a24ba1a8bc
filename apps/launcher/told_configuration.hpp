// How a process of a job on several hosts hears of configurations (cluster/configuration.hpp), where nobody
// can end a process on another host: one that is left out of a configuration may go on
// (docs/decisions/0055-copies-on-several-hosts.md).
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/launcher/rank_chains.hpp"
#include "cluster/account.hpp"
#include "cluster/configuration.hpp"
#include "cluster/order.hpp"
#include "cluster/word.hpp"
#include "job/peer_news.hpp"

namespace verbena::apps {

/// How a process hears of the job's configurations: at the rendezvous, from rank 0. Thread safety: any thread
/// may call; each source belongs to one thread. It must outlive its sources.
class ToldConfiguration {
 public:
  /// `rest`: what else is heard there (on_news is its own). `on_begin`: is told of the first configuration.
  ToldConfiguration(RankChains chains, job::PeerNews& news, job::PeerNews::Listener rest = {},
                    std::function<void(const cluster::Configuration& first)> on_begin = {});
  ~ToldConfiguration();
  ToldConfiguration(const ToldConfiguration&) = delete;
  ToldConfiguration& operator=(const ToldConfiguration&) = delete;

  /// The processes have met: where those listen that are servers or copies, by rank. Makes the first
  /// configuration, which all processes make alike. May be said again.
  void begin(const std::vector<std::string>& addresses);
  std::shared_ptr<cluster::ConfigurationSource> source();

  // Of a process that waits for another leader if the one that it has is gone: of any rank but 0.
  struct LeaderChange {
    std::chrono::milliseconds patience;  ///< so long it waits
    cluster::Account own;                ///< what is known of this process at the beginning
    std::function<bool()> ends_with_it;  ///< just now it would not wait for another one
    std::function<void()> on_gone;       ///< nobody leads any more, for now
    std::function<void(const cluster::HasLeader& next)> on_next;
  };
  /// The functions are called by any thread, which they must not hold up. To be called before source().
  void outlive_leader(LeaderChange change);

  // Of a process that comes while the job runs: begin() is not for it.
  using Task = std::variant<cluster::BecomesCopy, cluster::BecomesWorkers>;
  /// Waits until rank 0 says what it becomes. INVALID_ARGUMENT: nothing, with the reason. CANCELLED:
  /// `stopped` says so, which is asked now and then.
  absl::StatusOr<Task> wait_for_task(const std::function<bool()>& stopped);
  /// Of one that becomes workers: it has read all that it needs for that.
  void has_read();
  /// Waits for a while until it has their place; whether it has. INVALID_ARGUMENT: it is not needed any more.
  absl::StatusOr<bool> wait_for_place(std::chrono::milliseconds patience);
  /// Where it listens: it wants to become a copy of that server.
  void join();

  // Of a server's or a copy's process.
  void listens_at(const std::string& address);
  /// Is called when there is another configuration, by any thread, which it must not hold up.
  void wake_by(std::function<void()> wake);
  /// This process is to end, and asks for another copy to take its place. If that may be, there is a
  /// configuration without it.
  void leave();
  /// The newest configuration names it.
  [[nodiscard]] bool has_place();
  /// Rank 0 has said that another process takes this one's place, which then ends; and not since that it
  /// does not.
  [[nodiscard]] bool steps_aside() const { return steps_aside_.load(std::memory_order_relaxed); }
  /// Is called when this process is to start another one of that rank on its host, by any thread, which it
  /// must not hold up.
  void start_others_by(std::function<void(std::uint32_t rank)> start);

 private:
  class Source;

  void take(const cluster::Configuration& configuration);
  void take(const cluster::Order& order);
  void take_place();
  [[nodiscard]] std::string describe();
  void lose_leader();

  const RankChains chains_;
  job::PeerNews& news_;
  const std::function<void(const cluster::Configuration& first)> on_begin_;
  std::mutex mutex_;
  std::string own_address_;
  std::function<void()> wake_ = [] {};
  std::function<void(std::uint32_t rank)> start_other_ = [](std::uint32_t) {};
  std::optional<LeaderChange> leader_change_;  ///< nullopt: it does not wait
  std::condition_variable told_;
  std::optional<absl::StatusOr<Task>> task_;  ///< see wait_for_task()
  bool has_workers_place_ = false;
  std::atomic<bool> steps_aside_ = false;
  bool has_begun_ = false;
  cluster::Configuration newest_;
  std::atomic<std::uint64_t> number_ = 0;  ///< newest_'s
};

}  // namespace verbena::apps
