// The RDMA device of a transport: which device it is, what it can do, and what was allocated from it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "transport/transport.hpp"
#include "transport/verbs/in_place.hpp"
#include "transport/verbs/verbs_api.hpp"
#include "transport/verbs/verbs_transport.hpp"

namespace verbena::transport::verbs {

/// Receives beyond VerbsOptions::receive_depth, for what is not counted as credit (receives.hpp).
constexpr std::uint32_t kReservedReceives = 4;

/// Owns what it opened. Everything made from it must be destroyed before it.
class Device {
 public:
  static absl::StatusOr<std::unique_ptr<Device>> open(const std::shared_ptr<const VerbsApi>& api,
                                                      const VerbsOptions& options);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] const VerbsApi& api() const { return *api_; }
  [[nodiscard]] ibv_context* context() const { return context_; }
  [[nodiscard]] ibv_pd* domain() const { return domain_; }
  [[nodiscard]] ibv_comp_channel* channel() const { return channel_; }
  [[nodiscard]] std::string name() const { return context_->device->name; }
  [[nodiscard]] std::uint8_t port() const { return port_; }
  /// The address that it listens on and connects from; empty: any.
  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] bool iwarp() const { return context_->device->transport_type == IBV_TRANSPORT_IWARP; }
  [[nodiscard]] bool windows() const { return windows_; }
  [[nodiscard]] const ibv_device_attr& attributes() const { return attributes_; }
  [[nodiscard]] std::uint32_t max_transfer_bytes() const { return max_transfer_bytes_; }

  // The values of the options, reduced to what the device allows.
  [[nodiscard]] std::uint32_t send_depth() const { return send_depth_; }
  [[nodiscard]] std::uint32_t receive_depth() const { return receive_depth_; }
  [[nodiscard]] std::uint8_t reads_at_once() const { return reads_at_once_; }

  /// Is this the device and port on which the connection manager put a connection?
  [[nodiscard]] bool is(const rdma_cm_id& id) const;

 private:
  Device(std::shared_ptr<const VerbsApi> api, ibv_context* context)
      : api_(std::move(api)), context_(context) {}
  absl::Status set_up(const VerbsOptions& options, std::uint8_t port, std::string address);

  std::shared_ptr<const VerbsApi> api_;
  ibv_context* context_;
  ibv_pd* domain_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  ibv_device_attr attributes_{};
  std::uint8_t port_ = 0;
  std::string address_;
  bool windows_ = false;
  std::uint32_t max_transfer_bytes_ = 0;
  std::uint32_t send_depth_ = 0;
  std::uint32_t receive_depth_ = 0;
  std::uint8_t reads_at_once_ = 0;
};

/// Zeroed memory that the device may reach.
class RegisteredMemory {
 public:
  enum class Sharing : std::uint8_t { kNone, kInPlace };  ///< with peers on this host

  RegisteredMemory() = default;
  /// `rights`: of ibv_access_flags. RESOURCE_EXHAUSTED says what may help.
  static absl::StatusOr<RegisteredMemory> create(const Device& device, std::size_t bytes, int rights,
                                                 Sharing sharing = Sharing::kNone);
  ~RegisteredMemory();
  RegisteredMemory(RegisteredMemory&& other) noexcept;
  RegisteredMemory& operator=(RegisteredMemory&&) = delete;

  [[nodiscard]] std::span<std::byte> bytes() const { return memory_.bytes; }
  [[nodiscard]] ibv_mr* registration() const { return registration_; }
  /// The memory file, if the memory is shared.
  [[nodiscard]] const base::FileDescriptor& file() const { return memory_.file; }

 private:
  RegisteredMemory(const VerbsApi& api, Pages memory, ibv_mr* registration)
      : api_(&api), memory_(std::move(memory)), registration_(registration) {}

  const VerbsApi* api_ = nullptr;
  Pages memory_;
  ibv_mr* registration_ = nullptr;
};

}  // namespace verbena::transport::verbs
