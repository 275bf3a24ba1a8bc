// What the contract tests need of a backend, and a transport whose events are recorded.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "transport/secret.hpp"
#include "transport/transport.hpp"

namespace verbena::transport {

struct BackendUnderTest {
  std::string name;
  std::function<std::unique_ptr<Transport>()> make_transport;
  std::function<std::string()> make_address;  ///< a new one at each call
  /// As make_transport, with a secret or without one (nullptr). Empty if the backend has no secrets.
  std::function<std::unique_ptr<Transport>(std::shared_ptr<const Secret>)> make_guarded = {};

  friend void PrintTo(const BackendUnderTest& backend, std::ostream* out) { *out << backend.name; }
};

/// The backends that contract_test.cpp tests. Each program that links it defines this function.
std::vector<BackendUnderTest> contract_backends();

constexpr auto kPatience =
    std::chrono::seconds(20);  // for what must happen; a correct backend needs far less

inline std::span<std::byte> bytes_of(std::string& text) {
  return std::as_writable_bytes(std::span(text));
}

template <class Value>
Value value_at(std::span<const std::byte> bytes, std::size_t offset = 0) {
  Value value;
  std::memcpy(&value, bytes.data() + offset, sizeof(Value));
  return value;
}

template <class Value>
void put_at(std::span<std::byte> bytes, std::size_t offset, Value value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(Value));
}

/// A transport, one connection of it, and all events seen.
struct Node {
  struct Seen {
    Event event;
    std::string message;
  };

  explicit Node(std::unique_ptr<Transport> owned) : transport(std::move(owned)) {}

  void poll() {
    std::array<Event, 16> events;
    const std::size_t count = transport->poll(events);
    for (const Event& event : std::span(events).first(count)) {
      seen.push_back(
          {event, std::string(reinterpret_cast<const char*>(event.message.data()), event.message.size())});
      if (event.kind == Event::Kind::kAccepted) accepted.push_back(transport->take_accepted());
    }
  }
  [[nodiscard]] std::vector<Seen> of(Event::Kind kind) const {
    std::vector<Seen> some;
    for (const Seen& each : seen) {
      if (each.event.kind == kind) some.push_back(each);
    }
    return some;
  }
  [[nodiscard]] std::size_t count(Event::Kind kind) const { return of(kind).size(); }

  std::unique_ptr<MemoryRegion> region(std::size_t bytes, Access access) const {
    auto region = transport->allocate_region(bytes, access);
    EXPECT_TRUE(region.ok()) << region.status();
    return region.ok() ? std::move(*region) : nullptr;
  }
  TimePoint in(Duration duration) const { return transport->now() + duration; }

  std::unique_ptr<Transport> transport;
  std::vector<std::unique_ptr<Connection>> accepted;
  std::unique_ptr<Connection> connection;
  std::vector<Seen> seen;
};

/// Polls the nodes until `done`; fails the test when that takes too long.
template <class Done>
bool pump(std::initializer_list<Node*> nodes, Done done) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!done()) {
    for (Node* node : nodes) node->poll();
    if (std::chrono::steady_clock::now() > end) {
      ADD_FAILURE() << "what the test waits for has not happened in time";
      return false;
    }
  }
  return true;
}

/// Polls the nodes for a while, to see that something does not happen.
inline void pump_for(std::initializer_list<Node*> nodes, std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
    for (Node* node : nodes) node->poll();
  }
}

/// Connects the client to the server, which listens there; returns the server's end. A thread connects, since
/// a backend may need the server to poll meanwhile. Afterwards both poll, since connect() may return before
/// the handshake has ended.
inline std::unique_ptr<Connection> meet(Node& client, Node& server, const std::string& address) {
  auto connecting = std::async(std::launch::async,
                               [&] { return client.transport->connect(address, client.in(kPatience)); });
  const std::size_t before = server.accepted.size();
  const auto has_accepted = [&] { return server.accepted.size() > before; };
  pump({&server}, [&] {
    return has_accepted() || connecting.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  });
  auto connection = connecting.get();
  EXPECT_TRUE(connection.ok()) << connection.status();
  if (!connection.ok()) return nullptr;
  client.connection = std::move(*connection);
  if (!pump({&client, &server}, has_accepted)) return nullptr;
  std::unique_ptr<Connection> incoming = std::move(server.accepted.back());
  server.accepted.pop_back();
  return incoming;
}

}  // namespace verbena::transport
