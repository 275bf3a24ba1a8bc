// What the kernel's files say about this host: its network, limits and kernel modules, and the container
// around it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace verbena::apps::doctor {

struct KernelModule {
  bool loaded = false;     ///< or built in
  bool available = false;  ///< modprobe would find it
};

struct NetworkInterface {
  std::string name;
  bool ethernet = false;  ///< Wi-Fi, too; soft-RoCE can be put on it
  bool ipoib = false;     ///< IP over InfiniBand
  bool physical = false;  ///< belongs to a card, not to a bridge, a tunnel or similar
  bool up = false;
  bool carrier = false;  ///< the cable is connected
  bool default_route = false;
  std::uint32_t mtu_bytes = 0;
};

/// An RDMA device as the kernel shows it, whether or not libibverbs can use it.
struct KernelDevice {
  std::string name;
  std::string parent;  ///< the network interface of a soft-RoCE device; empty: an adapter
  std::string node;    ///< in /dev/infiniband, such as "uverbs0"; empty if ib_uverbs has none for it
  bool node_there = false;
  bool node_open = false;          ///< this user may open it
  std::string other_kind;          ///< what it is if neither InfiniBand, RoCE nor iWARP; empty: one of them
  double gigabits_per_second = 0;  ///< rate of the fastest port; 0: unknown
};

/// An adapter whose network driver is loaded, but not the one that does RDMA.
struct SleepingAdapter {
  std::string network_driver;
  std::string rdma_driver;
};

/// One member for each thing that the doctor looks at; all are facts, and none follows from another.
struct Host {
  std::string kernel_release;
  std::string distribution;         ///< such as "debian"
  std::vector<std::string> family;  ///< the distribution, and those that it is based on
  std::string distribution_name;    ///< for people
  bool wsl = false;                 ///< Windows Subsystem for Linux

  bool module_tree = false;         ///< there is a module tree for this kernel
  bool other_module_trees = false;  ///< there are module trees for other kernels
  KernelModule rdma_rxe, ib_uverbs, rdma_ucm;
  std::vector<SleepingAdapter> sleeping_adapters;
  bool rdma_tool = false;      ///< the program `rdma` is installed
  bool modprobe_tool = false;  ///< the program `modprobe` is installed

  std::string container;  ///< "docker", "podman", "kubernetes", "lxc", …; empty: none that can be seen
  bool user_namespace = false;  ///< root here is not root of the host
  bool seccomp = false;         ///< system calls are filtered
  bool root = false;
  bool may_lock_memory = false;  ///< any amount (CAP_IPC_LOCK that is valid on the host)
  bool rdma_namespaces = false;  ///< only its own network namespace sees a device

  std::optional<std::uint64_t> locked_bytes_limit;       ///< nullopt: unlimited
  std::optional<std::uint64_t> locked_bytes_hard_limit;  ///< this user may raise the limit to it
  std::uint64_t huge_page_bytes = 0;
  std::uint64_t huge_pages = 0;
  std::uint64_t huge_pages_free = 0;
  std::string transparent_huge_pages;  ///< "always", "madvise", "never"; empty: unknown

  std::vector<NetworkInterface> interfaces;
  std::vector<KernelDevice> devices;
  bool connection_manager_there = false;  ///< /dev/infiniband/rdma_cm
};

/// Reads below `root`; only tests use another root. A field keeps its default above if its file is not there.
Host look_at_host(const std::filesystem::path& root = "/");

}  // namespace verbena::apps::doctor
