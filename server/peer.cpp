#include "server/peer.hpp"

#include <fmt/format.h>

#include <chrono>

namespace verbena::server {

namespace {

/// Patience with a peer that has connected and is not a worker: a worker says hello at once, and a peer that
/// was refused has read why.
constexpr auto kHelloPatience = std::chrono::seconds(30);
constexpr auto kFarewellPatience = std::chrono::seconds(2);
constexpr std::size_t kMostStrangers = 64;  // beyond the workers of the job

}  // namespace

Strangers::Strangers(std::size_t workers) : most_(workers + kMostStrangers) {}

void Strangers::add(Peer& peer, transport::TimePoint now) {
  peer.due = now + kHelloPatience;
  peers_.push_back(&peer);
}

void Strangers::refuse(Peer& peer, const std::string& why, transport::TimePoint now) {
  refusals_.note(now, fmt::format("{}: {}", peer.connection->peer_name(), why));
  peer.due = std::min<transport::TimePoint>(peer.due, now + kFarewellPatience);
}

void Strangers::note_silent(const Peer& peer, transport::TimePoint now) {
  if (!peer.refused)
    refusals_.note(now, fmt::format("{}: it has not said which worker it is", peer.connection->peer_name()));
}

}  // namespace verbena::server
