// How a guest of a rendezvous over a network finds rank 0: at first, and another one when that is gone.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "job/meeting/entry_watch.hpp"
#include "job/meeting/etcd_place.hpp"
#include "job/meeting/options.hpp"
#include "job/rendezvous.hpp"
#include "transport/host_port.hpp"
#include "transport/transport.hpp"

namespace verbena::job {

/// Where rank 0 is to be found: at an address, or where etcd says. Thread safety: one owner.
class LeaderPlace {
 public:
  /// As the options have it.
  explicit LeaderPlace(const MeetingOptions& options) : address_(options.place), etcd_(options.etcd) {}

  /// One attempt; blocks.
  absl::StatusOr<std::unique_ptr<transport::Connection>> try_to_connect(transport::Transport& transport,
                                                                        transport::TimePoint deadline);
  /// Whether it need not stay where it is.
  [[nodiscard]] bool may_move() const { return etcd_.has_value(); }
  /// Whether another attempt may do better than one that has ended with this error.
  [[nodiscard]] bool may_pass(const absl::Status& error) const;
  /// Whether the error comes before the deadline, though nothing has changed.
  [[nodiscard]] static bool is_early(const absl::Status& error) { return !absl::IsDeadlineExceeded(error); }
  /// There will be no attempt for long: etcd is not asked any more until then.
  void rest() { watch_.reset(); }

 private:
  const transport::HostPort address_;
  const std::optional<EtcdPlace> etcd_;  ///< instead
  std::unique_ptr<EntryWatch> watch_;    ///< while it is looked for
};

/// Waits for the first rank 0, which may come later. Errors as of NetworkRendezvous::join().
absl::StatusOr<std::unique_ptr<transport::Connection>> connect_to_leader(transport::Transport& transport,
                                                                         const MeetingOptions& options,
                                                                         std::chrono::milliseconds patience,
                                                                         const Rendezvous::Stopped& stopped);

/// The search for another one. Thread safety: none; belongs to the thread of a talk.
class LeaderSearch {
 public:
  explicit LeaderSearch(const MeetingOptions& options) : place_(options) {}

  /// Rank 0 is gone: `lost` says who, and why.
  void begin(transport::TimePoint now, std::chrono::milliseconds patience, std::string lost);
  /// There is no connection, or no more: the next attempt comes soon.
  void go_on(transport::TimePoint now);
  /// Who was found cannot be rank 0 to this process.
  void be_refused(transport::TimePoint now, std::string why);
  /// There is another one.
  void end();

  [[nodiscard]] bool is_on() const { return gives_up_at_.has_value(); }
  /// With a process that may be it.
  [[nodiscard]] bool is_connected() const { return is_connected_; }
  /// One attempt, if it is time for one; it may wait. nullptr: nobody was found.
  [[nodiscard]] std::unique_ptr<transport::Connection> try_to_connect(transport::Transport& transport);
  /// True once after each attempt that has found somebody: this process has to say who it is.
  [[nodiscard]] bool takes_introduction();
  /// If it has been in vain, which ends it: an error for people.
  [[nodiscard]] std::optional<std::string> take_failure(transport::TimePoint now);
  /// How long its thread may sleep meanwhile.
  [[nodiscard]] static std::chrono::milliseconds turn();

 private:
  void remind(transport::TimePoint now);

  LeaderPlace place_;
  std::optional<transport::TimePoint> gives_up_at_;  ///< if it is on
  std::chrono::milliseconds patience_{0};
  std::string lost_;
  transport::TimePoint next_attempt_{};
  std::chrono::milliseconds attempt_{0};  ///< so long the next one may take
  bool is_connected_ = false;
  bool has_introduced_itself_ = false;
  std::string obstacle_;  ///< of the last attempt
  transport::TimePoint next_reminder_{};
};

}  // namespace verbena::job
