// What two ends say to each other before anything else, and how each proves that it has the job's secret.
//
//   connector → listener   Greeting      a nonce, and what it is like
//   listener → connector   Challenge     a nonce, and a proof over all that was said
//   connector → listener   Introduction  a proof over all that was said
//   listener → connector   Welcome       frames may follow, in both directions
//
// The listener proves itself first: so a connector tells nobody anything who does not have the secret. A
// further stream of a connection is asked for in the same way, with the number of that connection; only its
// two ends know it, unless somebody reads what they say, and the proofs are also over that. If frames are to
// be encrypted, all that follows the Welcome is, by a key that follows from the secret and from all that was
// said before it. Both ends must want the same, and the proofs are also over that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "transport/secret.hpp"
#include "transport/tcp/tls.hpp"

namespace verbena::transport::tcp {

constexpr std::uint32_t kMagic = 0x54524556;  // "VERT"
constexpr std::uint16_t kVersion = 2;

/// By which its two ends know a connection: the nonce in the challenge of its first meeting.
using ConnectionId = Nonce;
constexpr ConnectionId kNoConnection{};

struct Greeting {
  std::uint32_t magic = kMagic;
  std::uint16_t version = kVersion;
  std::uint16_t encrypts = 0;  ///< 1: what follows is to be encrypted (tls.hpp)
  std::uint32_t max_message_bytes = 0;
  std::uint32_t credits = 0;  ///< of the listener: notifications and messages that it may have under way
  Nonce nonce{};
  ConnectionId joins{};  ///< of which a further stream is asked for; kNoConnection: a connection is
};
static_assert(sizeof(Greeting) == 48);

struct Challenge {
  std::uint32_t magic = kMagic;
  std::uint16_t version = kVersion;
  std::uint16_t has_secret = 0;
  std::uint32_t max_message_bytes = 0;
  std::uint32_t credits = 0;  ///< of the connector
  std::uint32_t process = 0;
  std::uint32_t encrypts = 0;
  std::uint32_t most_streams = 1;  ///< over which the bulk of this connection may travel
  std::uint32_t zero = 0;
  Nonce nonce{};
  Proof proof{};  ///< over the greeting and all fields before
};
static_assert(sizeof(Challenge) == 80);

struct Introduction {
  std::uint32_t magic = kMagic;
  std::uint32_t process = 0;
  Proof proof{};  ///< over greeting, challenge, and all fields before
};
static_assert(sizeof(Introduction) == 40);

struct Welcome {
  std::uint32_t magic = kMagic;
  std::uint32_t is_welcome = 0;
};
static_assert(sizeof(Welcome) == 8);

/// Of one of these.
template <class Words>
std::span<const std::byte> bytes_said(const Words& words) {
  return std::as_bytes(std::span(&words, 1));
}
template <class Words>
std::span<std::byte> room_for(Words& words) {
  return std::as_writable_bytes(std::span(&words, 1));
}

/// sign() writes the proof into its field.
void sign(Challenge& challenge, const Greeting& greeting, const Secret* secret);
void sign(Introduction& introduction, const Greeting& greeting, const Challenge& challenge,
          const Secret* secret);

/// The key of a connection whose ends have met; nobody else can know it. REQUIRES: there is a secret.
TlsKey key_of(const Greeting& greeting, const Challenge& challenge, const Introduction& introduction,
              const Secret& secret);

/// Whether the first so many bytes of it can be of one: whoever says something else may never say all of it.
bool can_be_greeting(const Greeting& greeting, std::size_t bytes);
/// What a listener thinks of a greeting, and then of an introduction.
absl::Status check(const Greeting& greeting);
absl::Status check(const Introduction& introduction, const Greeting& greeting, const Challenge& challenge,
                   const Secret* secret);
/// What a connector thinks of a challenge.
absl::Status check(const Challenge& challenge, const Greeting& greeting, const Secret* secret);

}  // namespace verbena::transport::tcp
