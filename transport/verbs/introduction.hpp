// How two ends meet through the connection manager and prove to each other that they belong to one job.
//
// A connector asks twice. The listener rejects the first request, with a challenge, and forgets it: a
// connector that has proved nothing costs the listener no queue pair and no memory, not even a note, because
// a challenge is the listener's own seal on the connector's nonce and the time. The second request carries
// the challenge and the connector's proof. The listener looks at it only if the seal is its own and not too
// old, accepts each challenge once, and answers with its own proof. The proofs cover everything that the two
// sides say.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/refusals.hpp"
#include "transport/secret.hpp"
#include "transport/transport.hpp"

namespace verbena::transport::verbs {

constexpr std::uint32_t kMagic = 0x42524556;  // "VERB"
constexpr std::uint8_t kVersion = 3;

/// What the connector sends with its request; it takes all the space that the connection manager has there.
struct Opening {
  enum Flags : std::uint8_t { kImmediate = 1, kAnswers = 2 };
  std::uint32_t magic = kMagic;
  std::uint8_t version = kVersion;
  std::uint8_t flags = 0;
  std::uint16_t receives = 0;  ///< credits of the listener
  std::uint32_t max_message_bytes = 0;
  std::array<std::byte, 12> nonce{};
  std::array<std::byte, 16> challenge{};  ///< if it answers one
  std::array<std::byte, 16> proof{};      ///< if it answers a challenge; over all fields before
};
static_assert(sizeof(Opening) == 56);

/// What the listener sends when it rejects a request.
struct Refusal {
  enum Reason : std::uint32_t { kChallenge = 1, kOptions = 2, kNoProof = 3, kOther = 4 };
  std::uint32_t magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t reason = kOther;
  std::uint32_t max_message_bytes = 0;
  std::uint32_t has_secret = 0;
  std::array<std::byte, 16> challenge{};
};
static_assert(sizeof(Refusal) == 36);

/// What the listener sends when it accepts a request.
struct Welcome {
  std::uint32_t magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t immediate = 0;  ///< 1 if the device can write with immediate data
  std::uint32_t receives = 0;   ///< credits of the connector
  std::uint32_t max_message_bytes = 0;
  std::uint32_t process = 0;
  std::array<std::byte, 16> neighbours{};  ///< see neighbours.hpp; zero: none
  Proof proof{};                           ///< over the opening and all fields before
};
static_assert(sizeof(Welcome) == 72);

/// The bytes without the proof.
std::span<const std::byte> said(const Opening& opening);
std::span<const std::byte> said(const Welcome& welcome);

/// sign() writes the proof into its field.
void sign(Opening& opening, const Secret* secret);
void sign(Welcome& welcome, const Opening& opening, const Secret* secret);
bool is_signed(const Opening& opening, const Secret* secret);
bool is_signed(const Welcome& welcome, const Opening& opening, const Secret* secret);

/// What was received; nullopt unless a peer of this version can have sent it.
std::optional<Opening> read_opening(std::span<const std::byte> bytes);
std::optional<Refusal> read_refusal(std::span<const std::byte> bytes);
std::optional<Welcome> read_welcome(std::span<const std::byte> bytes);

/// Decides for a listener which connectors it accepts.
class Gatekeeper {
 public:
  static constexpr std::chrono::seconds kPatience{30};  ///< a challenge is valid for so long

  explicit Gatekeeper(std::shared_ptr<const Secret> secret) : secret_(std::move(secret)) {}

  /// nullopt: accept the connector. Else the refusal to send to it. `from` is for the log.
  std::optional<Refusal> refuses(const std::optional<Opening>& opening, const std::string& from,
                                 std::uint32_t max_message_bytes, TimePoint now);
  void note(TimePoint now, std::string_view why) { refusals_.note(now, why); }

 private:
  using Challenge = std::array<std::byte, 16>;

  [[nodiscard]] Challenge challenge(const Opening& opening, std::uint32_t time) const;
  [[nodiscard]] bool is_fresh(const Opening& opening, std::uint32_t now) const;
  bool use_up(const Challenge& challenge, std::uint32_t now);
  absl::Status find_seal();

  std::shared_ptr<const Secret> secret_;
  std::shared_ptr<const Secret> seal_;  ///< only this listener knows it
  /// Challenges that were answered correctly, and when: no more than there were peers that proved themselves
  /// within kPatience, and peers that came since the last look. Without a secret every peer counts as proved.
  absl::flat_hash_map<Challenge, std::uint32_t> used_;
  Refusals refusals_;
};

}  // namespace verbena::transport::verbs
