// The problems that users of RDMA have, as facts, and what doctor answers to each.
#include "apps/doctor/diagnosis.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/apps/doctor/facts.hpp"

namespace verbena::apps::doctor {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Level = Finding::Level;

Finding finding(const Diagnosis& diagnosis, const std::string& subject) {
  for (const Finding& each : diagnosis.findings) {
    if (each.subject == subject) return each;
  }
  ADD_FAILURE() << "no finding is about " << subject;
  return {};
}

std::vector<std::string> commands(const Finding& finding) {
  std::vector<std::string> all;
  for (const Remedy& remedy : finding.remedies) {
    all.insert(all.end(), remedy.commands.begin(), remedy.commands.end());
  }
  return all;
}

std::vector<std::string> problems(const Diagnosis& diagnosis) {
  std::vector<std::string> subjects;
  for (const Finding& each : diagnosis.findings) {
    if (each.level == Level::kProblem) subjects.push_back(each.subject);
  }
  return subjects;
}

// ---- all is well

TEST(DoctorTest, AServerWithAnAdapterIsFit) {
  const Diagnosis diagnosis = diagnose(server());
  EXPECT_TRUE(diagnosis.verbs);
  EXPECT_TRUE(diagnosis.shared_memory);
  EXPECT_EQ(diagnosis.gid, "3 (RoCEv2 10.0.0.1)");
  EXPECT_EQ(diagnosis.choice_reason, "the only one that can be used");
  for (const Finding& each : diagnosis.findings) {
    EXPECT_EQ(each.level, Level::kOk) << each.subject << ": " << each.text;
    EXPECT_THAT(each.remedies, IsEmpty()) << each.subject;
  }
}

// The index of a GID differs between drivers, and changes when a port goes down and up. So doctor finds the
// GID by its type.
TEST(DoctorTest, EachGidIsUsedOrItIsSaidWhyNot) {
  Facts facts = server();
  facts.verbs.devices[0].ports[0].gids.push_back({.index = 4, .type = "RoCEv2", .text = "2001:db8::1"});
  facts.verbs.devices[0].ports[0].gids.push_back({.index = 5, .type = "RoCEv2", .text = "10.9.9.9"});
  EXPECT_THAT(finding(diagnose(facts), "mlx5_0 port 1").details,
              ElementsAre(HasSubstr("GID 0  RoCEv1 fe80::1: no, RoCEv2 only"),
                          HasSubstr("GID 1  RoCEv2 fe80::1: no, link-local"),
                          HasSubstr("GID 2  RoCEv1 10.0.0.1: no, RoCEv2 only"),
                          HasSubstr("GID 3  RoCEv2 10.0.0.1: yes"),
                          HasSubstr("GID 4  RoCEv2 2001:db8::1: no, an IPv4 address"),
                          HasSubstr("GID 5  RoCEv2 10.9.9.9: no, another one comes first")));
}

// ---- no device

TEST(DoctorTest, ALaptopIsToldTheTwoLinesForItsOwnCard) {
  const Diagnosis diagnosis = diagnose(laptop());
  EXPECT_FALSE(diagnosis.verbs);
  EXPECT_TRUE(diagnosis.shared_memory);
  EXPECT_THAT(problems(diagnosis), ElementsAre("devices", "soft-RoCE"));
  EXPECT_THAT(commands(finding(diagnosis, "soft-RoCE")),
              ElementsAre("sudo modprobe rdma_rxe", "sudo rdma link add rxe0 type rxe netdev wlp2s0"));
}

TEST(DoctorTest, RootNeedsNoSudo) {
  Facts facts = laptop();
  facts.host.root = true;
  EXPECT_THAT(commands(finding(diagnose(facts), "soft-RoCE")),
              ElementsAre("modprobe rdma_rxe", "rdma link add rxe0 type rxe netdev wlp2s0"));
}

TEST(DoctorTest, ACardThatIsDownIsBroughtUpFirst) {
  Facts facts = laptop();
  facts.host.interfaces.pop_back();  // docker0 is no network card
  facts.host.rdma_tool = false;
  EXPECT_THAT(commands(finding(diagnose(facts), "soft-RoCE")),
              ElementsAre("sudo apt-get install iproute2 kmod", "sudo ip link set eno1 up",
                          "sudo modprobe rdma_rxe", "sudo rdma link add rxe0 type rxe netdev eno1"));
}

TEST(DoctorTest, NoCardAtAll) {
  Facts facts = laptop();
  facts.host.interfaces.clear();
  const Diagnosis diagnosis = diagnose(facts);
  EXPECT_THAT(finding(diagnosis, "soft-RoCE").remedies, IsEmpty());
  EXPECT_THAT(finding(diagnosis, "soft-RoCE").details, Contains(HasSubstr("no network card")));
}

TEST(DoctorTest, TheModuleIsInstalledAsTheDistributionDoes) {
  struct Case {
    std::string distribution, kernel, command;
  };
  for (const Case& each :
       {Case{"ubuntu", "6.8.0-1015-aws", "sudo apt-get install linux-modules-extra-6.8.0-1015-aws"},
        Case{"debian", "6.1.0-40-cloud-amd64",
             "sudo apt-get install linux-image-$(dpkg --print-architecture)"},
        Case{"fedora", "6.11.4-301.fc41.x86_64",
             "sudo dnf install kernel-modules-extra-6.11.4-301.fc41.x86_64"}}) {
    Facts facts = laptop();
    facts.host.family = {each.distribution};
    facts.host.kernel_release = each.kernel;
    facts.host.rdma_rxe = {};
    const Finding found = finding(diagnose(facts), "soft-RoCE");
    EXPECT_EQ(found.level, Level::kProblem);
    EXPECT_THAT(found.text, HasSubstr(each.kernel));
    EXPECT_EQ(commands(found).front(), each.command);
    EXPECT_EQ(commands(found).back(), "sudo rdma link add rxe0 type rxe netdev wlp2s0");
  }
}

TEST(DoctorTest, AKernelThatWasReplacedWhileItRanIsStartedAnew) {
  Facts facts = laptop();
  facts.host.rdma_rxe = {};
  facts.host.module_tree = false;
  facts.host.other_module_trees = true;
  EXPECT_EQ(commands(finding(diagnose(facts), "soft-RoCE")).front(), "sudo reboot");
}

TEST(DoctorTest, WslHasNoModule) {
  Facts facts = laptop();
  facts.host.wsl = true;
  facts.host.family = {"ubuntu"};
  facts.host.rdma_rxe = {};
  facts.host.module_tree = false;
  const Finding found = finding(diagnose(facts), "soft-RoCE");
  EXPECT_THAT(found.details, Contains(HasSubstr("Windows")));
  EXPECT_THAT(found.remedies, IsEmpty()) << "nothing that a user could install helps";
}

TEST(DoctorTest, AnAdapterWithoutItsRdmaDriver) {
  Facts facts = laptop();
  facts.host.sleeping_adapters = {{"mlx5_core", "mlx5_ib"}};
  EXPECT_THAT(commands(finding(diagnose(facts), "devices")), ElementsAre("sudo modprobe mlx5_ib"));
}

TEST(DoctorTest, TheLibrariesAreMissing) {
  Facts facts = laptop();
  facts.verbs = {.ibverbs = absl::UnavailableError("libibverbs.so.1 cannot be loaded"),
                 .rdmacm = absl::UnavailableError("librdmacm.so.1 cannot be loaded")};
  const Diagnosis debian = diagnose(facts);
  EXPECT_THAT(problems(debian), ElementsAre("libraries", "devices", "soft-RoCE"));
  EXPECT_THAT(finding(debian, "libraries").text, HasSubstr("libibverbs and librdmacm cannot be loaded"));
  EXPECT_THAT(commands(finding(debian, "libraries")),
              ElementsAre("sudo apt-get install libibverbs1 librdmacm1 ibverbs-providers"));

  facts.verbs.ibverbs = absl::OkStatus();
  facts.host.family = {"fedora"};
  facts.host.devices = {{.name = "mlx5_0"}};
  const Diagnosis fedora = diagnose(facts);
  EXPECT_EQ(finding(fedora, "libraries").text, "librdmacm cannot be loaded");
  EXPECT_THAT(commands(finding(fedora, "libraries")), ElementsAre("sudo dnf install libibverbs librdmacm"));
  EXPECT_THAT(finding(fedora, "devices").text, HasSubstr("mlx5_0"));
  EXPECT_FALSE(fedora.verbs);
}

// ---- a device that cannot be used

/// A server whose device libibverbs does not list.
Facts with_unlisted_device() {
  Facts facts = server();
  facts.verbs.devices.clear();
  facts.verbs_trial.reset();
  return facts;
}

TEST(DoctorTest, ADeviceWithoutProvider) {
  const Diagnosis diagnosis = diagnose(with_unlisted_device());
  EXPECT_THAT(problems(diagnosis), ElementsAre("mlx5_0"));
  EXPECT_THAT(finding(diagnosis, "mlx5_0").text, HasSubstr("provider"));
  EXPECT_THAT(commands(finding(diagnosis, "mlx5_0")), ElementsAre(HasSubstr("ibverbs-providers")));
}

TEST(DoctorTest, ADeviceWithoutUverbs) {
  Facts facts = with_unlisted_device();
  facts.host.devices[0] = {.name = "mlx5_0"};
  EXPECT_THAT(commands(finding(diagnose(facts), "mlx5_0")), ElementsAre("sudo modprobe ib_uverbs"));
}

TEST(DoctorTest, AContainerWithoutDevices) {
  Facts facts = with_unlisted_device();
  facts.host.container = "docker";
  facts.host.root = true;
  facts.host.devices[0].node_there = false;
  const Diagnosis diagnosis = diagnose(facts);
  EXPECT_THAT(finding(diagnosis, "container").text, HasSubstr("docker"));
  EXPECT_THAT(finding(diagnosis, "mlx5_0").text, HasSubstr("/dev/infiniband/uverbs0"));
  EXPECT_THAT(commands(finding(diagnosis, "mlx5_0")),
              ElementsAre("docker run --device=/dev/infiniband --ulimit memlock=-1 --network=host …"));
  facts.host.container = "podman";
  EXPECT_THAT(commands(finding(diagnose(facts), "mlx5_0")), ElementsAre(HasSubstr("podman run")));
  facts.host.container = "kubernetes";
  EXPECT_THAT(finding(diagnose(facts), "mlx5_0").remedies[0].what, HasSubstr("device plugin"));
}

TEST(DoctorTest, AContainerOnAHostWithoutDevices) {
  Facts facts = laptop();
  facts.host.container = "docker";
  facts.host.rdma_rxe = {};
  facts.host.module_tree = false;
  EXPECT_THAT(commands(finding(diagnose(facts), "soft-RoCE")),
              ElementsAre("sudo modprobe rdma_rxe", HasSubstr("netdev $(ip route show default"),
                          HasSubstr("docker run --device=/dev/infiniband")))
      << "in a container doctor cannot know the name of the host's card";
}

TEST(DoctorTest, WhatSurroundsAContainerIsSaid) {
  Facts facts = server();
  facts.host.container = "docker";
  facts.host.seccomp = true;
  facts.host.user_namespace = true;
  const Diagnosis diagnosis = diagnose(facts);
  EXPECT_TRUE(diagnosis.verbs);
  EXPECT_THAT(finding(diagnosis, "container").details,
              ElementsAre(HasSubstr("user namespace"), HasSubstr("seccomp")));
}

TEST(DoctorTest, ADeviceOfAnotherNetworkNamespace) {
  Facts facts = laptop();
  facts.host.container = "docker";
  facts.host.rdma_namespaces = true;
  EXPECT_THAT(commands(finding(diagnose(facts), "container")),
              ElementsAre("sudo rdma system set netns shared"));
}

TEST(DoctorTest, ADeviceThatThisUserMayNotOpen) {
  Facts facts = server();
  facts.verbs_trial.reset();
  facts.verbs.devices[0].ports.clear();
  facts.verbs.devices[0].obstacle = "it cannot be opened: EACCES (Permission denied)";
  facts.host.devices[0].node_open = false;
  EXPECT_THAT(commands(finding(diagnose(facts), "mlx5_0")),
              ElementsAre("sudo chmod a+rw /dev/infiniband/uverbs0 /dev/infiniband/rdma_cm"));
}

TEST(DoctorTest, TheConnectionManagerIsMissing) {
  Facts facts = server();
  facts.verbs.connection_manager =
      absl::UnavailableError("the RDMA connection manager cannot be used: ENODEV");
  const Diagnosis diagnosis = diagnose(facts);
  EXPECT_FALSE(diagnosis.verbs);
  EXPECT_THAT(commands(finding(diagnosis, "connections")), ElementsAre("sudo modprobe rdma_ucm"));
}

// ---- ports

/// A server with this port only, which the backend does not use because of `obstacle`.
Facts with_port(transport::VerbsDevice::Port port, const std::string& obstacle) {
  Facts facts = server();
  facts.verbs_trial.reset();
  port.obstacle = obstacle;
  facts.verbs.devices[0].ports = {std::move(port)};
  return facts;
}

TEST(DoctorTest, APortThatIsDown) {
  transport::VerbsDevice::Port port = roce_port();
  port.state = "down";
  Facts facts = with_port(port, "the port is down");
  facts.host.interfaces.back().up = false;
  const Diagnosis diagnosis = diagnose(facts);
  EXPECT_FALSE(diagnosis.verbs);
  EXPECT_FALSE(diagnosis.choice.has_value());
  EXPECT_EQ(finding(diagnosis, "mlx5_0 port 1").level, Level::kProblem);
  EXPECT_THAT(finding(diagnosis, "mlx5_0 port 1").text, HasSubstr("the port is down"));
  EXPECT_THAT(commands(finding(diagnosis, "mlx5_0 port 1")), ElementsAre("sudo ip link set eth0 up"));

  facts.host.interfaces.back().up = true;
  facts.host.interfaces.back().carrier = false;
  EXPECT_THAT(finding(diagnose(facts), "mlx5_0 port 1").remedies[0].what, HasSubstr("cable"));
}

TEST(DoctorTest, AnInfiniBandPortThatWaitsForItsSubnetManager) {
  const Diagnosis diagnosis = diagnose(with_port(
      {.number = 1, .state = "initializing", .link_layer = "InfiniBand"}, "the port is initializing"));
  EXPECT_THAT(finding(diagnosis, "mlx5_0 port 1").remedies[0].what, HasSubstr("subnet manager"));
}

TEST(DoctorTest, InfiniBandWithoutIpAddresses) {
  transport::VerbsDevice::Port port{
      .number = 1, .state = "active", .link_layer = "InfiniBand", .mtu_bytes = 4096, .max_mtu_bytes = 4096};
  Facts facts = with_port(port, "");
  facts.verbs_trial = Trial{.step = "listening", .status = absl::OkStatus()};
  EXPECT_EQ(finding(diagnose(facts), "IPoIB").level, Level::kWarning);
  EXPECT_TRUE(diagnose(facts).verbs);
  facts.host.interfaces.push_back({.name = "ib0", .ipoib = true, .up = true});
  for (const Finding& each : diagnose(facts).findings) EXPECT_NE(each.subject, "IPoIB");
}

TEST(DoctorTest, AnAdapterWithoutConnectionsIsNamedAndDisplacesNothing) {
  const std::string efa = "an Elastic Fabric Adapter (EFA)";
  for (const bool listed : {true, false}) {
    Facts facts = laptop();
    add_other_adapter(facts, "rdmap0s6", efa, listed);
    // Alone it is as good as no device: the advice is soft-RoCE.
    const Diagnosis alone = diagnose(facts);
    EXPECT_FALSE(alone.verbs);
    EXPECT_EQ(finding(alone, "rdmap0s6").text, efa + "; not used: it has no reliable connections");
    EXPECT_TRUE(finding(alone, "rdmap0s6").remedies.empty()) << "nothing gives it reliable connections";
    EXPECT_THAT(commands(finding(alone, "soft-RoCE")),
                Contains("sudo rdma link add rxe0 type rxe netdev wlp2s0"));

    add_soft_roce(facts, "rxe0", roce_port("10.0.0.2", "wlp2s0"), "wlp2s0");
    facts.verbs_trial = {.step = "reading", .status = absl::OkStatus()};
    const Diagnosis beside = diagnose(facts);
    EXPECT_TRUE(beside.verbs);
    ASSERT_TRUE(beside.choice.has_value());
    EXPECT_EQ(facts.verbs.devices[beside.choice->device].name, "rxe0");
    EXPECT_EQ(beside.choice_reason, "the only one that can be used");
    EXPECT_EQ(finding(beside, "rdmap0s6").level, Level::kNote);
    for (const Finding& each : beside.findings)
      EXPECT_THAT(each.text, Not(HasSubstr("is an adapter, not soft")));
  }
}

TEST(DoctorTest, RoceVersion1Only) {
  transport::VerbsDevice::Port port = roce_port("");
  std::erase_if(port.gids, [](const auto& gid) { return gid.type != "RoCEv1"; });
  const Diagnosis diagnosis = diagnose(with_port(port, "it has no RoCEv2 address"));
  EXPECT_THAT(finding(diagnosis, "mlx5_0 port 1").details, Contains(HasSubstr("RoCEv1 only")));
  EXPECT_THAT(commands(finding(diagnosis, "mlx5_0 port 1")),
              Contains("sudo rdma link add rxe0 type rxe netdev eth0"));
}

TEST(DoctorTest, LinkLocalAddressesOnly) {
  transport::VerbsDevice::Port port = roce_port("");
  std::erase_if(port.gids, [](const auto& gid) { return gid.text.empty(); });
  Facts facts = with_port(port, "it has no RoCEv2 address but link-local ones");
  EXPECT_THAT(commands(finding(diagnose(facts), "mlx5_0 port 1")),
              ElementsAre("sudo ip address add 192.168.77.1/24 dev eth0"));
  facts.host.container = "docker";
  EXPECT_THAT(commands(finding(diagnose(facts), "mlx5_0 port 1")), ElementsAre(HasSubstr("--network=host")));
}

TEST(DoctorTest, ASmallMtu) {
  transport::VerbsDevice::Port port = roce_port();
  port.mtu_bytes = 1024;
  Facts facts = with_port(port, "");
  facts.host.interfaces.back().mtu_bytes = 1500;
  facts.verbs_trial = Trial{.step = "reading", .status = absl::OkStatus()};
  const Diagnosis diagnosis = diagnose(facts);
  EXPECT_TRUE(diagnosis.verbs);
  EXPECT_EQ(finding(diagnosis, "path MTU").level, Level::kNote);
  EXPECT_THAT(finding(diagnosis, "path MTU").details, ElementsAre(HasSubstr("1500")));
  EXPECT_THAT(commands(finding(diagnosis, "path MTU")), ElementsAre("sudo ip link set eth0 mtu 4200"));
  facts.verbs.devices[0].ports[0].mtu_bytes = 512;
  EXPECT_EQ(finding(diagnose(facts), "path MTU").level, Level::kWarning);
}

// ---- the choice

TEST(DoctorTest, AnAdapterBehindSoftRoceIsPointedOut) {
  Facts facts = server();
  std::vector<transport::VerbsDevice> adapters = std::exchange(facts.verbs.devices, {});
  add_soft_roce(facts, "rxe0", roce_port("192.168.1.2", "wlp2s0"), "wlp2s0");
  facts.verbs.devices.push_back(adapters[0]);
  const Diagnosis diagnosis = diagnose(facts);
  ASSERT_TRUE(diagnosis.choice.has_value());
  EXPECT_EQ(facts.verbs.devices[diagnosis.choice->device].name, "rxe0");
  EXPECT_EQ(diagnosis.choice_reason, "the first that can be used");
  EXPECT_THAT(finding(diagnosis, "choice").text, HasSubstr("mlx5_0 port 1 is an adapter"));
  EXPECT_THAT(commands(finding(diagnosis, "choice")),
              ElementsAre("verbena doctor --device mlx5_0 --device-port 1"));
  EXPECT_THAT(finding(diagnosis, "mlx5_0 port 1").text, HasSubstr("another one comes first"));
}

TEST(DoctorTest, AFasterAdapterIsPointedOutUnlessOneIsAskedFor) {
  Facts facts = server();
  add_adapter(facts, "mlx5_1", roce_port("10.0.1.1", "eth1"), 400);
  EXPECT_THAT(finding(diagnose(facts), "choice").text, HasSubstr("faster (400 Gbit/s, not 100)"));
  facts.wanted.device = "mlx5_0";
  const Diagnosis asked = diagnose(facts);
  EXPECT_EQ(asked.choice_reason, "as asked for");
  for (const Finding& each : asked.findings) EXPECT_NE(each.subject, "choice") << each.text;
  EXPECT_THAT(finding(asked, "mlx5_1 port 1").text, HasSubstr("not the one asked for"));
}

TEST(DoctorTest, SoftRoceOnABridgeIsPointedOut) {
  Facts facts = laptop();
  add_soft_roce(facts, "rxe0", roce_port("172.17.0.1", "docker0"), "docker0");
  facts.verbs_trial = Trial{.step = "reading", .status = absl::OkStatus()};
  EXPECT_THAT(finding(diagnose(facts), "choice").text, HasSubstr("docker0, which is no network card"));
}

TEST(DoctorTest, ADeviceThatIsAskedForAndNotThere) {
  Facts facts = server();
  facts.wanted.device = "mlx5_7";
  facts.verbs_trial.reset();
  const Diagnosis diagnosis = diagnose(facts);
  EXPECT_FALSE(diagnosis.verbs);
  EXPECT_THAT(finding(diagnosis, "devices").text, HasSubstr("there is no device mlx5_7; there is: mlx5_0"));
}

TEST(DoctorTest, APortThatIsAskedForAndNotThere) {
  Facts facts = server();
  facts.wanted.port = 2;
  facts.verbs_trial.reset();
  EXPECT_FALSE(diagnose(facts).verbs);
  EXPECT_THAT(problems(diagnose(facts)), Not(IsEmpty()));
}

// ---- locked memory

TEST(DoctorTest, LockedMemoryThatIsTooLittle) {
  Facts facts = server();
  facts.host.locked_bytes_limit = 64 << 10;
  facts.host.locked_bytes_hard_limit = 64 << 10;
  facts.verbs_trial = Trial{.step = "registering", .status = absl::ResourceExhaustedError("ENOMEM")};
  const Diagnosis diagnosis = diagnose(facts);
  EXPECT_FALSE(diagnosis.verbs);
  EXPECT_THAT(problems(diagnosis), ElementsAre("locked memory", "verbs"));
  EXPECT_THAT(finding(diagnosis, "locked memory").text, HasSubstr("64 KiB, which is too little"));
  EXPECT_THAT(commands(finding(diagnosis, "locked memory")),
              ElementsAre("sudo prlimit --pid $$ --memlock=unlimited",
                          "echo '* - memlock unlimited' | sudo tee /etc/security/limits.d/90-memlock.conf"));

  facts.host.locked_bytes_hard_limit.reset();
  EXPECT_THAT(commands(finding(diagnose(facts), "locked memory")), ElementsAre("ulimit -l unlimited"));
  facts.host.locked_bytes_hard_limit = 8 << 20;
  EXPECT_EQ(commands(finding(diagnose(facts), "locked memory")).front(), "ulimit -l 8192");
  facts.host.container = "docker";
  EXPECT_THAT(commands(finding(diagnose(facts), "locked memory")).back(), HasSubstr("--ulimit memlock=-1"));
}

TEST(DoctorTest, LockedMemoryThatIsSoonUsedUp) {
  Facts facts = server();
  facts.host.locked_bytes_limit = facts.host.locked_bytes_hard_limit = 8 << 20;
  const Diagnosis diagnosis = diagnose(facts);
  EXPECT_TRUE(diagnosis.verbs);
  EXPECT_EQ(finding(diagnosis, "locked memory").level, Level::kWarning);
  facts.host.may_lock_memory = true;
  EXPECT_EQ(finding(diagnose(facts), "locked memory").level, Level::kOk);
}

TEST(DoctorTest, LockedMemoryWithoutADeviceToTryIt) {
  Facts facts = laptop();
  facts.host.locked_bytes_limit = facts.host.locked_bytes_hard_limit = 64 << 10;
  EXPECT_EQ(finding(diagnose(facts), "locked memory").level, Level::kProblem);
  facts.host.locked_bytes_limit = facts.host.locked_bytes_hard_limit = 64 << 20;
  EXPECT_EQ(finding(diagnose(facts), "locked memory").level, Level::kWarning);
}

TEST(DoctorTest, HugePages) {
  Facts facts = server();
  facts.host.transparent_huge_pages = "madvise";
  facts.host.huge_pages = 512;
  facts.host.huge_page_bytes = 2 << 20;
  const Diagnosis diagnosis = diagnose(facts);
  EXPECT_EQ(finding(diagnosis, "huge pages").level, Level::kNote);
  EXPECT_THAT(finding(diagnosis, "huge pages").text, HasSubstr("512 of 2 MiB"));
  EXPECT_THAT(commands(finding(diagnosis, "huge pages")),
              ElementsAre("echo always | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"));
}

// ---- trials

TEST(DoctorTest, WhatFailsWhenTriedDoesNotWork) {
  Facts facts = server();
  facts.verbs_trial = Trial{.step = "connecting to itself", .status = absl::UnavailableError("no route")};
  facts.shm_trial = {.step = "opening it", .status = absl::UnavailableError("no memfd")};
  const Diagnosis diagnosis = diagnose(facts);
  EXPECT_FALSE(diagnosis.verbs);
  EXPECT_FALSE(diagnosis.shared_memory);
  EXPECT_THAT(problems(diagnosis), ElementsAre("verbs", "shared memory"));
  EXPECT_THAT(finding(diagnosis, "verbs").details, ElementsAre("no route"));
  EXPECT_THAT(finding(diagnosis, "shared memory").text, HasSubstr("opening it"));
}

}  // namespace
}  // namespace verbena::apps::doctor
