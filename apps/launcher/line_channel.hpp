// Lines over a socket that is this object's own, as they are or encrypted: between rank 0 and the processes
// of its run.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "job/line_stream.hpp"
#include "transport/tcp/channel.hpp"
#include "transport/tcp/tls.hpp"

namespace verbena::apps {

/// Thread safety: belongs to one thread at a time.
class LineChannel {
 public:
  LineChannel() = default;
  /// The socket never blocks.
  explicit LineChannel(int socket) : channel_(base::FileDescriptor(socket)) {}

  [[nodiscard]] int descriptor() const { return channel_.socket(); }
  [[nodiscard]] bool is_open() const { return descriptor() >= 0; }
  void close() { channel_.reset(); }
  /// Tells the other end that nothing follows, after what waits.
  void end_sending_later() { ends_sending_ = true; }

  /// What follows is encrypted, in both directions. REQUIRES: nothing that follows was received; the context
  /// outlives this object.
  absl::Status encrypt(const transport::tcp::TlsContext& context, const transport::tcp::TlsKey& key,
                       transport::tcp::TlsEnd end);
  /// False: it needs words of the other end. To be repeated until it is true, before anything else. Errors as
  /// for read().
  absl::StatusOr<bool> shake_hands();

  /// As transport::tcp::Channel, and takes no byte from the socket that it does not return: so the socket
  /// tells whether there are more.
  std::ptrdiff_t receive(std::span<std::byte> bytes);
  /// Hands over the whole lines that are there. False when the other end has closed; DATA_LOSS if what came
  /// was not encrypted, or was changed on the way.
  absl::StatusOr<bool> read(const std::function<void(std::string_view line)>& handle);
  /// Waits for the other end to take all of it. UNAVAILABLE if it is gone.
  absl::Status write(std::string_view text);
  /// It waits until flush().
  void write_later(std::string_view text) { waiting_ += text; }
  /// As write(), but what cannot be written is forgotten.
  void flush();

 private:
  transport::tcp::Channel channel_;
  job::LineStream lines_;
  std::string waiting_;
  bool ends_sending_ = false;
};

}  // namespace verbena::apps
