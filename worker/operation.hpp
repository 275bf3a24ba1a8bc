// An operation that is under way in a session: a pull, a push, or a move of rows. Each kind of table has its
// own kinds of operations.
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
#include <verbena/keys.hpp>

namespace verbena::worker {

struct ServerLink;

/// One-sided reads of an operation. They are posted as soon as their connections can take them.
class RemoteReads {
 public:
  RemoteReads() = default;
  RemoteReads(const RemoteReads&) = delete;
  RemoteReads& operator=(const RemoteReads&) = delete;

  /// Adds a read into `to`, a part of `memory`, to be posted. If it continues the last one at both ends, the
  /// two become one read.
  void add(ServerLink& link, const transport::RemoteDescriptor& from, std::span<std::byte> to,
           const LocalSpan& memory);
  /// Posts as many reads as the connections take, but none to a dead server. Returns true when all have been
  /// posted and have ended.
  bool post();
  /// Those of this server that have not been posted never will be.
  void forget(const ServerLink& link) {
    std::erase_if(unposted_, [&](const Read& read) { return read.link == &link; });
  }

 private:
  struct Read {
    ServerLink* link = nullptr;
    transport::WorkRequest request;
  };
  std::deque<Read> unposted_;
  /// Signaled requests that have not ended. Shared with their connections' ReadsUnderWay: a completion may
  /// come after this object has been destroyed.
  std::shared_ptr<std::size_t> signaled_;
};

/// What an operation may have to end before: the milestones of a session.
enum class Milestone : std::uint8_t {
  kClock,    ///< the end of the worker's clock
  kBarrier,  ///< a barrier; the end of the barrier's clock comes after this
  kCut,      ///< a barrier in which rows are copied where they are: none may be on its way
  kLeaving,  ///< the session's end
};

/// The session keeps it until it has ended; a caller that waits for it shares the ownership.
class Operation {
 public:
  /// `name`: a string literal for messages, for example "pull".
  explicit Operation(const char* name) : what(name) {}
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  void set_keys(const Keys& keys);
  void set_keys(std::vector<Key> keys);

  /// True when it has ended.
  bool step();

  [[nodiscard]] virtual bool must_end_before(Milestone milestone) const = 0;
  /// The operation may go on for some clocks, and `clock`, which has begun, is beyond these.
  [[nodiscard]] virtual bool is_overdue(consistency::Clock /*clock*/) const { return false; }
  /// It ends only after the worker's clock has ended, so nothing in this clock may wait for it.
  [[nodiscard]] virtual bool is_held_back() const { return false; }
  /// It moves rows because a server that is dead has let it, as their home.
  [[nodiscard]] virtual bool has_moves_of_dead_homes() const { return false; }
  /// The session goes on without that server.
  virtual void on_dead_server(std::uint32_t /*server*/) {}
  /// The server is gone; a copy will take its place. Reads of it that are under way count as ended, and have
  /// brought nothing.
  virtual void on_lost_server(const ServerLink& /*link*/) {}
  /// For messages: what the operation waits for if it does not wait for a server's answer (`awaited`).
  [[nodiscard]] virtual std::string other_wait() const = 0;

  const char* const what;
  Keys keys{KeyRange{}};
  /// Operations that must have ended before this one begins.
  std::vector<std::shared_ptr<Operation>> after;
  RemoteReads reads;
  /// The server whose answer the operation waits for; nullptr if it waits for other workers.
  const ServerLink* awaited = nullptr;
  bool step_again = false;  ///< it waits for something that no event reports: step it again at once
  bool ended = false;
  absl::Status status;  ///< how it has ended

 protected:
  /// The work of step(), once the operation may begin.
  virtual bool advance() = 0;

 private:
  std::vector<Key> key_copy_;
};

}  // namespace verbena::worker
