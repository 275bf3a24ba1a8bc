// TLS 1.3 on a connection whose two ends have met, by OpenSSL.
//
// Both ends have the job's secret, and have proved it (introduction.hpp). So there are no certificates: the
// handshake is by a pre-shared key (RFC 8446, 2.2) that follows from the secret and from all that the two
// have said at their meeting, and by fresh Diffie-Hellman keys: who learns the secret later cannot read what
// was recorded before. A process in between that has passed on the words of the meeting has no such key, and
// its handshake fails.
//
// The handshake needs no step of its own: it takes place while the first bytes are sent and received.
//
// Thread safety: of a connection, with the transport's lock held.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"

struct ssl_ctx_st;
struct ssl_st;

namespace verbena::transport::tcp {

using TlsKey = std::array<std::byte, 32>;

/// Which end of a connection: TLS gives them parts to play.
enum class TlsEnd : bool { kConnector, kListener };

/// What the connections of a transport share.
class TlsContext {
 public:
  /// After so many records the key of a direction is replaced. AES-GCM may encrypt 2^24.5 of full size with
  /// one (RFC 8446, 5.5).
  static constexpr std::uint64_t kRecordsAKey = std::uint64_t{1} << 23U;

  /// INTERNAL: OpenSSL has not got what is needed.
  static absl::StatusOr<std::unique_ptr<TlsContext>> create(std::uint64_t records_a_key = kRecordsAKey);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  [[nodiscard]] ssl_ctx_st* get() const { return context_; }
  [[nodiscard]] std::uint64_t records_a_key() const { return records_a_key_; }

 private:
  TlsContext(ssl_ctx_st* context, std::uint64_t records_a_key)
      : context_(context), records_a_key_(records_a_key) {}
  ssl_ctx_st* const context_;
  const std::uint64_t records_a_key_;
};

class Tls {
 public:
  /// INTERNAL: there is no key. Encrypts what goes over `socket`, which outlives it, as does the context.
  /// RESOURCE_EXHAUSTED.
  static absl::StatusOr<std::unique_ptr<Tls>> begin(const TlsContext& context, int socket, const TlsKey& key,
                                                    TlsEnd end);
  ~Tls();
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;

  // See Channel. An error of TLS itself, such as bytes that were changed on the way, is EBADMSG.
  std::ptrdiff_t receive(std::span<std::byte> bytes);
  std::ptrdiff_t send(std::span<const iovec> parts);
  std::ptrdiff_t shake_hands();
  void may_take(bool may) { may_take_ = may; }
  /// From here on nothing is taken from the socket that is not needed for what is returned next. It costs two
  /// more system calls a record.
  void take_exactly() { takes_exactly_ = true; }

  /// Something of TLS's own has to be sent before anything can be received.
  [[nodiscard]] bool waits_to_send() const { return waits_to_send_; }
  /// Something has to be received before anything can be sent.
  [[nodiscard]] bool sends_after_receiving() const { return sends_after_receiving_; }

 private:
  friend struct TlsCalls;  // OpenSSL's calls back

  Tls(const TlsContext& context, int socket, const TlsKey& key)
      : context_(context), socket_(socket), key_(key) {}
  std::ptrdiff_t take(std::span<std::byte> bytes);
  /// Of a call that has returned `result`, not above 0.
  std::ptrdiff_t outcome(int result, bool is_sending);

  const TlsContext& context_;
  const int socket_;
  TlsKey key_;
  ssl_st* ssl_ = nullptr;
  int error_ = 0;  ///< an errno of the socket
  bool waits_to_send_ = false;
  bool sends_after_receiving_ = false;
  std::vector<std::byte> taken_;        ///< from the socket
  std::span<const std::byte> untaken_;  ///< of these, what OpenSSL has not got
  bool may_take_ = false;
  bool takes_exactly_ = false;
  std::uint64_t records_ = 0;      ///< sent
  std::vector<std::byte> record_;  ///< for parts that go as one
};

}  // namespace verbena::transport::tcp
