// Beside a connection over the device, where its two ends are processes of one user on one host: a Unix
// socket, over which memory files are passed to just the peer that they are granted to.
//
// Who listens has such a socket, too, of a random name, which the welcome tells. The connector tries it
// before it says its first word over the device: who finds somebody there, on another host, has found nobody.
// It says which connection it is of, and proves it.
#pragma once

#include <array>
#include <cstddef>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "transport/secret.hpp"
#include "transport/shm/control_socket.hpp"
#include "transport/verbs/in_place.hpp"
#include "transport/verbs/introduction.hpp"

namespace verbena::transport::verbs {

/// An end of such a socket.
class Neighbour {
 public:
  explicit Neighbour(shm::ControlSocket socket) : socket_(std::move(socket)) {}

  /// Passes memory of this process to the peer; returns the number under which the peer finds it, from 1. 0
  /// where the peer does not take it.
  std::uint32_t pass(std::span<const std::byte> memory, const shm::FileDescriptor& file);
  /// What the peer has passed under that number and has at that place; nullptr where there is nothing.
  std::byte* find(std::uint32_t number, std::uint64_t address, std::uint64_t length_bytes);

 private:
  static constexpr std::size_t kMostViews = 65536;

  void read();

  shm::ControlSocket socket_;
  std::uint32_t passed_ = 0;
  absl::flat_hash_map<std::uint32_t, InPlaceView> views_;
};

/// A listener's.
class Neighbours {
 public:
  using Name = std::array<std::byte, 16>;

  /// So that welcomes can tell of it. Where the system has no Unix sockets there are no neighbours.
  void listen();
  [[nodiscard]] const Name& name() const { return name_; }

  /// Whoever has come for the connection of that welcome; nullptr if nobody has.
  std::unique_ptr<Neighbour> claim(const Opening& opening, const Secret* secret);

 private:
  struct Visitor {
    shm::ControlSocket socket;
    std::optional<shm::ControlMessage> word;
  };
  static constexpr std::size_t kMostVisitors = 256;

  void receive();

  std::optional<shm::ControlSocket> listening_;
  Name name_{};
  std::list<Visitor> visitors_;  ///< claimed by nobody yet
};

/// Of the connector; nullptr where the listener is no neighbour.
std::unique_ptr<Neighbour> visit(const Neighbours::Name& name, const Opening& opening, const Secret* secret);

}  // namespace verbena::transport::verbs
