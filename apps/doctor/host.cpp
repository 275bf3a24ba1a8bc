#include "apps/doctor/host.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <utility>

#include "transport/verbs/adapter_kind.hpp"

namespace verbena::apps::doctor {
namespace {

namespace fs = std::filesystem;

constexpr int kEthernet = 1;            // ARPHRD_ETHER
constexpr int kInfiniBand = 32;         // ARPHRD_INFINIBAND
constexpr int kFirstOtherNodeType = 5;  // after channel adapters, switches, routers and iWARP
constexpr unsigned kInterfaceUp = 1;    // IFF_UP
constexpr unsigned kIpcLock = 14;       // CAP_IPC_LOCK

/// Drivers of adapters whose network driver may be loaded without the driver for RDMA: both names.
constexpr std::array<std::pair<const char*, const char*>, 7> kDriverPairs{{{"mlx5_core", "mlx5_ib"},
                                                                           {"mlx4_core", "mlx4_ib"},
                                                                           {"bnxt_en", "bnxt_re"},
                                                                           {"cxgb4", "iw_cxgb4"},
                                                                           {"qede", "qedr"},
                                                                           {"hns3", "hns_roce_hw_v2"},
                                                                           {"ice", "irdma"}}};

std::string text_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::string line_of(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

template <class Number>
Number number(std::string_view text, int base = 10) {
  Number value{};
  if constexpr (std::is_floating_point_v<Number>) {
    std::from_chars(text.data(), text.data() + text.size(), value);
  } else {
    std::from_chars(text.data(), text.data() + text.size(), value, base);
  }
  return value;
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

/// Names in a folder, sorted; none if the folder does not exist.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    names.push_back(entry->path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

/// The entries of a file of lines "NAME: value" or "NAME=value", quotes removed.
std::map<std::string, std::string> entries_of(const fs::path& file, char separator) {
  std::map<std::string, std::string> entries;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    const std::size_t at = line.find(separator);
    if (at == std::string::npos) continue;
    std::string value = line.substr(at + 1);
    value.erase(0, value.find_first_not_of(" \t"));
    value.erase(std::remove(value.begin(), value.end(), '"'), value.end());
    entries[line.substr(0, at)] = value;
  }
  return entries;
}

// ---- kernel and distribution

void look_at_distribution(const fs::path& root, Host& host) {
  auto release = entries_of(root / "etc/os-release", '=');
  host.distribution = release["ID"];
  host.distribution_name = release["PRETTY_NAME"];
  host.family = words_of(host.distribution + " " + release["ID_LIKE"]);
}

bool on_path(const fs::path& root, const char* program) {
  for (const char* folder : {"usr/sbin", "usr/bin", "sbin", "bin", "usr/local/sbin", "usr/local/bin"}) {
    if (is_there(root / folder / program)) return true;
  }
  return false;
}

/// Looks for ".../NAME.ko", compressed or not, in what depmod and the kernel's build left there.
bool module_listed(const fs::path& tree, const std::string& name) {
  for (const char* list : {"modules.dep", "modules.builtin"}) {
    std::ifstream stream(tree / list);
    for (std::string line; std::getline(stream, line);) {
      const std::string path = line.substr(0, line.find(':'));
      if (fs::path(path).filename().string().starts_with(name + ".ko")) return true;
    }
  }
  return false;
}

void look_at_kernel(const fs::path& root, Host& host) {
  host.kernel_release = line_of(root / "proc/sys/kernel/osrelease");
  std::string lower = host.kernel_release;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  host.wsl = lower.find("microsoft") != std::string::npos;

  const fs::path trees = is_there(root / "lib/modules") ? root / "lib/modules" : root / "usr/lib/modules";
  for (const std::string& tree : names_in(trees)) {
    (tree == host.kernel_release ? host.module_tree : host.other_module_trees) = true;
  }
  const auto module = [&](const std::string& name) {
    return KernelModule{.loaded = is_there(root / "sys/module" / name),
                        .available = module_listed(trees / host.kernel_release, name)};
  };
  host.rdma_rxe = module("rdma_rxe");
  host.ib_uverbs = module("ib_uverbs");
  host.rdma_ucm = module("rdma_ucm");
  for (const auto& [network, rdma] : kDriverPairs) {
    if (module(network).loaded && !module(rdma).loaded) host.sleeping_adapters.push_back({network, rdma});
  }
  host.rdma_tool = on_path(root, "rdma");
  host.modprobe_tool = on_path(root, "modprobe");
}

// ---- container and limits

std::string container_of(const fs::path& root) {
  if (is_there(root / "var/run/secrets/kubernetes.io") || is_there(root / "run/secrets/kubernetes.io")) {
    return "kubernetes";
  }
  if (is_there(root / "run/.containerenv")) return "podman";
  if (is_there(root / ".dockerenv")) return "docker";
  if (const std::string manager = line_of(root / "run/systemd/container"); !manager.empty()) return manager;
  const std::string groups = text_of(root / "proc/1/cgroup");
  for (const auto& [part, name] : {std::pair{"/kubepods", "kubernetes"},
                                   {"/docker", "docker"},
                                   {"/libpod", "podman"},
                                   {"/lxc", "lxc"}}) {
    if (groups.find(part) != std::string::npos) return name;
  }
  return "";
}

std::optional<std::uint64_t> limit(const std::string& text) {
  if (text == "unlimited") return std::nullopt;
  return number<std::uint64_t>(text);
}

void look_at_process(const fs::path& root, Host& host) {
  host.container = container_of(root);
  auto status = entries_of(root / "proc/self/status", ':');
  const std::vector<std::string> users = words_of(status["Uid"]);
  host.root = users.size() > 1 && users[1] == "0";
  host.seccomp = number<int>(status["Seccomp"]) != 0;
  // All of them mapped to themselves: no namespace.
  const std::vector<std::string> map = words_of(line_of(root / "proc/self/uid_map"));
  host.user_namespace = map.size() == 3 && map != std::vector<std::string>{"0", "0", "4294967295"};
  const auto capabilities = number<std::uint64_t>(status["CapEff"], 16);
  host.may_lock_memory = (capabilities >> kIpcLock & 1U) != 0 && !host.user_namespace;

  std::ifstream limits(root / "proc/self/limits");
  for (std::string line; std::getline(limits, line);) {
    const std::string name = "Max locked memory";
    if (!line.starts_with(name)) continue;
    const std::vector<std::string> values = words_of(line.substr(name.size()));
    if (values.size() < 2) continue;
    host.locked_bytes_limit = limit(values[0]);
    host.locked_bytes_hard_limit = limit(values[1]);
  }

  auto memory = entries_of(root / "proc/meminfo", ':');
  host.huge_page_bytes = number<std::uint64_t>(memory["Hugepagesize"]) << 10U;
  host.huge_pages = number<std::uint64_t>(memory["HugePages_Total"]);
  host.huge_pages_free = number<std::uint64_t>(memory["HugePages_Free"]);
  const std::string modes = line_of(root / "sys/kernel/mm/transparent_hugepage/enabled");  // always [never]
  const std::size_t begin = modes.find('[');
  const std::size_t end = modes.find(']');
  if (begin != std::string::npos && end != std::string::npos) {
    host.transparent_huge_pages = modes.substr(begin + 1, end - begin - 1);
  }
}

// ---- network and devices

/// The interface of the default route with the lowest metric.
std::string default_route_of(const fs::path& root) {
  std::string best;
  auto best_metric = UINT64_MAX;
  std::ifstream routes(root / "proc/net/route");
  for (std::string line; std::getline(routes, line);) {
    const std::vector<std::string> words =
        words_of(line);  // interface destination gateway flags … metric mask
    if (words.size() < 8 || words[1] != "00000000" || words[7] != "00000000") continue;
    const auto metric = number<std::uint64_t>(words[6]);
    if (metric >= best_metric) continue;
    best = words[0];
    best_metric = metric;
  }
  return best;
}

void look_at_network(const fs::path& root, Host& host) {
  const std::string default_route = default_route_of(root);
  const fs::path interfaces = root / "sys/class/net";
  for (const std::string& name : names_in(interfaces)) {
    const fs::path folder = interfaces / name;
    const int type = number<int>(line_of(folder / "type"));
    const std::string flags = line_of(folder / "flags");  // 0x1003
    const bool up = flags.size() > 2 && (number<unsigned>(flags.substr(2), 16) & kInterfaceUp) != 0;
    host.interfaces.push_back({.name = name,
                               .ethernet = type == kEthernet,
                               .ipoib = type == kInfiniBand,
                               .physical = is_there(folder / "device"),
                               .up = up,
                               .carrier = up && line_of(folder / "carrier") == "1",
                               .default_route = name == default_route,
                               .mtu_bytes = number<std::uint32_t>(line_of(folder / "mtu"))});
  }
}

void look_at_devices(const fs::path& root, Host& host) {
  const fs::path nodes = root / "dev/infiniband";
  std::map<std::string, std::string> node_of;  // by device
  for (const std::string& node : names_in(root / "sys/class/infiniband_verbs")) {
    const std::string device = line_of(root / "sys/class/infiniband_verbs" / node / "ibdev");
    if (!device.empty()) node_of[device] = node;
  }
  const fs::path devices = root / "sys/class/infiniband";
  for (const std::string& name : names_in(devices)) {
    KernelDevice device{.name = name, .parent = line_of(devices / name / "parent"), .node = node_of[name]};
    if (!device.node.empty()) {
      device.node_there = is_there(nodes / device.node);
      device.node_open = ::access((nodes / device.node).c_str(), R_OK | W_OK) == 0;
    }
    const std::string node_type =
        line_of(devices / name / "node_type");  // "1: CA", "4: RNIC", "7: unspecified"
    if (!node_type.empty() && number<int>(node_type) >= kFirstOtherNodeType) {
      device.other_kind = transport::verbs::other_adapter(transport::verbs::kernel_driver(devices / name));
    }
    for (const std::string& port : names_in(devices / name / "ports")) {
      const auto rate = number<double>(line_of(devices / name / "ports" / port / "rate"));  // "100 Gb/sec (…"
      device.gigabits_per_second = std::max(device.gigabits_per_second, rate);
    }
    host.devices.push_back(std::move(device));
  }
  host.connection_manager_there = is_there(nodes / "rdma_cm");
  host.rdma_namespaces = line_of(root / "sys/module/ib_core/parameters/netns_mode") == "N";
}

}  // namespace

Host look_at_host(const fs::path& root) {
  Host host;
  look_at_distribution(root, host);
  look_at_kernel(root, host);
  look_at_process(root, host);
  look_at_network(root, host);
  look_at_devices(root, host);
  return host;
}

}  // namespace verbena::apps::doctor
