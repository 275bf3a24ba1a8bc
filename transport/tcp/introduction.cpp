#include "transport/tcp/introduction.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <string_view>

#include "base/return_if_error.hpp"
#include "transport/backends.hpp"

namespace verbena::transport::tcp {

namespace {

constexpr std::string_view kConnectorRole = "verbena tcp connector";
constexpr std::string_view kListenerRole = "verbena tcp listener";
constexpr std::string_view kKeyRole = "verbena tcp key";
constexpr std::uint32_t kMostCredits = 1U << 20U;

std::span<const std::byte> unsigned_part(const Challenge& challenge) {
  return bytes_said(challenge).first(offsetof(Challenge, proof));
}
std::span<const std::byte> unsigned_part(const Introduction& introduction) {
  return bytes_said(introduction).first(offsetof(Introduction, proof));
}

absl::Status check_encryption(std::uint32_t theirs, std::uint32_t ours) {
  if (theirs == ours) return absl::OkStatus();
  return absl::FailedPreconditionError(
      theirs != 0 ? "it encrypts what it sends (TLS), and this process does not"
                  : "it does not encrypt what it sends, and this process does (TLS)");
}

absl::Status not_of_this_version() {
  return absl::FailedPreconditionError("it is not of this program's version");
}

}  // namespace

void sign(Challenge& challenge, const Greeting& greeting, const Secret* secret) {
  challenge.proof = prove(secret, kListenerRole, {bytes_said(greeting), unsigned_part(challenge)});
}

void sign(Introduction& introduction, const Greeting& greeting, const Challenge& challenge,
          const Secret* secret) {
  introduction.proof = prove(secret, kConnectorRole,
                             {bytes_said(greeting), bytes_said(challenge), unsigned_part(introduction)});
}

TlsKey key_of(const Greeting& greeting, const Challenge& challenge, const Introduction& introduction,
              const Secret& secret) {
  return prove(&secret, kKeyRole, {bytes_said(greeting), bytes_said(challenge), bytes_said(introduction)});
}

bool can_be_greeting(const Greeting& greeting, std::size_t bytes) {
  return bytes < offsetof(Greeting, encrypts) || (greeting.magic == kMagic && greeting.version == kVersion);
}

absl::Status check(const Greeting& greeting) {
  const bool good = greeting.magic == kMagic && greeting.version == kVersion && greeting.encrypts <= 1 &&
                    greeting.credits > 0 && greeting.credits <= kMostCredits;
  return good ? absl::OkStatus() : not_of_this_version();
}

absl::Status check(const Introduction& introduction, const Greeting& greeting, const Challenge& challenge,
                   const Secret* secret) {
  if (introduction.magic != kMagic) return not_of_this_version();
  if (!is_proof(introduction.proof, secret, kConnectorRole,
                {bytes_said(greeting), bytes_said(challenge), unsigned_part(introduction)})) {
    return absl::PermissionDeniedError("it does not have the secret of this job");
  }
  RETURN_IF_ERROR(check_encryption(greeting.encrypts, challenge.encrypts));
  if (greeting.max_message_bytes != challenge.max_message_bytes) {
    return absl::FailedPreconditionError(fmt::format("its options differ: max_message_bytes {}; here {}",
                                                     greeting.max_message_bytes,
                                                     challenge.max_message_bytes));
  }
  return absl::OkStatus();
}

absl::Status check(const Challenge& challenge, const Greeting& greeting, const Secret* secret) {
  if (challenge.magic != kMagic)
    return absl::FailedPreconditionError("who listens there is no process of this program");
  if (challenge.version != kVersion || challenge.credits == 0 || challenge.credits > kMostCredits ||
      challenge.most_streams == 0 || challenge.most_streams > kMostStreams || challenge.zero != 0) {
    return absl::FailedPreconditionError("who listens there is not of this program's version");
  }
  if (challenge.has_secret != 0 && secret == nullptr) {
    return absl::PermissionDeniedError(
        "who listens there is of a job that has a secret, and this process was given none");
  }
  if (challenge.has_secret == 0 && secret != nullptr) {
    return absl::PermissionDeniedError(
        "who listens there was given no secret, and so cannot be of this process's job");
  }
  if (!is_proof(challenge.proof, secret, kListenerRole, {bytes_said(greeting), unsigned_part(challenge)})) {
    return absl::PermissionDeniedError(
        "who listens there has another secret than this process: it is of another job");
  }
  RETURN_IF_ERROR(check_encryption(challenge.encrypts, greeting.encrypts));
  if (challenge.max_message_bytes != greeting.max_message_bytes) {
    return absl::FailedPreconditionError(fmt::format("its options differ: max_message_bytes {}; here {}",
                                                     challenge.max_message_bytes,
                                                     greeting.max_message_bytes));
  }
  return absl::OkStatus();
}

}  // namespace verbena::transport::tcp
