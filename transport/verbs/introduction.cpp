#include "transport/verbs/introduction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace verbena::transport::verbs {

namespace {

constexpr std::string_view kConnectorRole = "verbena verbs connector";
constexpr std::string_view kListenerRole = "verbena verbs listener";
constexpr std::string_view kSealRole = "verbena verbs challenge";
constexpr std::size_t kUsedBeforeLook = 1024;

template <class Words>
std::optional<Words> read(std::span<const std::byte> bytes) {
  Words words;
  if (bytes.size() < sizeof(words)) return std::nullopt;  // it may be padded at the end
  std::memcpy(&words, bytes.data(), sizeof(words));
  return words.magic == kMagic && words.version == kVersion ? std::optional(words) : std::nullopt;
}

std::uint32_t seconds_of(TimePoint time) {
  return static_cast<std::uint32_t>(
      std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count());
}

}  // namespace

std::span<const std::byte> said(const Opening& opening) {
  return std::as_bytes(std::span(&opening, 1)).first(offsetof(Opening, proof));
}

std::span<const std::byte> said(const Welcome& welcome) {
  return std::as_bytes(std::span(&welcome, 1)).first(offsetof(Welcome, proof));
}

void sign(Opening& opening, const Secret* secret) {
  const Proof proof = prove(secret, kConnectorRole, {said(opening)});
  std::copy_n(proof.begin(), opening.proof.size(), opening.proof.begin());
}

void sign(Welcome& welcome, const Opening& opening, const Secret* secret) {
  welcome.proof = prove(secret, kListenerRole, {said(opening), said(welcome)});
}

bool is_signed(const Opening& opening, const Secret* secret) {
  return is_proof(opening.proof, secret, kConnectorRole, {said(opening)});
}

bool is_signed(const Welcome& welcome, const Opening& opening, const Secret* secret) {
  return is_proof(welcome.proof, secret, kListenerRole, {said(opening), said(welcome)});
}

std::optional<Opening> read_opening(std::span<const std::byte> bytes) {
  const std::optional<Opening> opening = read<Opening>(bytes);
  return opening && opening->receives >= 2 ? opening : std::nullopt;
}

std::optional<Refusal> read_refusal(std::span<const std::byte> bytes) {
  return read<Refusal>(bytes);
}

std::optional<Welcome> read_welcome(std::span<const std::byte> bytes) {
  const std::optional<Welcome> welcome = read<Welcome>(bytes);
  return welcome && welcome->receives >= 2 && welcome->receives <= UINT16_MAX ? welcome : std::nullopt;
}

// ---- the listener

Gatekeeper::Challenge Gatekeeper::challenge(const Opening& opening, std::uint32_t time) const {
  Challenge challenge{};
  std::memcpy(challenge.data(), &time, sizeof time);
  const auto when = std::as_bytes(std::span(&time, 1));
  const Proof seal = prove(seal_.get(), kSealRole, {opening.nonce, when});
  std::copy_n(seal.begin(), challenge.size() - sizeof time, challenge.begin() + sizeof time);
  return challenge;
}

bool Gatekeeper::is_fresh(const Opening& opening, std::uint32_t now) const {
  std::uint32_t time = 0;
  std::memcpy(&time, opening.challenge.data(), sizeof time);
  const auto when = std::as_bytes(std::span(&time, 1));
  return now - time <= static_cast<std::uint32_t>(kPatience.count()) &&
         is_proof(std::span(opening.challenge).subspan(sizeof time), seal_.get(), kSealRole,
                  {opening.nonce, when});
}

bool Gatekeeper::use_up(const Challenge& challenge, std::uint32_t now) {
  const auto patience = static_cast<std::uint32_t>(kPatience.count());
  if (used_.size() >= kUsedBeforeLook) {
    absl::erase_if(used_, [&](const auto& each) { return now - each.second > patience; });
  }
  return used_.try_emplace(challenge, now).second;
}

absl::Status Gatekeeper::find_seal() {
  if (seal_ != nullptr) return absl::OkStatus();
  auto seal = Secret::random();
  if (!seal.ok()) return seal.status();
  seal_ = *std::move(seal);
  return absl::OkStatus();
}

std::optional<Refusal> Gatekeeper::refuses(const std::optional<Opening>& opening, const std::string& from,
                                           std::uint32_t max_message_bytes, TimePoint now) {
  Refusal refusal{.max_message_bytes = max_message_bytes, .has_secret = secret_ == nullptr ? 0U : 1U};
  const std::uint32_t time = seconds_of(now);
  std::string why;
  if (!opening) {
    why = "it is not of this program's version";
  } else if (const absl::Status status = find_seal(); !status.ok()) {
    why = std::string(status.message());
  } else if ((opening->flags & Opening::kAnswers) == 0) {
    refusal.reason = Refusal::kChallenge;
    refusal.challenge = challenge(*opening, time);
    return refusal;  // every connector gets this first: it is not logged
  } else if (!is_fresh(*opening, time)) {
    refusal.reason = Refusal::kNoProof;
    why = "it answers a challenge that was not put to it, or long ago";
  } else if (!is_signed(*opening, secret_.get())) {
    refusal.reason = Refusal::kNoProof;
    why = "it does not have the secret of this job";
  } else if (!use_up(opening->challenge, time)) {
    refusal.reason = Refusal::kNoProof;
    why = "it repeats what another has said";
  } else if (opening->max_message_bytes != max_message_bytes) {
    refusal.reason = Refusal::kOptions;
    why = fmt::format("its options differ: max_message_bytes {}; here {}", opening->max_message_bytes,
                      max_message_bytes);
  } else {
    return std::nullopt;
  }
  refusals_.note(now, fmt::format("{}: {}", from, why));
  return refusal;
}

}  // namespace verbena::transport::verbs
