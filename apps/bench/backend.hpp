// The transports to be measured, and how both sides of a measurement find each other over them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "transport/backends.hpp"
#include "transport/secret.hpp"
#include "transport/transport.hpp"

namespace verbena::apps::bench {

struct Backend {
  std::string name;              ///< its scheme
  bool on_one_host = false;      ///< so that the yardsticks and the budgets are those of this host's memory
  bool over_sockets = false;     ///< so that the yardsticks are plain TCP sockets
  std::string device_text = {};  ///< for people; empty if it has no device
  transport::RdmaDevice device = {};
  std::function<absl::StatusOr<std::unique_ptr<transport::Transport>>()> make_transport;
  /// The same where there are more threads than cores: who waits leaves its core at once.
  std::function<absl::StatusOr<std::unique_ptr<transport::Transport>>()> make_sharing_transport;
  /// Returns an address on which nobody else listens.
  std::function<std::string()> fresh_address;
};

using SharedSecret = std::shared_ptr<const transport::Secret>;

/// `options` are those of this side. Its send_depth is the number of requests that must find room beside what
/// a connection itself sends. An error says why there is no such device.
absl::StatusOr<Backend> measured_backend(const transport::Backend& backend,
                                         transport::BackendOptions options);

/// Adds `host` to `address` if the address belongs to a transport between hosts and names no host.
std::string with_host(const std::string& address, const std::string& host);

}  // namespace verbena::apps::bench
