// What is under way in a session: a pull, a push, a move of rows. Each kind of table has its own.
//
// Step-driven like all of a session: step() does what can be done now and never waits.
// Thread safety: none; they belong to their session.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "consistency/rules.hpp"
#include "transport/transport.hpp"
#include "worker/local_memory.hpp"
#include <verbena/consistency.hpp>
#include <verbena/keys.hpp>

namespace verbena::worker {

struct ServerLink;

/// One-sided reads of an operation, posted as their connections take them.
class RemoteReads {
 public:
  RemoteReads() = default;
  RemoteReads(const RemoteReads&) = delete;
  RemoteReads& operator=(const RemoteReads&) = delete;

  /// To be posted: a read into `to`, part of `memory`; with the last one where it goes on at both ends.
  void add(ServerLink& link, const transport::RemoteDescriptor& from, std::span<std::byte> to,
           const LocalSpan& memory);
  /// As far as the connections take them; a dead server is asked for nothing. True when all are posted and
  /// have ended.
  bool post();

 private:
  struct Read {
    ServerLink* link = nullptr;
    transport::WorkRequest request;
  };
  std::deque<Read> unposted_;
  /// Signaled requests that have not ended. Shared with their connections' ReadsUnderWay: a completion may
  /// come when these reads are no more.
  std::shared_ptr<std::size_t> signaled_;
};

/// What an operation may have to end before.
enum class Milestone : std::uint8_t {
  kClock,    ///< the end of the worker's clock
  kBarrier,  ///< a barrier, whose clock comes after
  kLeaving,  ///< the session's end
};

/// Lives in the session until it has ended; whoever waits for it shares it.
class Operation {
 public:
  /// `name`: for messages, such as "pull". A literal.
  explicit Operation(const char* name) : what(name) {}
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  void set_keys(const Keys& keys);
  void set_keys(std::vector<Key> keys);

  /// True when it has ended.
  bool step();

  [[nodiscard]] virtual bool must_end_before(Milestone milestone) const = 0;
  /// It may go on for some clocks, and `clock`, which has begun, is beyond them.
  [[nodiscard]] virtual bool is_overdue(consistency::Clock /*clock*/) const { return false; }
  /// The session goes on without that server.
  virtual void on_dead_server(std::uint32_t /*server*/) {}
  /// For messages: what it waits for where no server's answer is `awaited`.
  [[nodiscard]] virtual std::string other_wait() const = 0;

  const char* const what;
  Keys keys{KeyRange{}};
  /// Must have ended before this one begins.
  std::vector<std::shared_ptr<Operation>> after;
  RemoteReads reads;
  /// The server whose answer it waits for; nullptr where it waits for other workers.
  const ServerLink* awaited = nullptr;
  bool step_again = false;  ///< it waits for what no event tells of: to be stepped at once
  bool ended = false;
  absl::Status status;  ///< how it has ended

 protected:
  /// step(), once it may begin.
  virtual bool advance() = 0;

 private:
  std::vector<Key> key_copy_;
};

}  // namespace verbena::worker
