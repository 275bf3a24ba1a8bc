// How a process reaches the others of its job, and who may reach it.
#pragma once

#include <cstdint>
#include <string>

namespace verbena {

/// The same for a job's servers and sessions. Addresses say the rest: "shm:NAME" is memory of this host,
/// "verbs:HOST:PORT" RDMA between hosts, "tcp:HOST:PORT" TCP.
struct NetworkOptions {
  /// A file with the job's secret. Every process of the job must prove that it knows the secret before it is
  /// told anything. 16 to 4096 bytes, readable by this user only (mode 600). Needed if other hosts can
  /// connect; on one host the kernel guarantees that all processes belong to one user. Empty: no secret.
  std::string secret_file = {};
  /// Instead of secret_file: everyone who can reach this process over the network may take part in the job,
  /// and may read and change what is trained. For networks that nobody else can use.
  bool no_secret = false;
  /// What travels between hosts is encrypted by TLS 1.3, with keys that follow from the job's secret; over
  /// tcp, the only transport between hosts that can. The same for all processes of the job, and not with
  /// no_secret. On one host nothing is encrypted, for nothing leaves it.
  bool tls = false;
  /// The RDMA device, such as "mlx5_0", and its port. Empty, 0: the first that can be used. Where the session
  /// chooses the transport, one that is named means RDMA.
  std::string device = {};
  std::uint8_t device_port = 0;
  /// Set this if there are more threads on this host than cores: a thread that waits then polls for work only
  /// briefly, because polling takes a core from threads that have work. Slower if there are enough cores.
  bool shares_cores = false;
};

}  // namespace verbena
