// What the kernel's files tell of this host: its network, its limits, its kernel modules, the container
// around.
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
  bool physical = false;  ///< of a card, not a bridge, a tunnel or the like
  bool up = false;
  bool carrier = false;  ///< the cable is in
  bool default_route = false;
  std::uint32_t mtu_bytes = 0;
};

/// An RDMA device as the kernel shows it, whether or not libibverbs can use it.
struct KernelDevice {
  std::string name;
  std::string parent;  ///< of a soft-RoCE device its network interface; empty: an adapter
  std::string node;    ///< in /dev/infiniband, such as "uverbs0"; empty if ib_uverbs has none for it
  bool node_there = false;
  bool node_open = false;          ///< to this user
  std::string other_kind;          ///< what it is if neither InfiniBand, RoCE nor iWARP; empty: one of them
  double gigabits_per_second = 0;  ///< of the fastest port; 0: unknown
};

/// An adapter whose network driver is loaded, but not the one that does RDMA.
struct SleepingAdapter {
  std::string network_driver;
  std::string rdma_driver;
};

struct Host {
  std::string kernel_release;
  std::string distribution;         ///< such as "debian"
  std::vector<std::string> family;  ///< it, and what it is made from
  std::string distribution_name;    ///< for people
  bool wsl = false;                 ///< Windows Subsystem for Linux

  bool module_tree = false;         ///< there is one for this kernel
  bool other_module_trees = false;  ///< there are some for others
  KernelModule rdma_rxe, ib_uverbs, rdma_ucm;
  std::vector<SleepingAdapter> sleeping_adapters;
  bool rdma_tool = false;      ///< the program `rdma` is installed
  bool modprobe_tool = false;  ///< the program `modprobe` is installed

  std::string container;  ///< "docker", "podman", "kubernetes", "lxc", …; empty: none that can be seen
  bool user_namespace = false;  ///< root here is not root of the host
  bool seccomp = false;         ///< system calls are filtered
  bool root = false;
  bool may_lock_memory = false;  ///< any amount (CAP_IPC_LOCK that counts with the host)
  bool rdma_namespaces = false;  ///< a device is seen by its own network namespace only

  std::optional<std::uint64_t> locked_bytes_limit;       ///< nullopt: unlimited
  std::optional<std::uint64_t> locked_bytes_hard_limit;  ///< to which this user may raise it
  std::uint64_t huge_page_bytes = 0;
  std::uint64_t huge_pages = 0;
  std::uint64_t huge_pages_free = 0;
  std::string transparent_huge_pages;  ///< "always", "madvise", "never"; empty: unknown

  std::vector<NetworkInterface> interfaces;
  std::vector<KernelDevice> devices;
  bool connection_manager_there = false;  ///< /dev/infiniband/rdma_cm
};

/// Reads below `root`; the root differs in tests only. What is not there is left as above.
Host look_at_host(const std::filesystem::path& root = "/");

}  // namespace verbena::apps::doctor
