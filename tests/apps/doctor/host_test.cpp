// What doctor reads from the kernel's files. The tests write such files below a root folder of their own.
#include "apps/doctor/host.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/temporary_folder.hpp"

namespace verbena::apps::doctor {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class HostTest : public ::testing::Test {
 protected:
  void put(const std::string& path, std::string_view text = "") {
    const std::filesystem::path file = folder_.path() / path;
    std::filesystem::create_directories(file.parent_path());
    verbena::testing::write_file(file, text);
  }
  void put_folder(const std::string& path) { std::filesystem::create_directories(folder_.path() / path); }
  void put_link(const std::string& path, const std::string& target) {
    std::filesystem::create_symlink(target, folder_.path() / path);
  }
  void put_kernel(const std::string& release) { put("proc/sys/kernel/osrelease", release + "\n"); }
  void put_interface(const std::string& name, int type, const char* flags, const char* carrier, int mtu) {
    put("sys/class/net/" + name + "/type", std::to_string(type) + "\n");
    put("sys/class/net/" + name + "/flags", std::string(flags) + "\n");
    put("sys/class/net/" + name + "/carrier", std::string(carrier) + "\n");
    put("sys/class/net/" + name + "/mtu", std::to_string(mtu) + "\n");
  }
  void put_status(const std::string& uid, const std::string& capabilities) {
    put("proc/self/status", "Name:\tverbena\nUid:\t" + uid + "\t" + uid + "\t0\t0\nCapEff:\t" + capabilities +
                                "\nSeccomp:\t0\nSeccomp_filters:\t0\n");
  }
  [[nodiscard]] Host look() const { return look_at_host(folder_.path()); }

 private:
  verbena::testing::TemporaryFolder folder_;
};

TEST_F(HostTest, NothingThereIsNoError) {
  const Host host = look();
  EXPECT_EQ(host.kernel_release, "");
  EXPECT_EQ(host.container, "");
  EXPECT_FALSE(host.module_tree);
  EXPECT_FALSE(host.user_namespace);
  EXPECT_FALSE(host.locked_bytes_limit.has_value());
  EXPECT_THAT(host.interfaces, IsEmpty());
  EXPECT_THAT(host.devices, IsEmpty());
}

TEST_F(HostTest, TheRealRootCanBeLookedAt) {
  const Host host = look_at_host();
  EXPECT_NE(host.kernel_release, "");
  EXPECT_THAT(host.interfaces, Not(IsEmpty()));
}

TEST_F(HostTest, KernelAndDistribution) {
  put_kernel("6.8.0-45-generic");
  put("etc/os-release", "PRETTY_NAME=\"Linux Mint 22\"\nID=linuxmint\nID_LIKE=\"ubuntu debian\"\n");
  const Host host = look();
  EXPECT_EQ(host.kernel_release, "6.8.0-45-generic");
  EXPECT_EQ(host.distribution_name, "Linux Mint 22");
  EXPECT_EQ(host.distribution, "linuxmint");
  EXPECT_THAT(host.family, ElementsAre("linuxmint", "ubuntu", "debian"));
  EXPECT_FALSE(host.wsl);
}

TEST_F(HostTest, Wsl) {
  put_kernel("5.15.153.1-microsoft-standard-WSL2");
  EXPECT_TRUE(look().wsl);
}

TEST_F(HostTest, Modules) {
  put_kernel("6.1.0-40-amd64");
  put("lib/modules/6.1.0-40-amd64/modules.dep",
      "kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko.xz: kernel/drivers/infiniband/core/ib_uverbs.ko.xz\n");
  put("lib/modules/6.1.0-40-amd64/modules.builtin", "kernel/drivers/infiniband/core/ib_uverbs.ko\n");
  put_folder("sys/module/rdma_ucm");
  put_folder("sys/module/mlx5_core");
  put_folder("sys/module/mlx4_core");
  put_folder("sys/module/mlx4_ib");
  const Host host = look();
  EXPECT_TRUE(host.module_tree);
  EXPECT_FALSE(host.other_module_trees);
  EXPECT_TRUE(host.rdma_rxe.available);
  EXPECT_FALSE(host.rdma_rxe.loaded);
  EXPECT_TRUE(host.ib_uverbs.available);
  EXPECT_TRUE(host.rdma_ucm.loaded);
  EXPECT_FALSE(host.rdma_ucm.available);
  ASSERT_EQ(host.sleeping_adapters.size(), 1U);
  EXPECT_EQ(host.sleeping_adapters[0].rdma_driver, "mlx5_ib");
}

TEST_F(HostTest, ModulesOfAnotherKernel) {
  put_kernel("6.1.0-40-amd64");
  put("usr/lib/modules/6.1.0-41-amd64/modules.dep", "kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko:\n");
  const Host host = look();
  EXPECT_FALSE(host.module_tree);
  EXPECT_TRUE(host.other_module_trees);
  EXPECT_FALSE(host.rdma_rxe.available);
}

TEST_F(HostTest, Containers) {
  put("proc/1/cgroup", "0::/init.scope\n");
  EXPECT_EQ(look().container, "");
  put("proc/1/cgroup", "0::/system.slice/docker-1234.scope\n1:name=systemd:/docker/1234\n");
  EXPECT_EQ(look().container, "docker");
  put("run/systemd/container", "lxc\n");
  EXPECT_EQ(look().container, "lxc");
  put(".dockerenv");
  EXPECT_EQ(look().container, "docker");
  put("run/.containerenv");
  EXPECT_EQ(look().container, "podman");
  put_folder("run/secrets/kubernetes.io");
  EXPECT_EQ(look().container, "kubernetes");
}

TEST_F(HostTest, LimitsAndCapabilities) {
  put("proc/self/limits",
      "Limit                     Soft Limit           Hard Limit           Units     \n"
      "Max locked memory         65536                unlimited            bytes     \n"
      "Max open files            1024                 1048576              files     \n");
  put_status("1000", "0000000000000000");
  Host host = look();
  EXPECT_EQ(host.locked_bytes_limit, 65536U);
  EXPECT_FALSE(host.locked_bytes_hard_limit.has_value());
  EXPECT_FALSE(host.root);
  EXPECT_FALSE(host.may_lock_memory);
  EXPECT_FALSE(host.seccomp);

  put_status("0", "0000000000004000");
  put("proc/self/uid_map", "         0          0 4294967295\n");
  host = look();
  EXPECT_TRUE(host.root);
  EXPECT_TRUE(host.may_lock_memory);
  EXPECT_FALSE(host.user_namespace);

  put("proc/self/uid_map", "         0       1000          1\n");
  host = look();
  EXPECT_TRUE(host.user_namespace);
  EXPECT_FALSE(host.may_lock_memory) << "the privilege holds only in the process's own user namespace";
}

TEST_F(HostTest, HugePages) {
  put("proc/meminfo",
      "MemTotal:       16000000 kB\nHugePages_Total:     512\nHugePages_Free:      500\nHugepagesize:       "
      "2048 kB\n");
  put("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  const Host host = look();
  EXPECT_EQ(host.huge_pages, 512U);
  EXPECT_EQ(host.huge_pages_free, 500U);
  EXPECT_EQ(host.huge_page_bytes, 2048U << 10U);
  EXPECT_EQ(host.transparent_huge_pages, "madvise");
}

TEST_F(HostTest, NetworkInterfaces) {
  put_interface("eth0", 1, "0x1003", "1", 1500);
  put_folder("sys/class/net/eth0/device");
  put_interface("eth1", 1, "0x1002", "", 9000);
  put_interface("ib0", 32, "0x1003", "0", 2044);
  put_interface("lo", 772, "0x9", "1", 65536);
  put("proc/net/route",
      "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
      "eth1\t00000000\t010200C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\n"
      "eth0\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
      "ib0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n");
  const std::vector<NetworkInterface> interfaces = look().interfaces;
  ASSERT_EQ(interfaces.size(), 4U);
  EXPECT_EQ(interfaces[0].name, "eth0");
  EXPECT_TRUE(interfaces[0].ethernet && interfaces[0].physical && interfaces[0].up && interfaces[0].carrier);
  EXPECT_TRUE(interfaces[0].default_route) << "its route has the lowest metric";
  EXPECT_EQ(interfaces[0].mtu_bytes, 1500U);
  EXPECT_FALSE(interfaces[1].up || interfaces[1].carrier || interfaces[1].physical ||
               interfaces[1].default_route);
  EXPECT_TRUE(interfaces[2].ipoib && interfaces[2].up);
  EXPECT_FALSE(interfaces[2].ethernet || interfaces[2].carrier || interfaces[2].default_route);
  EXPECT_FALSE(interfaces[3].ethernet || interfaces[3].ipoib);
}

TEST_F(HostTest, Devices) {
  put("sys/class/infiniband/mlx5_0/ports/1/rate", "100 Gb/sec (4X EDR)\n");
  put("sys/class/infiniband/mlx5_0/ports/2/rate", "2.5 Gb/sec (1X SDR)\n");
  put("sys/class/infiniband/rxe0/parent", "eth0\n");
  put("sys/class/infiniband/rxe0/node_type", "1: CA\n");
  put("sys/class/infiniband_verbs/uverbs0/ibdev", "mlx5_0\n");
  put("sys/class/infiniband_verbs/uverbs1/ibdev", "rxe0\n");
  put("sys/class/infiniband_verbs/abi_version", "6\n");
  put("dev/infiniband/uverbs1");
  put("dev/infiniband/rdma_cm");
  put("sys/module/ib_core/parameters/netns_mode", "N\n");
  const Host host = look();
  ASSERT_EQ(host.devices.size(), 2U);
  EXPECT_EQ(host.devices[0].name, "mlx5_0");
  EXPECT_EQ(host.devices[0].parent, "");
  EXPECT_EQ(host.devices[0].node, "uverbs0");
  EXPECT_FALSE(host.devices[0].node_there);
  EXPECT_FALSE(host.devices[0].node_open);
  EXPECT_EQ(host.devices[0].gigabits_per_second, 100);
  EXPECT_EQ(host.devices[1].parent, "eth0");
  EXPECT_TRUE(host.devices[1].node_there);
  EXPECT_TRUE(host.devices[1].node_open);
  EXPECT_TRUE(host.connection_manager_there);
  EXPECT_TRUE(host.rdma_namespaces);
  for (const KernelDevice& device : host.devices) EXPECT_EQ(device.other_kind, "") << device.name;
}

TEST_F(HostTest, WhatIsNeitherInfiniBandNorRoceNorIwarpIsNamedByItsDriver) {
  for (const auto& [name, driver] :
       {std::pair("efa_0", "efa"), {"hbl_0", "habanalabs"}, {"new_0", "new_driver"}}) {
    const std::string device = std::string("sys/class/infiniband/") + name;
    put(device + "/node_type", "7: unspecified\n");
    put(device + "/device/vendor", "0x1d0f\n");
    put_link(device + "/device/driver", std::string("../../drivers/") + driver);
  }
  put("sys/class/infiniband/siw0/node_type", "4: RNIC\n");
  const Host host = look();
  ASSERT_EQ(host.devices.size(), 4U);
  EXPECT_EQ(host.devices[0].other_kind, "an Elastic Fabric Adapter (EFA)");
  EXPECT_EQ(host.devices[1].other_kind, "a port of a Gaudi accelerator");
  EXPECT_NE(host.devices[2].other_kind.find("new_driver"), std::string::npos);
  EXPECT_EQ(host.devices[3].other_kind, "");
}

}  // namespace
}  // namespace verbena::apps::doctor
