// Copies of servers in a job whose processes something else has started, on several hosts: which process is
// which copy, how processes hear of configurations (cluster/configuration.hpp), and how rank 0 decides about
// them. Nobody can end a process on another host, so that one that is left out of a configuration may go on
// (docs/decisions/0055-copies-on-several-hosts.md).
#pragma once

#include <poll.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/launcher/leader.hpp"
#include "base/file_descriptor.hpp"
#include "cluster/configuration.hpp"
#include "cluster/controller.hpp"
#include "cluster/store_state.hpp"
#include "job/peer_news.hpp"

namespace verbena::apps {

/// By server: the ranks, among all processes of the job, of those that are its copies; the first one serves.
using RankChains = std::vector<std::vector<std::uint32_t>>;

struct FormedChains {
  RankChains ranks;
  /// Each copy of a server is on a host of its own.
  bool are_apart = true;
};
/// The processes of the first ranks are the servers, each with `replicas` copies: rank r < servers is server
/// r, and the next ones are copies, of whichever servers let each copy be on a host without another one of
/// its server, if that can be. `hosts`: identities, by rank. All processes get the same answer.
FormedChains form_chains(std::span<const std::string> hosts, std::uint32_t servers, std::uint32_t replicas);

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

 private:
  class Source;

  void take(const cluster::Configuration& configuration);

  const RankChains chains_;
  job::PeerNews& news_;
  const std::function<void(const cluster::Configuration& first)> on_begin_;
  std::mutex mutex_;
  bool has_begun_ = false;
  cluster::Configuration newest_;
  std::atomic<std::uint64_t> number_ = 0;  ///< newest_'s
};

/// Rank 0's decisions. begin() and the functions of listener() may be called by any thread; all else belongs
/// to one.
class HostsSuccession final : public Leader::Survival {
 public:
  /// RESOURCE_EXHAUSTED: no descriptor.
  static absl::StatusOr<std::unique_ptr<HostsSuccession>> make(RankChains chains, job::PeerNews& news);

  /// For ToldConfiguration, as `rest` and `on_begin`.
  [[nodiscard]] job::PeerNews::Listener listener();
  void begin(const cluster::Configuration& first);

  void add_descriptors(std::vector<pollfd>& wanted) const override;
  [[nodiscard]] std::vector<Loss> take_losses() override;
  absl::StatusOr<std::string> go_on_without(std::uint32_t rank, const std::string& why) override;
  [[nodiscard]] std::optional<Chains> chains() override;

 private:
  HostsSuccession(RankChains chains, job::PeerNews& news, base::FileDescriptor bell)
      : ranks_(std::move(chains)), news_(news), bell_(std::move(bell)) {}

  struct Word {
    Loss loss;
    bool is_suspicion = false;  ///< its connection has not ended
  };

  void add(Word word);
  void hear(std::uint32_t rank, std::string_view word);
  void take_first();
  [[nodiscard]] std::optional<std::uint32_t> rank_at(const std::string& address) const;

  const RankChains ranks_;
  job::PeerNews& news_;
  const base::FileDescriptor bell_;  ///< rings when there is something to take
  cluster::StoreState state_;
  cluster::Controller controller_{state_, [](std::uint64_t) {}};
  bool has_begun_ = false;  ///< the first configuration is in the store

  mutable std::mutex mutex_;
  // Under the lock:
  std::optional<cluster::Configuration> first_;
  std::vector<Word> words_;
};

}  // namespace verbena::apps
