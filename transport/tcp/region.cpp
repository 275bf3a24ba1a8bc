#include "transport/tcp/region.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <limits>

#include "transport/shm/host_memory.hpp"
#include "transport/shm/shared_memory.hpp"
#include "transport/tcp/tcp_connection.hpp"

namespace verbena::transport::tcp {

namespace {

/// Of a smaller region it is not asked whether it fits: that would take longer than making it.
constexpr std::size_t kLeastBytesWorthAQuestion = std::size_t{1} << 20;

}  // namespace

absl::StatusOr<std::unique_ptr<MemoryRegion>> TcpRegion::allocate(Hub& hub, std::size_t bytes,
                                                                  Access access) {
  if (bytes > std::numeric_limits<std::size_t>::max() / 4) {
    return absl::ResourceExhaustedError(fmt::format("a region of {} bytes fits into no machine", bytes));
  }
  const std::size_t size = shm::whole_pages(std::max<std::size_t>(bytes, 1));
  if (size >= kLeastBytesWorthAQuestion) {
    if (const shm::FreeMemory free = shm::free_memory(); size > free.bytes) {
      return absl::ResourceExhaustedError(fmt::format("a region of {} bytes does not fit: {} leaves {} bytes",
                                                      bytes, free.limit, free.bytes));
    }
  }
  void* const place = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED)
    return absl::ResourceExhaustedError(fmt::format("the host has no {} bytes of memory to give", size));
  return std::unique_ptr<MemoryRegion>(
      new TcpRegion(hub, {static_cast<std::byte*>(place), size}, bytes, access));
}

TcpRegion::~TcpRegion() {
  {
    const std::lock_guard lock(hub_.mutex);
    for (TcpConnection* connection : hub_.connections) connection->revoke(*this);
  }
  ::munmap(pages_.data(), pages_.size());
}

}  // namespace verbena::transport::tcp
