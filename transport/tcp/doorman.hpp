// Who comes to a listener, and whether it is let in.
//
// A stranger is a process that has connected and has not proved itself. It costs a descriptor and a few
// hundred bytes, for a bounded time; there is a bounded number of them, and the one that has been there
// longest goes when another one comes. With the transport's lock held.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/file_descriptor.hpp"
#include "transport/refusals.hpp"
#include "transport/tcp/channel.hpp"
#include "transport/tcp/introduction.hpp"
#include "transport/tcp/sockets.hpp"
#include "transport/tcp/tcp_transport.hpp"
#include "transport/tcp/terms.hpp"

namespace verbena::transport::tcp {

class Doorman {
 public:
  /// What those are let into.
  class House {
   public:
    virtual void admit(Channel channel, Terms terms) = 0;
    /// Whether a further stream of that connection may be let in. What stranger asks for one has not proved
    /// anything else than that it has the secret.
    virtual absl::Status check_join(const ConnectionId& connection) = 0;
    /// REQUIRES: check_join() has just allowed it.
    virtual void join(const ConnectionId& connection, Channel channel) = 0;

   protected:
    ~House() = default;
  };

  /// `tls`: nullptr if nothing is to be encrypted. REQUIRES: options, tls, sockets and house outlive it.
  Doorman(const TcpOptions& options, const TlsContext* tls, Sockets& sockets, House& house);
  ~Doorman();
  Doorman(const Doorman&) = delete;
  Doorman& operator=(const Doorman&) = delete;

  absl::Status add_listener(base::FileDescriptor listening);
  /// Lets nobody in any more.
  void close();
  /// Call it at intervals.
  void tick(TimePoint now);

 private:
  struct Listener final : SocketUser {
    Listener(Doorman& whose, base::FileDescriptor listening) : doorman(whose), socket(std::move(listening)) {}
    void on_ready() override { doorman.accept(*this); }
    Doorman& doorman;
    base::FileDescriptor socket;
    std::uint64_t number = 0;
    bool is_deaf = false;  ///< until the next tick: there are no descriptors
  };
  struct Stranger final : SocketUser {
    enum class Stage : std::uint8_t { kGreeting, kIntroduction };
    Stranger(Doorman& whose, base::FileDescriptor incoming, std::string from, TimePoint until)
        : doorman(whose), socket(std::move(incoming)), host(std::move(from)), deadline(until) {}
    void on_ready() override { doorman.hear(*this); }
    /// What it says now, as far as it has not been received.
    [[nodiscard]] std::span<std::byte> awaited() {
      return (stage == Stage::kGreeting ? room_for(greeting) : room_for(introduction)).subspan(received);
    }
    Doorman& doorman;
    base::FileDescriptor socket;
    std::string host;
    TimePoint deadline;
    std::uint64_t number = 0;
    Stage stage = Stage::kGreeting;
    std::size_t received = 0;
    Greeting greeting;
    Challenge challenge;
    Introduction introduction;
    std::list<Stranger>::iterator place;
  };

  void accept(Listener& listener);
  void take_in(base::FileDescriptor socket, const sockaddr_storage& peer);
  void hear(Stranger& stranger);
  absl::Status take_greeting(Stranger& stranger);
  absl::Status take_introduction(Stranger& stranger);
  void refuse(Stranger& stranger, std::string_view why);

  const TcpOptions& options_;
  const TlsContext* const tls_;
  Sockets& sockets_;
  House& house_;
  const std::size_t most_strangers_;
  std::list<Listener> listeners_;
  std::list<Stranger> strangers_;  ///< the one that has been there longest first
  Refusals refusals_;
};

}  // namespace verbena::transport::tcp
