#include "apps/bench/backend.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "apps/options/transport_options.hpp"

namespace verbena::apps::bench {

namespace {
constexpr std::uint32_t kSpareSends = 8;  // of a send queue, for what a connection itself sends
}  // namespace

absl::StatusOr<Backend> measured_backend(const transport::Backend& backend,
                                         transport::BackendOptions options) {
  Backend measured{.name = backend.scheme,
                   .on_one_host = backend.reach == transport::Reach::kHost,
                   .over_sockets = backend.over_sockets};
  if (backend.find_device) {
    absl::StatusOr<transport::RdmaDevice> device = backend.find_device(options);
    if (absl::IsNotFound(device.status())) {
      // The transport's own error says best what prevents its use.
      const absl::Status made =
          make_transport(
              {.transport = backend.scheme, .device = options.device, .device_port = options.device_port})
              .status();
      if (!made.ok()) return made;
      return absl::UnavailableError(device.status().message());
    }
    if (!device.ok()) return device.status();
    measured.device = *std::move(device);
    measured.device_text = fmt::format("{} port {}", measured.device.name, measured.device.port);
    options.device = measured.device.name;
    options.device_port = measured.device.port;
  }
  options.send_depth += kSpareSends;
  measured.make_transport = [&backend, options] { return backend.make(options); };
  options.shares_cores = true;
  measured.make_sharing_transport = [&backend, options = std::move(options)] {
    return backend.make(options);
  };
  measured.fresh_address = [&backend] {
    static int count = 0;
    return backend.fresh_address(fmt::format("bench-{}-{}", ::getpid(), ++count));
  };
  return measured;
}

std::string with_host(const std::string& address, const std::string& host) {
  const absl::StatusOr<const transport::Backend*> backend = transport::backend_of(address);
  if (!backend.ok() || (*backend)->reach != transport::Reach::kHosts ||
      !transport::host_of(address).empty()) {
    return address;
  }
  return (*backend)->address(host + std::string(transport::place_of(address)));
}

}  // namespace verbena::apps::bench
