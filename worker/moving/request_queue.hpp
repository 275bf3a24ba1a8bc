// What a worker has to ask or tell the servers about rows of a dynamic table, and could not send yet: by
// server and kind, in the order in which it came.
//
// No I/O of its own. Thread safety: none; one owner.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "protocol/messages.hpp"

namespace verbena::worker {

class RequestQueue {
 public:
  using Kind = protocol::KeyRequests::Kind;
  using Row = protocol::KeyRequests::Row;
  /// Sends one message to a server; returns false if that is not possible now.
  using Send = absl::FunctionRef<bool(std::uint32_t server, const protocol::KeyRequests& requests)>;

  explicit RequestQueue(std::uint32_t table) : table_(table) {}
  /// Adds the next server, by rank.
  void add_server() { servers_.emplace_back(); }

  /// Does nothing if the server is dead. REQUIRES: kind is kLocate, kDone or kReleased.
  void add(std::uint32_t server, Kind kind, Row row);
  [[nodiscard]] bool is_empty(std::uint32_t server, Kind kind) const {
    return servers_[server].rows[index(kind)].empty();
  }
  /// Sends as many messages as can be sent now.
  void send(Send send);
  /// Sends a message of that kind with the first of `rows`, as many as fit into one message. Returns how many
  /// were sent: 0 if the message cannot be sent now.
  std::size_t send_some(std::uint32_t server, Kind kind, std::span<const Row> rows, Send send) const;
  /// The server is dead.
  void drop_server(std::uint32_t server);

 private:
  static constexpr std::array kQueued = {Kind::kLocate, Kind::kDone, Kind::kReleased};
  static std::size_t index(Kind kind);

  struct Server {
    std::array<std::vector<Row>, kQueued.size()> rows;
    bool is_dead = false;
  };
  const std::uint32_t table_;
  std::vector<Server> servers_;
};

}  // namespace verbena::worker
