// The moving parts of a session: connections to the servers, rings, clocks, operations under way.
//
// Step-driven: poll() does a bounded piece of work. The blocking calls drive poll() and wait in between.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "consistency/rules.hpp"
#include "consistency/weight_of_means.hpp"
#include "protocol/messages.hpp"
#include "transport/heartbeat.hpp"
#include "transport/transport.hpp"
#include "worker/local_memory.hpp"
#include "worker/operation.hpp"
#include "worker/server_link.hpp"
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

  /// Every call of a user asks first: any other thread would meet this one in the middle of its work.
  [[nodiscard]] bool is_here() const { return owner_.is_this_thread(); }
  /// What such a call returns where it is not.
  [[nodiscard]] absl::Status elsewhere() const;
  void take_over() { owner_.take_over(); }

  absl::StatusOr<TableCore*> open_table(const TableOptions& options, ValueType type);
  absl::Status clock();
  absl::Status barrier();
  /// Ships everything, says goodbye and waits for the servers' goodbyes: then this worker's memory may go.
  absl::Status leave();
  /// Tells the servers, and through them the other workers, that this worker gives up.
  void give_up(const absl::Status& why);

  bool poll();
  /// Called on hot paths: polls every so many rows. A call for many polls at once: what has been pushed here
  /// since the last one is as fresh as it gets.
  void poll_sometimes(std::uint64_t rows) {
    if (rows_until_poll_ <= rows) {
      poll();
    } else {
      rows_until_poll_ -= rows;
    }
  }
  /// Drives the session until `ready`. `what` completes "waited for …".
  absl::Status wait_until(const std::function<bool()>& ready, std::uint32_t timeout_ms,
                          const std::function<std::string()>& what);
  absl::Status wait_for(Operation& operation);
  void start(std::shared_ptr<Operation> operation);

  // --- for data cursors
  /// A cursor over so many examples begins in this clock. FAILED_PRECONDITION: it is not the first to do so.
  absl::Status begin_iteration(std::uint64_t examples);
  void count_processed(std::uint64_t examples) { examples_.processed += examples; }
  /// Under A-BSP: somebody has finished his examples of this clock.
  [[nodiscard]] bool iteration_ended() const { return ended_clock_ >= clock_; }
  /// This worker has finished its own. Says it, under A-BSP, if nobody has before.
  void end_iteration();

  /// Called for each push: now and then, whether a link's update budget is full. REQUIRES: there are budgets.
  bool may_ship_ahead(std::uint64_t rows);
  absl::Status send(ServerLink& link, std::span<const std::byte> message,
                    const transport::MemoryRegion& region);
  /// Asks about rows of a dynamic table; false where that cannot be now: again later.
  bool ask(ServerLink& link, const protocol::KeyRequests& requests);
  /// As send(), without waiting: false where there is no room now.
  bool try_send(ServerLink& link, std::span<const std::byte> message, const transport::MemoryRegion& region);
  absl::Status send_small(ServerLink& link, const protocol::BulkHeader& header,
                          std::span<const std::uint64_t> words);

  [[nodiscard]] const SessionOptions& options() const { return options_; }
  /// The rank of the server that is this worker's own.
  [[nodiscard]] std::uint32_t node() const {
    return options_.node.value_or(options_.rank % static_cast<std::uint32_t>(options_.servers.size()));
  }
  [[nodiscard]] consistency::Clock current_clock() const { return clock_; }
  /// Reads see all updates of clocks below this, whatever their table's model: the clock of the last barrier.
  [[nodiscard]] consistency::Clock barrier_clock() const { return barrier_clock_; }
  /// Changes with everything that what a read may see depends on: the clock, the lanes' min clocks, which
  /// updates are outstanding.
  [[nodiscard]] std::uint64_t epoch() const { return epoch_; }
  void start_epoch() { ++epoch_; }
  [[nodiscard]] transport::TimePoint now() const { return transport_->now(); }
  [[nodiscard]] const absl::Status& status() const { return status_; }
  /// For messages: what a pull waits for that no server has to answer.
  [[nodiscard]] std::string clocks_awaited() const;
  void fail(absl::Status status);
  /// Updates that nobody waits for were for a row that is lost: the next clock says so.
  void note_lost(const absl::Status& why);
  [[nodiscard]] LocalMemory& memory() { return memory_; }
  [[nodiscard]] SessionStatistics statistics() const;
  SessionStatistics& counters() { return counters_; }
  /// By Table::hold(), of all tables: until there are none, no call may wait.
  std::size_t& rows_held() { return rows_held_; }
  absl::StatusOr<LocalSpan> take_staging(std::size_t bytes);
  void give_staging(LocalSpan staging) { staging_.push_back(staging); }

 private:
  SessionCore(const SessionOptions& options, std::shared_ptr<transport::Transport> transport);

  absl::Status join(transport::TimePoint deadline);
  absl::Status connect_to(std::uint32_t server, transport::TimePoint deadline);
  absl::Status say_hello(ServerLink& link);
  void control(ServerLink& link, const protocol::ControlMessage& message);
  absl::Status watch(ServerLink& link, const protocol::Descriptor& heartbeat);
  void look_at_servers(transport::TimePoint now);
  void on_event(const transport::Event& event);
  absl::Status on_message(ServerLink& link, std::span<const std::byte> bytes);
  absl::Status on_notification(ServerLink& link, std::uint32_t notification);
  template <class Answer>
  absl::Status on_answer(ServerLink& link, const Answer& answer,
                         absl::Status (TableCore::*heed)(ServerLink&, const Answer&));
  absl::Status on_rows(ServerLink& link, const protocol::BulkMessage& message);
  void on_completion(const transport::Event& event);
  void end_with_session(Operation& operation) const;
  bool step_operations();
  /// Until all operations under way of which `concerned` says so have ended.
  template <class Concerned>
  absl::Status wait_for_operations(const Concerned& concerned);
  absl::Status settle_tables(Milestone milestone);
  absl::Status advance(bool is_barrier);
  absl::Status send_put_off();
  [[nodiscard]] absl::Status take_lost() { return std::exchange(lost_updates_, absl::OkStatus()); }
  [[nodiscard]] bool counts_clocks(const ServerLink& link) const;
  [[nodiscard]] bool any_counts_clocks() const;
  [[nodiscard]] bool can_do_without(const ServerLink& link) const;
  bool lose(ServerLink& link);
  enum class Servers : std::uint8_t { kCounting, kAll };
  [[nodiscard]] bool is_among(const ServerLink& link, Servers which) const {
    return !link.is_dead && (which == Servers::kAll || counts_clocks(link));
  }
  [[nodiscard]] bool all_lanes_at(consistency::Clock clock, Servers which) const;
  [[nodiscard]] std::string slowest_lane(Servers which) const;  ///< for messages
  absl::Status wait_for_min_clock(consistency::Clock clock, Servers which);
  absl::Status ship_all();
  /// Tells those servers that do not know it that this worker has finished all clocks below `clock`; and,
  /// where that is the one that ends now and it matters, of what examples its updates are.
  absl::Status tell_clock(consistency::Clock clock, Servers which);
  [[nodiscard]] bool any_table(bool consistency::Rules::*rule) const;

  const SessionOptions options_;
  ThreadOwner owner_;
  std::shared_ptr<transport::Transport> transport_;
  LocalMemory memory_;
  std::unique_ptr<transport::Heartbeat> heartbeat_;
  transport::TimePoint next_look_;  ///< at the servers' heartbeats
  std::vector<std::unique_ptr<ServerLink>> links_;
  std::vector<std::unique_ptr<TableCore>> tables_;
  std::list<std::shared_ptr<Operation>> running_;
  std::vector<LocalSpan> staging_;
  consistency::Clock clock_ = 0;
  consistency::Clock barrier_clock_ = 0;
  consistency::Clock ended_clock_ = -1;      ///< the newest whose iteration a worker has ended
  consistency::Clock iteration_clock_ = -1;  ///< the newest in which a data cursor has begun
  consistency::ExampleCounts examples_;      ///< in that clock
  std::uint64_t epoch_ = 1;
  std::uint64_t rows_until_poll_ = 1;
  std::uint64_t rows_until_refill_ = 1;
  /// Of one poll(); here, since making them takes longer than most polls. Nothing that an event causes polls.
  std::array<transport::Event, 64> events_;
  bool left_ = false;
  bool is_opening_ = false;   ///< a table
  bool has_no_node_ = false;  ///< this worker's own server is gone
  absl::Status status_;
  absl::Status lost_updates_;  ///< what the last clocks have not told of
  SessionStatistics counters_;
  std::size_t rows_held_ = 0;
};

}  // namespace verbena::worker
