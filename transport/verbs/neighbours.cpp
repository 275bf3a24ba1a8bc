#include "transport/verbs/neighbours.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

namespace verbena::transport::verbs {

namespace {

constexpr std::string_view kVisitorRole = "verbena verbs neighbour";
constexpr auto kQueuePatience = std::chrono::milliseconds(10);
constexpr std::array<int, 3> kNoFiles = {-1, -1, -1};

std::string meeting_place(const Neighbours::Name& name) {
  std::string address = "shm:verbs-";
  for (const std::byte each : name) address += fmt::format("{:02x}", std::to_integer<unsigned>(each));
  return address;
}

bool is_own_user(const shm::ControlSocket& socket) {
  const auto peer = socket.peer();
  return peer.ok() && peer->uid == ::getuid();
}

}  // namespace

std::uint32_t Neighbour::pass(std::span<const std::byte> memory, const base::FileDescriptor& file) {
  const shm::ControlMessage grant = {.kind = shm::ControlKind::kGrant,
                                     .key = passed_ + 1,
                                     .address = reinterpret_cast<std::uintptr_t>(memory.data()),
                                     .length_bytes = memory.size()};
  if (const absl::Status status = socket_.send(grant, {file.get(), -1, -1}); !status.ok()) {
    spdlog::warn("a peer on this host reaches memory through the device: {}", std::string(status.message()));
    return 0;
  }
  return ++passed_;
}

std::byte* Neighbour::find(std::uint32_t number, std::uint64_t address, std::uint64_t length_bytes) {
  auto view = views_.find(number);
  if (view == views_.end()) {
    read();  // the peer passed it before it could send its number
    view = views_.find(number);
  }
  return view == views_.end() ? nullptr : view->second.at(address, length_bytes);
}

void Neighbour::read() {
  auto end = shm::ControlSocket::End::kOpen;
  while (socket_.fd() >= 0) {
    const std::optional<shm::ControlSocket::Received> received = socket_.receive(end);
    if (!received) {
      if (end != shm::ControlSocket::End::kOpen) socket_ = shm::ControlSocket();
      return;
    }
    const shm::ControlMessage& grant = received->message;
    if (grant.kind != shm::ControlKind::kGrant || views_.size() >= kMostViews) continue;
    absl::StatusOr<InPlaceView> view =
        InPlaceView::open(received->files[0], grant.address, grant.length_bytes);
    if (view.ok()) {
      views_.try_emplace(static_cast<std::uint32_t>(grant.key), *std::move(view));
    } else {
      spdlog::warn("memory of a peer on this host is reached through the device: {}",
                   std::string(view.status().message()));
    }
  }
}

void Neighbours::listen() {
  if (listening_) return;
  const auto name = fresh_nonce();
  if (!name.ok()) return;
  auto socket = shm::ControlSocket::listen(meeting_place(*name));
  if (!socket.ok()) {
    spdlog::warn("peers on this host reach memory through the device: {}",
                 std::string(socket.status().message()));
    return;
  }
  listening_ = *std::move(socket);
  name_ = *name;
}

/// Accepts all connectors that have come, and receives their first messages. If too many wait to be claimed,
/// removes some: first those that have sent nothing, the oldest first.
void Neighbours::receive() {
  for (std::size_t i = 0; listening_ && i < kMostVisitors; ++i) {
    auto socket = listening_->accept();
    if (!socket.ok()) break;
    if (is_own_user(*socket)) visitors_.push_back({*std::move(socket), std::nullopt});
  }
  visitors_.remove_if([](Visitor& visitor) {
    if (visitor.word) return false;
    auto end = shm::ControlSocket::End::kOpen;
    const auto word = visitor.socket.receive(end, shm::ControlSocket::TakesFiles::kNo);
    if (word) visitor.word = word->message;
    return end != shm::ControlSocket::End::kOpen;
  });
  while (visitors_.size() > kMostVisitors) {
    const auto silent =
        std::find_if(visitors_.begin(), visitors_.end(), [](const Visitor& each) { return !each.word; });
    visitors_.erase(silent == visitors_.end() ? visitors_.begin() : silent);
  }
}

std::unique_ptr<Neighbour> Neighbours::claim(const Opening& opening, const Secret* secret) {
  receive();
  const auto found = std::find_if(visitors_.begin(), visitors_.end(), [&](const Visitor& visitor) {
    return visitor.word && visitor.word->kind == shm::ControlKind::kGreeting &&
           visitor.word->nonce == opening.challenge &&
           is_proof(visitor.word->proof, secret, kVisitorRole, {said(opening)});
  });
  if (found == visitors_.end()) return nullptr;
  auto neighbour = std::make_unique<Neighbour>(std::move(found->socket));
  visitors_.erase(found);
  return neighbour;
}

std::unique_ptr<Neighbour> visit(const Neighbours::Name& name, const Opening& opening, const Secret* secret) {
  if (name == Neighbours::Name{}) return nullptr;
  auto socket = shm::ControlSocket::connect(meeting_place(name), kQueuePatience);
  if (!socket.ok() || !socket->has_value() || !is_own_user(**socket)) return nullptr;
  const shm::ControlMessage word = {.kind = shm::ControlKind::kGreeting,
                                    .nonce = opening.challenge,
                                    .proof = prove(secret, kVisitorRole, {said(opening)})};
  if (!(*socket)->send(word, kNoFiles).ok()) return nullptr;
  return std::make_unique<Neighbour>(std::move(**socket));
}

}  // namespace verbena::transport::verbs
