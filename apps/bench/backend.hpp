// The transports to be measured, and how both sides of a measurement find each other over them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "transport/secret.hpp"
#include "transport/transport.hpp"

namespace verbena::apps::bench {

/// The RDMA device of this side, as perftest wants it named.
struct PerftestDevice {
  std::string name;
  std::uint8_t port = 1;
  int gid_index = -1;  ///< −1: none is needed (InfiniBand)
};

struct Backend {
  std::string name;             ///< "shm", "verbs"
  std::string device = {};      ///< for people; empty for shared memory
  std::uint32_t mtu_bytes = 0;  ///< 0 for shared memory
  PerftestDevice perftest = {};
  std::function<absl::StatusOr<std::unique_ptr<transport::Transport>>()> make_transport;
  /// Where one can listen without meeting anybody else.
  std::function<std::string()> fresh_address;
  /// Where peers reach what listens at `asked`.
  std::function<std::string(const transport::Transport&, const std::string& asked)> listening_address;
};

using SharedSecret = std::shared_ptr<const transport::Secret>;

/// `secret`: of both sides; nullptr: none.
Backend shm_backend(SharedSecret secret);

struct VerbsChoice {
  std::string device;     ///< empty: the first that can be used
  std::uint8_t port = 0;  ///< 0: the first that can be used
  std::size_t depth = 0;  ///< requests that shall find room in a send queue
  SharedSecret secret = nullptr;
};
/// UNAVAILABLE says why there is no such device.
absl::StatusOr<Backend> verbs_backend(const VerbsChoice& choice);

/// "HOST" of "verbs:HOST:PORT"; empty if there is none.
std::string host_of(const std::string& address);
/// `address` with that host, where it has none.
std::string with_host(const std::string& address, const std::string& host);

}  // namespace verbena::apps::bench
