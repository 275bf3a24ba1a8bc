// What workers have said to a server that is followed, in one order: the log. A record counts, here and for
// everybody, once all copies that follow have it; only then does this server go by it.
//
// So whatever a lane has done, told to a worker or made readable is on all copies already, and a copy that
// takes over has all that anybody has seen, under every consistency model (chain replication: van Renesse and
// Schneider, OSDI'04; here head and tail are one, so that workers read and write at the same process). It
// costs a change a round trip to the copies, and no state of the lanes needs to be replicated: copies do the
// same with the same records in the same order (state machine replication: Schneider, ACM Computing Surveys
// 1990).
//
//  1. A record gets its number when the worker's message arrives. It stays in the worker's inbox, or wherever
//     it lies, until it counts, so the memory is bounded by the inboxes.
//  2. Records go to the follower in the order of their numbers. The follower acknowledges a record as soon as
//     it has taken it from its ring, and its own followers have acknowledged it. That is its processor's
//     word, not its adapter's: a promise that its lanes use the record before it serves. They use it at the
//     same time as this server's do. Only then is the record's place in the ring released: so what the
//     follower has not used yet is bounded, and this server waits for one that is slower for long.
//  3. What concerns this server's connection alone (subscriptions, calls that only look) keeps its place in
//     the order, and does not travel.
//  4. If the follower is gone, nothing more counts until a configuration says who is in the chain now: the
//     follower might have been made the first.
//  5. Where the server that was followed may go on, and be read, the log may be held: what is new counts only
//     when nobody reads there any more (chain.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protocol/log_record.hpp"
#include "protocol/messages.hpp"
#include "server/lane.hpp"
#include "transport/message_ring.hpp"
#include "transport/transport.hpp"

namespace verbena::server {

struct Peer;

/// What a worker has said: a bulk message, which lies where `inbox` counts its users, or a control message.
struct WorkerMessage {
  Peer* worker = nullptr;
  std::uint32_t times_back = 0;  ///< its, when it said a control message
  protocol::BulkMessage message = {};
  InboxMessage* inbox = nullptr;  ///< has one user as long as the record is in a log
  std::optional<protocol::ControlMessage> control = {};
  bool travels = true;        ///< the copies get it
  bool is_forwarded = false;  ///< it comes from the copy before this one
};

/// The way to the next one of the chain.
class LogSender {
 public:
  /// `ring`: in the follower's memory. INVALID_ARGUMENT if it is not the log's; RESOURCE_EXHAUSTED.
  static absl::StatusOr<std::unique_ptr<LogSender>> create(transport::Transport& transport,
                                                           transport::Connection& connection,
                                                           const transport::RemoteDescriptor& ring);
  [[nodiscard]] transport::RingSender& ring() { return *ring_; }
  /// False: there is no room now, or the connection has ended.
  bool send(const WorkerMessage& record, std::uint64_t number);
  /// Of the records that this has sent.
  [[nodiscard]] std::uint64_t record_bytes() const { return record_bytes_; }
  /// Where so many bytes, a record of the log or a piece of an image, are to be written; empty: there is no
  /// room now. And sends them; false: not now, or the connection has ended.
  std::span<std::byte> place(std::size_t bytes);
  bool send(std::span<const std::byte> placed);

 private:
  LogSender(std::unique_ptr<transport::RingSender> ring, std::unique_ptr<transport::MemoryRegion> memory)
      : ring_(std::move(ring)), memory_(std::move(memory)) {}

  std::unique_ptr<transport::RingSender> ring_;
  std::unique_ptr<transport::MemoryRegion> memory_;  ///< records lie in it as in the ring
  std::uint64_t record_bytes_ = 0;
};

/// Records that count already, and that a copy that joins is still to get: it holds up nobody (chain.hpp).
/// Thread safety: belongs to the transport's thread.
class LateRecords {
 public:
  void add(const WorkerMessage& record, std::uint64_t number);
  /// Sends some; false: there is none, or no room now.
  bool send(LogSender& to);
  [[nodiscard]] bool empty() const { return records_.empty(); }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  void clear();

 private:
  std::deque<std::vector<std::byte>> records_;  ///< as they travel
  std::uint64_t bytes_ = 0;
};

/// Thread safety: belongs to the transport's thread.
class Log {
 public:
  /// A chain without followers needs no log, unless it is held: records count at once.
  [[nodiscard]] bool is_needed() const { return has_follower_ || is_held() || !records_.empty(); }
  /// The chain has a follower, or has none. As long as it has one that has not come yet, nothing counts.
  void expect_follower(bool has_one) { has_follower_ = has_one; }
  /// This copy has an image with so many records. REQUIRES: there were none
  void begin_after(std::uint64_t records) { first_ = records + 1; }
  /// How many records count that travel.
  [[nodiscard]] std::uint64_t counted() const { return first_ - 1; }
  /// How many records there have been that travel.
  [[nodiscard]] std::uint64_t records() const { return first_ + waiting_to_travel() - 1; }
  /// One that travels has counted at once. REQUIRES: !is_needed()
  void pass() { ++first_; }

  void add(WorkerMessage record);
  /// One has come that has the first `records` of the log. OUT_OF_RANGE: it lacks some that are not here any
  /// more, or has some that there never were.
  absl::Status follow(LogSender* sender, std::uint64_t records);
  /// It is gone.
  void lose_follower() { sender_ = nullptr; }

  /// No record after those that there are counts until release().
  void hold() { held_after_ = records(); }
  void release() { held_after_.reset(); }
  [[nodiscard]] bool is_held() const { return held_after_.has_value(); }

  /// Sends what there is room for; true if anything was sent.
  bool send();
  /// Of all records that were sent to those who followed.
  [[nodiscard]] std::uint64_t sent_bytes() const { return sent_bytes_; }
  /// The next record, if all copies have it now.
  [[nodiscard]] std::optional<WorkerMessage> take();
  /// The job has failed: what has not counted never will.
  void drop();
  [[nodiscard]] bool is_dropped() const { return is_dropped_; }

 private:
  struct Entry {
    WorkerMessage record;
    std::uint64_t number = 0;  ///< of those that travel; of others that of the last one before
    std::uint64_t end = 0;     ///< in the follower's ring, once it is sent
  };
  [[nodiscard]] std::uint64_t waiting_to_travel() const {
    return records_.empty() ? 0 : records_.back().number - first_ + 1;
  }

  std::deque<Entry> records_;
  std::uint64_t first_ = 1;  ///< the number of the first one that travels and has not been taken
  std::size_t sent_ = 0;     ///< so many of records_ are sent, or need not be
  bool has_follower_ = false;
  bool is_dropped_ = false;
  std::optional<std::uint64_t> held_after_;  ///< the number of the last record that may count
  LogSender* sender_ = nullptr;
  std::uint64_t sent_bytes_ = 0;
};

}  // namespace verbena::server
