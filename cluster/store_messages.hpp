// What a store of ours and the stores of other processes say to each other, one message a frame.
//
// Numbers are little-endian; texts have their length (32 bits) before them, lists their count (32 bits).
// Whoever connects sends a Greeting; the store answers with a Challenge; whoever connects sends its proof,
// and from then on ClientMessages. The store sends ServerMessages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cluster/store.hpp"
#include "transport/secret.hpp"

namespace verbena::cluster {

/// Nothing that a client says is longer: the largest transaction, with what surrounds keys and values.
inline constexpr std::size_t kMostClientFrameBytes = kMostRequestBytes + (64 << 10);
/// Before the proof.
inline constexpr std::size_t kMostStrangerFrameBytes = 64;
/// A snapshot of all that a store holds.
inline constexpr std::size_t kMostServerFrameBytes = 32 << 20;

// Roles, as transport/secret.hpp has them.
inline constexpr std::string_view kStoreRole = "verbena store";
inline constexpr std::string_view kStoreClientRole = "verbena store client";

struct Greeting {
  transport::Nonce nonce{};
};
struct Challenge {
  transport::Nonce nonce{};
  transport::Proof proof{};
};

struct Ask {
  std::uint64_t request = 0;  ///< a number of the client's, which comes back in the answer
  Request what;
};
struct BeginWatch {
  std::uint64_t watch = 0;  ///< likewise
  std::string prefix;
  Revision from = 0;
};
struct EndWatch {
  std::uint64_t watch = 0;
};
using ClientMessage = std::variant<Ask, BeginWatch, EndWatch>;

struct Answered {
  std::uint64_t request = 0;
  absl::StatusOr<Answer> answer = absl::UnknownError("");
};
/// Of one watch; an error is its end.
struct Happened {
  std::uint64_t watch = 0;
  absl::StatusOr<std::vector<Event>> events = absl::UnknownError("");
};
using ServerMessage = std::variant<Answered, Happened>;

std::string encode(const Greeting& greeting);
std::string encode(const Challenge& challenge);
std::string encode(const transport::Proof& proof);
std::string encode(const ClientMessage& message);
std::string encode(const ServerMessage& message);

// nullopt for anything that encode() does not write. No more memory is taken than the length explains.
std::optional<Greeting> decode_greeting(std::string_view bytes);
std::optional<Challenge> decode_challenge(std::string_view bytes);
std::optional<transport::Proof> decode_proof(std::string_view bytes);
/// Requests may break the limits of cluster/store.hpp: see check().
std::optional<ClientMessage> decode_client_message(std::string_view bytes);
std::optional<ServerMessage> decode_server_message(std::string_view bytes);

}  // namespace verbena::cluster
