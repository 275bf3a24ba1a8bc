// For the contract tests on the first usable RDMA device of this host. tests/soft_roce runs them.
#include <fmt/format.h>

#include <atomic>

#include "tests/transport/backend.hpp"
#include "transport/verbs/verbs_transport.hpp"

namespace verbena::transport {

std::vector<BackendUnderTest> contract_backends() {
  const auto host = [] {
    const auto devices = list_verbs_devices();
    if (!devices.ok()) return std::string();
    for (const VerbsDevice& device : *devices) {
      for (const VerbsDevice::Port& port : device.ports) {
        if (port.obstacle.empty()) return port.address;
      }
    }
    return std::string();
  };
  return {{.name = "device",
           .make_transport = []() -> std::unique_ptr<Transport> {
             auto transport = make_verbs_transport();
             EXPECT_TRUE(transport.ok()) << transport.status();
             return transport.ok() ? std::move(*transport) : nullptr;
           },
           .make_address =
               [host = host(), counter = std::make_shared<std::atomic<int>>(7000)] {
                 return fmt::format("verbs:{}:{}", host, ++*counter);
               },
           .make_guarded = [](std::shared_ptr<const Secret> secret) -> std::unique_ptr<Transport> {
             auto transport = make_verbs_transport({.secret = std::move(secret)});
             EXPECT_TRUE(transport.ok()) << transport.status();
             return transport.ok() ? std::move(*transport) : nullptr;
           }}};
}

}  // namespace verbena::transport
