// What one worker is sent through its push ring: the buffers that the lanes fill for it, on their way and
// back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/lane.hpp"
#include "transport/message_ring.hpp"
#include "transport/transport.hpp"

namespace verbena::server {

/// Thread safety: none; belongs to its server.
class PushChannel {
 public:
  using Lanes = std::vector<std::unique_ptr<Lane>>;

  /// `ring`: in the worker's memory. INVALID_ARGUMENT if it can be no ring; RESOURCE_EXHAUSTED.
  static absl::StatusOr<std::unique_ptr<PushChannel>> create(transport::Transport& transport,
                                                             transport::Connection& connection,
                                                             const transport::RemoteDescriptor& ring,
                                                             std::size_t lanes);

  /// Another process is this worker now: its ring takes the place of the one before it. The lanes keep their
  /// buffers; calls `give_back` for each that was on its way. INVALID_ARGUMENT: the ring is none, or has
  /// another size.
  absl::Status reconnect(transport::Transport& transport, transport::Connection& connection,
                         const transport::RemoteDescriptor& ring,
                         absl::FunctionRef<void(std::uint32_t lane, PushBuffer*)> give_back);
  /// Gives each lane its buffers for the worker, if it has none. The channel must outlive the lanes' work,
  /// and the connection may end before it: see disconnect().
  void give_buffers_to(const Lanes& lanes, std::uint32_t worker);

  [[nodiscard]] transport::RingSender& ring() { return *ring_; }
  /// How large one message may be.
  [[nodiscard]] std::size_t message_bytes() const {
    return protocol::max_bulk_bytes(ring_->capacity_bytes());
  }

  /// A lane has filled the buffer.
  void add(std::uint32_t lane, PushBuffer* buffer) { outgoing_.push_back({lane, buffer, 0}); }
  /// Whether buffers are on their way.
  [[nodiscard]] bool is_busy() const { return !outgoing_.empty() || !in_flight_.empty(); }
  /// Sends what the ring has room for, and calls `give_back` for each buffer whose memory may be reused.
  /// Returns true if something was sent; `status`: why the ring takes nothing any more.
  bool send(absl::FunctionRef<void(std::uint32_t lane, PushBuffer*)> give_back, absl::Status& status);
  /// The worker is not told anything any more: gives back what has not been sent.
  void drop(absl::FunctionRef<void(std::uint32_t lane, PushBuffer*)> give_back);
  /// The connection ends. The buffers stay, for a lane may hold them.
  void disconnect() { ring_.reset(); }
  [[nodiscard]] bool is_connected() const { return ring_ != nullptr; }

 private:
  /// A buffer on its way.
  struct Flight {
    std::uint32_t lane = 0;
    PushBuffer* buffer = nullptr;
    std::uint64_t position = 0;  ///< in the ring, once sent
  };

  PushChannel(std::unique_ptr<transport::RingSender> ring, std::unique_ptr<transport::MemoryRegion> memory,
              std::uint64_t ring_bytes)
      : ring_bytes_(ring_bytes), ring_(std::move(ring)), memory_(std::move(memory)) {}

  const std::uint64_t ring_bytes_;
  std::unique_ptr<transport::RingSender> ring_;
  std::unique_ptr<transport::MemoryRegion> memory_;
  std::vector<PushBuffer> buffers_;  ///< empty: the lanes have none yet
  std::deque<Flight> outgoing_;      ///< what the ring had no room for yet
  std::deque<Flight> in_flight_;     ///< sent, memory not reusable yet
};

}  // namespace verbena::server
