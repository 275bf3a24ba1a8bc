// The available transports, by the scheme that their addresses begin with, and what a program must know about
// each. Code that chooses a transport by name, makes one, or names a place for one asks here and does not
// compare names itself.
//
// A backend is a source file that fills in a Backend, and a line in the table in backends.cpp. Code that
// brings a backend of its own, for instance a test, calls register_backend().
//
// Thread safety: all functions may be called from any thread. A registered backend stays unchanged, at the
// same place in memory, until the program ends.
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

/// How far a backend's connections reach. This decides what PLACE is in an address SCHEME:PLACE.
enum class Reach : std::uint8_t {
  /// PLACE is a NAME. Both ends are on one host and belong to one user. The kernel guarantees that, so no
  /// secret is needed. Peers may map regions. No device is needed.
  kHost,
  /// PLACE is HOST:PORT; to listen, also :PORT and HOST:0 (any free port). Anyone who can reach HOST can
  /// connect.
  kHosts,
};

/// BackendOptions::streams at most.
constexpr std::uint32_t kMostStreams = 8;

/// Options that all backends accept. A backend ignores the options that it does not need.
struct BackendOptions {
  /// What a peer must prove to have. nullptr: nothing.
  std::shared_ptr<const Secret> secret = nullptr;
  bool tls = false;              ///< encrypt what travels; as NetworkOptions::tls
  std::string device = {};       ///< as RdmaDevice has it; empty: the first that can be used
  std::uint8_t device_port = 0;  ///< 0: the first that can be used
  std::uint32_t streams = 0;     ///< over which a connection's long payloads travel; 0: the backend chooses
  /// There are more threads than cores: a wait() that looks for work before it blocks takes a core from
  /// threads that have work.
  bool shares_cores = false;
  /// How many requests of a connection must find room before it has polled, if the backend lets the caller
  /// choose that.
  std::uint32_t send_depth = 0;
  /// How long connect() waits for a listener that is there but has not answered. nullopt: the backend
  /// chooses.
  std::optional<std::chrono::milliseconds> answer_patience = std::nullopt;
};

/// The port of an RDMA device that a transport uses, in the form that other programs expect.
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
  /// BackendOptions::tls. One whose reach is kHost has nothing to encrypt; of the others those that cannot
  /// must refuse it.
  bool can_encrypt = false;
  /// A peer on the same host maps memory that is granted to it in place (Connection::grant_in_place()).
  bool maps_own_host = false;
  /// Bytes go through sockets of the kernel, so that those are the limit of what it can reach.
  bool over_sockets = false;
  /// INVALID_ARGUMENT for impossible options; UNAVAILABLE or RESOURCE_EXHAUSTED say what the host lacks.
  std::function<absl::StatusOr<std::unique_ptr<Transport>>(const BackendOptions&)> make;
  /// The device that a transport with these options uses. NOT_FOUND: there is none, and make() says why;
  /// UNAVAILABLE: it is not possible to look for one. An empty function if the backend uses no device.
  std::function<absl::StatusOr<RdmaDevice>(const BackendOptions&)> find_device = nullptr;

  /// HOST under which other hosts know this one; an error if it has no address for that. An empty function if
  /// an address without HOST, to listen at, is one for other hosts already.
  std::function<absl::StatusOr<std::string>()> own_host = nullptr;
  /// Addresses at which processes of this user listen on this host. An empty function if that cannot be found
  /// out.
  std::function<std::vector<std::string>()> listening = nullptr;

  [[nodiscard]] std::string address(std::string_view place) const;
  /// An address to listen at that nobody else uses: at `name`, which the caller must choose so that it is
  /// unique, or at any free port.
  [[nodiscard]] std::string fresh_address(std::string_view name) const;
  /// The same, for peers on other hosts, too. REQUIRES: its reach is kHosts.
  [[nodiscard]] absl::StatusOr<std::string> fresh_address_for_hosts() const;
  /// Whether nobody on the way can read what travels, if BackendOptions::tls is set.
  [[nodiscard]] bool keeps_secrets() const { return can_encrypt || reach == Reach::kHost; }
};

/// ALREADY_EXISTS if a backend has that scheme already. INVALID_ARGUMENT if the scheme is not made of
/// lower-case letters, digits and underscores, or if `make` is empty.
absl::Status register_backend(Backend backend);

/// The built-in ones first, then in the order of their registration.
std::vector<const Backend*> backends();

/// INVALID_ARGUMENT if there is none; the message names the known schemes.
absl::StatusOr<const Backend*> find_backend(std::string_view scheme);
/// A transport for `address`, chosen by its scheme. INVALID_ARGUMENT for an unknown scheme, for impossible
/// options, and if other hosts can connect and there is neither a secret nor no_secret. Other errors as for
/// Backend::make.
absl::StatusOr<std::unique_ptr<Transport>> open(std::string_view address, const NetworkOptions& options);

/// Like find_backend(), for the scheme of `address`.
absl::StatusOr<const Backend*> backend_of(std::string_view address);
/// The backend to use if nobody has chosen one: the first with that reach. There is always one.
const Backend& default_backend(Reach reach);

/// The schemes, separated by commas, of the backends with that reach that can be used on this host: those
/// that need no device, and those for which there is one. If `options` name a device or a port of one, those
/// alone that use devices, whether or not this one is there: making the transport says what it lacks. If what
/// travels is to be encrypted, only those that can.
std::string usable_schemes(Reach reach, const BackendOptions& options);
/// The first backend with that reach that can be used on all hosts, each of which has said its
/// usable_schemes(). FAILED_PRECONDITION if there is none.
absl::StatusOr<const Backend*> common_backend(Reach reach, const std::vector<std::string>& usable);

/// PLACE of SCHEME:PLACE; empty if there is none.
std::string_view place_of(std::string_view address);
/// HOST, as it is written, in an address of a backend between hosts; empty if the address has none, for
/// instance to listen on any.
std::string_view host_of(std::string_view address);

}  // namespace verbena::transport
