// Moving bytes between processes: registered memory, connections, one-sided reads and writes, messages,
// notifications. Does not know keys, clocks or roles.
//
// The interface is the intersection that InfiniBand, RoCE, iWARP (reliable-connected queue pairs) and one
// host's shared memory can all keep. What it promises, for every backend:
//
//   order        Requests of one connection are carried out in the order of posting. The bytes of several
//                writes may become visible to the peer in any order; but when the peer has polled a
//                kNotification or kMessage event, the bytes of that request and of all earlier writes of the
//                connection are visible.
//   atomicity    Each naturally aligned 8-byte word of a transfer is whole. Nothing larger is.
//   completion   A completed read has its bytes in local memory. A completed write or message has left: its
//                local memory may be reused; the peer need not have seen it.
//   failure      Once a connection has failed, each request still outstanding completes with an error, one
//                kDisconnected event is raised, post() takes nothing more, and status() says why, with the
//                peer's name. Nothing blocks, nothing aborts.
//   rights       A peer reaches a region only if the region's Access allows the operation and only over a
//                connection that the region was granted to. (Verbs on a device without memory windows, such
//                as iWARP, and for a region above 2 GiB: over any connection of the transport, by whoever
//                knows the region's key.)
//
// Thread safety: a Transport, its regions and its connections belong to one thread. Exceptions:
// interrupt(), and the memory of the regions itself.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace verbena::transport {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

/// What a peer may do with a region. The owner may always read and write it.
enum class Access : std::uint8_t {
  kLocal = 0,
  kRemoteRead = 1,
  kRemoteWrite = 2,
  /// kRemoteRead; and a peer on this host that the region was granted to by grant_in_place() may change it in
  /// place.
  kRemoteReadHostWrite = 5,
};
/// The bits of `access` are the rights of a peer.
inline bool allows(Access access, Access right) {
  return (static_cast<unsigned>(access) & static_cast<unsigned>(right)) == static_cast<unsigned>(right);
}

/// Names a region, or part of one, to a peer. Travels in messages (see kWireBytes); meaningless to any other
/// peer.
struct RemoteDescriptor {
  static constexpr std::size_t kWireBytes = 24;

  std::uint64_t address = 0;  ///< in the owner's terms
  std::uint64_t length_bytes = 0;
  std::uint64_t key = 0;  ///< the remote key (rkey)

  /// The part [offset, offset + length). REQUIRES: it lies inside.
  [[nodiscard]] RemoteDescriptor slice(std::uint64_t offset, std::uint64_t length) const;
};
static_assert(sizeof(RemoteDescriptor) == RemoteDescriptor::kWireBytes);

/// Memory that the device can reach, page-aligned, zeroed. Destroying it ends every peer's access.
/// REQUIRES: the Transport outlives it, and no request on its memory is outstanding when it is destroyed.
class MemoryRegion {
 public:
  virtual ~MemoryRegion() = default;
  MemoryRegion(const MemoryRegion&) = delete;
  MemoryRegion& operator=(const MemoryRegion&) = delete;

  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }
  [[nodiscard]] Access access() const { return access_; }

 protected:
  MemoryRegion(std::span<std::byte> bytes, Access access) : bytes_(bytes), access_(access) {}
  std::span<std::byte> bytes_;
  Access access_;
};

enum class Opcode : std::uint8_t {
  kRead,         ///< remote → local
  kWrite,        ///< local → remote
  kWriteNotify,  ///< kWrite, then a kNotification event at the peer that carries `notification`
  kSend,         ///< a message of at most Transport::max_message_bytes(); `remote` is unused
};

struct WorkRequest {
  Opcode opcode = Opcode::kWrite;
  /// Ask for a kCompletion event. A failed request raises one in any case.
  bool signaled = false;
  std::uint32_t notification = 0;
  std::uint64_t id = 0;  ///< comes back in the completion (transport/request_id.hpp)
  /// Inside `region`; for kSend any memory, which is copied before post() returns, and `region` is null. For
  /// the other opcodes this memory must stay untouched until an event has reported that this request, or a
  /// later signaled one of the same connection, has completed, or that the connection has failed.
  std::span<std::byte> local = {};
  const MemoryRegion* region = nullptr;
  /// remote.length_bytes ≥ local.size(); the transfer starts at remote.address.
  RemoteDescriptor remote = {};
};

/// How an operation ended. Everything but kOk means that the connection has failed.
enum class OperationResult : std::uint8_t {
  kOk,
  kPeerGone,      ///< the peer closed the connection or died, or the link is down
  kAccessDenied,  ///< no such region, not granted, wrong right, or out of its bounds
  kFlushed,       ///< never carried out, because an earlier operation failed or the connection was closed
  kDeviceError,
};
[[nodiscard]] std::string_view to_string(OperationResult result);

class Connection;

struct Event {
  enum class Kind : std::uint8_t {
    kAccepted,      ///< a new incoming connection; take it with Transport::take_accepted()
    kCompletion,    ///< `id`, `result`
    kNotification,  ///< `notification`
    kMessage,       ///< `message`: valid until the next poll()
    kDisconnected,  ///< the last event of a connection; Connection::status() has the reason
  };
  Kind kind = Kind::kCompletion;
  OperationResult result = OperationResult::kOk;
  std::uint32_t notification = 0;
  std::uint64_t id = 0;
  Connection* connection = nullptr;
  std::span<const std::byte> message;
};

/// A reliable, ordered connection to one peer. Destroying it closes it: the peer sees kDisconnected.
/// REQUIRES: the Transport outlives it.
class Connection {
 public:
  virtual ~Connection() = default;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Lets the peer use `region` from now on, and returns the descriptor that the peer needs for that. The
  /// descriptor may be sent in any message or write of this connection that is posted after the call.
  /// ABORTED: the peer has not yet taken what it was granted before, which may be for as long as it does not
  /// poll; try again later. If it fails because the peer is gone, status() says so, too.
  virtual absl::StatusOr<RemoteDescriptor> grant(const MemoryRegion& region) = 0;
  /// Like grant(), for a region that is kRemoteReadHostWrite. If the peer's processes can map it, the peer
  /// may also change it in place.
  virtual absl::StatusOr<RemoteDescriptor> grant_in_place(const MemoryRegion& region) {
    return grant(region);
  }

  /// Posts requests in order with one doorbell and returns how many were taken. Takes fewer than all if the
  /// send queue is full or the connection is not established yet (poll, then go on), or if it has failed (see
  /// status()). For messages that must not be lost in these cases: message_outbox.hpp.
  [[nodiscard]] std::size_t post(std::span<const WorkRequest> requests) {
    const std::size_t taken = do_post(requests);
    if (taken > 0) ++posted_.doorbells;
    posted_.requests += taken;
    for (const WorkRequest& request : requests.first(taken)) posted_.bytes += request.local.size();
    return taken;
  }
  /// What was posted so far, by this side.
  struct Posted {
    std::uint64_t requests = 0;
    std::uint64_t bytes = 0;      ///< of payload, in both directions
    std::uint64_t doorbells = 0;  ///< calls of post() that took something
  };
  [[nodiscard]] const Posted& posted() const { return posted_; }

  /// The address of the peer's memory in this process, if it can be addressed directly (one host); readable
  /// as long as this connection lives. nullptr if it cannot, or if we may not read what the descriptor names.
  /// Other processes write there: read with copy_words() (base/word_copy.hpp) or atomics only.
  virtual const std::byte* mapped(const RemoteDescriptor& remote) = 0;
  /// Like mapped(), but the memory may also be changed: with atomics, because the owner of the memory and
  /// others change it at the same time. nullptr if it was not granted in place.
  virtual std::byte* mapped_in_place(const RemoteDescriptor& /*remote*/) { return nullptr; }

  /// OK while the connection works. DEADLINE_EXCEEDED: the peer's host has not answered for so long that it
  /// counts as gone.
  [[nodiscard]] virtual const absl::Status& status() const = 0;

  /// For logs and error messages, such as "worker 3 (pid 4711)". Set by either side with set_peer_name().
  [[nodiscard]] const std::string& peer_name() const { return peer_name_; }
  void set_peer_name(std::string name) { peer_name_ = std::move(name); }

  /// For the owner of the connection to use: an index or a pointer into its own tables.
  std::uint64_t user_data = 0;

 protected:
  Connection() = default;
  /// The work of post().
  [[nodiscard]] virtual std::size_t do_post(std::span<const WorkRequest> requests) = 0;

 private:
  Posted posted_;
  std::string peer_name_ = "unnamed peer";
};

/// Calls a function at intervals until it is destroyed. The destructor waits for a call that is running.
class Ticker {
 public:
  virtual ~Ticker() = default;
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;

 protected:
  Ticker() = default;
};

/// One device and one event queue.
class Transport {
 public:
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  /// Allocates and registers memory. RESOURCE_EXHAUSTED if the host or the device cannot.
  virtual absl::StatusOr<std::unique_ptr<MemoryRegion>> allocate_region(std::size_t bytes, Access access) = 0;

  /// Accepts connections at `address` from now on. ALREADY_EXISTS if someone else listens there.
  virtual absl::Status listen(const std::string& address) = 0;

  /// The address that peers connect to after listen(), with what it left open (a port) filled in; that of the
  /// last listen() if there were several. Empty before.
  [[nodiscard]] virtual std::string listening_address() const = 0;

  /// Connects, waiting for a listener to appear until `deadline`; DEADLINE_EXCEEDED names the address.
  virtual absl::StatusOr<std::unique_ptr<Connection>> connect(const std::string& address,
                                                              TimePoint deadline) = 0;

  /// Returns the oldest incoming connection that was announced by kAccepted and not taken yet; nullptr if
  /// there is none.
  virtual std::unique_ptr<Connection> take_accepted() = 0;

  /// Does a bounded piece of work and fills at most events.size() events; returns how many. Never blocks.
  [[nodiscard]] virtual std::size_t poll(std::span<Event> events) = 0;

  /// Returns when poll() may have something, when interrupted, or at `deadline`; sometimes without a reason.
  /// Spins briefly, then blocks and uses no processor.
  virtual void wait(TimePoint deadline) = 0;

  /// Ends a wait() of the owning thread. May be called from any thread and from a signal handler.
  virtual void interrupt() = 0;

  /// Calls `tick` every `interval` for as long as this process runs, whether or not the transport is polled:
  /// from a thread of its own. RESOURCE_EXHAUSTED if no thread can be created.
  virtual absl::StatusOr<std::unique_ptr<Ticker>> start_ticker(Duration interval, std::function<void()> tick);

  [[nodiscard]] virtual TimePoint now() const = 0;
  [[nodiscard]] virtual std::size_t max_message_bytes() const = 0;
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// A connection may end although both processes live and can connect again, as it is in a network, unless
  /// its status is DEADLINE_EXCEEDED. False: its end means that the peer has closed it or is gone.
  [[nodiscard]] virtual bool connections_may_break() const { return false; }

 protected:
  Transport() = default;
};

}  // namespace verbena::transport
