// A call of a server function: its messages to the lanes, and what they answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "protocol/server_function.hpp"
#include "worker/fixed/part.hpp"
#include "worker/local_memory.hpp"
#include "worker/operation.hpp"
#include <verbena/server_function.hpp>

namespace verbena::worker {

class FixedTable;

/// Ends when all lanes have answered.
class FunctionCallOperation final : public Operation,
                                    public std::enable_shared_from_this<FunctionCallOperation> {
 public:
  /// `numbers`: those of each of the keys `of`, one after the other. REQUIRES: these are a list if there are
  /// numbers. `most_keys`: in a message.
  FunctionCallOperation(FixedTable& table, std::string text, const protocol::BoundFunction& function,
                        const Keys& of, std::span<const double> numbers, std::size_t most_keys = SIZE_MAX);

  /// What it does waits on the servers until its clock ends, and so does its end.
  [[nodiscard]] bool is_held_back() const override;
  /// All its messages have been sent.
  [[nodiscard]] bool is_sent() const { return sent_ == messages_.size(); }
  /// RESOURCE_EXHAUSTED: a message would be too large, or a lane would be asked more than it may be before
  /// the clock ends.
  [[nodiscard]] absl::Status check() const;

  [[nodiscard]] bool must_end_before(Milestone milestone) const override {
    return milestone == Milestone::kClock && !is_held_back();  // as FixedPull
  }
  [[nodiscard]] std::string other_wait() const override;
  /// What only looks is asked again; what changes rows is said again by its link (SentMessages).
  void on_lost_server(const ServerLink& link) override;

  /// An answer of this server to message `index`, or a piece of it. Returns true if that was the last one.
  /// INVALID_ARGUMENT: it is no such answer, or that of another lane.
  absl::StatusOr<bool> on_piece(const ServerLink& link, std::size_t index,
                                const protocol::BulkMessage& message);
  // REQUIRES: it has ended well.
  [[nodiscard]] FunctionResult result() const;
  /// What a lane has said.
  struct Answer {
    Part& part;
    std::span<const Key> keys;             ///< of the list, those that it was asked for
    std::span<const std::size_t> indexes;  ///< their places in the list
    consistency::Clock clock = 0;          ///< the part's min clock before it was asked
    std::uint64_t shipped = 0;             ///< `shipped` of the part's updates before it was asked
    std::uint64_t heard = 0;               ///< how much had been heard of what is gone in the lane
    const FunctionResult& result;
  };
  template <class Use>
  void for_each_answer(const Use& use) const {
    for (const Message& message : messages_) {
      use(Answer{*message.part, std::span(keys_).subspan(message.first, message.count),
                 std::span(indexes_).subspan(message.first, message.count), message.clock, message.shipped,
                 message.heard, message.result});
    }
  }

 private:
  bool advance() override;
  [[nodiscard]] bool may_send(std::size_t index) const;
  bool send(std::size_t index);

  /// A part of the call, for one lane.
  struct Message {
    Part* part = nullptr;
    std::size_t first = 0;  ///< in keys_
    std::size_t count = 0;
    // As Answer's.
    consistency::Clock clock = 0;
    std::uint64_t shipped = 0;
    std::uint64_t heard = 0;
    std::optional<LocalSpan> memory;  ///< from when it is written to when it is answered
    std::size_t bytes = 0;
    std::vector<std::uint64_t> words;  ///< of its answer
    bool is_answered = false;          ///< they go in their order, and are answered in any
    FunctionResult result;
  };
  void add_messages(const Keys& of, std::span<const double> numbers, std::size_t most_keys);
  [[nodiscard]] std::size_t bytes_of(const Message& message) const;

  FixedTable& table_;
  const std::string text_;
  const protocol::BoundFunction function_;
  const std::uint32_t numbers_a_key_;
  const KeyRange range_;  ///< if the keys are not a list
  // Of a list, by parts; within a part as the caller has given them.
  std::vector<Key> keys_;
  std::vector<std::size_t> indexes_;  ///< of keys_, as the caller has given them
  std::vector<double> numbers_;
  std::vector<Message> messages_;
  std::size_t sent_ = 0;
  std::vector<std::size_t> again_;  ///< of messages_, sent and to be sent again
};

/// The messages of calls that are under way, by the tags that their answers will have.
class AwaitedCalls {
 public:
  /// Message `index` of the call is about to be sent; returns its tag.
  protocol::Tag add(const std::shared_ptr<FunctionCallOperation>& call, std::size_t index) {
    calls_.emplace(next_, Awaited{call, index});
    return next_++;
  }
  /// INVALID_ARGUMENT: nobody waits for it, or it is no answer.
  absl::Status on_piece(const ServerLink& link, const protocol::BulkMessage& message);

 private:
  struct Awaited {
    std::weak_ptr<FunctionCallOperation> call;  ///< none: it has ended with its session
    std::size_t index = 0;
  };
  std::map<protocol::Tag, Awaited> calls_;
  protocol::Tag next_ = 0;
};

}  // namespace verbena::worker
