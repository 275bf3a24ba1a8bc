// The moving parts of a session: connections to the servers, rings, clocks, operations under way.
//
// Step-driven: poll() does a bounded piece of work. The blocking calls drive poll() and wait in between.
//
// Tables and operations know nothing of the world but this class. So it has many functions; a third of them
// return one thing. Each part with a state of its own is a class: ServerLinks, RunningOperations, Iteration,
// Checkpointing, Mending, StagingPool. What remains here is what connects them: events, waiting, sending, the
// end of a clock, and failing.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "consistency/rules.hpp"
#include "protocol/messages.hpp"
#include "protocol/placement.hpp"
#include "transport/heartbeat.hpp"
#include "transport/transport.hpp"
#include "worker/checkpointing.hpp"
#include "worker/iteration.hpp"
#include "worker/joining.hpp"
#include "worker/lead.hpp"
#include "worker/local_memory.hpp"
#include "worker/mending.hpp"
#include "worker/running_operations.hpp"
#include "worker/server_links.hpp"
#include "worker/thread_owner.hpp"
#include <verbena/session.hpp>

namespace verbena::worker {

class TableCore;

class SessionCore {
 public:
  static absl::StatusOr<std::unique_ptr<SessionCore>> connect(const SessionOptions& options);
  ~SessionCore();
  SessionCore(const SessionCore&) = delete;
  SessionCore& operator=(const SessionCore&) = delete;

  /// Every call of a user checks this first: a call from another thread would run in the middle of this
  /// thread's work.
  [[nodiscard]] bool is_here() const { return owner_.is_this_thread(); }
  /// What a user's call returns if not is_here().
  [[nodiscard]] absl::Status elsewhere() const;
  void take_over() { owner_.take_over(); }
  [[nodiscard]] bool is_of_this_process() const { return owner_.is_this_process(); }

  absl::StatusOr<TableCore*> open_table(const TableOptions& options, ValueType type);
  absl::Status clock();
  absl::Status barrier();
  absl::Status limit_lead(std::uint32_t clocks);
  /// barrier(), in which no row of a dynamic table moves.
  absl::Status barrier_for_cut();
  Checkpointing& checkpointing() { return checkpointing_; }
  /// Ships everything, says goodbye and waits for the servers' goodbyes: then this worker's memory may go.
  absl::Status leave();
  /// As Session::step_aside().
  absl::Status step_aside();
  /// Tells the servers, and through them the other workers, that this worker gives up.
  void give_up(const absl::Status& why);

  bool poll();
  /// For a user who does not wait in a call: poll(), and a look at the servers' signs of life.
  absl::Status look_around();
  /// Called on hot paths: looks once in so many rows whether there is something to poll for. A call for many
  /// more rows still looks only once: after that, what has been pushed here since the last look is as fresh
  /// as it can be.
  void poll_sometimes(std::uint64_t rows) {
    if (rows_until_poll_ <= rows) {
      look(rows);
    } else {
      rows_until_poll_ -= rows;
    }
  }
  /// For a pull of one row: false if poll_sometimes() would look now; otherwise it counts the row.
  [[nodiscard]] bool may_read_a_row() {
    if (rows_until_poll_ <= 1) return false;
    --rows_until_poll_;
    ++counters_.rows_pulled;
    return true;
  }
  /// Drives the session until `ready`. `what` completes "waited for …". `pause`, if given, waits for what no
  /// event tells, for a short time at most; it is told how long this call has waited.
  absl::Status wait_until(const std::function<bool()>& ready, std::uint32_t timeout_ms,
                          const std::function<std::string()>& what,
                          const std::function<void(transport::Duration)>& pause = nullptr);
  absl::Status wait_for(Operation& operation);
  void start(std::shared_ptr<Operation> operation);

  /// For data cursors.
  Iteration& iteration() { return iteration_; }
  /// This worker has finished its examples. Under A-BSP it tells the others, if nobody has ended the
  /// iteration before.
  void end_iteration();

  /// Called for each push. Checks only now and then, and returns whether a link's update budget is full.
  /// REQUIRES: there are budgets.
  bool may_ship_ahead(std::uint64_t rows);
  absl::Status send(ServerLink& link, std::span<const std::byte> message,
                    const transport::MemoryRegion& region);
  /// Sends where the message is, and not the message. REQUIRES: the server reads in place; the region is of
  /// shared_memory(); the message stays as it is until it is applied.
  absl::Status send_place(ServerLink& link, std::span<const std::byte> message,
                          const transport::MemoryRegion& region);
  /// Asks about rows of a dynamic table. Returns false if that is not possible now; the caller tries again
  /// later.
  bool ask(ServerLink& link, const protocol::KeyRequests& requests);
  /// Says it to a server. Returns false if that is not possible now; the caller tries again later.
  bool try_tell(ServerLink& link, const protocol::ControlMessage& message);
  /// It has said goodbye, and must say nothing more.
  [[nodiscard]] bool has_left() const { return left_; }
  /// Like send(), but does not wait: returns false if there is no room now.
  bool try_send(ServerLink& link, std::span<const std::byte> message, const transport::MemoryRegion& region);
  absl::Status send_small(ServerLink& link, const protocol::BulkHeader& header,
                          std::span<const std::uint64_t> words);

  /// For reads that must find what others were told of: see Mending.
  void heed_decisions() { mending_.heed_decisions(); }
  [[nodiscard]] bool serves(const ServerLink& link) const { return mending_.serves(link); }
  [[nodiscard]] bool has_copies() const { return mending_.has_copies(); }
  /// There is a dynamic table, or one is being opened.
  [[nodiscard]] bool has_rows_that_move() const;

  /// Somebody reads in memory of servers for longer than a call of the session.
  std::size_t& scans() { return scans_; }

  /// To all servers that are there; or to server 0.
  void tell_all(const protocol::ControlMessage& message);
  void tell_server_0(const protocol::ControlMessage& message) { control(links_.front(), message); }

  /// Updates, or other messages, are about to be sent that count as sent already: this is a poll in between.
  [[nodiscard]] bool is_sending() const { return sending_ > 0; }

  [[nodiscard]] const SessionOptions& options() const { return options_; }
  [[nodiscard]] const protocol::Placement& placement() const { return placement_; }
  /// The rank of this worker's own server.
  [[nodiscard]] std::uint32_t node() const {
    return options_.node.value_or(options_.rank % static_cast<std::uint32_t>(options_.servers.size()));
  }
  [[nodiscard]] const std::vector<std::unique_ptr<TableCore>>& tables() const { return tables_; }
  [[nodiscard]] const ServerLinks& links() const { return links_; }
  /// A barrier is under way in which no rows may begin to move.
  [[nodiscard]] bool is_cutting() const { return is_cutting_; }
  [[nodiscard]] consistency::Clock current_clock() const { return clock_; }
  /// See Session::is_catching_up().
  [[nodiscard]] bool is_catching_up() const { return does_again() && clock_ < links_.former_clock(); }
  /// Some server has all of this clock from a process that was this worker before, and is not sent it again:
  /// those whose former_clock is above it.
  [[nodiscard]] bool does_again() const { return clock_ < done_before_; }
  /// The clock of the last barrier. Reads see all updates of clocks below it, whatever the model of their
  /// table.
  [[nodiscard]] consistency::Clock barrier_clock() const { return barrier_clock_; }
  /// Changes whenever anything changes that determines what a read may see: the clock, the lanes' min clocks,
  /// which updates are outstanding, where rows are mapped or cached; and when the session fails.
  [[nodiscard]] std::uint64_t epoch() const { return epoch_; }
  void start_epoch() { ++epoch_; }
  [[nodiscard]] transport::TimePoint now() const { return transport_->now(); }
  /// Ends the session's wait, if it is in one: it polls. From any thread.
  void wake() { transport_->interrupt(); }
  [[nodiscard]] const absl::Status& status() const { return status_; }
  /// For messages: what an operation waits for if it does not wait for a server's answer.
  [[nodiscard]] std::string clocks_awaited(std::string_view operation) const;
  void fail(absl::Status status);
  /// Updates that no caller waits for were for a row that is lost: the next clock reports it.
  void note_lost(const absl::Status& why);
  [[nodiscard]] LocalMemory& memory() { return memory_; }
  /// For what servers that map it may read where it lies (ServerLink::reads_in_place).
  [[nodiscard]] LocalMemory& shared_memory() { return shared_memory_; }
  [[nodiscard]] SessionStatistics statistics() const;
  /// What has been asked of a connection counts on when another one takes its place.
  static void add_posted(const transport::Connection& connection, SessionStatistics& statistics);
  SessionStatistics& counters() { return counters_; }
  /// How many rows of all tables Table::hold() has taken. While there are any, no call may wait.
  std::size_t& rows_held() { return rows_held_; }
  StagingPool& staging() { return staging_; }

 private:
  friend class Mending;

  SessionCore(const SessionOptions& options, std::shared_ptr<transport::Transport> transport);

  void look(std::uint64_t rows);
  bool go_on(std::size_t count);
  absl::Status join(transport::TimePoint deadline);
  absl::Status connect_to(std::uint32_t server, transport::TimePoint deadline);
  void say_where_servers_are();
  void control(ServerLink& link, const protocol::ControlMessage& message);
  Ground ground() {
    return {*transport_, memory_, *heartbeat_, lead_, options_, node(), mending_.configuration(), clock_};
  }
  /// As control(), whatever state the link is in.
  void say(ServerLink& link, const protocol::ControlMessage& message);
  absl::Status send_kept(ServerLink& link, KeptMessage message);
  absl::Status do_without(ServerLink& link);
  transport::SendResult try_send_kept(ServerLink& link, KeptMessage& message);
  void say_what_may_be_lost(ServerLink& link);
  void look_at_servers(transport::TimePoint now);
  void on_event(const transport::Event& event);
  absl::Status on_message(ServerLink& link, std::span<const std::byte> bytes);
  absl::Status on_notification(ServerLink& link, std::uint32_t notification);
  template <class Answer>
  absl::Status on_answer(ServerLink& link, const Answer& answer,
                         absl::Status (TableCore::*heed)(ServerLink&, const Answer&));
  absl::Status on_region(ServerLink& link, const protocol::RegionAdded& added);
  absl::Status on_bulk(ServerLink& link, const protocol::BulkMessage& message);
  absl::Status on_gone(ServerLink& link, const protocol::BulkMessage& message);
  void say_what_is_known(ServerLink& link);
  void on_completion(const transport::Event& event);
  /// Waits until all operations under way for which `concerned` returns true have ended.
  template <class Concerned>
  absl::Status wait_for_operations(const Concerned& concerned);
  absl::Status settle_tables(Milestone milestone);
  absl::Status send_the_rest();
  void say_that_it_steps_aside(ServerLink& link);
  absl::Status advance(bool is_barrier);
  absl::Status barrier_after(Milestone milestone);
  absl::Status keep_lead();
  absl::Status send_put_off();
  [[nodiscard]] absl::Status take_lost() { return std::exchange(lost_updates_, absl::OkStatus()); }
  [[nodiscard]] bool can_do_without(const ServerLink& link) const;
  bool lose(ServerLink& link, const std::string& why);
  absl::Status on_server_gone(const ServerLink& from, const protocol::ServerGone& gone);
  void say_if_moves_have_ended();
  absl::Status wait_for_min_clock(consistency::Clock clock, Servers which);
  absl::Status ship_all();
  [[nodiscard]] bool is_memory_gone(ServerLink& link, std::uint32_t table) const;
  /// Tells those servers that do not know it yet that this worker has finished all clocks below `clock`. If
  /// this ends the current clock and a table weighs means, it also tells how many examples the updates are
  /// made of.
  absl::Status tell_clock(consistency::Clock clock, Servers which);
  [[nodiscard]] bool any_table(bool consistency::Rules::*rule) const;

  /// A message is ready and not sent, as long as one of these lives.
  class Sending {
   public:
    explicit Sending(SessionCore& session) : session_(session) { ++session_.sending_; }
    ~Sending() { --session_.sending_; }
    Sending(const Sending&) = delete;
    Sending& operator=(const Sending&) = delete;

   private:
    SessionCore& session_;
  };

  const SessionOptions options_;
  const protocol::Placement placement_;
  ThreadOwner owner_;
  std::shared_ptr<transport::Transport> transport_;
  LocalMemory memory_;
  LocalMemory shared_memory_;
  std::unique_ptr<transport::Heartbeat> heartbeat_;
  transport::TimePoint next_look_;  ///< when to look at the servers' heartbeats next
  ServerLinks links_;
  std::vector<std::unique_ptr<TableCore>> tables_;
  RunningOperations running_;
  StagingPool staging_{memory_};
  Lead lead_;
  consistency::Clock clock_ = 0;
  consistency::Clock barrier_clock_ = 0;
  /// Some server has all of the clocks below it from processes that were this worker before.
  consistency::Clock done_before_ = 0;
  Iteration iteration_;
  Checkpointing checkpointing_{*this};
  Mending mending_;
  bool is_cutting_ = false;
  std::uint64_t epoch_ = 1;
  std::uint64_t rows_until_poll_ = 1;
  std::uint32_t looks_ = 0;  ///< since the last poll()
  std::uint64_t rows_until_refill_ = 1;
  /// The events of one poll(). A member, since constructing them takes longer than most polls. The handling
  /// of an event never calls poll().
  std::array<transport::Event, 64> events_;
  std::uint32_t sending_ = 0;  ///< how many Sending there are
  bool left_ = false;
  bool steps_aside_ = false;          ///< and has told, or tells, the servers so
  bool is_opening_ = false;           ///< a table is being opened
  protocol::OpenTable opening_;       ///< the newest table that was opened, or is
  consistency::Clock said_end_ = -1;  ///< the newest iteration that this worker has ended
  bool has_no_node_ = false;          ///< this worker's own server is gone
  bool owes_end_of_moves_ = false;    ///< to the servers that are left: MovesEnded
  absl::Status status_;
  absl::Status lost_updates_;  ///< a loss that no clock has reported yet
  SessionStatistics counters_;
  std::size_t rows_held_ = 0;
  std::size_t scans_ = 0;
};

}  // namespace verbena::worker
