// A push to those rows of a dynamic table that are not at hand; and the sending of replicas' updates.
//
// An update is applied once: by the worker or server that finds that the slot owns the row, and that has the
// row's lock, which keeps the row from moving. A server answers for each record whether it has applied it.
// Only records that it has not applied are sent again, elsewhere.
//
// Updates are copied once, from where the caller has them into the records of messages. If the caller does
// not wait, those that could not go at once are copied before it goes on, and those of records that come
// back.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "consistency/rules.hpp"
#include "protocol/messages.hpp"
#include "worker/moving/moving_operation.hpp"
#include "worker/moving/push_log.hpp"
#include "worker/server_link.hpp"
#include <verbena/consistency.hpp>

namespace verbena::worker {

class MovingPush final : public MovingOperation {
 public:
  /// Who waits for the end of the push.
  enum class Waits : std::uint8_t {
    kCaller,  ///< the updates stay where it has them
    kClock,   ///< the end of the worker's clock
    kNobody,  ///< except a barrier, and clocks when it is overdue
  };

  /// Pushes to the rows of `keys` from the index `next` on. `updates` are those of all keys.
  MovingPush(MovingRows& rows, const Keys& keys, std::size_t next, const std::byte* updates, Waits waits);
  /// Sends updates of replicas, which contain these updates already.
  MovingPush(MovingRows& rows, std::vector<Key> replicas, std::vector<std::byte> updates);
  /// From now on the push comes after those that have begun before. REQUIRES: called once, before the push is
  /// started.
  void begin();
  /// The caller's updates are about to go, unless it waits. REQUIRES: called once, when the push was started.
  void let_caller_go();

  [[nodiscard]] bool must_end_before(Milestone milestone) const override {
    return milestone != Milestone::kClock || waits_ != Waits::kNobody;
  }
  [[nodiscard]] bool is_overdue(consistency::Clock clock) const override {
    return waits_ == Waits::kNobody && begun_at_ <= clock - Asp::kMostClocksBehind;
  }
  /// Updates on their way to a dead server may or may not be applied.
  void on_dead_server(std::uint32_t server) override;
  absl::Status on_answer(ServerLink& link, const protocol::PushAnswer& answer);

 private:
  /// A message to one server, kept until its answer.
  struct Message {
    std::uint32_t node = 0;
    protocol::Tag tag = 0;
    LocalSpan memory;
    std::size_t bytes = 0;
    bool sent = false;
    std::vector<std::size_t> indices;   ///< in `keys`, by record
    std::vector<std::uint64_t> epochs;  ///< at which the server was believed to own the row, by record
  };
  using Indices = std::vector<std::size_t>;

  bool do_own() override;
  /// Does what can be done now for the rows that are neither done nor in a message.
  void push_all();
  /// Applies the update, or finds the node to which it must be sent, or leaves it for later.
  void push_one(std::size_t index, std::vector<Indices>& for_node, Indices& left);
  protocol::LockResult push_here(Key key, const std::byte* update) const;
  void make_message(std::uint32_t node, Indices& indices);
  void send(Message& message);
  [[nodiscard]] const std::byte* update(std::size_t index) const;
  [[nodiscard]] const std::byte* update_in(const Message& message, std::size_t record) const;
  void keep(std::size_t index, const std::byte* update);
  /// The row's update is applied, or lost.
  void end(std::size_t index);
  void lose_message(const Message& message);

  static constexpr std::size_t kNotKept = SIZE_MAX;

  std::vector<std::byte> of_replicas_;
  const std::byte* updates_ = nullptr;  ///< of all keys; nullptr: those that are still needed are kept
  std::vector<std::byte> kept_;
  std::vector<std::size_t> kept_at_;  ///< in `kept_`, by index in `keys`; empty: nothing is kept
  std::vector<std::size_t> todo_;     ///< indices in `keys`, of rows neither done nor in a message
  std::deque<Message> messages_;
  /// Since when another has held the lock of a row of this node; empty if nobody does.
  std::optional<transport::TimePoint> busy_since_;
  // In this pass over `todo_`: another holds the lock of a row; and this has been so for long.
  bool is_busy_ = false;
  bool is_impatient_ = false;

  const bool is_of_replicas_ = false;
  const Waits waits_;
  const consistency::Clock begun_at_ = 0;  ///< the session's clock
};

}  // namespace verbena::worker
