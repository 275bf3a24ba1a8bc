// How rank 0 of a job on several hosts decides which copy takes the place of a server that is gone, and lets
// processes join that come in the place of one that has died (docs/elasticity.md). Nobody can end a process
// on another host: docs/decisions/0055-copies-on-several-hosts.md.
#pragma once

#include <poll.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/launcher/leader.hpp"
#include "apps/launcher/rank_chains.hpp"
#include "base/file_descriptor.hpp"
#include "cluster/configuration.hpp"
#include "cluster/controller.hpp"
#include "cluster/store_state.hpp"
#include "cluster/word.hpp"
#include "job/peer_news.hpp"

namespace verbena::apps {

/// begin() and the functions of listener() may be called by any thread; all else belongs to one.
class HostsSuccession final : public Leader::Survival {
 public:
  /// RESOURCE_EXHAUSTED: no descriptor.
  static absl::StatusOr<std::unique_ptr<HostsSuccession>> make(const RankChains& chains, job::PeerNews& news);

  /// For ToldConfiguration, as `rest` and `on_begin`.
  [[nodiscard]] job::PeerNews::Listener listener();
  void begin(const cluster::Configuration& first);

  void add_descriptors(std::vector<pollfd>& wanted) const override;
  void tell(Host& host) override;
  absl::StatusOr<std::string> go_on_without(std::uint32_t rank, const std::string& why) override;
  absl::StatusOr<std::string> let_leave(std::uint32_t rank) override;
  [[nodiscard]] bool is_being_joined(std::uint32_t server) override;
  [[nodiscard]] std::optional<Chains> chains() override;

 private:
  using ServerCopy = cluster::Controller::Copy;

  HostsSuccession(const RankChains& chains, job::PeerNews& news, base::FileDescriptor bell);

  struct Gone {};
  /// What was heard of a rank's process, or what it has said.
  struct Heard {
    std::uint32_t rank = 0;
    std::variant<Gone, cluster::Word> what;
  };
  /// The process that has a rank.
  struct Process {
    ServerCopy copy;
    bool is_late = false;  ///< it has come in the place of another one
    std::string address;   ///< of one that is late, once it has said so
  };

  void add(Heard heard);
  void take_first();
  void take(const Heard& heard, Host& host);
  void take_suspicion(const cluster::Suspicion& suspicion, Host& host);
  void welcome(std::uint32_t rank, const cluster::Arrival& arrival, Host& host);
  void let_join(std::uint32_t rank, const std::string& address);
  void put(const std::string& key, const std::string& value);
  void admit(Host& host);
  void tell_newest();
  void tell_again();
  [[nodiscard]] std::optional<std::uint32_t> rank_of(const ServerCopy& copy) const;

  job::PeerNews& news_;
  const base::FileDescriptor bell_;             ///< rings when there is something to take
  std::map<std::uint32_t, Process> processes_;  ///< by rank, of those that are servers or copies
  std::uint32_t next_copy_ = 0;                 ///< none has had that number
  cluster::StoreState state_;
  cluster::Controller controller_{state_, [](std::uint64_t) {}};
  bool has_begun_ = false;         ///< the first configuration is in the store
  std::uint64_t told_number_ = 1;  ///< of the newest configuration that all were told

  mutable std::mutex mutex_;
  // Under the lock:
  std::optional<cluster::Configuration> first_;
  std::vector<Heard> heard_;
};

}  // namespace verbena::apps
