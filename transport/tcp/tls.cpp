#include "transport/tcp/tls.hpp"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "transport/secret.hpp"
#include "transport/tcp/socket.hpp"

namespace verbena::transport::tcp {

namespace {

/// The most that one record of TLS has; SSL_write() is never given more.
constexpr std::size_t kRecordBytes = SSL3_RT_MAX_PLAIN_LENGTH;
/// At most so much is taken from the socket at a time.
constexpr std::size_t kTakenBytes = std::size_t{64} << 10;
/// Of all that TLS 1.3 has it is the one that every implementation has.
constexpr const char* kCipher = "TLS_AES_128_GCM_SHA256";
constexpr std::array<unsigned char, 2> kCipherNumber = {0x13, 0x01};
constexpr std::string_view kKeyName = "verbena";

absl::Status failed(const char* what) {
  std::array<char, 256> text{};
  ERR_error_string_n(ERR_get_error(), text.data(), text.size());
  return absl::InternalError(std::string("TLS: ") + what + ": " + text.data());
}

}  // namespace

/// What OpenSSL calls.
struct TlsCalls {
  static Tls& of(BIO* stream) { return *static_cast<Tls*>(BIO_get_data(stream)); }
  static Tls& of(SSL* ssl) { return *static_cast<Tls*>(SSL_get_app_data(ssl)); }

  /// What came of a call on the socket, in OpenSSL's words.
  static int result(BIO* stream, std::ptrdiff_t count, int retry) {
    BIO_clear_retry_flags(stream);
    if (count >= 0) return static_cast<int>(count);
    if (count == -EAGAIN) {
      BIO_set_flags(stream, retry | BIO_FLAGS_SHOULD_RETRY);
    } else {
      of(stream).error_ = static_cast<int>(-count);
    }
    return -1;
  }
  static int write(BIO* stream, const char* bytes, int count) {
    const std::span from(reinterpret_cast<const std::byte*>(bytes), static_cast<std::size_t>(count));
    return result(stream, tcp::send(of(stream).socket_, from), BIO_FLAGS_WRITE);
  }
  static int read(BIO* stream, char* bytes, int count) {
    const std::span to(reinterpret_cast<std::byte*>(bytes), static_cast<std::size_t>(count));
    return result(stream, of(stream).take(to), BIO_FLAGS_READ);
  }
  /// Says nothing of the end of the stream: it is the peer's end, as it is without TLS, and no error. Frames
  /// say by themselves whether they are whole.
  static long control(BIO* /*stream*/, int what, long /*number*/, void* /*place*/) {
    return what == BIO_CTRL_FLUSH ? 1 : 0;
  }
  static int create(BIO* stream) {
    BIO_set_init(stream, 1);
    return 1;
  }

  /// The socket as a stream of OpenSSL's. Its own would raise SIGPIPE when the peer is gone.
  static BIO_METHOD* stream_method() {
    static BIO_METHOD* const kMethod = [] {
      BIO_METHOD* const made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "verbena socket");
      if (made == nullptr) return made;
      BIO_meth_set_write(made, write);
      BIO_meth_set_read(made, read);
      BIO_meth_set_ctrl(made, control);
      BIO_meth_set_create(made, create);
      return made;
    }();
    return kMethod;
  }

  /// The pre-shared key, in the form in which OpenSSL wants it. nullptr: there is no memory for it.
  static SSL_SESSION* session_of(SSL* ssl) {
    SSL_SESSION* const session = SSL_SESSION_new();
    const SSL_CIPHER* const cipher = SSL_CIPHER_find(ssl, kCipherNumber.data());
    const TlsKey& key = of(ssl).key_;
    if (session != nullptr && cipher != nullptr &&
        SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(key.data()),
                                    key.size()) == 1 &&
        SSL_SESSION_set_cipher(session, cipher) == 1 &&
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1) {
      return session;
    }
    SSL_SESSION_free(session);
    return nullptr;
  }
  static int use_key(SSL* ssl, const EVP_MD* /*digest*/, const unsigned char** name, std::size_t* name_bytes,
                     SSL_SESSION** session) {
    *session = session_of(ssl);
    *name = reinterpret_cast<const unsigned char*>(kKeyName.data());
    *name_bytes = kKeyName.size();
    return *session == nullptr ? 0 : 1;
  }
  static int find_key(SSL* ssl, const unsigned char* name, std::size_t name_bytes, SSL_SESSION** session) {
    *session = nullptr;
    const bool is_ours = std::string_view(reinterpret_cast<const char*>(name), name_bytes) == kKeyName;
    if (!is_ours) return 1;  // there is no such key
    *session = session_of(ssl);
    return *session == nullptr ? 0 : 1;
  }
};

absl::StatusOr<std::unique_ptr<TlsContext>> TlsContext::create(std::uint64_t records_a_key) {
  SSL_CTX* const made = SSL_CTX_new(TLS_method());
  if (made == nullptr) return failed("there is no context");
  std::unique_ptr<TlsContext> context(new TlsContext(made, records_a_key));
  if (SSL_CTX_set_min_proto_version(made, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_max_proto_version(made, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(made, kCipher) != 1 || SSL_CTX_set_num_tickets(made, 0) != 1) {
    return failed("there is no TLS 1.3");
  }
  SSL_CTX_set_psk_use_session_callback(made, TlsCalls::use_key);
  SSL_CTX_set_psk_find_session_callback(made, TlsCalls::find_key);
  SSL_CTX_set_session_cache_mode(made, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(made, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  return context;
}

TlsContext::~TlsContext() {
  SSL_CTX_free(context_);
}

absl::StatusOr<std::unique_ptr<Tls>> Tls::begin(const TlsContext& context, int socket, const TlsKey& key,
                                                TlsEnd end) {
  if (key == TlsKey{}) return absl::InternalError("TLS: there is no key");  // prove() has failed
  std::unique_ptr<Tls> tls(new Tls(context, socket, key));
  tls->ssl_ = SSL_new(context.get());
  BIO_METHOD* const method = TlsCalls::stream_method();
  BIO* const stream = method == nullptr ? nullptr : BIO_new(method);
  if (tls->ssl_ == nullptr || stream == nullptr) {
    BIO_free(stream);
    return absl::ResourceExhaustedError("there is no memory for an encrypted connection");
  }
  BIO_set_data(stream, tls.get());
  SSL_set_bio(tls->ssl_, stream, stream);  // which owns it now
  SSL_set_app_data(tls->ssl_, tls.get());
  if (end == TlsEnd::kListener) {
    SSL_set_accept_state(tls->ssl_);
    return tls;
  }
  SSL_set_connect_state(tls->ssl_);
  // A listener without the key could show a certificate instead. None is believed, for none is known. A
  // listener has no certificate, so that without the key there is no handshake.
  SSL_set_verify(tls->ssl_, SSL_VERIFY_PEER, nullptr);
  // The first word is the connector's, whether or not it has anything to send.
  ERR_clear_error();
  const int result = SSL_do_handshake(tls->ssl_);
  if (result <= 0) tls->outcome(result, /*is_sending=*/true);  // an error shows again
  return tls;
}

Tls::~Tls() {
  SSL_free(ssl_);
  wipe(key_);
}

/// OpenSSL asks for the header and for the rest of each record by itself; so what the socket has is taken
/// from it at once, and handed on piece by piece.
std::ptrdiff_t Tls::take(std::span<std::byte> bytes) {
  if (untaken_.empty()) {
    if (!may_take_) return -EAGAIN;
    if (takes_exactly_) return tcp::receive(socket_, bytes);
    taken_.resize(kTakenBytes);
    const std::ptrdiff_t count = tcp::receive(socket_, taken_);
    if (count <= 0) return count;
    untaken_ = std::span(taken_).first(static_cast<std::size_t>(count));
    may_take_ = untaken_.size() == taken_.size();  // or there was no more
  }
  const std::size_t count = std::min(bytes.size(), untaken_.size());
  std::memcpy(bytes.data(), untaken_.data(), count);
  untaken_ = untaken_.subspan(count);
  return static_cast<std::ptrdiff_t>(count);
}

std::ptrdiff_t Tls::outcome(int result, bool is_sending) {
  const int why = SSL_get_error(ssl_, result);
  if (why == SSL_ERROR_WANT_READ) {
    if (is_sending) sends_after_receiving_ = true;
    return -EAGAIN;
  }
  if (why == SSL_ERROR_WANT_WRITE) {
    if (!is_sending) waits_to_send_ = true;
    return -EAGAIN;
  }
  if (why == SSL_ERROR_SSL) {
    const char* const text = ERR_reason_error_string(ERR_peek_error());
    spdlog::debug("TLS: {}", text == nullptr ? "no reason" : text);
  }
  ERR_clear_error();  // or other users of OpenSSL in this thread would take it for theirs
  if (error_ != 0) return -error_;
  if (why == SSL_ERROR_SSL) return -EBADMSG;
  return is_sending ? -EPIPE : 0;  // the peer has closed
}

std::ptrdiff_t Tls::receive(std::span<std::byte> bytes) {
  sends_after_receiving_ = waits_to_send_ = false;
  ERR_clear_error();  // what another connection has left in this thread would be taken for this one's
  const int result =
      SSL_read(ssl_, bytes.data(), static_cast<int>(std::min<std::size_t>(bytes.size(), INT_MAX)));
  return result > 0 ? result : outcome(result, /*is_sending=*/false);
}

std::ptrdiff_t Tls::shake_hands() {
  sends_after_receiving_ = waits_to_send_ = false;
  may_take_ = true;
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_);
  if (result == 1) return 0;
  const std::ptrdiff_t error = outcome(result, /*is_sending=*/false);
  return error == 0 ? -ECONNRESET : error;
}

std::ptrdiff_t Tls::send(std::span<const iovec> parts) {
  std::span<const std::byte> record;
  if (!parts.empty()) record = {static_cast<const std::byte*>(parts[0].iov_base), parts[0].iov_len};
  if (parts.size() > 1 && record.size() < kRecordBytes) {
    record_.clear();
    for (const iovec& part : parts) {
      const auto* const from = static_cast<const std::byte*>(part.iov_base);
      record_.insert(record_.end(), from, from + std::min(part.iov_len, kRecordBytes - record_.size()));
      if (record_.size() == kRecordBytes) break;
    }
    record = record_;
  }
  if (record.empty()) return 0;
  record = record.first(std::min(record.size(), kRecordBytes));
  sends_after_receiving_ = false;
  // Only receive() takes bytes from the socket: the handshake's last word may come with frames behind it, and
  // when these have left the socket nothing tells of them.
  may_take_ = false;
  ERR_clear_error();
  const int result = SSL_write(ssl_, record.data(), static_cast<int>(record.size()));
  if (result <= 0) return outcome(result, /*is_sending=*/true);
  if (++records_ % context_.records_a_key() == 0 && SSL_key_update(ssl_, SSL_KEY_UPDATE_NOT_REQUESTED) != 1) {
    ERR_clear_error();  // the next one will do
  }
  return result;
}

}  // namespace verbena::transport::tcp
