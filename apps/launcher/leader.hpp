// On a cluster the processes of a run are not started by a launcher that could listen to them, as on one
// host. Rank 0 does that instead: each process (rank 0's own, too) connects to it by TCP and sends the same
// lines as the launcher's children. TCP is used, and not the job's transport, because the transport may be
// what fails.
//
// A process sends "RANK NONCE", the leader answers "NONCE PROOF", and the process sends "PROOF": each proves
// that it has the job's secret before it is told anything else. If the job encrypts, which the proofs are
// also over, all that follows is, by a key that follows from the secret and from what was said. Then the
// leader sends "welcome". Later it sends "stop", which means "end now", and "go" before it closes the
// connection, which means "you may go"; "go SIGNAL" if all have saved and ended because of that signal.
// Before that it has told all "hold SIGNAL", has heard the answers of the processes of workers, and has sent
// "until ITERATION", or "release" (JointStop, StopGate).
//
// The run may outlive its leader (HostsSuccession::take_over()): then a member keeps what it has said, and
// says it again to the next one.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "apps/launcher/joint_stop.hpp"
#include "apps/launcher/line_channel.hpp"
#include "apps/launcher/outlet.hpp"
#include "apps/launcher/run_monitor.hpp"
#include "apps/report/run_status.hpp"
#include "base/file_descriptor.hpp"
#include "base/own_time.hpp"
#include "job/peer_news.hpp"
#include "transport/secret.hpp"
#include "transport/tcp/tls.hpp"

namespace verbena::apps {

/// Thread safety: belongs to one thread at a time.
class Leader {
 public:
  struct Member {
    std::string name;  ///< "worker 1 (rank 3, pid 4711 on node7)"
    bool server = false;
    std::uint32_t of_server = 0;  ///< the rank of the server that it is a copy of, if it is one
    std::int64_t pid = 0;
    std::uint32_t copy = 0;  ///< its number among those of its server, if it comes while the run goes on
    std::string host = {};   ///< its name, for people; empty: not known
  };
  /// How a run survives members. Belongs to the leader's thread.
  class Survival {
   public:
    using Leads = job::PeerNews::Standing::Leads;
    /// Whom it tells what it has heard of members. By their ranks, among all.
    class Host {
     public:
      virtual ~Host() = default;
      /// It is gone, or seems to be. `why`: "is gone: …".
      virtual void lose(std::uint32_t rank, const std::string& why) = 0;
      /// Another process comes, in the place of one without which the run goes on, or with a rank that none
      /// had: it is to become a copy.
      virtual void welcome(std::uint32_t rank, Member member) = 0;
      /// That one has all that the other copies of its server have.
      virtual void note_joined(std::uint32_t rank) = 0;
      /// That one is to end, and asks whether it may.
      virtual void leave(std::uint32_t rank) = 0;
      /// That one ends by itself, and the run goes on without it, as another one has taken its place. `what`:
      /// why, and what follows, for people: "steps aside …".
      virtual void step_aside(std::uint32_t rank, const std::string& what) = 0;
      /// The place of that rank is free, and kept for as long again: another process was started for it, or
      /// has not come.
      virtual void keep_place(std::uint32_t rank) = 0;
      /// Shows people a line.
      virtual void show(const std::string& line) = 0;

     protected:
      Host() = default;
      Host(const Host&) = default;
      Host& operator=(const Host&) = default;
    };
    /// Who comes in a place that is free.
    enum class Successor : std::uint8_t {
      kNobody,     ///< unless somebody starts a process
      kIsStarted,  ///< one is, or will be, because the leader asks for it
      kIsThere,    ///< one that was to have the place anyhow
    };
    struct Copy {
      std::uint32_t copy = 0;  ///< its number, among those of its server
      std::uint32_t rank = 0;
    };
    struct Chains {
      std::uint64_t number = 0;                ///< of the configuration
      std::vector<std::vector<Copy>> servers;  ///< by rank; the first one serves
    };

    virtual ~Survival() = default;
    /// Whether this process still leads the run, and may decide anything, and tell it. Asked before each
    /// tell(), and again before members hear what follows from that.
    [[nodiscard]] virtual Leads leads() { return Leads::kYes; }
    /// What to wait for before the next tell().
    virtual void add_descriptors(std::vector<pollfd>& wanted) const = 0;
    /// Tells what was heard since the last call. The host may call the other functions meanwhile.
    virtual void tell(Host& host) = 0;
    /// From now on the run goes on without it. Returns what follows from that, for people; an error: it
    /// cannot.
    virtual absl::StatusOr<std::string> go_on_without(std::uint32_t rank, const std::string& why) = 0;
    /// It has asked to leave, ends by itself when it hears that it has no place any more, and the run goes on
    /// without it. Returns what follows from that, for people. UNAVAILABLE: another copy is being made, and
    /// it will step aside when that has all; it may be asked for again. FAILED_PRECONDITION: no other copy
    /// has all that it has, and none is being made.
    virtual absl::StatusOr<std::string> let_leave(std::uint32_t rank) = 0;
    /// Another copy of the server may have all soon.
    [[nodiscard]] virtual bool is_being_joined(std::uint32_t server) = 0;
    /// nullopt: the members have not met yet.
    [[nodiscard]] virtual std::optional<Chains> chains() = 0;
    /// What moves from host to host, and what is to: one line for each.
    [[nodiscard]] virtual std::vector<std::string> moves() = 0;
    /// The place of a process with workers is free: it has stepped aside, or is gone. Whoever comes in it
    /// does so in a later tell().
    virtual Successor note_free(std::uint32_t rank, bool has_stepped_aside) = 0;
    /// A process with workers that has come while the run goes on has finished an iteration.
    virtual void note_work(std::uint32_t rank) = 0;
    /// No worker is to move any more, but where its place is free; or, `is_over`, none at all.
    virtual void end_moves_of_workers(bool is_over) = 0;

   protected:
    Survival() = default;
    Survival(const Survival&) = default;
    Survival& operator=(const Survival&) = default;
  };

  /// How other processes take the places of workers that have died. Belongs to the leader's thread.
  class Replacement {
   public:
    /// A process's workers.
    struct Workers {
      std::uint32_t process = 0;  ///< which of the workers' processes it is
      std::uint32_t first = 0;
      std::uint32_t count = 1;
    };
    /// Whom it tells what it has heard of members. By their ranks, among all.
    class Host {
     public:
      virtual ~Host() = default;
      /// It is gone, or seems to be. `why`: "is gone: …".
      virtual void lose(std::uint32_t rank, const std::string& why) = 0;
      /// Another process takes the place of one that was waited for. `what`: which, for people.
      virtual void replace(std::uint32_t rank, Member member, const Workers& workers,
                           const std::string& what) = 0;

     protected:
      Host() = default;
      Host(const Host&) = default;
      Host& operator=(const Host&) = default;
    };

    virtual ~Replacement() = default;
    /// What to wait for before the next tell().
    virtual void add_descriptors(std::vector<pollfd>& wanted) const = 0;
    /// Tells what was heard since the last call. The host may call the other functions meanwhile.
    virtual void tell(Host& host) = 0;
    /// From now on the run waits for another process in its place, which the leader knows of if it
    /// `is_expected`. Returns for how long, for people; an error: it does not wait.
    virtual absl::StatusOr<std::string> await(std::uint32_t rank, const std::string& why,
                                              bool is_expected) = 0;
    /// The process of that rank has stepped aside for another one, which is to come in its place. Returns the
    /// same.
    virtual std::string keep_place(std::uint32_t rank) = 0;
    /// The place of that rank, which is free, is kept for as long again.
    virtual void keep_longer(std::uint32_t rank) = 0;
    /// The process of that rank has finished an iteration. Whether no process of that rank had finished it
    /// before: one that is catching up reports what others had done.
    virtual bool note_iteration(std::uint32_t rank, std::int64_t iteration) = 0;
    /// Of the process that a server has found silent, because it misses that worker; nullopt: of none that is
    /// there now.
    [[nodiscard]] virtual std::optional<std::uint32_t> rank_of_silent(std::uint32_t worker) const = 0;
    /// Whose place was kept for too long, and what that means, for people; nullopt: nobody's.
    [[nodiscard]] virtual std::optional<std::pair<std::uint32_t, std::string>> overdue() const = 0;

   protected:
    Replacement() = default;
    Replacement(const Replacement&) = default;
    Replacement& operator=(const Replacement&) = default;
  };

  /// Listens on any free port: of the loopback interface, or of all interfaces. `members` are in the order of
  /// their ranks.
  /// `tls`: what members and leader tell each other is encrypted. The same for all of them. `clock`: for
  /// tests.
  static absl::StatusOr<std::unique_ptr<Leader>> listen(
      bool loopback_only, std::vector<Member> members, std::shared_ptr<const transport::Secret> secret,
      bool tls = false, std::function<base::OwnTime::TimePoint()> clock = std::chrono::steady_clock::now);
  /// Members may die from now on. It must outlive the leader.
  void survive_by(Survival& survival) { survival_ = &survival; }
  /// The same of workers.
  void replace_by(Replacement& replacement) { replacement_ = &replacement; }
  /// From now on a signal lets the workers save and end, and ends the run only then.
  void save_first();
  /// It leads a run that goes on, and that has lost these members; nobody comes in their names.
  void begin_without(const std::vector<std::uint32_t>& ranks);
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
  /// The run has another leader by now, or waits for one. This process ends, and the members hear nothing of
  /// it.
  [[nodiscard]] bool leads_no_more() const { return leads_no_more_; }
  /// The signal that has ended the run; 0 if none.
  [[nodiscard]] int signal() const;

 private:
  using Clock = RunMonitor::Clock;
  using Cause = RunMonitor::Cause;
  using Successor = Survival::Successor;
  struct Seat {
    Member member;
    LineChannel channel;
    bool joins = false;  ///< it has come while the run goes on, which does without it still
    std::optional<base::OwnTime::TimePoint> wants_to_leave_since = std::nullopt;
    bool came = false;
    bool ended = false;  ///< and has reported its end
    bool gone = false;   ///< has closed its connection, or the run goes on without it
    bool reported_failure = false;
    // Of a worker's process:
    bool has_finished = false;  ///< one of its workers has trained to the end
    bool is_new = false;        ///< it takes another one's place, and has not finished an iteration yet
    std::string lost_as;        ///< how it was lost, as long as the run waits for another one
    base::OwnTime::TimePoint since = {};  ///< when it was expected to come first
  };
  /// A connection that has not proved yet which process it belongs to.
  struct Stranger {
    LineChannel channel;
    base::OwnTime::TimePoint deadline;
    std::string said = {};  ///< the part of a line that has arrived
    bool challenged = false;
    bool proven = false;     ///< only the handshake of TLS is missing
    std::uint32_t rank = 0;  ///< that it claims; this and the next two are set once challenged
    transport::Nonce theirs{};
    transport::Nonce ours{};
  };

  Leader(int listener, std::string address, std::shared_ptr<const transport::Secret> secret,
         std::unique_ptr<const transport::tcp::TlsContext> tls, std::vector<Member> members,
         std::function<base::OwnTime::TimePoint()> clock);

  class Ear;

  void wait(const RunMonitor& monitor, std::chrono::milliseconds patience) const;
  [[nodiscard]] RunStatus status(const RunMonitor& monitor) const;
  void add_processes_of_workers(RunStatus& status) const;
  void add_copies(RunStatus& status) const;
  void accept();
  void send_one_away();
  void hear_strangers();
  bool hear(Stranger& stranger);
  bool challenge(Stranger& stranger, std::string_view line);
  bool believe(Stranger& stranger, std::string_view line);
  void seat(Stranger& stranger);
  void hear_members(RunMonitor& monitor);
  void on_line(Seat& seat, std::string_view line, RunMonitor& monitor);
  void on_line_of_joining(Seat& seat, std::string_view line, RunMonitor& monitor);
  void lose(Seat& seat, const std::string& why, RunMonitor& monitor);
  void lose_joining(Seat& seat, const std::string& why, RunMonitor& monitor);
  void lose_worker(Seat& seat, const std::string& what, RunMonitor& monitor);
  void take_stepping_aside(Seat& seat, RunMonitor& monitor);
  void take_place(std::uint32_t rank, Member member);
  void hear_worker(Seat& seat, const job::ChildMessage& message);
  void welcome(std::uint32_t rank, Member member);
  void let_leave_who_want_to(RunMonitor& monitor);
  static void let_go(Seat& seat, std::string_view word);
  void end_those_that_join();
  [[nodiscard]] std::uint32_t rank_of(const Seat& seat) const;
  [[nodiscard]] bool is_left_over(const Seat& seat) const;
  [[nodiscard]] Seat* first_of_several(const Seat& seat);
  void check_time(RunMonitor& monitor);
  void take_wish_to_stop(int signal, RunMonitor& monitor);
  void decide_about_stop(RunMonitor& monitor);
  [[nodiscard]] bool is_to_stop() const { return stop_ && stop_->is_under_way(); }
  void tell_of_stop(const std::string& line);
  void end_by(int signal, RunMonitor& monitor);
  void stop_all();
  void give_orders();
  [[nodiscard]] bool all_over(bool workers_only) const;

  const int listener_;
  const std::string address_;
  const std::shared_ptr<const transport::Secret> secret_;
  const std::unique_ptr<const transport::tcp::TlsContext> tls_;  ///< nullptr: nothing is encrypted
  const std::function<base::OwnTime::TimePoint()> clock_;
  base::OwnTime time_;                  ///< as far as it leads: others have so much to come, and to end
  Survival* survival_ = nullptr;        ///< nullptr: it needs all servers
  Replacement* replacement_ = nullptr;  ///< nullptr: it needs all workers
  std::deque<Seat> seats_;
  std::vector<LineChannel> former_;  ///< connections of those whose seats others have
  std::deque<Stranger> strangers_;
  std::optional<JointStop> stop_;  ///< nullopt: nothing is saved first
  std::optional<Clock::time_point> stopped_at_;
  std::optional<base::OwnTime::TimePoint> workers_left_at_;
  bool abandoned_ = false;
  bool leads_no_more_ = false;
  int signal_ = 0;
};

/// A process's connection to the leader.
class LeaderLink : public Outlet {
 public:
  /// Tries the leader's addresses one after the other. `same_host`: whether the leader is on this host.
  /// `tls`: as for Leader::listen(). FAILED_PRECONDITION if the leader was told otherwise; DATA_LOSS if what
  /// it sent was changed on the way.
  static absl::StatusOr<std::unique_ptr<LeaderLink>> connect(const std::string& address, std::uint32_t rank,
                                                             bool same_host, const transport::Secret& secret,
                                                             std::chrono::seconds patience,
                                                             const std::function<bool()>& stopped,
                                                             bool tls = false);

  ~LeaderLink() override;
  LeaderLink(const LeaderLink&) = delete;
  LeaderLink& operator=(const LeaderLink&) = delete;

  /// The leader is gone, or no leader any more. Any thread may call, and does not wait.
  void leave_leader();
  /// Another one listens there. The same.
  void follow(const std::string& address, bool same_host);

  /// What to do when the leader says after which iteration the workers end. It waits for none of them. In a
  /// process of servers only the first and the last two have anything to do.
  struct StopListener {
    std::function<void(int signal)> hold;
    std::function<void(std::int64_t iteration)> end_after;
    std::function<void()> release;
    /// It was told to hold, and not released. Then it ends with its leader: another one would not know.
    std::function<bool()> is_held;
  };
  struct Listening {
    /// The end of the leader is not the end: there may be another one, which has the same secret. nullptr: it
    /// is the end.
    std::shared_ptr<const transport::Secret> outlives_with = nullptr;
    std::optional<StopListener> stop = std::nullopt;  ///< of a job that can be saved; without it: not heeded
  };
  /// From now on a thread hears what the leader says. To be called before descriptor() and send().
  /// RESOURCE_EXHAUSTED: no descriptor.
  absl::Status listen(Listening listening);

  void send(const job::ChildMessage& message) override;
  /// Also readable when the leader has said something; after listen(), when this process is to end.
  [[nodiscard]] int descriptor() const override;

  /// Of a link that outlives its leader: whether there is one just now. Any other link ends with it.
  [[nodiscard]] bool is_led();
  /// All were told to save and end, and were not released: there will be no other leader.
  [[nodiscard]] bool is_held() const;
  /// Whether the leader has gone without having sent "stop".
  [[nodiscard]] bool lost();
  /// How many have led before the one that leads now.
  [[nodiscard]] int leaders_before();
  /// Whether the leader has said that the run goes on without this process.
  [[nodiscard]] bool is_dismissed();
  /// Call it after the last message. Waits, for a short time, until the leader has heard all members and has
  /// sent what it has to send. False if it has not done so by then: it is busy or stopped, or its host hangs.
  /// If the link outlives its leader, the time begins when there is one, which is waited for until `stopped`.
  /// `has_saved`: others may still write what they save, and it waits longer.
  bool wait_for_end(const std::function<bool()>& stopped, bool has_saved = false);
  /// After that: the signal because of which all have saved and ended; 0: not known of any.
  [[nodiscard]] int ended_by();

 private:
  using Clock = std::chrono::steady_clock;
  /// What another leader has to hear, too: a line, or the newest one of its kind.
  struct Kept {
    std::deque<std::string> lines;
    std::size_t bytes = 0;
    std::map<std::uint32_t, std::string> statistics;  ///< by worker
  };
  struct Next {
    std::string address;
    bool same_host = false;
  };
  /// What hears the leader, and moves it from one to the next.
  struct Movement {
    std::shared_ptr<const transport::Secret> secret;  ///< nullptr: it ends with its leader
    base::FileDescriptor bell;                        ///< rings for good when this process is to end
    base::FileDescriptor wakes;                       ///< the thread
    std::thread thread;
  };

  LeaderLink(LineChannel channel, std::uint32_t rank, std::unique_ptr<const transport::tcp::TlsContext> tls)
      : rank_(rank),
        socket_(channel.descriptor()),
        tls_(std::move(tls)),
        channel_(std::move(channel)),
        led_since_(Clock::now()) {}
  bool read() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void take_line(std::string_view line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void obey();
  void keep(const job::ChildMessage& message, const std::string& line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void move();
  void move_to(const Next& next);
  bool wait_for_last_leader(const std::function<bool()>& stopped, std::chrono::milliseconds patience);

  const std::uint32_t rank_;
  const int socket_;  ///< of the first leader
  const std::unique_ptr<const transport::tcp::TlsContext> tls_;
  std::optional<Movement> movement_;  ///< nullopt: it ends with its leader, and hears nothing but the end
  std::optional<StopListener> stop_listener_;

  absl::Mutex mutex_;  ///< may be held for as long as the leader takes nothing
  LineChannel channel_ ABSL_GUARDED_BY(mutex_);
  bool told_to_stop_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_dismissed_ ABSL_GUARDED_BY(mutex_) = false;
  int leaders_before_ ABSL_GUARDED_BY(mutex_) = 0;
  bool told_to_go_ ABSL_GUARDED_BY(mutex_) = false;
  int ended_by_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> stop_lines_ ABSL_GUARDED_BY(mutex_);         ///< that obey() has still to take
  std::optional<Clock::time_point> led_since_ ABSL_GUARDED_BY(mutex_);  ///< nullopt: there is no leader
  Kept kept_ ABSL_GUARDED_BY(mutex_);

  absl::Mutex orders_mutex_;  ///< held for a moment
  bool leaves_ ABSL_GUARDED_BY(orders_mutex_) = false;
  bool ends_ ABSL_GUARDED_BY(orders_mutex_) = false;
  std::optional<Next> next_ ABSL_GUARDED_BY(orders_mutex_);
};

}  // namespace verbena::apps
