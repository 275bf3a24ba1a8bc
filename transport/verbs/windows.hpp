// Regions, and the memory windows through which peers reach them.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/transport.hpp"
#include "transport/verbs/device.hpp"

namespace verbena::transport::verbs {

class VerbsConnection;
class Windows;

class VerbsRegion final : public MemoryRegion {
 public:
  VerbsRegion(Windows& windows, RegisteredMemory memory, Access access)
      : MemoryRegion(memory.bytes(), access), windows_(windows), memory_(std::move(memory)) {}
  ~VerbsRegion() override;

  [[nodiscard]] const Windows& owner() const { return windows_; }
  [[nodiscard]] ibv_mr* registration() const { return memory_.registration(); }
  [[nodiscard]] std::uint32_t local_key() const { return registration()->lkey; }
  /// The memory file of a region that is kRemoteReadHostWrite.
  [[nodiscard]] const base::FileDescriptor& file() const { return memory_.file(); }

 private:
  Windows& windows_;
  RegisteredMemory memory_;
};

/// All windows of a transport. If the device has none, a region is open with the rights of its registration.
class Windows {
 public:
  struct Binding {
    ibv_mw* window = nullptr;
    std::uint32_t key = 0;
    const VerbsRegion* region = nullptr;
    const VerbsConnection* connection = nullptr;
  };
  struct Grant {
    std::uint32_t key = 0;
    bool fresh = false;  ///< its window has to be bound by the connection's queue pair
    Binding binding;
  };

  explicit Windows(const Device& device) : device_(device) {}
  Windows(const Windows&) = delete;
  Windows& operator=(const Windows&) = delete;

  absl::StatusOr<std::unique_ptr<VerbsRegion>> allocate(std::size_t bytes, Access access);
  absl::StatusOr<Grant> grant(const VerbsRegion& region, const VerbsConnection& connection);
  [[nodiscard]] bool exists(const Binding& binding) const;

  // Each ends the access through the windows of the region or connection.
  void close(const VerbsRegion& region);
  void close(const VerbsConnection& connection);

 private:
  [[nodiscard]] bool has_windows(std::size_t bytes) const;  ///< for a region of that size
  template <class Condition>
  void close_if(Condition condition);

  const Device& device_;
  std::vector<Binding> bindings_;
};

/// The ibv_access_flags for the rights of `access`.
int remote_right(Access access);

}  // namespace verbena::transport::verbs
