// The transport between hosts: reliable-connected queue pairs of InfiniBand, RoCE or iWARP, connected through
// the RDMA connection manager.
//
// Addresses are "verbs:HOST:PORT"; HOST is a name or an address (IPv6 in brackets) of the network interface
// of an RDMA device. For listen() HOST may be empty, which means the chosen device, and PORT may be 0, which
// means any that is free; listening_address() then says which. Its HOST stays empty if listen() got no HOST
// and the device's addresses are not known from its GIDs (InfiniBand, iWARP).
//
// A region is reached through a memory window that is bound to the one connection it was granted to. If the
// device has no memory windows of type 2 (iWARP), and for a region above 2 GiB, a region that was granted to
// one peer can be reached over every connection of this transport by any peer that knows its 32-bit key; the
// log says so. A region granted in place is also mapped by a peer on this host that is of the same user and
// network namespace: its memory file is passed to it (neighbours.hpp). On iWARP a peer that guesses the key
// of a local region can write it, because iWARP delivers the data of a read as a remote write.
//
// The transport accepts a peer that has the secret given in the transport's options; if there is none, any
// peer (introduction.hpp).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/secret.hpp"
#include "transport/transport.hpp"

namespace verbena::transport {

struct VerbsApi;

struct VerbsOptions {
  /// What a peer must prove to have. nullptr: nothing; any peer that reaches the listener is accepted.
  std::shared_ptr<const Secret> secret = nullptr;

  /// The name of the device, such as "mlx5_0" or "rxe0"; empty: the first that can be used.
  std::string device = {};

  /// The port of the device; 0: the first that can be used.
  std::uint8_t port = 0;

  /// The longest time that wait() may look for completions before it blocks; it adapts the time up to this
  /// bound. Longer: a peer that answers within it costs no system call. Shorter: less processor taken from
  /// others. Not used if this process has a single processor.
  std::chrono::microseconds spin{20};

  /// How often the connection manager is asked for news while the transport is busy, one system call each.
  std::chrono::milliseconds connection_check_interval{10};

  /// How many requests of each connection may be posted and not completed; a power of two from 16 to 32768,
  /// reduced to what the device has. More: a longer burst before post() takes fewer; some 200 bytes each, in
  /// the device, too.
  std::uint32_t send_depth = 256;

  /// How many notifications and messages a peer may have under way that this side has not polled; from 2 to
  /// 16384. More: a longer burst before its post() takes fewer; each takes max_message_bytes of registered
  /// memory.
  std::uint32_t receive_depth = 128;

  /// The longest message, in bytes, from 64 to 1 MiB. Equal at both ends of a connection.
  std::uint32_t max_message_bytes = 4096;

  /// Writes and messages up to this size are copied into the request, which saves the device a fetch. Larger
  /// values make every request larger. Reduced to what the device grants.
  std::uint32_t max_inline_bytes = 220;

  /// A peer that has answered nothing for so long counts as gone. A connection that has been silent for a
  /// quarter of this time is tested with an empty write. Shorter: noticed sooner. Longer: survives longer
  /// losses of the link.
  std::chrono::milliseconds peer_timeout{5000};

  /// How long connect() waits for a listener that is there but has not answered; the connection then goes on
  /// establishing itself in poll(), and takes requests when it is.
  std::chrono::milliseconds answer_patience{1000};

  /// How long closing a connection waits until the peer's device has what was posted.
  std::chrono::milliseconds linger{500};
};

/// INVALID_ARGUMENT for impossible options; UNAVAILABLE if the libraries or a usable device are missing. In
/// tests `api` takes the place of the host's libraries (verbs_api.hpp).
absl::StatusOr<std::unique_ptr<Transport>> make_verbs_transport(
    const VerbsOptions& options = {}, std::shared_ptr<const VerbsApi> api = nullptr);

/// A device of this host, whether it is used or not.
struct VerbsDevice {
  struct Gid {
    std::uint32_t index = 0;
    std::string type;       ///< "InfiniBand", "RoCEv1", "RoCEv2"
    std::string text;       ///< as an IPv6 address; IPv4-mapped ones as an IPv4 address
    std::string interface;  ///< the network interface that it belongs to; empty if none of this namespace
  };
  struct Port {
    std::uint8_t number = 0;
    std::string state;       ///< such as "active"
    std::string link_layer;  ///< "InfiniBand" or "Ethernet"
    std::uint32_t mtu_bytes = 0;
    std::uint32_t max_mtu_bytes = 0;
    std::vector<Gid> gids;
    std::string obstacle;  ///< why it cannot be used; empty if it can
    std::string address;   ///< what listen() would take for an empty HOST; empty: any
  };
  std::string name;
  std::string transport;  ///< "InfiniBand" (RoCE, too), "iWARP", or what else it is: "an Elastic Fabric
                          ///< Adapter (EFA)"
  bool reliable_connections = false;  ///< true for InfiniBand and iWARP
  bool windows = false;               ///< can bind memory windows of type 2
  std::string obstacle;               ///< why it cannot be used; empty if it can
  std::vector<Port> ports;
};

/// UNAVAILABLE if the libraries or the kernel's interface are missing; empty if there is no device.
absl::StatusOr<std::vector<VerbsDevice>> list_verbs_devices(std::shared_ptr<const VerbsApi> api = nullptr);

/// Why a transport with these options would not use this port of this device; empty if it would. Of the ports
/// that it would use it takes the first, in the order of list_verbs_devices().
std::string verbs_obstacle(const VerbsOptions& options, const VerbsDevice& device,
                           const VerbsDevice::Port& port);

/// What a transport needs from this host, in the order in which it needs it. nullopt: not tried, because
/// something before it is missing. Each error says how to solve the problem.
struct VerbsSurvey {
  absl::Status ibverbs;                            ///< libibverbs can be loaded
  absl::Status rdmacm;                             ///< librdmacm can be loaded
  std::optional<absl::Status> listing;             ///< the kernel lists its devices
  std::optional<absl::Status> connection_manager;  ///< the kernel's connection manager can be used
  std::vector<VerbsDevice> devices;
};
VerbsSurvey survey_verbs(std::shared_ptr<const VerbsApi> api = nullptr);

struct Backend;

namespace verbs {
/// The backend that transport/backends.hpp lists.
Backend backend();
}  // namespace verbs

}  // namespace verbena::transport
