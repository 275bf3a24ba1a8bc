// How a process reaches the others of its job, and who may reach it.
#pragma once

#include <cstdint>
#include <string>

namespace verbena {

/// The same for a job's servers and sessions. Addresses say the rest: "shm:NAME" is memory of this host,
/// "verbs:HOST:PORT" RDMA between hosts.
struct NetworkOptions {
  /// A file with what all processes of the job must prove to know, before they are told anything: 16 to 4096
  /// bytes, readable by this user only (mode 600). Needed where other hosts can connect; on one host the
  /// kernel vouches that all are of one user. Empty: none.
  std::string secret_file = {};
  /// Instead of secret_file: whoever reaches this process over the network may take part, read and change
  /// what is trained. For networks on which there is nobody else.
  bool no_secret = false;
  /// The RDMA device, such as "mlx5_0", and its port. Empty, 0: the first that can be used.
  std::string device = {};
  std::uint8_t device_port = 0;
  /// There are more threads on this host than cores: who waits does not look for work for long, for that
  /// takes a core from those who have some. Slower where it is not so.
  bool shares_cores = false;
};

}  // namespace verbena
