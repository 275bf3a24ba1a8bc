// Memory of a transport over TCP: plain memory of this process. The kernel never copies into it directly.
#pragma once

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "transport/tcp/hub.hpp"
#include "transport/transport.hpp"

namespace verbena::transport::tcp {

class TcpRegion final : public MemoryRegion {
 public:
  /// RESOURCE_EXHAUSTED if the host has not got so much.
  static absl::StatusOr<std::unique_ptr<MemoryRegion>> allocate(Hub& hub, std::size_t bytes, Access access);
  /// Returns when no thread uses the memory any more.
  ~TcpRegion() override;

 private:
  TcpRegion(Hub& hub, std::span<std::byte> pages, std::size_t bytes, Access access)
      : MemoryRegion(pages.first(bytes), access), hub_(hub), pages_(pages) {}

  Hub& hub_;
  std::span<std::byte> pages_;
};

}  // namespace verbena::transport::tcp
