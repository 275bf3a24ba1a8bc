#include "transport/verbs/device.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <net/if.h>
#include <netinet/in.h>
#include <spdlog/spdlog.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "base/return_if_error.hpp"
#include "transport/verbs/adapter_kind.hpp"
#include "transport/verbs/errors.hpp"
#include "transport/verbs/network_interface.hpp"

namespace verbena::transport::verbs {

namespace {

constexpr std::uint32_t kMostReadsAtOnce = 128;  // the connection manager counts them in a byte

// ---- looking around

class DeviceList {
 public:
  explicit DeviceList(const VerbsApi& api) : api_(api), devices_(api.get_device_list(&count_)) {
    if (devices_ == nullptr) error_ = errno;
  }
  ~DeviceList() {
    if (devices_ != nullptr) api_.free_device_list(devices_);
  }
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;

  [[nodiscard]] absl::Status status() const {
    if (devices_ != nullptr) return absl::OkStatus();
    return absl::UnavailableError(
        fmt::format("{}; is the kernel module ib_uverbs loaded (modprobe ib_uverbs) and /dev/infiniband in "
                    "this container?",
                    errno_text(error_, "RDMA devices cannot be listed")));
  }
  [[nodiscard]] std::span<ibv_device* const> devices() const {
    return {devices_, static_cast<std::size_t>(count_)};
  }

 private:
  const VerbsApi& api_;
  int count_ = 0;
  ibv_device** devices_;
  int error_ = 0;
};

std::string state_name(ibv_port_state state) {
  switch (state) {
    case IBV_PORT_DOWN:
      return "down";
    case IBV_PORT_INIT:
      return "initializing";
    case IBV_PORT_ARMED:
      return "armed";
    case IBV_PORT_ACTIVE:
      return "active";
    default:
      return "unknown";
  }
}

std::string gid_type_name(std::uint32_t type) {
  return type == IBV_GID_TYPE_ROCE_V2 ? "RoCEv2" : type == IBV_GID_TYPE_ROCE_V1 ? "RoCEv1" : "InfiniBand";
}

const in6_addr& as_ipv6(const ibv_gid& gid) {
  return reinterpret_cast<const in6_addr&>(gid);
}

bool is_ipv4(const ibv_gid& gid) {
  return IN6_IS_ADDR_V4MAPPED(&as_ipv6(gid)) != 0;
}

std::string gid_text(const ibv_gid& gid) {
  char text[INET6_ADDRSTRLEN] = "";
  if (is_ipv4(gid)) {
    ::inet_ntop(AF_INET, gid.raw + 12, text, sizeof(text));
  } else {
    ::inet_ntop(AF_INET6, gid.raw, text, sizeof(text));
  }
  return text;
}

std::string interface_name(std::uint32_t index) {
  char name[IF_NAMESIZE] = "";
  return index != 0 && ::if_indextoname(index, name) != nullptr ? name : "";
}

/// Fills in the GIDs and the address. The address is a RoCEv2 GID that is not link-local, preferably an IPv4
/// address.
void query_gids(const VerbsApi& api, ibv_context* context, int table_length, VerbsDevice::Port& port) {
  bool found_ipv4 = false;
  for (int index = 0; index < table_length; ++index) {
    ibv_gid_entry entry{};
    const auto position = static_cast<std::uint32_t>(index);
    if (api.query_gid(context, port.number, position, &entry, 0, sizeof(entry)) != 0) continue;
    port.gids.push_back({.index = position,
                         .type = gid_type_name(entry.gid_type),
                         .text = gid_text(entry.gid),
                         .interface = interface_name(entry.ndev_ifindex)});
    const bool usable =
        entry.gid_type == IBV_GID_TYPE_ROCE_V2 && IN6_IS_ADDR_LINKLOCAL(&as_ipv6(entry.gid)) == 0;
    if (!usable || found_ipv4) continue;
    if (!is_ipv4(entry.gid) && !port.address.empty()) continue;
    port.address = port.gids.back().text;
    found_ipv4 = is_ipv4(entry.gid);
  }
}

VerbsDevice::Port inspect_port(const VerbsApi& api, ibv_context* context, std::uint8_t number) {
  VerbsDevice::Port port{.number = number};
  ibv_port_attr attributes{};
  if (const int error = api.query_port(context, number, &attributes); error != 0) {
    port.obstacle = errno_text(error, "the port cannot be queried");
    return port;
  }
  const bool ethernet = attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
  const bool iwarp = context->device->transport_type == IBV_TRANSPORT_IWARP;
  port.state = state_name(attributes.state);
  port.link_layer = ethernet ? "Ethernet" : "InfiniBand";
  port.mtu_bytes = 128U << static_cast<unsigned>(attributes.active_mtu);
  port.max_mtu_bytes = 128U << static_cast<unsigned>(attributes.max_mtu);
  query_gids(api, context, attributes.gid_tbl_len, port);
  // The GIDs of InfiniBand and iWARP are not addresses by which the connection manager finds a peer.
  if (port.address.empty() && (!ethernet || iwarp))
    port.address = interface_address(context->device->name, number);
  if (attributes.state != IBV_PORT_ACTIVE) {
    port.obstacle = fmt::format("the port is {}: is its network interface up and the cable in?", port.state);
  } else if (ethernet && !iwarp && port.address.empty()) {
    port.obstacle =
        "it has no RoCEv2 address but link-local ones: give its network interface an IPv4 address";
  }
  return port;
}

VerbsDevice inspect(const VerbsApi& api, ibv_device* device) {
  VerbsDevice report{.name = device->name};
  if (device->transport_type != IBV_TRANSPORT_IB && device->transport_type != IBV_TRANSPORT_IWARP) {
    const std::string driver = kernel_driver(device->ibdev_path);
    report.transport = other_adapter(driver);
    report.obstacle = no_reliable_connections(driver);
    return report;
  }
  report.transport = device->transport_type == IBV_TRANSPORT_IWARP ? "iWARP" : "InfiniBand";
  report.reliable_connections = true;
  ibv_context* context = api.open_device(device);
  if (context == nullptr) {
    report.obstacle = errno_text(errno, "it cannot be opened");
    return report;
  }
  ibv_device_attr attributes{};
  if (const int error = api.query_device(context, &attributes); error != 0) {
    report.obstacle = errno_text(error, "it cannot be queried");
  } else if (attributes.phys_port_cnt == 0) {
    report.obstacle = "it has no port";
  }
  report.windows = (attributes.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B) != 0;
  for (unsigned number = 1; number <= attributes.phys_port_cnt; ++number) {
    report.ports.push_back(inspect_port(api, context, static_cast<std::uint8_t>(number)));
  }
  api.close_device(context);
  return report;
}

constexpr std::string_view kNotWanted = "not the one asked for";

std::string device_obstacle(const VerbsOptions& options, const VerbsDevice& device) {
  const bool wanted = options.device.empty() || device.name == options.device;
  return wanted ? device.obstacle : std::string(kNotWanted);
}

/// The first port that can be used; for the ports that cannot, the reasons are appended to `obstacles`.
const VerbsDevice::Port* usable_port(const VerbsDevice& device, const VerbsOptions& options,
                                     std::string& obstacles) {
  if (device.ports.empty())
    obstacles += fmt::format("; {}: {}", device.name, device_obstacle(options, device));
  for (const VerbsDevice::Port& port : device.ports) {
    const std::string obstacle = verbs_obstacle(options, device, port);
    if (obstacle.empty()) return &port;
    obstacles += fmt::format("; {} port {}: {}", device.name, port.number, obstacle);
  }
  return nullptr;
}

absl::Status set_non_blocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags >= 0 && ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0) return absl::OkStatus();
  return errno_status(errno, "a device's event file cannot be made non-blocking");
}

}  // namespace

// ---- the device

absl::StatusOr<std::unique_ptr<Device>> Device::open(const std::shared_ptr<const VerbsApi>& api,
                                                     const VerbsOptions& options) {
  const DeviceList list(*api);
  if (!list.status().ok()) return list.status();
  std::string obstacles;
  for (ibv_device* each : list.devices()) {
    const VerbsDevice report = inspect(*api, each);
    const VerbsDevice::Port* port = usable_port(report, options, obstacles);
    if (port == nullptr) continue;
    ibv_context* context = api->open_device(each);
    if (context == nullptr) {
      const int error = errno;
      return errno_status(error, fmt::format("{} cannot be opened", report.name));
    }
    std::unique_ptr<Device> device(new Device(api, context));
    RETURN_IF_ERROR(device->set_up(options, port->number, port->address));
    return device;
  }
  const std::string wanted = options.device.empty() ? "" : fmt::format(" \"{}\"", options.device);
  return absl::UnavailableError(
      fmt::format("no usable RDMA device{}{}", wanted,
                  list.devices().empty() ? "; this host has none (rdma link add makes one of a network card)"
                                         : obstacles));
}

absl::Status Device::set_up(const VerbsOptions& options, std::uint8_t port, std::string address) {
  port_ = port;
  address_ = std::move(address);
  if (const int error = api_->query_device(context_, &attributes_); error != 0) {
    return errno_status(error, fmt::format("{} cannot be queried", name()));
  }
  ibv_port_attr port_attributes{};
  if (const int error = api_->query_port(context_, port_, &port_attributes); error != 0) {
    return errno_status(error, fmt::format("port {} of {} cannot be queried", port_, name()));
  }
  max_transfer_bytes_ = port_attributes.max_msg_sz;
  windows_ = (attributes_.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B) != 0;
  if (!windows_) {
    spdlog::info("{} has no memory windows: what is granted to one peer is open to all that know its key",
                 name());
  }

  const auto most_requests = static_cast<std::uint32_t>(std::max(attributes_.max_qp_wr, 0));
  if (most_requests < 16 + kReservedReceives) {
    return absl::UnavailableError(
        fmt::format("{} has queues of {} requests only; 20 are needed", name(), most_requests));
  }
  send_depth_ = std::min(options.send_depth, std::bit_floor(most_requests));
  receive_depth_ = std::min(options.receive_depth, most_requests - kReservedReceives);
  reads_at_once_ = static_cast<std::uint8_t>(std::clamp<int>(
      std::min(attributes_.max_qp_rd_atom, attributes_.max_qp_init_rd_atom), 1, kMostReadsAtOnce));
  const auto completions = static_cast<std::uint32_t>(std::max(attributes_.max_cqe, 0));
  while (send_depth_ > 16 && send_depth_ + receive_depth_ + kReservedReceives > completions) {
    send_depth_ /= 2;
    receive_depth_ = std::max(receive_depth_ / 2, 2U);
  }
  if (send_depth_ != options.send_depth || receive_depth_ != options.receive_depth) {
    spdlog::warn("{} allows send_depth {} instead of {}, receive_depth {} instead of {}", name(), send_depth_,
                 options.send_depth, receive_depth_, options.receive_depth);
  }

  domain_ = api_->alloc_pd(context_);
  if (domain_ == nullptr) {
    const int error = errno;
    return errno_status(error, fmt::format("{}: no protection domain", name()));
  }
  channel_ = api_->create_comp_channel(context_);
  if (channel_ == nullptr) {
    const int error = errno;
    return errno_status(error, fmt::format("{}: no completion channel", name()));
  }
  RETURN_IF_ERROR(set_non_blocking(channel_->fd));
  return set_non_blocking(context_->async_fd);
}

Device::~Device() {
  if (channel_ != nullptr) api_->destroy_comp_channel(channel_);
  if (domain_ != nullptr) api_->dealloc_pd(domain_);
  api_->close_device(context_);
}

bool Device::is(const rdma_cm_id& id) const {
  return id.verbs != nullptr && name() == id.verbs->device->name && (id.port_num == port_);
}

// ---- memory

namespace {

absl::StatusOr<Pages> create_private(std::size_t bytes) {
  const std::size_t whole = shm::whole_pages(bytes);
  void* place = ::mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) {
    const int error = errno;
    return absl::ResourceExhaustedError(
        errno_text(error, fmt::format("the host has no {} bytes of memory to give", whole)));
  }
  shm::Mapping mapping(std::span(static_cast<std::byte*>(place), bytes));
  // With a child process the kernel would move pages that the device goes on using.
  if (::madvise(place, whole, MADV_DONTFORK) != 0) {
    spdlog::debug("{}", errno_text(errno, "registered memory cannot be kept from child processes"));
  }
  const std::span<std::byte> span = mapping.bytes();
  return Pages{.file = {}, .mapping = std::move(mapping), .bytes = span};
}

}  // namespace

absl::StatusOr<RegisteredMemory> RegisteredMemory::create(const Device& device, std::size_t bytes, int rights,
                                                          Sharing sharing) {
  if (shm::whole_pages(bytes) < bytes || bytes == 0) {
    return absl::ResourceExhaustedError(fmt::format("a region of {} bytes cannot be", bytes));
  }
  auto memory = sharing == Sharing::kInPlace ? create_in_place(bytes) : create_private(bytes);
  if (!memory.ok()) return memory.status();
  std::byte* const place = memory->bytes.data();
  ibv_mr* registration = device.api().reg_mr(device.domain(), place, bytes, rights);
  if (registration == nullptr) {
    const int error = errno;
    return absl::ResourceExhaustedError(fmt::format(
        "{}; see that the limit on locked memory (ulimit -l, LimitMEMLOCK, LXC or Docker's "
        "memlock) is above what is registered, best unlimited",
        errno_text(error, fmt::format("{} cannot register {} bytes of memory", device.name(), bytes))));
  }
  return RegisteredMemory(device.api(), *std::move(memory), registration);
}

RegisteredMemory::RegisteredMemory(RegisteredMemory&& other) noexcept
    : api_(other.api_),
      memory_(std::move(other.memory_)),
      registration_(std::exchange(other.registration_, nullptr)) {}

RegisteredMemory::~RegisteredMemory() {
  if (registration_ == nullptr) return;
  if (const int error = api_->dereg_mr(registration_); error != 0) {
    spdlog::error("{}", errno_text(error, "memory cannot be deregistered"));
  }
}

}  // namespace verbena::transport::verbs

namespace verbena::transport {

std::string verbs_obstacle(const VerbsOptions& options, const VerbsDevice& device,
                           const VerbsDevice::Port& port) {
  if (std::string obstacle = verbs::device_obstacle(options, device); !obstacle.empty()) return obstacle;
  const bool wanted = options.port == 0 || port.number == options.port;
  return wanted ? port.obstacle : std::string(verbs::kNotWanted);
}

absl::StatusOr<std::vector<VerbsDevice>> list_verbs_devices(std::shared_ptr<const VerbsApi> api) {
  if (api == nullptr) {
    auto loaded = load_verbs_api();
    if (!loaded.ok()) return loaded.status();
    api = std::make_shared<const VerbsApi>(std::move(*loaded));
  }
  const verbs::DeviceList list(*api);
  if (!list.status().ok()) return list.status();
  std::vector<VerbsDevice> reports;
  for (ibv_device* device : list.devices()) reports.push_back(verbs::inspect(*api, device));
  return reports;
}

}  // namespace verbena::transport
