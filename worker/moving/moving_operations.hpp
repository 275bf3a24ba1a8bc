// What is under way of a table whose rows move: pulls, pushes, and rows on their way to this worker's node.
// MovingTable steps them; what is known to be done of one is in none of its lists.
#pragma once

#include <array>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "consistency/asp.hpp"
#include "protocol/partition.hpp"
#include "worker/operation.hpp"

namespace verbena::worker {

class MovingTable;

class MovingOperation : public Operation {
 public:
  MovingOperation(MovingTable& table, const char* name) : Operation(name), table_(table) {}
  [[nodiscard]] std::string other_wait() const override {
    return "other workers to end moves of rows that it needs";
  }

  std::uint64_t seen_news = 0;  ///< nothing to do until the table has more

 protected:
  friend class MovingTable;
  bool advance() final;
  /// One step of it alone.
  virtual bool do_own() = 0;

  MovingTable& table_;
};

class MovingPull final : public MovingOperation {
 public:
  /// A refresh of replicas goes on for no more clocks.
  static constexpr consistency::Clock kMostClocksRefreshing = 5;

  MovingPull(MovingTable& table, const char* name) : MovingOperation(table, name) {}
  [[nodiscard]] bool must_end_before(Milestone milestone) const override {
    return milestone != Milestone::kClock || !is_of_replicas;
  }
  [[nodiscard]] bool is_overdue(consistency::Clock clock) const override {
    return is_of_replicas && begun_at <= clock - kMostClocksRefreshing;
  }

  struct Reading {
    std::size_t index = 0;  ///< in `keys`
    std::uint32_t node = 0;
    std::uint64_t epoch = 0;  ///< at which the node was known to own the row, before it was read
    const std::byte* slot = nullptr;
  };
  std::byte* out = nullptr;
  std::vector<std::size_t> todo;    ///< indices in `keys`, of rows neither done nor being read
  std::vector<std::size_t> coming;  ///< of those that wait for a move of this session
  std::vector<Reading> readings;
  std::optional<LocalSpan> staging;

  bool is_of_replicas =
      false;  ///< into replicas, and nobody waits for it but clocks, a little, and a barrier
  std::vector<std::byte> refreshed;            ///< where that reads a row of this node to, one at a time
  consistency::Clock begun_at = 0;             ///< the session's clock
  consistency::Clock begun_after_barrier = 0;  ///< the clock of the session's last barrier

 private:
  bool do_own() override;
};

class MovingPush final : public MovingOperation {
 public:
  MovingPush(MovingTable& table, const char* name) : MovingOperation(table, name) {}
  [[nodiscard]] bool must_end_before(Milestone milestone) const override {
    return milestone != Milestone::kClock || !is_background;
  }
  [[nodiscard]] bool is_overdue(consistency::Clock clock) const override {
    return is_background && begun_at <= clock - consistency::Asp::kMostClocksBehind;
  }
  void on_dead_server(std::uint32_t server) override;

  /// To one server, from its making to its answer.
  struct Message {
    std::uint32_t node = 0;
    std::uint64_t number = 0;
    LocalSpan memory;
    std::size_t bytes = 0;
    bool sent = false;
    std::vector<std::size_t> indices;   ///< in `keys`, by record
    std::vector<std::uint64_t> epochs;  ///< at which the server was believed to own the row, by record
    std::vector<std::size_t> moved;     ///< records that the server did not own
  };
  const std::byte* updates = nullptr;
  std::vector<std::byte> update_copy;  ///< of a push that nobody waits for; else empty
  std::vector<std::size_t> todo;       ///< indices in `keys`, of rows neither done nor in a message
  std::deque<Message> messages;
  /// Since when a row of this node is in another's hands; else nothing.
  std::optional<transport::TimePoint> busy_since;

  bool is_of_replicas = false;  ///< of their updates
  /// Nobody waits for its end but clocks, a little, and a barrier.
  bool is_background = false;
  consistency::Clock begun_at = 0;  ///< the session's clock

 private:
  bool do_own() override;
};

/// Rows on their way to this worker's node: because a user localizes them, or intends to use them.
class Localize final : public MovingOperation {
 public:
  Localize(MovingTable& table, const char* name) : MovingOperation(table, name) {}
  /// A row that is on its way here must arrive, or nobody finds it.
  [[nodiscard]] bool must_end_before(Milestone milestone) const override {
    return milestone == Milestone::kLeaving;
  }

  /// Of a row's way to this node, in this order but for the last two; those in -ing are for others to end.
  enum class Phase : std::uint8_t {
    kAsk,
    kAsking,
    kTake,
    kTaking,
    kTaken,
    kCopying,
    kInstalled,
    kDone,
    kNotThere,  ///< the home is to be told that the row is not where it said; then kAsking
    kKept,      ///< the home is to be told that the row stays where it is; then kDone
  };
  static constexpr std::size_t kPhases = static_cast<std::size_t>(Phase::kKept) + 1;

  struct Move {
    protocol::Key key = 0;
    Phase phase = Phase::kAsk;
    std::uint32_t from = 0;
    std::uint64_t epoch = 0;  ///< at which `from` owned it
  };
  /// Rows that are being copied, as an install message: records of a key and its slot.
  struct Batch {
    LocalSpan memory;
    std::vector<std::size_t> moves;  ///< in `moves`
    std::uint64_t number = 0;        ///< of the install, where there is one
    bool sent = false;
  };
  std::vector<Move> moves;                      ///< add_move(), enter()
  std::array<std::size_t, kPhases> moves_in{};  ///< by phase, how many
  std::vector<protocol::Key> awaited_moves;     ///< of other localizes of this session
  /// Rows on which this session has just told an intent: they come, or they do not.
  std::vector<protocol::Key> awaited_intents;
  std::optional<Batch> batch;

  bool intends = false;             ///< because of intents, so that rows may stay where they are
  bool fetches = false;             ///< a row that this session has chased in vain
  bool brings = false;              ///< a row has come
  transport::TimePoint asked_at{};  ///< when it began

  void add_move(protocol::Key key) {
    moves.push_back({.key = key});
    ++moves_in[static_cast<std::size_t>(Phase::kAsk)];
  }
  /// REQUIRES: `move` is one of `moves`.
  void enter(Move& move, Phase phase) {
    --moves_in[static_cast<std::size_t>(move.phase)];
    ++moves_in[static_cast<std::size_t>(phase)];
    move.phase = phase;
  }
  [[nodiscard]] bool has_moves_in(Phase phase) const { return moves_in[static_cast<std::size_t>(phase)] > 0; }
  [[nodiscard]] bool has_moves_left() const {
    return moves_in[static_cast<std::size_t>(Phase::kDone)] < moves.size();
  }

 private:
  bool do_own() override;
};

}  // namespace verbena::worker
