// A Unix socket beside a connection over the device, if its two ends are processes of one user on one host.
// Over it, memory files are passed to just the peer that they are granted to.
//
// A listener has such a socket, too, with a random name that the welcome carries. The connector tries that
// name before it sends its first message over the device; if the listener is on another host, the connector
// finds nobody there. Over the socket the connector says which connection it belongs to, and proves it.
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

  /// Passes memory of this process to the peer. Returns the number under which the peer finds it, from 1; 0
  /// if the peer does not take it.
  std::uint32_t pass(std::span<const std::byte> memory, const base::FileDescriptor& file);
  /// The memory that the peer has passed under that number, at that address of the peer; nullptr if there is
  /// none.
  std::byte* find(std::uint32_t number, std::uint64_t address, std::uint64_t length_bytes);

 private:
  static constexpr std::size_t kMostViews = 65536;

  void read();

  shm::ControlSocket socket_;
  std::uint32_t passed_ = 0;
  absl::flat_hash_map<std::uint32_t, InPlaceView> views_;
};

/// The listener's socket, and the connectors that have come to it.
class Neighbours {
 public:
  using Name = std::array<std::byte, 16>;

  /// Opens the socket, so that welcomes can carry its name. If the system has no Unix sockets, there are no
  /// neighbours.
  void listen();
  [[nodiscard]] const Name& name() const { return name_; }

  /// The connector that has come for the connection of that opening; nullptr if none has.
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

/// The connector's end; nullptr if the listener is not a neighbour.
std::unique_ptr<Neighbour> visit(const Neighbours::Name& name, const Opening& opening, const Secret* secret);

}  // namespace verbena::transport::verbs
