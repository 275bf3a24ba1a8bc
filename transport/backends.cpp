#include "transport/backends.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "transport/host_port.hpp"
#include "transport/shm/shm_transport.hpp"
#include "transport/tcp/tcp_transport.hpp"
#include "transport/verbs/verbs_transport.hpp"

namespace verbena::transport {

namespace {

/// A table, and not objects that register themselves before main(): the linker takes from a static library
/// only what the program refers to.
std::deque<Backend> built_in_backends() {
  return {shm::backend(), verbs::backend(), tcp::backend()};
}

/// A deque, so that registered backends stay at their place in memory.
struct Registry {
  std::mutex mutex;
  std::deque<Backend> backends = built_in_backends();
};

Registry& registry() {
  static Registry& the_registry = *new Registry;  // threads of other code may outlive main()
  return the_registry;
}

bool is_scheme(std::string_view text) {
  const auto is_part = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  return !text.empty() && std::ranges::all_of(text, is_part);
}

}  // namespace

std::string Backend::address(std::string_view place) const {
  return fmt::format("{}:{}", scheme, place);
}

std::string Backend::fresh_address(std::string_view name) const {
  return address(reach == Reach::kHost ? name : ":0");
}

absl::StatusOr<std::string> Backend::fresh_address_for_hosts() const {
  if (!own_host) return fresh_address("");
  const absl::StatusOr<std::string> host = own_host();
  if (!host.ok()) return host.status();
  return address(to_string(HostPort{.host = *host, .port = 0}));
}

absl::Status register_backend(Backend backend) {
  if (!is_scheme(backend.scheme) || !backend.make) {
    return absl::InvalidArgumentError(
        fmt::format("\"{}\" can be no backend: a scheme of a-z, 0-9 and _, and how it is made, are expected",
                    backend.scheme));
  }
  const std::lock_guard lock(registry().mutex);
  std::deque<Backend>& all = registry().backends;
  if (std::ranges::find(all, backend.scheme, &Backend::scheme) != all.end()) {
    return absl::AlreadyExistsError(fmt::format("there is a backend {} already", backend.scheme));
  }
  all.push_back(std::move(backend));
  return absl::OkStatus();
}

std::vector<const Backend*> backends() {
  const std::lock_guard lock(registry().mutex);
  std::vector<const Backend*> all;
  for (const Backend& backend : registry().backends) all.push_back(&backend);
  return all;
}

absl::StatusOr<const Backend*> find_backend(std::string_view scheme) {
  std::string known;
  for (const Backend* backend : backends()) {
    if (backend->scheme == scheme) return backend;
    known += (known.empty() ? "" : ", ") + backend->scheme;
  }
  return absl::InvalidArgumentError(
      fmt::format("there is no transport \"{}\"; one of {} is expected", scheme, known));
}

absl::StatusOr<const Backend*> backend_of(std::string_view address) {
  return find_backend(address.substr(0, address.find(':')));
}

absl::StatusOr<std::unique_ptr<Transport>> open(std::string_view address, const NetworkOptions& options) {
  const absl::StatusOr<const Backend*> backend = backend_of(address);
  if (!backend.ok()) return backend.status();
  std::shared_ptr<const Secret> secret;
  if (!options.secret_file.empty() && options.no_secret)
    return absl::InvalidArgumentError("a secret file and no secret: the two exclude each other");
  if (!options.secret_file.empty()) {
    absl::StatusOr<std::shared_ptr<const Secret>> read = Secret::read_file(options.secret_file);
    if (!read.ok()) return read.status();
    secret = *std::move(read);
  } else if ((*backend)->reach == Reach::kHosts && !options.no_secret) {
    return absl::InvalidArgumentError(
        fmt::format("over {} a job needs a secret, or whoever reaches these hosts could take part: a secret "
                    "file, or no_secret where there is nobody else on the network",
                    (*backend)->scheme));
  }
  return (*backend)->make({.secret = std::move(secret),
                           .tls = options.tls,
                           .device = options.device,
                           .device_port = options.device_port,
                           .shares_cores = options.shares_cores});
}

const Backend& default_backend(Reach reach) {
  // Each reach has a built-in backend.
  const std::vector<const Backend*> all = backends();
  return **std::ranges::find(all, reach, [](const Backend* backend) { return backend->reach; });
}

std::string usable_schemes(Reach reach, const BackendOptions& options) {
  std::vector<std::string> usable;
  const bool is_named = !options.device.empty() || options.device_port != 0;
  for (const Backend* backend : backends()) {
    if (backend->reach != reach || (options.tls && !backend->keeps_secrets())) continue;
    const bool is_usable = backend->find_device ? is_named || backend->find_device(options).ok() : !is_named;
    if (is_usable) usable.push_back(backend->scheme);
  }
  return absl::StrJoin(usable, ",");
}

absl::StatusOr<const Backend*> common_backend(Reach reach, const std::vector<std::string>& usable) {
  for (const Backend* backend : backends()) {
    const auto has_it = [&](const std::string& schemes) {
      const std::vector<std::string> all = absl::StrSplit(schemes, ',');
      return std::ranges::find(all, backend->scheme) != all.end();
    };
    if (backend->reach == reach && std::ranges::all_of(usable, has_it)) return backend;
  }
  return absl::FailedPreconditionError("there is no transport that all hosts of this job can use");
}

std::string_view place_of(std::string_view address) {
  const std::size_t colon = address.find(':');
  return colon == std::string_view::npos ? std::string_view() : address.substr(colon + 1);
}

std::string_view host_of(std::string_view address) {
  const absl::StatusOr<const Backend*> backend = backend_of(address);
  if (!backend.ok() || (*backend)->reach != Reach::kHosts) return {};
  const std::string_view place = place_of(address);
  const std::size_t colon = place.rfind(':');
  return colon == std::string_view::npos ? std::string_view() : place.substr(0, colon);
}

}  // namespace verbena::transport
