// On a cluster the processes of a run are not started by a launcher that could listen to them, as on one
// host. Rank 0 does that instead: each process (rank 0's own, too) connects to it by TCP and sends the same
// lines as the launcher's children. TCP is used, and not the job's transport, because the transport may be
// what fails.
//
// A process sends "RANK NONCE", the leader answers "NONCE PROOF", and the process sends "PROOF": each proves
// that it has the job's secret before it is told anything else. Then the leader sends "welcome". Later the
// leader sends "stop", which means "end now", and closes the connection, which means "you may go".
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/launcher/outlet.hpp"
#include "apps/launcher/run_monitor.hpp"
#include "apps/report/run_status.hpp"
#include "job/line_stream.hpp"
#include "transport/secret.hpp"

namespace verbena::apps {

/// Thread safety: belongs to one thread at a time.
class Leader {
 public:
  struct Member {
    std::string name;  ///< "worker 1 (rank 3, pid 4711 on node7)"
    bool server = false;
  };

  /// Listens on any free port: of the loopback interface, or of all interfaces. `members` are in the order of
  /// their ranks.
  static absl::StatusOr<std::unique_ptr<Leader>> listen(bool loopback_only, std::vector<Member> members,
                                                        std::shared_ptr<const transport::Secret> secret);
  ~Leader();  ///< lets the members go
  Leader(const Leader&) = delete;
  Leader& operator=(const Leader&) = delete;

  /// The address at which the members find it.
  [[nodiscard]] const std::string& address() const { return address_; }

  /// Listens to all members until they have ended; when one fails, it tells the others to stop. The time is
  /// bounded: it also returns if some do not end, see abandoned(). `monitor` has the failure, if there was
  /// one.
  void run(RunMonitor& monitor);
  /// One step of run(), for callers that have a loop of their own: waits at most so long for something to
  /// happen. False when run() would return.
  bool poll(RunMonitor& monitor, std::chrono::milliseconds patience);

  /// Some members have not ended. The program that started them must end them.
  [[nodiscard]] bool abandoned() const { return abandoned_; }
  /// The signal that members that have ended reported; 0 if none.
  [[nodiscard]] int signal() const { return signal_; }

 private:
  using Clock = RunMonitor::Clock;
  using Cause = RunMonitor::Cause;
  struct Seat {
    Member member;
    int descriptor = -1;
    job::LineStream lines;
    bool came = false;
    bool ended = false;  ///< and has reported its end
    bool gone = false;   ///< has closed its connection
    bool reported_failure = false;
  };
  /// A connection that has not proved yet which process it belongs to.
  struct Stranger {
    int descriptor = -1;
    Clock::time_point deadline;
    std::string said = {};  ///< the part of a line that has arrived
    bool challenged = false;
    std::uint32_t rank = 0;  ///< that it claims; this and the next two are set once challenged
    transport::Nonce theirs{};
    transport::Nonce ours{};
  };

  Leader(int listener, std::string address, std::shared_ptr<const transport::Secret> secret,
         std::vector<Member> members);

  void wait(const RunMonitor& monitor, std::chrono::milliseconds patience) const;
  [[nodiscard]] RunStatus status(const RunMonitor& monitor) const;
  void accept();
  void send_one_away();
  void hear_strangers();
  bool challenge(Stranger& stranger, std::string_view line);
  bool seat(const Stranger& stranger, std::string_view line);
  void hear_members(RunMonitor& monitor);
  void on_line(Seat& seat, std::string_view line, RunMonitor& monitor);
  void on_gone(Seat& seat, RunMonitor& monitor);
  void check_time(RunMonitor& monitor);
  void stop_all();
  [[nodiscard]] bool all_over(bool workers_only) const;

  const int listener_;
  const std::string address_;
  const std::shared_ptr<const transport::Secret> secret_;
  std::deque<Seat> seats_;
  std::deque<Stranger> strangers_;
  const Clock::time_point start_ = Clock::now();
  std::optional<Clock::time_point> stopped_at_;
  std::optional<Clock::time_point> workers_left_at_;
  bool abandoned_ = false;
  int signal_ = 0;
};

/// A process's connection to the leader.
class LeaderLink : public PipeOutlet {
 public:
  /// Tries the leader's addresses one after the other. `same_host`: whether the leader is on this host.
  static absl::StatusOr<std::unique_ptr<LeaderLink>> connect(const std::string& address, std::uint32_t rank,
                                                             bool same_host, const transport::Secret& secret,
                                                             std::chrono::seconds patience,
                                                             const std::function<bool()>& stopped);
  explicit LeaderLink(int descriptor) : PipeOutlet(descriptor) {}
  ~LeaderLink() override;

  /// Whether the leader has gone without having sent "stop".
  [[nodiscard]] bool lost();
  /// Call it after the last message. Waits, for a short time, until the leader has heard all members and has
  /// sent what it has to send. False if it has not done so by then: it is busy or stopped, or its host hangs.
  bool wait_for_end();

 private:
  bool read();

  job::LineStream lines_;
  bool told_to_stop_ = false;
};

}  // namespace verbena::apps
