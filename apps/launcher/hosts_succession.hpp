// How rank 0 of a job on several hosts decides which copy takes the place of a server that is gone, and lets
// processes join that come in the place of one that has died, or are added; and which servers move to a host
// that comes, or from one that leaves (docs/elasticity.md). Nobody can end a process on another host:
// docs/decisions/0055-copies-on-several-hosts.md.
#pragma once

#include <poll.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/launcher/leader.hpp"
#include "apps/launcher/moving_workers.hpp"
#include "apps/launcher/rank_chains.hpp"
#include "apps/launcher/shares.hpp"
#include "base/file_descriptor.hpp"
#include "base/own_time.hpp"
#include "cluster/configuration.hpp"
#include "cluster/controller.hpp"
#include "cluster/store_state.hpp"
#include "cluster/word.hpp"
#include "job/peer_news.hpp"

namespace verbena::apps {

/// begin() and the functions of listener() may be called by any thread; all else belongs to one.
class HostsSuccession final : public Leader::Survival {
 public:
  using HostOfRank = apps::HostOfRank;
  static constexpr const char* kWorkersStay = "they cannot be replaced";
  /// `hosts`: by rank. `why_workers_stay`: MovingWorkers::Options::why_they_stay. RESOURCE_EXHAUSTED: no
  /// descriptor.
  static absl::StatusOr<std::unique_ptr<HostsSuccession>> make(
      const RankChains& chains, const std::vector<HostOfRank>& hosts, job::PeerNews& news,
      const std::string& why_workers_stay = kWorkersStay);

  /// A process that was there when rank 0 ended.
  struct Survivor {
    std::uint32_t rank = 0;
    std::string address;  ///< where it listens; empty: it is a worker's
    HostOfRank host;
  };
  /// Of another rank 0, in a run that goes on: these are left of it, and `newest` is the newest configuration
  /// that any of them knows. All others are left out. DATA_LOSS: that would be all that a server had.
  static absl::StatusOr<std::unique_ptr<HostsSuccession>> take_over(
      const RankChains& chains, const std::vector<HostOfRank>& hosts, job::PeerNews& news,
      const std::vector<Survivor>& survivors, cluster::Configuration newest,
      const std::string& why_workers_stay = kWorkersStay);

  /// For ToldConfiguration, as `rest` and `on_begin`.
  [[nodiscard]] job::PeerNews::Listener listener();
  void begin(const cluster::Configuration& first);
  /// Instead, of one that has taken over: tells all by which configuration they go from now on.
  void go_on();
  /// Which copy of which server the process of that rank is; nullopt: of none.
  [[nodiscard]] std::optional<cluster::Controller::Copy> copy_of(std::uint32_t rank) const;

  [[nodiscard]] Leads leads() override;
  void add_descriptors(std::vector<pollfd>& wanted) const override;
  void tell(Host& host) override;
  absl::StatusOr<std::string> go_on_without(std::uint32_t rank, const std::string& why) override;
  absl::StatusOr<std::string> let_leave(std::uint32_t rank) override;
  [[nodiscard]] bool is_being_joined(std::uint32_t server) override;
  [[nodiscard]] std::optional<Chains> chains() override;
  [[nodiscard]] std::vector<std::string> moves() override;
  Successor note_free(std::uint32_t rank, bool has_stepped_aside) override;
  void note_work(std::uint32_t rank) override;
  void end_moves_of_workers(bool is_over) override;

 private:
  using ServerCopy = cluster::Controller::Copy;

  HostsSuccession(const RankChains& chains, const std::vector<HostOfRank>& hosts, job::PeerNews& news,
                  const std::string& why_workers_stay, base::FileDescriptor bell);

  struct Gone {};
  /// What was heard of a rank's process, or what it has said.
  struct Heard {
    std::uint32_t rank = 0;
    std::variant<Gone, cluster::Word> what;
  };
  /// The process that has a rank.
  struct Process {
    ServerCopy copy;
    HostOfRank host = {};
    bool is_late = false;        ///< it has come while the job runs
    std::string address = {};    ///< of one that is late, once it has said so
    bool is_gone = false;        ///< the job goes on without it
    bool leaves = false;         ///< it has asked to
    std::uint32_t refusals = 0;  ///< moves from it that have come to nothing
  };
  /// A process becomes a copy of a server, and then another one steps aside. Those of one plan come one after
  /// the other.
  struct Move {
    enum class State : std::uint8_t { kWaits, kStarts, kJoins };

    std::uint32_t plan = 0;
    std::uint32_t server = 0;
    std::optional<std::uint32_t> replaces;  ///< nullopt: nobody steps aside
    HostOfRank to;
    State state = State::kWaits;
    std::uint32_t rank = 0;                  ///< of the newcomer; not while it waits
    base::OwnTime::TimePoint deadline = {};  ///< of one that starts
  };

  void add(Heard heard);
  void ring();
  absl::Status take_over_from(const std::vector<Survivor>& survivors, cluster::Configuration newest);
  void take_first();
  void take(const Heard& heard, Host& host);
  void arrive(std::uint32_t rank, const cluster::Arrival& arrival, Host& host);
  [[nodiscard]] std::vector<Holding> holdings();
  Move* plan_for(std::uint32_t rank, const cluster::Arrival& arrival, Host& host);
  void add_moves(const std::vector<Transfer>& transfers, const HostOfRank& to);
  absl::StatusOr<std::string> leave_out(std::uint32_t rank);
  absl::Status begin_refuge(std::uint32_t rank, const absl::Status& why);
  [[nodiscard]] Move* move_of(std::uint32_t newcomer);
  [[nodiscard]] bool is_being_moved(std::uint32_t server) const;
  [[nodiscard]] std::optional<std::uint32_t> starter_on(const std::string& machine) const;
  [[nodiscard]] std::vector<HostOfRank> hosts_with_starters() const;
  [[nodiscard]] std::set<std::string> machines_that_leave() const;
  [[nodiscard]] std::string name_of(const Move& move) const;
  void go_on_with_moves(Host& host);
  void finish_move(std::uint32_t newcomer, Host& host);
  void cancel_moves_of(std::uint32_t gone);
  void fail_move(std::size_t index, const std::string& why);
  void take_suspicion(const cluster::Suspicion& suspicion, Host& host);
  void welcome(std::uint32_t rank, const cluster::Arrival& arrival, std::uint32_t server, Host& host);
  void let_join(std::uint32_t rank, const std::string& address);
  void put(const std::string& key, const std::string& value);
  void admit(Host& host);
  void tell_newest();
  void tell_again();
  [[nodiscard]] std::optional<std::uint32_t> rank_of(const ServerCopy& copy) const;

  job::PeerNews& news_;
  const std::uint32_t beginning_;               ///< the job's processes at its beginning
  const base::FileDescriptor bell_;             ///< rings when there is something to take
  std::map<std::uint32_t, Process> processes_;  ///< by rank, of those that are servers or copies
  std::uint32_t copies_ = 1;                    ///< so many of each server there are to be
  std::uint32_t next_copy_ = 0;                 ///< none has had that number
  std::vector<Move> moves_;                     ///< under way, and to come
  base::OwnTime time_{
      std::chrono::steady_clock::now()};  ///< of moves: while rank 0 is stopped nobody can come
  std::uint32_t next_plan_ = 0;
  MovingWorkers workers_;
  std::vector<std::string> lines_;  ///< for people, that nobody has been shown yet
  cluster::StoreState state_;
  cluster::Controller controller_{state_, [](std::uint64_t) {}};
  bool has_begun_ = false;           ///< the first configuration is in the store
  cluster::TimePoint doubted_at_{};  ///< job::PeerNews::Standing's
  std::uint64_t told_number_ = 1;    ///< of the newest configuration that all were told

  mutable std::mutex mutex_;
  // Under the lock:
  std::optional<cluster::Configuration> first_;
  std::vector<Heard> heard_;
};

}  // namespace verbena::apps
