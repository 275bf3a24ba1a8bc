// A push to rows that move, to those that are not at hand; and the sending of replicas' updates.
//
// An update is applied once: by whoever finds the slot to own the row and has its lock, which keeps it from
// moving. A server answers for each record whether it did; only what it did not apply is sent again,
// elsewhere.
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
  /// Who waits for its end.
  enum class Waits : std::uint8_t {
    kCaller,  ///< whose updates stay where they are
    kClock,   ///< the end of the worker's clock
    kNobody,  ///< but clocks, a little, and a barrier
  };

  /// The rows of `keys` from the index `next` on, and the updates of all.
  MovingPush(MovingRows& rows, const Keys& keys, std::size_t next, const std::byte* updates, Waits waits);
  /// Of replicas, which have these updates already.
  MovingPush(MovingRows& rows, std::vector<Key> replicas, std::vector<std::byte> updates);
  /// It comes after the pushes that have begun before. REQUIRES: called once, before it is started.
  void begin();

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
  /// To one server, from its making to its answer.
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
  /// What can be done now with the rows that neither are done nor on their way.
  void push_all();
  /// Applies the update, or finds the node to which it is to be sent, or leaves it.
  void push_one(std::size_t index, std::vector<Indices>& for_node, Indices& left);
  void make_message(std::uint32_t node, Indices& indices);
  void send(Message& message);
  [[nodiscard]] const std::byte* update(std::size_t index) const;
  /// The row's update is applied, or lost.
  void end(std::size_t index);
  void lose_message(const Message& message);

  const std::byte* updates_ = nullptr;
  std::vector<std::byte> update_copy_;  ///< of a push for which its caller does not wait; else empty
  std::vector<std::size_t> todo_;       ///< indices in `keys`, of rows neither done nor in a message
  std::deque<Message> messages_;
  /// Since when a row of this node is in another's hands; else nothing.
  std::optional<transport::TimePoint> busy_since_;
  // In this pass over `todo_`: a row is, and has been for long.
  bool is_busy_ = false;
  bool is_impatient_ = false;

  const bool is_of_replicas_ = false;
  const Waits waits_;
  const consistency::Clock begun_at_ = 0;  ///< the session's clock
};

}  // namespace verbena::worker
