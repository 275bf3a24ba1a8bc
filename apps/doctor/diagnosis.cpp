#include "apps/doctor/diagnosis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace verbena::apps::doctor {
namespace {

using transport::VerbsDevice;
using Level = Finding::Level;

/// The memory that the trial itself locks: its two regions, and what the two ends of a connection need.
constexpr std::uint64_t kLeastLockedBytes = 4 << 20;
constexpr std::uint32_t kBestMtuBytes = 4096;
constexpr std::uint32_t kBestEthernetMtuBytes = 4200;  // holds a packet of 4096 bytes with its headers
constexpr std::uint32_t kUsualMtuBytes = 1024;         // RoCE's MTU on Ethernet's usual 1500

std::string format_bytes(std::uint64_t bytes) {
  for (const auto& [unit_bytes, unit] : {std::pair{0x1p30, "GiB"}, {0x1p20, "MiB"}, {0x1p10, "KiB"}}) {
    const double count = static_cast<double>(bytes) / unit_bytes;
    if (count >= 1) return fmt::format("{:.4g} {}", count, unit);
  }
  return fmt::format("{} bytes", bytes);
}

bool is_link_local(const VerbsDevice::Gid& gid) {
  return gid.text.starts_with("fe80:");
}

bool is_ipv4(const VerbsDevice::Gid& gid) {
  return gid.text.find('.') != std::string::npos && gid.text.find(':') == std::string::npos;
}

bool is_address_of(const VerbsDevice::Gid& gid, const VerbsDevice::Port& port) {
  return gid.type == "RoCEv2" && !port.address.empty() && gid.text == port.address;
}

class Examination {
 public:
  explicit Examination(const Facts& facts) : facts_(facts), host_(facts.host), verbs_(facts.verbs) {}

  Diagnosis diagnose() {
    result_.choice = choose_port(verbs_, facts_.wanted);
    kernel();
    container();
    libraries();
    devices();
    for (const VerbsDevice& device : verbs_.devices) ports(device);
    soft_roce();
    choice();
    connection_manager();
    path_mtu();
    locked_memory();
    huge_pages();
    verbs_trial();
    shared_memory();
    tcp();
    return std::move(result_);
  }

 private:
  Finding& add(std::string subject, Level level, std::string text) {
    return result_.findings.emplace_back(Finding{.subject = std::move(subject),
                                                 .level = level,
                                                 .text = std::move(text),
                                                 .details = {},
                                                 .remedies = {}});
  }

  [[nodiscard]] std::string as_root(std::string_view command) const {
    return fmt::format("{}{}", host_.root ? "" : "sudo ", command);
  }
  [[nodiscard]] bool of_family(std::initializer_list<std::string_view> names) const {
    return std::ranges::any_of(host_.family, [&](const std::string& member) {
      return std::ranges::find(names, member) != names.end();
    });
  }
  [[nodiscard]] bool in_container() const { return !host_.container.empty(); }
  [[nodiscard]] const VerbsDevice* chosen_device() const {
    return result_.choice ? &verbs_.devices[result_.choice->device] : nullptr;
  }
  [[nodiscard]] const VerbsDevice::Port* chosen_port() const {
    return result_.choice ? &chosen_device()->ports[result_.choice->port] : nullptr;
  }
  [[nodiscard]] const KernelDevice* in_kernel(const std::string& name) const {
    const auto found = std::ranges::find(host_.devices, name, &KernelDevice::name);
    return found == host_.devices.end() ? nullptr : &*found;
  }
  [[nodiscard]] const NetworkInterface* interface(const std::string& name) const {
    const auto found = std::ranges::find(host_.interfaces, name, &NetworkInterface::name);
    return found == host_.interfaces.end() ? nullptr : &*found;
  }
  [[nodiscard]] bool soft(const std::string& device) const {
    const KernelDevice* kernel = in_kernel(device);
    return kernel != nullptr && !kernel->parent.empty();
  }

  // ---- commands

  /// How to install the libraries and the providers, which drive the devices from user space.
  [[nodiscard]] Remedy install_libraries() const {
    if (of_family({"debian", "ubuntu"})) {
      return {"install them", {as_root("apt-get install libibverbs1 librdmacm1 ibverbs-providers")}};
    }
    if (of_family({"fedora", "rhel", "centos"})) {
      return {"install them", {as_root("dnf install libibverbs librdmacm")}};
    }
    if (of_family({"suse", "opensuse"})) {
      return {"install them", {as_root("zypper install libibverbs libibverbs1 librdmacm1")}};
    }
    if (of_family({"arch"})) return {"install them", {as_root("pacman -S rdma-core")}};
    return {"install libibverbs, its providers, and librdmacm; their source is rdma-core", {}};
  }

  [[nodiscard]] Remedy load_module(std::string_view module, std::string_view what) const {
    if (in_container()) {
      return {fmt::format("on the container's host: {}", what), {fmt::format("sudo modprobe {}", module)}};
    }
    return {std::string(what), {as_root(fmt::format("modprobe {}", module))}};
  }

  /// How to start the container so that it has what verbs needs.
  [[nodiscard]] Remedy start_container() const {
    const std::string options = "--device=/dev/infiniband --ulimit memlock=-1 --network=host";
    if (host_.container == "podman") {
      return {"start the container with its host's devices and network",
              {fmt::format("podman run {} …", options)}};
    }
    if (host_.container == "kubernetes") {
      return {
          "give the pod the devices: a device plugin (k8s-rdma-shared-dev-plugin), hostNetwork: true, and in "
          "its securityContext capabilities.add: [IPC_LOCK]",
          {}};
    }
    if (host_.container == "lxc") {
      return {"on the host: give the container (here called NAME) the devices",
              {"lxc config device add NAME infiniband disk source=/dev/infiniband path=/dev/infiniband",
               "lxc config set NAME limits.kernel.memlock unlimited"}};
    }
    return {"start the container with its host's devices and network",
            {fmt::format("docker run {} …", options)}};
  }

  /// The card to put soft-RoCE on: the card of the default route, otherwise one that is up, otherwise any.
  [[nodiscard]] const NetworkInterface* best_card() const {
    const NetworkInterface* best = nullptr;
    const auto rank = [](const NetworkInterface& card) {
      return std::tuple(card.default_route, card.carrier, card.physical, card.up);
    };
    for (const NetworkInterface& card : host_.interfaces) {
      if (!card.ethernet || (!card.physical && !card.default_route)) continue;
      if (best == nullptr || rank(card) > rank(*best)) best = &card;
    }
    return best;
  }

  /// A name of the form rxe0 that no device has.
  [[nodiscard]] std::string free_rxe_name() const {
    for (int number = 0;; ++number) {
      std::string name = fmt::format("rxe{}", number);
      if (in_kernel(name) == nullptr) return name;
    }
  }

  [[nodiscard]] Remedy add_soft_roce(const std::string& card) const {
    Remedy remedy{fmt::format("put soft-RoCE on the network card {}", card), {}};
    if (of_family({"debian", "ubuntu"}) && (!host_.rdma_tool || !host_.modprobe_tool)) {
      remedy.commands.push_back(as_root("apt-get install iproute2 kmod"));
    }
    if (const NetworkInterface* found = interface(card); found != nullptr && !found->up) {
      remedy.commands.push_back(as_root(fmt::format("ip link set {} up", card)));
    }
    remedy.commands.push_back(as_root("modprobe rdma_rxe"));
    remedy.commands.push_back(
        as_root(fmt::format("rdma link add {} type rxe netdev {}", free_rxe_name(), card)));
    return remedy;
  }

  /// How to add soft-RoCE on the container's host, whose card cannot be seen from inside.
  [[nodiscard]] std::vector<Remedy> add_soft_roce_outside() const {
    return {{"on the container's host: put soft-RoCE on the card of the default route",
             {"sudo modprobe rdma_rxe",
              "sudo rdma link add rxe0 type rxe netdev $(ip route show default | sed 's/.* dev //; s/ .*//; "
              "q')"}},
            start_container()};
  }

  // ---- the host

  void kernel() {
    add("kernel", Level::kOk,
        fmt::format("Linux {}{}{}", host_.kernel_release, host_.distribution_name.empty() ? "" : ", ",
                    host_.distribution_name));
  }

  void container() {
    if (!in_container() && !host_.user_namespace) return;
    Finding& finding = add(
        "container", Level::kNote,
        in_container() ? fmt::format("{}: devices, kernel modules and limits are those that its host gives",
                                     host_.container)
                       : std::string("none, but a user namespace"));
    if (host_.user_namespace) {
      finding.details.emplace_back(
          "in a user namespace: being root here does not lift the limit on locked memory");
    }
    if (host_.seccomp) {
      finding.details.emplace_back(
          "system calls are filtered (seccomp); a call that fails with EPERM may be such");
    }
    if (host_.rdma_namespaces) {
      Remedy remedy{"on the host: show its devices in every network namespace",
                    {"sudo rdma system set netns shared"}};
      finding.details.emplace_back("devices are seen in one network namespace only (ib_core's netns_mode)");
      if (verbs_.devices.empty()) finding.remedies.push_back(std::move(remedy));
    }
  }

  void libraries() {
    if (verbs_.ibverbs.ok() && verbs_.rdmacm.ok()) {
      add("libraries", Level::kOk, "libibverbs and librdmacm can be loaded");
      return;
    }
    Finding& finding = add("libraries", Level::kProblem,
                           verbs_.ibverbs.ok()  ? "librdmacm cannot be loaded"
                           : verbs_.rdmacm.ok() ? "libibverbs cannot be loaded"
                                                : "libibverbs and librdmacm cannot be loaded");
    for (const absl::Status& status : {verbs_.ibverbs, verbs_.rdmacm}) {
      if (!status.ok()) finding.details.emplace_back(status.message());
    }
    finding.remedies.push_back(install_libraries());
  }

  // ---- devices

  void devices() {
    if (host_.devices.empty() && verbs_.devices.empty()) {
      no_devices();
      return;
    }
    bool all_listed = true;
    if (verbs_.listing) {
      for (const KernelDevice& device : host_.devices) {
        const bool listed =
            std::ranges::find(verbs_.devices, device.name, &VerbsDevice::name) != verbs_.devices.end();
        if (!listed) unlisted_device(device);
        all_listed = all_listed && listed;
      }
    } else {
      add("devices", Level::kNote,
          fmt::format("the kernel has {}; without the libraries no more can be said",
                      names_of(host_.devices)));
    }
    const std::string& wanted = facts_.wanted.device;
    if (all_listed && !wanted.empty() && verbs_.listing &&
        std::ranges::find(verbs_.devices, wanted, &VerbsDevice::name) == verbs_.devices.end()) {
      add("devices", Level::kProblem,
          fmt::format("there is no device {}; there is: {}", wanted, names_of(verbs_.devices)));
    }
  }

  template <class Devices>
  static std::string names_of(const Devices& devices) {
    std::string names;
    for (const auto& device : devices) names += (names.empty() ? "" : ", ") + device.name;
    return names;
  }

  void no_devices() {
    Finding& finding =
        add("devices", Level::kProblem, "there is none: no RDMA adapter, no soft-RoCE on a network card");
    for (const SleepingAdapter& adapter : host_.sleeping_adapters) {
      finding.details.push_back(fmt::format(
          "an adapter's network driver {} is loaded, its RDMA driver is not", adapter.network_driver));
      finding.remedies.push_back(load_module(adapter.rdma_driver, "load it"));
    }
  }

  /// For a device that the kernel knows and libibverbs does not.
  void unlisted_device(const KernelDevice& device) {
    if (!device.other_kind.empty()) {
      other_kind(device.name, device.other_kind);
      return;
    }
    Finding& finding = add(device.name, Level::kProblem, "");
    if (device.node.empty()) {
      finding.text = "the kernel module ib_uverbs, which lets programs use the device, is not loaded";
      finding.remedies.push_back(load_module("ib_uverbs", "load it"));
    } else if (!device.node_there) {
      finding.text = fmt::format("there is no /dev/infiniband/{}", device.node);
      finding.remedies.push_back(
          in_container()
              ? start_container()
              : Remedy{"have it made",
                       {as_root("udevadm trigger --action=add --subsystem-match=infiniband_verbs")}});
    } else if (!device.node_open) {
      closed_node(finding, device);
    } else {
      finding.text = "libibverbs has no provider (driver) for it";
      finding.remedies.push_back(install_libraries());
    }
  }

  /// Reports a device for which there is no remedy; soft-RoCE takes its place.
  void other_kind(const std::string& name, const std::string& what) {
    add(name, not_chosen_level(), fmt::format("{}; not used: it has no reliable connections", what));
  }

  /// Whether there is a device that verbs could use, even if it cannot use it now.
  [[nodiscard]] bool has_candidate() const {
    return std::ranges::any_of(host_.devices,
                               [](const KernelDevice& each) { return each.other_kind.empty(); }) ||
           (host_.devices.empty() && std::ranges::any_of(verbs_.devices, &VerbsDevice::reliable_connections));
  }

  void closed_node(Finding& finding, const KernelDevice& device) const {
    finding.text = fmt::format("this user may not open /dev/infiniband/{}", device.node);
    if (in_container() && host_.root) {
      finding.remedies.push_back(start_container());
      return;
    }
    finding.remedies.push_back(
        {"open it to all users, until the next start; rdma-core's udev rules do so for good",
         {as_root(fmt::format("chmod a+rw /dev/infiniband/{} /dev/infiniband/rdma_cm", device.node))}});
  }

  // ---- ports

  void ports(const VerbsDevice& device) {
    if (!device.reliable_connections) {
      other_kind(device.name, device.transport);
      return;
    }
    if (!device.obstacle.empty()) {
      Finding& finding = add(device.name, not_chosen_level(), device.obstacle);
      const KernelDevice* kernel = in_kernel(device.name);
      if (kernel != nullptr && !kernel->node.empty() && !kernel->node_there) {
        finding.remedies.push_back(start_container());
      } else if (kernel != nullptr && !kernel->node.empty() && !kernel->node_open) {
        closed_node(finding, *kernel);
      }
      return;
    }
    for (const VerbsDevice::Port& port : device.ports) examine(device, port);
  }

  /// The level of a finding about something that is not used: no problem if something else is used.
  [[nodiscard]] Level not_chosen_level() const { return result_.choice ? Level::kNote : Level::kProblem; }

  void examine(const VerbsDevice& device, const VerbsDevice::Port& port) {
    const bool chosen = &port == chosen_port();
    const std::string obstacle = verbs_obstacle(facts_.wanted, device, port);
    Finding& finding = add(fmt::format("{} port {}", device.name, port.number),
                           chosen             ? Level::kOk
                           : obstacle.empty() ? Level::kNote
                                              : not_chosen_level(),
                           describe(device, port));
    if (chosen) {
      finding.text += "; would be used";
    } else {
      finding.text += fmt::format("; not used: {}", obstacle.empty() ? "another one comes first" : obstacle);
    }
    for (const VerbsDevice::Gid& gid : port.gids) {
      finding.details.push_back(
          fmt::format("GID {:<2} {} {}: {}", gid.index, gid.type, gid.text, verdict(device, port, gid)));
    }
    const bool wanted = facts_.wanted.device.empty() || facts_.wanted.device == device.name;
    if (!obstacle.empty() && wanted && !port.obstacle.empty()) mend_port(device, port, finding);
  }

  [[nodiscard]] std::string interface_of(const VerbsDevice& device, const VerbsDevice::Port& port) const {
    for (const VerbsDevice::Gid& gid : port.gids) {
      if (!gid.interface.empty()) return gid.interface;
    }
    const KernelDevice* kernel = in_kernel(device.name);
    return kernel == nullptr ? "" : kernel->parent;
  }

  [[nodiscard]] std::string describe(const VerbsDevice& device, const VerbsDevice::Port& port) const {
    const std::string card = interface_of(device, port);
    const std::string kind = soft(device.name)               ? "soft-RoCE"
                             : device.transport == "iWARP"   ? "iWARP"
                             : port.link_layer == "Ethernet" ? "RoCE"
                                                             : port.link_layer;
    const KernelDevice* kernel = in_kernel(device.name);
    std::string text = card.empty() ? kind : fmt::format("{} on {}", kind, card);
    if (!port.state.empty()) text += ", " + port.state;
    if (port.mtu_bytes != 0) text += fmt::format(", MTU {}", port.mtu_bytes);
    if (kernel != nullptr && kernel->gigabits_per_second > 0 && !soft(device.name)) {
      text += fmt::format(", {:g} Gbit/s", kernel->gigabits_per_second);
    }
    return text;
  }

  /// Why this GID is used or not used.
  [[nodiscard]] static std::string verdict(const VerbsDevice& device, const VerbsDevice::Port& port,
                                           const VerbsDevice::Gid& gid) {
    if (is_address_of(gid, port)) {
      return is_ipv4(gid) ? "yes, the first IPv4 address of RoCEv2" : "yes, the first address of RoCEv2";
    }
    if (port.link_layer != "Ethernet" || device.transport == "iWARP") return "the connection manager chooses";
    if (gid.type != "RoCEv2") return "no, RoCEv2 only, which is routed";
    if (is_link_local(gid)) return "no, link-local, not unique to one card";
    return is_ipv4(gid) ? "no, another one comes first" : "no, an IPv4 address or another comes first";
  }

  void mend_port(const VerbsDevice& device, const VerbsDevice::Port& port, Finding& finding) const {
    const std::string card = interface_of(device, port);
    const NetworkInterface* found = interface(card);
    if (port.state != "active") {
      if (port.link_layer == "InfiniBand" && port.state == "initializing") {
        finding.remedies.push_back({"no subnet manager has answered; start one, on one host of the network",
                                    {as_root("systemctl start opensm")}});
      } else if (found != nullptr && found->up && !found->carrier) {
        finding.remedies.push_back({fmt::format("{} is up but has no carrier: put the cable in", card), {}});
      } else if (!card.empty()) {
        finding.remedies.push_back(
            {"bring its network interface up", {as_root(fmt::format("ip link set {} up", card))}});
      } else {
        finding.remedies.push_back({"put the cable in, and bring its network interface up", {"rdma link"}});
      }
      return;
    }
    const auto is_v2 = [](const VerbsDevice::Gid& gid) { return gid.type == "RoCEv2"; };
    if (!port.gids.empty() && std::ranges::none_of(port.gids, is_v2)) {
      finding.details.emplace_back(
          "RoCEv1 only, which Verbena does not use: the adapter or its driver's setting is old");
      if (!card.empty()) finding.remedies.push_back(add_soft_roce(card));
      return;
    }
    if (in_container()) {
      finding.details.emplace_back(
          "the addresses of a device are those of its interface, which is the host's");
      finding.remedies.push_back(start_container());
      return;
    }
    finding.remedies.push_back(
        {"give it an address that no other host of your network has, such as",
         {as_root(fmt::format("ip address add 192.168.77.1/24 dev {}", card.empty() ? "eth0" : card))}});
  }

  void soft_roce() {
    const bool useful = !result_.choice && !has_candidate();
    const Level level = useful ? Level::kProblem : Level::kOk;
    if (host_.rdma_rxe.loaded || host_.rdma_rxe.available) {
      Finding& finding = add(
          "soft-RoCE", level,
          host_.rdma_rxe.loaded ? "rdma_rxe is loaded" : "rdma_rxe comes with this kernel, is not loaded");
      if (!useful) return;
      finding.text += "; no network card has it yet";
      if (in_container()) {
        finding.remedies = add_soft_roce_outside();
      } else if (const NetworkInterface* card = best_card()) {
        finding.remedies.push_back(add_soft_roce(card->name));
      } else {
        finding.details.emplace_back("and there is no network card to put it on");
      }
      return;
    }
    Finding& finding = add("soft-RoCE", level, "");
    if (host_.module_tree) {
      finding.text =
          fmt::format("rdma_rxe is not among the modules of this kernel, {}", host_.kernel_release);
    } else {
      finding.text = fmt::format("rdma_rxe is not loaded, and there are no modules of this kernel, {}",
                                 host_.kernel_release);
    }
    if (useful) mend_missing_module(finding);
  }

  void mend_missing_module(Finding& finding) const {
    if (host_.wsl) {
      finding.details.emplace_back(
          "the kernel of the Windows Subsystem for Linux is made without it; use shared memory, or Linux "
          "in a virtual machine");
      return;
    }
    if (in_container()) {
      finding.details.emplace_back("a container sees the modules of its host only when they are loaded");
      finding.remedies = add_soft_roce_outside();
      return;
    }
    const NetworkInterface* card = best_card();
    const bool cloud_kernel = host_.kernel_release.find("-cloud-") != std::string::npos;
    if (!host_.module_tree && host_.other_module_trees) {
      finding.remedies.push_back(
          {"the running kernel is not the one that is installed (an update?): start anew",
           {as_root("reboot")}});
    } else if (of_family({"ubuntu"})) {
      finding.remedies.push_back(
          {"install it",
           {as_root(fmt::format("apt-get install linux-modules-extra-{}", host_.kernel_release))}});
    } else if (of_family({"debian"})) {
      finding.remedies.push_back(
          {cloud_kernel ? "install Debian's full kernel instead of the cloud one, and start that"
                        : "install Debian's own kernel, and start that",
           {as_root("apt-get install linux-image-$(dpkg --print-architecture)"), as_root("reboot")}});
    } else if (of_family({"fedora", "rhel", "centos"})) {
      finding.remedies.push_back(
          {"install it",
           {as_root(fmt::format("dnf install kernel-modules-extra-{}", host_.kernel_release))}});
    } else {
      finding.remedies.push_back({"start a kernel that was made with CONFIG_RDMA_RXE", {}});
    }
    if (card != nullptr) finding.remedies.push_back(add_soft_roce(card->name));
  }

  // ---- the choice

  void choice() {
    if (!result_.choice) return;
    const VerbsDevice& device = *chosen_device();
    const VerbsDevice::Port& port = *chosen_port();
    for (const VerbsDevice::Gid& gid : port.gids) {
      if (is_address_of(gid, port)) {
        result_.gid = fmt::format("{} ({} {})", gid.index, gid.type, gid.text);
        break;
      }
    }
    std::vector<std::pair<const VerbsDevice*, const VerbsDevice::Port*>> others;
    for (const VerbsDevice& each : verbs_.devices) {
      for (const VerbsDevice::Port& other : each.ports) {
        if (&other != &port && verbs_obstacle(facts_.wanted, each, other).empty())
          others.emplace_back(&each, &other);
      }
    }
    const bool asked = !facts_.wanted.device.empty() || facts_.wanted.port != 0;
    result_.choice_reason = asked            ? "as asked for"
                            : others.empty() ? "the only one that can be used"
                                             : "the first that can be used";
    for (const auto& [each, other] : others) {
      const std::string what = better(device, *each);
      if (what.empty() || asked) continue;
      Finding& finding =
          add("choice", Level::kWarning,
              fmt::format("{} port {} {}, but {} comes first", each->name, other->number, what, device.name));
      finding.remedies.push_back(
          {"try that one; a job takes the same two options",
           {fmt::format("verbena doctor --device {} --device-port {}", each->name, other->number)}});
      return;
    }
    const NetworkInterface* card = interface(interface_of(device, port));
    if (card != nullptr && card->ethernet && !card->physical && !asked) {
      add("choice", Level::kWarning,
          fmt::format("{} is on {}, which is no network card; other hosts may not reach it", device.name,
                      card->name));
    }
  }

  /// What makes `other` the better device; empty: nothing.
  [[nodiscard]] std::string better(const VerbsDevice& device, const VerbsDevice& other) const {
    if (soft(device.name) && !soft(other.name)) return "is an adapter, not soft-RoCE";
    const KernelDevice* ours = in_kernel(device.name);
    const KernelDevice* theirs = in_kernel(other.name);
    if (ours == nullptr || theirs == nullptr || ours->gigabits_per_second <= 0 || soft(other.name)) return "";
    if (theirs->gigabits_per_second <= ours->gigabits_per_second) return "";
    return fmt::format("is faster ({:g} Gbit/s, not {:g})", theirs->gigabits_per_second,
                       ours->gigabits_per_second);
  }

  void connection_manager() {
    // Without a device, the connection manager cannot be used in any case.
    if (!verbs_.connection_manager || verbs_.devices.empty()) return;
    if (verbs_.connection_manager->ok()) {
      add("connections", Level::kOk, "the RDMA connection manager can be used");
      ipoib();
      return;
    }
    Finding& finding = add("connections", Level::kProblem, std::string(verbs_.connection_manager->message()));
    if (!host_.rdma_ucm.loaded) {
      finding.remedies.push_back(load_module("rdma_ucm", "load its module"));
    }
    if (!host_.connection_manager_there && in_container()) finding.remedies.push_back(start_container());
    if (host_.connection_manager_there && !in_container() && !host_.root) {
      finding.remedies.push_back({"open it to all users", {as_root("chmod a+rw /dev/infiniband/rdma_cm")}});
    }
  }

  /// On InfiniBand, peers are found by the IP addresses of an interface that runs over it.
  void ipoib() {
    const VerbsDevice::Port* port = chosen_port();
    if (port == nullptr || port->link_layer != "InfiniBand") return;
    const bool there = std::ranges::any_of(
        host_.interfaces, [](const NetworkInterface& each) { return each.ipoib && each.up; });
    if (there) return;
    add("IPoIB", Level::kWarning, "no IP over InfiniBand is up, by whose addresses peers are found")
        .remedies.push_back({"set it up; the address must be free in your network",
                             {as_root("modprobe ib_ipoib"), as_root("ip link set ib0 up"),
                              as_root("ip address add 192.168.77.1/24 dev ib0")}});
  }

  void path_mtu() {
    const VerbsDevice::Port* port = chosen_port();
    if (port == nullptr || port->link_layer != "Ethernet" || chosen_device()->transport == "iWARP") return;
    const std::string card = interface_of(*chosen_device(), *port);
    if (port->mtu_bytes >= kBestMtuBytes || port->mtu_bytes >= port->max_mtu_bytes) {
      add("path MTU", Level::kOk, fmt::format("{} bytes, the most that there is", port->mtu_bytes));
      return;
    }
    Finding& finding = add(
        "path MTU", port->mtu_bytes < kUsualMtuBytes ? Level::kWarning : Level::kNote,
        fmt::format("{} bytes; up to {} make large transfers faster", port->mtu_bytes, port->max_mtu_bytes));
    if (const NetworkInterface* found = interface(card)) {
      finding.details.push_back(fmt::format("it follows from the {} bytes of {}", found->mtu_bytes, card));
      finding.remedies.push_back(
          {"on every host and switch between them",
           {as_root(fmt::format("ip link set {} mtu {}", card, kBestEthernetMtuBytes))}});
    }
  }

  // ---- memory

  void locked_memory() {
    if (!host_.locked_bytes_limit) {
      add("locked memory", Level::kOk, "unlimited");
      return;
    }
    const std::uint64_t limit = *host_.locked_bytes_limit;
    if (host_.may_lock_memory) {
      add("locked memory", Level::kOk,
          fmt::format("limited to {}, but not for this process (CAP_IPC_LOCK)", format_bytes(limit)));
      return;
    }
    const bool refused = facts_.verbs_trial && absl::IsResourceExhausted(facts_.verbs_trial->status);
    const bool too_little = facts_.verbs_trial ? refused : limit < kLeastLockedBytes;
    Finding& finding = add("locked memory", too_little ? Level::kProblem : Level::kWarning,
                           fmt::format("limited to {}", format_bytes(limit)));
    finding.text += too_little ? ", which is too little" : ", which is soon used up";
    finding.details.emplace_back(
        "all that a peer may read or write is locked: tables, caches, and 0.6 MiB for each connection");
    finding.remedies = raise_locked_memory();
  }

  [[nodiscard]] std::vector<Remedy> raise_locked_memory() const {
    const std::uint64_t limit = *host_.locked_bytes_limit;
    if (!host_.locked_bytes_hard_limit) return {{"in this shell, before the job", {"ulimit -l unlimited"}}};
    std::vector<Remedy> remedies;
    if (*host_.locked_bytes_hard_limit > limit) {
      remedies.push_back({"in this shell, as far as this user may",
                          {fmt::format("ulimit -l {}", *host_.locked_bytes_hard_limit >> 10U)}});
    }
    if (in_container()) {
      remedies.push_back(start_container());
      return remedies;
    }
    remedies.push_back({"in this shell, at once", {as_root("prlimit --pid $$ --memlock=unlimited")}});
    remedies.push_back({"for every user, from the next login",
                        {fmt::format("echo '* - memlock unlimited' | {}",
                                     as_root("tee /etc/security/limits.d/90-memlock.conf"))}});
    remedies.push_back(
        {"a service of systemd takes LimitMEMLOCK=infinity instead, Slurm "
         "PropagateResourceLimitsExcept=MEMLOCK",
         {}});
    return remedies;
  }

  void huge_pages() {
    const std::string reserved = host_.huge_pages == 0
                                     ? "none reserved, none needed"
                                     : fmt::format("{} of {} reserved, not needed", host_.huge_pages,
                                                   format_bytes(host_.huge_page_bytes));
    const bool always = host_.transparent_huge_pages.empty() || host_.transparent_huge_pages == "always";
    if (always || !result_.choice) {
      add("huge pages", Level::kOk, reserved);
      return;
    }
    add("huge pages", Level::kNote,
        fmt::format("{}; transparent ones are set to {}", reserved, host_.transparent_huge_pages))
        .remedies.push_back(
            {"spares an adapter translations of addresses in large tables",
             {fmt::format("echo always | {}", as_root("tee /sys/kernel/mm/transparent_hugepage/enabled"))}});
  }

  // ---- trials

  void verbs_trial() {
    const bool manager = verbs_.connection_manager && verbs_.connection_manager->ok();
    if (!facts_.verbs_trial) return;
    const Trial& trial = *facts_.verbs_trial;
    if (!trial.status.ok()) {
      add("verbs", Level::kProblem, fmt::format("tried, and failed when {}", trial.step))
          .details.emplace_back(trial.status.message());
      return;
    }
    result_.verbs = result_.choice && manager;
    add("verbs", Level::kOk, fmt::format("tried, up to {}", trial.step));
  }

  void tcp() {
    const Trial& trial = facts_.tcp_trial;
    result_.tcp = trial.status.ok();
    if (trial.status.ok()) {
      add("tcp", Level::kOk,
          "tried, works; between hosts of which one has no RDMA device, a job takes it, over up to 4 "
          "streams a connection (--streams)");
      return;
    }
    add("tcp", Level::kProblem, fmt::format("tried, and failed when {}", trial.step))
        .details.emplace_back(trial.status.message());
  }

  void shared_memory() {
    const Trial& trial = facts_.shm_trial;
    result_.shared_memory = trial.status.ok();
    if (trial.status.ok()) {
      add("shared memory", Level::kOk,
          "tried, works; for workers and servers on this host nothing else is needed");
      return;
    }
    add("shared memory", Level::kProblem, fmt::format("tried, and failed when {}", trial.step))
        .details.emplace_back(trial.status.message());
  }

  const Facts& facts_;
  const Host& host_;
  const transport::VerbsSurvey& verbs_;
  Diagnosis result_;
};

}  // namespace

std::string_view to_string(Finding::Level level) {
  switch (level) {
    case Level::kOk:
      return "ok";
    case Level::kNote:
      return "note";
    case Level::kWarning:
      return "warning";
    case Level::kProblem:
      return "problem";
  }
  return "";
}

std::optional<PortChoice> choose_port(const transport::VerbsSurvey& verbs,
                                      const transport::VerbsOptions& wanted) {
  for (std::size_t device = 0; device < verbs.devices.size(); ++device) {
    const std::vector<VerbsDevice::Port>& ports = verbs.devices[device].ports;
    for (std::size_t port = 0; port < ports.size(); ++port) {
      if (verbs_obstacle(wanted, verbs.devices[device], ports[port]).empty()) return PortChoice{device, port};
    }
  }
  return std::nullopt;
}

Diagnosis diagnose(const Facts& facts) {
  return Examination(facts).diagnose();
}

}  // namespace verbena::apps::doctor
