#include "job/rendezvous.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <fstream>

namespace verbena::job {

std::string host_identity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::array<char, 64> network{};
  (void)!::readlink("/proc/self/ns/net", network.data(), network.size() - 1);
  return fmt::format("{}/{}/{}", boot, network.data(), ::geteuid());
}

}  // namespace verbena::job
