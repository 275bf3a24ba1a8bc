// The backends of the contract tests that need no special hardware.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>

#include "apps/simulation/simulated_transport.hpp"
#include "tests/free_port.hpp"
#include "tests/transport/backend.hpp"
#include "tests/transport/faulty_transport.hpp"
#include "tests/transport/loopback.hpp"
#include "tests/transport/verbs/fake_fabric.hpp"
#include "transport/backends.hpp"
#include "transport/shm/shm_transport.hpp"
#include "transport/tcp/tcp_transport.hpp"
#include "transport/verbs/verbs_transport.hpp"

namespace verbena::transport {
namespace {

BackendUnderTest registered(const std::string& scheme) {
  const Backend& backend = **find_backend(scheme);
  const auto make = [&backend](std::shared_ptr<const Secret> secret) {
    return std::move(*backend.make({.secret = std::move(secret)}));
  };
  return {.name = scheme,
          .make_transport = [make] { return make(nullptr); },
          .make_address =
              [&backend, counter = std::make_shared<std::atomic<int>>(0)] {
                return backend.fresh_address(fmt::format("contract-{}-{}", ::getpid(), ++*counter));
              },
          .make_guarded = make};
}

BackendUnderTest registered(const Backend& added) {
  register_backend(added).IgnoreError();  // it is registered already if the list is asked for again
  return registered(added.scheme);
}

/// Verbs over a fake device in this process, which is created at the first use.
BackendUnderTest verbs_backend(const std::string& name, const FakeFabric::DeviceOptions& device) {
  const auto fabric = std::make_shared<std::unique_ptr<FakeFabric>>();
  const auto make = [fabric, device](std::shared_ptr<const Secret> secret) {
    if (*fabric == nullptr) {
      *fabric = std::make_unique<FakeFabric>();
      (*fabric)->add_device(device);
    }
    return std::move(*make_verbs_transport({.secret = std::move(secret)}, (*fabric)->api()));
  };
  return {.name = name,
          .make_transport = [make] { return make(nullptr); },
          .make_address = [counter = std::make_shared<std::atomic<int>>(7000),
                           host = device.address] { return fmt::format("verbs:{}:{}", host, ++*counter); },
          .make_guarded = make};
}

/// Tests of whole jobs rely on it, so it must keep the contract also with the delays that it injects.
/// Requests are not delayed, since some tests poll one side only.
BackendUnderTest faulty_backend() {
  return {.name = "faulty",
          .make_transport =
              [seed = std::make_shared<std::atomic<std::uint64_t>>(0)] {
                return std::make_unique<FaultyTransport>(std::move(*make_shm_transport()),
                                                         FaultOptions{.seed = ++*seed,
                                                                      .event_delay_probability = 0.3,
                                                                      .split_probability = 0.5,
                                                                      .max_lines_per_poll = 0});
              },
          .make_address = registered("shm").make_address};
}

/// At ports of this host that nobody has, below those that the system gives to whoever asks for any.
BackendUnderTest tcp_backend(const std::string& name, bool is_encrypted, const TcpOptions& options = {}) {
  const auto make = [is_encrypted, options](std::shared_ptr<const Secret> secret) {
    TcpOptions guarded = options;
    guarded.tls = is_encrypted && secret != nullptr;
    guarded.secret = std::move(secret);
    return std::move(*make_tcp_transport(guarded));
  };
  return {
      .name = name,
      .make_transport = [make, secret = is_encrypted ? *Secret::random() : nullptr] { return make(secret); },
      .make_address = [] { return fmt::format("tcp:127.0.0.1:{}", testing::free_port()); },
      .make_guarded = make};
}
/// Nearly everything is long.
const TcpOptions kStreams{.streams = 3, .long_bytes = 16};

/// The transport of simulations, here in real time, since the tests have threads.
BackendUnderTest simulated_backend(bool mapped) {
  struct Simulated {
    explicit Simulated(const simulation::NetworkOptions& options) : network(clock, options) {}
    simulation::WallClock clock;
    simulation::Network network;
  };
  const auto simulated = std::make_shared<Simulated>(
      simulation::NetworkOptions{.max_latency = std::chrono::microseconds(20), .mapped = mapped});
  return {.name = mapped ? "simulated" : "simulated_unmapped",
          .make_transport = [simulated] { return simulated->network.make_transport(0, "simulated"); },
          .make_address = [counter = std::make_shared<std::atomic<int>>(
                               0)] { return fmt::format("sim:contract-{}", ++*counter); }};
}

/// As in experiments: simulated network cards decide when a transfer arrives.
BackendUnderTest simulated_cards_backend() {
  struct Simulated {
    simulation::WallClock clock;
    simulation::NetworkCards cards{{.latency = std::chrono::microseconds(5), .bits_per_second = 40e9}};
    simulation::Network network{clock, {.mapped = false, .cards = &cards}};
  };
  const auto simulated = std::make_shared<Simulated>();
  return {.name = "simulated_cards",
          .make_transport = [simulated] { return simulated->network.make_transport(0, "simulated"); },
          .make_address = [counter = std::make_shared<std::atomic<int>>(
                               0)] { return fmt::format("sim:cards-{}", ++*counter); }};
}

}  // namespace

std::vector<BackendUnderTest> contract_backends() {
  return {registered("shm"),
          registered(loopback_backend()),
          faulty_backend(),
          simulated_backend(true),
          simulated_backend(false),
          simulated_cards_backend(),
          tcp_backend("tcp", false),
          tcp_backend("tcp_encrypted", true),
          tcp_backend("tcp_streams", false, kStreams),
          tcp_backend("tcp_encrypted_streams", true, kStreams),
          verbs_backend("verbs", {}),
          verbs_backend("verbs_without_immediate", {.iwarp = true})};
}

}  // namespace verbena::transport
