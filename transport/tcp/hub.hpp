// What the connections of a transport share. All of it is under one lock, because two threads work on it: the
// owner's and the transport's own (io_thread.hpp). They seldom want it at the same time.
#pragma once

#include <cstddef>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "transport/tcp/channel.hpp"
#include "transport/tcp/frame_writer.hpp"
#include "transport/tcp/sockets.hpp"
#include "transport/tcp/tcp_transport.hpp"
#include "transport/transport.hpp"

namespace verbena::transport::tcp {

class TcpConnection;

inline TimePoint clock_now() {
  return std::chrono::steady_clock::now();
}

/// A channel whose connection is closed here, until the peer has received what was sent before. If it were
/// closed at once, with something unread, the kernel would tell the peer to throw that away.
class Leaving final : public SocketUser {
 public:
  /// `memory` holds what the rest is sent from, beside the writer's own.
  Leaving(Sockets& sockets, Channel channel, FrameWriter rest, TimePoint deadline,
          std::shared_ptr<const void> memory = nullptr);
  ~Leaving();
  Leaving(const Leaving&) = delete;
  Leaving& operator=(const Leaving&) = delete;

  void on_ready() override;
  [[nodiscard]] bool is_over(TimePoint now) const { return is_over_ || now >= deadline_; }

 private:
  Sockets& sockets_;
  Channel channel_;
  FrameWriter rest_;
  const std::shared_ptr<const void> memory_;
  const TimePoint deadline_;
  std::uint64_t number_ = 0;
  Sockets::Wants wants_ = Sockets::Wants::kReading;
  bool has_said_all_ = false;
  bool is_over_ = false;
};

struct Hub {
  struct Pending {
    Event event;
    std::vector<std::byte> message;  ///< of a kMessage
  };

  const TcpOptions& options;
  const TlsContext* tls;  ///< nullptr: nothing is encrypted
  Sockets sockets;
  std::span<std::byte> buffer;  ///< for what one receive brings

  std::mutex mutex = {};
  std::vector<TcpConnection*> connections = {};
  std::deque<Pending> ready = {};
  std::list<Leaving> leaving = {};
  /// A post() that took fewer requests than it was given may be repeated.
  bool has_room_again = false;
  /// Something was received, which may concern the peer alone, as a read of memory here does.
  bool has_worked = false;
};

}  // namespace verbena::transport::tcp
