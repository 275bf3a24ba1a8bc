// The transports that there are, by the scheme that their addresses begin with, and what a program has to
// know of each: whoever chooses one by name, makes one or names a place for it asks here and compares no
// names.
//
// A backend is a source of its own that fills in a Backend, and a line in the table of backends.cpp; whoever
// brings one along, a test for instance, calls register_backend().
//
// Thread safety: all functions may be called from any thread. A backend that is registered stays as it is, at
// its place, until the program ends.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/secret.hpp"
#include "transport/transport.hpp"
#include <verbena/network.hpp>

namespace verbena::transport {

/// How far a backend's connections go, and so what an address, SCHEME:PLACE, is made of.
enum class Reach : std::uint8_t {
  /// PLACE is a NAME. Both ends are on one host and of one user, as the kernel vouches, so that a secret is
  /// not needed; regions may be mapped by the peers; there is no device to be missing.
  kHost,
  /// PLACE is HOST:PORT, to listen also :PORT and HOST:0 (any that is free). Whoever reaches HOST can
  /// connect.
  kHosts,
};

/// What all backends understand; what one has no use for it ignores.
struct BackendOptions {
  /// What a peer must prove to have. nullptr: nothing.
  std::shared_ptr<const Secret> secret = nullptr;
  std::string device = {};       ///< as RdmaDevice has it; empty: the first that can be used
  std::uint8_t device_port = 0;  ///< 0: the first that can be used
  /// There are more threads than cores: a wait() that looks for work before it blocks takes one from those
  /// who have some.
  bool shares_cores = false;
  /// Requests of a connection that shall find room before it has polled, where the backend lets that be
  /// chosen.
  std::uint32_t send_depth = 0;
  /// How long connect() waits for a listener that is there but has not answered. Nothing: the backend's
  /// choice.
  std::optional<std::chrono::milliseconds> answer_patience = std::nullopt;
};

/// The port of an RDMA device that a transport uses, as other programs want it named.
struct RdmaDevice {
  std::string name;
  std::uint8_t port = 1;
  std::uint32_t mtu_bytes = 0;
  int gid_index = -1;  ///< −1: none is needed (InfiniBand)
};

struct Backend {
  std::string scheme;
  std::string summary;  ///< for people, after "SCHEME is"
  Reach reach = Reach::kHost;
  /// INVALID_ARGUMENT for impossible options; UNAVAILABLE, RESOURCE_EXHAUSTED: what the host lacks.
  std::function<absl::StatusOr<std::unique_ptr<Transport>>(const BackendOptions&)> make;
  /// The device that a transport of these options uses. NOT_FOUND: there is none, and make() says why;
  /// UNAVAILABLE: none can be looked for. Empty where the backend uses none.
  std::function<absl::StatusOr<RdmaDevice>(const BackendOptions&)> find_device = nullptr;

  [[nodiscard]] std::string address(std::string_view place) const;
  /// Where one can listen without meeting anybody: at `name`, which is to be nobody else's, or at any port.
  [[nodiscard]] std::string fresh_address(std::string_view name) const;
};

/// ALREADY_EXISTS if there is one of that scheme; INVALID_ARGUMENT for one that can be no scheme (lower-case
/// letters, digits, underscores), or whose backend cannot be made.
absl::Status register_backend(Backend backend);

/// The built-in ones first, then in the order of their registration.
std::vector<const Backend*> backends();

/// INVALID_ARGUMENT names those that there are.
absl::StatusOr<const Backend*> find_backend(std::string_view scheme);
/// A transport for what is at `address`, by its scheme. INVALID_ARGUMENT for a scheme that nobody has, for
/// impossible options, and where other hosts can connect and there is neither a secret nor no_secret; else as
/// Backend::make.
absl::StatusOr<std::unique_ptr<Transport>> open(std::string_view address, const NetworkOptions& options);

/// As find_backend(), of an address.
absl::StatusOr<const Backend*> backend_of(std::string_view address);
/// The one to take where nobody has chosen: the first of that reach. There is always one.
const Backend& default_backend(Reach reach);

/// PLACE of SCHEME:PLACE; empty if there is none.
std::string_view place_of(std::string_view address);
/// HOST, as it is written, of an address of a backend between hosts; empty if there is none, as where it
/// listens at any.
std::string_view host_of(std::string_view address);

}  // namespace verbena::transport
