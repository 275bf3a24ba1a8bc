// A connected socket, and what its bytes look like on the way: as they are, or encrypted (tls.hpp).
//
// Thread safety: of a connection, with the transport's lock held.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_descriptor.hpp"
#include "transport/tcp/sockets.hpp"
#include "transport/tcp/tls.hpp"

namespace verbena::transport::tcp {

class Channel {
 public:
  Channel() = default;
  explicit Channel(base::FileDescriptor socket) : socket_(std::move(socket)) {}
  /// `tls` works on that socket.
  Channel(base::FileDescriptor socket, std::unique_ptr<Tls> tls)
      : socket_(std::move(socket)), tls_(std::move(tls)) {}
  Channel(Channel&&) = default;
  Channel& operator=(Channel&&) = default;

  [[nodiscard]] int socket() const { return socket_.get(); }
  /// The socket, if nothing is encrypted on it.
  base::FileDescriptor release() { return std::move(socket_); }
  void reset() {
    tls_.reset();
    socket_.reset();
  }

  /// From here on receive() takes bytes from the socket: until it has none, or take_no_more() is called. Some
  /// may have left the socket that receive() has not returned yet, and of these nothing else tells. So it
  /// must be called until it returns none.
  void begin_receiving() { set_may_take(true); }
  void take_no_more() { set_may_take(false); }
  /// As receive() of socket.hpp; −EAGAIN if it may not take more.
  std::ptrdiff_t receive(std::span<std::byte> bytes);
  /// As send() of socket.hpp: the parts one after the other. What begins the bytes of a call that returned
  /// -EAGAIN must begin those of the next call.
  std::ptrdiff_t send(std::span<const iovec> parts);
  /// Ends the handshake of TLS, if there is one, before anything else travels. 0: it has ended; −EAGAIN: the
  /// peer has to say something, or the socket takes no more; else the negative of an errno.
  std::ptrdiff_t shake_hands() { return tls_ == nullptr ? 0 : tls_->shake_hands(); }
  /// Nothing follows. For a channel on which all has been sent.
  void end_sending();

  /// TLS waits for the peer's part of the handshake.
  [[nodiscard]] bool waits_for_handshake() const { return tls_ != nullptr && tls_->sends_after_receiving(); }
  /// What must come or go on the socket before there is anything to do.
  [[nodiscard]] Sockets::Wants wants(bool has_to_send, bool receives = true) const {
    if (tls_ != nullptr)
      has_to_send = tls_->waits_to_send() || (has_to_send && !tls_->sends_after_receiving());
    if (!receives) return has_to_send ? Sockets::Wants::kWriting : Sockets::Wants::kNothing;
    return has_to_send ? Sockets::Wants::kReadingAndWriting : Sockets::Wants::kReading;
  }

 private:
  void set_may_take(bool may) {
    if (tls_ != nullptr) {
      tls_->may_take(may);
    } else {
      may_take_ = may;
    }
  }

  base::FileDescriptor socket_;
  bool may_take_ = false;     ///< without TLS, which knows it by itself
  std::unique_ptr<Tls> tls_;  ///< nullptr: bytes travel as they are
};

/// What it means that receiving or sending has ended with this errno; 0: the peer has closed.
absl::Status has_gone(int error);

/// For a connection whose two ends have met. `tls`: nullptr if nothing is to be encrypted; then `key` is not
/// called. Errors as for Tls::begin().
template <class Key>
absl::StatusOr<Channel> make_channel(base::FileDescriptor socket, const TlsContext* tls, TlsEnd end,
                                     const Key& key) {
  if (tls == nullptr) return Channel(std::move(socket));
  absl::StatusOr<std::unique_ptr<Tls>> begun = Tls::begin(*tls, socket.get(), key(), end);
  if (!begun.ok()) return begun.status();
  return Channel(std::move(socket), *std::move(begun));
}

}  // namespace verbena::transport::tcp
