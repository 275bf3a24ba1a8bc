#include "transport/verbs/network_interface.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/temporary_folder.hpp"

namespace verbena::transport::verbs {
namespace {

/// A folder as the kernel has it for each device. "lo" is an interface that every host has, with an address.
class NetworkInterfaceTest : public ::testing::Test {
 protected:
  void add(const std::string& interface, int port_from_0) const {
    const std::filesystem::path place = folder_.path() / "fake0" / "device" / "net" / interface;
    std::filesystem::create_directories(place);
    std::ofstream(place / "dev_port") << port_from_0 << '\n';
  }
  [[nodiscard]] std::string address(const std::string& device, std::uint8_t port) const {
    return interface_address(device, port, folder_.path().string());
  }

  verbena::testing::TemporaryFolder folder_;
};

TEST_F(NetworkInterfaceTest, IsTheOneOfThePort) {
  add("lo", 1);
  add("no_such_interface", 0);
  EXPECT_EQ(address("fake0", 2), "127.0.0.1");
  EXPECT_EQ(address("fake0", 1), "");  // there is no such interface, and so no address
  EXPECT_EQ(address("fake0", 3), "");
  EXPECT_EQ(address("fake1", 1), "");
}

TEST_F(NetworkInterfaceTest, OneWithoutAddressDoesNotHideAnother) {
  add("a_without_address", 0);
  add("lo", 0);
  EXPECT_EQ(address("fake0", 1), "127.0.0.1");
}

}  // namespace
}  // namespace verbena::transport::verbs
