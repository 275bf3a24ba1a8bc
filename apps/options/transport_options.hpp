// The transport and the device that a program uses, as chosen on its command line.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/backends.hpp"
#include "transport/secret.hpp"
#include "transport/transport.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace verbena::apps {

inline constexpr const char* kAutoTransport = "auto";

struct TransportOptions {
  /// A backend's scheme; kAutoTransport: the code that knows where the peers are decides.
  std::string transport = kAutoTransport;
  std::string device;             ///< an RDMA device, such as "mlx5_0"; empty: the first that can be used
  std::uint32_t device_port = 0;  ///< 0: the first that can be used
  std::uint32_t streams = 0;      ///< of a connection over TCP; 0: it chooses
  std::string network;  ///< on one host only: what it is to cost, as for parse_job_network(); empty: nothing
  bool has_other_hosts = false;  ///< processes of the job are on other hosts than this one
  bool shares_cores = false;     ///< who waits leaves its core at once (transport::BackendOptions)
  // --- who may connect, for processes that no launcher has told
  std::string secret_file;  ///< empty: none
  bool tls = false;         ///< what travels between hosts is encrypted
  bool no_secret = false;   ///< whoever reaches this process over the network may take part
  /// The secret that all processes of the job have, from the launcher, PMIx or take_secret(). nullptr: none.
  std::shared_ptr<const transport::Secret> secret = nullptr;
};

/// --transport, --device, --device-port, --streams, --tls; `command` must not outlive `options`.
void add_transport_options(CLI::App& command, TransportOptions& options, const std::string& group);

/// --network.
void add_network_option(CLI::App& command, TransportOptions& options, const std::string& group);

/// --secret-file, --no-secret: for processes that people start.
void add_secret_options(CLI::App& command, TransportOptions& options, const std::string& group);

/// Reads the secret that these options name. INVALID_ARGUMENT if a secret is needed and none was given:
/// between hosts nothing else distinguishes a process of this job from any other. On one host none is needed,
/// because the kernel tells which processes belong to the same user. REQUIRES: the transport is decided.
absl::Status take_secret(TransportOptions& options);

/// INVALID_ARGUMENT if a device was chosen for a transport without devices, or a network's cost for a
/// transport over a real network, or if there is no such transport.
absl::Status check(const TransportOptions& options);

/// The options as given on the command line; but "auto" is replaced by the default transport with this reach,
/// of those that encrypt if that is wanted.
TransportOptions decided(TransportOptions options, transport::Reach reach);

/// transport::usable_schemes() between hosts, with these options.
std::string usable_between_hosts(const TransportOptions& options);

/// REQUIRES: the transport is decided, and check() has succeeded.
const transport::Backend& backend_of(const TransportOptions& options);
/// Whether the chosen transport has this reach: all of the job on one host, or between hosts. False for both
/// while the transport is not decided.
bool is_decided_for(const TransportOptions& options, transport::Reach reach);
/// What "auto" chooses, in the form of --transport: for messages.
const std::string& default_scheme(transport::Reach reach);
/// The schemes of the transports that use a device, in the form of --transport: for messages.
std::string schemes_with_devices();
/// Likewise those that reach other hosts.
std::string schemes_between_hosts();

/// REQUIRES: the transport is decided. UNAVAILABLE, with what to do about it, if the host has no usable
/// device. `own_node`: addresses of servers on this process's node, for a network between nodes.
absl::StatusOr<std::unique_ptr<transport::Transport>> make_transport(const TransportOptions& options,
                                                                     std::vector<std::string> own_node = {});

}  // namespace verbena::apps
