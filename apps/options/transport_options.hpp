// Which transport a program uses, and over which device, chosen on its command line.
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
  /// A backend's scheme; kAutoTransport: to be decided by whoever knows where the peers are.
  std::string transport = kAutoTransport;
  std::string device;             ///< of RDMA, such as "mlx5_0"; empty: the first that can be used
  std::uint32_t device_port = 0;  ///< 0: the first that can be used
  std::string network;  ///< on one host only: what it is to cost, as for parse_job_network(); empty: nothing
  bool shares_cores = false;  ///< the job has more threads on this host than there are cores
  // --- who may connect, of processes that no launcher has told
  std::string secret_file;  ///< empty: none
  bool no_secret = false;   ///< whoever reaches this process over the network may take part
  /// What all processes of the job have: by the launcher, PMIx or take_secret(). nullptr: none.
  std::shared_ptr<const transport::Secret> secret = nullptr;
};

/// --transport, --device, --device-port; `command` must not outlive `options`.
void add_transport_options(CLI::App& command, TransportOptions& options, const std::string& group);

/// --network.
void add_network_option(CLI::App& command, TransportOptions& options, const std::string& group);

/// --secret-file, --no-secret: for processes that people start.
void add_secret_options(CLI::App& command, TransportOptions& options, const std::string& group);

/// Reads the secret that was given by them. INVALID_ARGUMENT where there has to be one and is none: between
/// hosts, where nothing else tells a process of this job from anybody's. On one host the kernel tells who is
/// of the same user, which does without. REQUIRES: decided.
absl::Status take_secret(TransportOptions& options);

/// INVALID_ARGUMENT where a device was chosen for a transport that has none, or a network's cost for a
/// network; and where there is no such transport.
absl::Status check(const TransportOptions& options);

/// As on the command line, for a process that is started with the same; where that was "auto", the transport
/// that there is for peers so far apart.
TransportOptions decided(TransportOptions options, transport::Reach reach);

/// REQUIRES: decided, and check().
const transport::Backend& backend_of(const TransportOptions& options);
/// Whether all of the job is on one host, or whether there are hosts between which it goes; neither while
/// that is not decided.
bool is_decided_for(const TransportOptions& options, transport::Reach reach);
/// What "auto" chooses, as --transport has it: for messages.
const std::string& default_scheme(transport::Reach reach);
/// Of the transports that have one, as --transport has them: for messages.
std::string schemes_with_devices();

/// REQUIRES: decided. UNAVAILABLE, with what to do about it, where the host has no usable device.
/// `own_node`: addresses of servers of this process's node, for a network between nodes.
absl::StatusOr<std::unique_ptr<transport::Transport>> make_transport(const TransportOptions& options,
                                                                     std::vector<std::string> own_node = {});

}  // namespace verbena::apps
