#include "transport/shm/doorbell.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "base/return_if_error.hpp"

namespace verbena::transport::shm {

namespace {

// Without FUTEX_PRIVATE_FLAG: the waiter may be in another process.
long futex(void* word, int operation, std::uint32_t value, const timespec* timeout) {
  return ::syscall(SYS_futex, word, operation, value, timeout, nullptr, 0);
}

}  // namespace

absl::StatusOr<Doorbell> Doorbell::create() {
  const std::size_t bytes = whole_pages(sizeof(Word));
  auto file = create_memory("verbena-doorbell", bytes);
  if (!file.ok()) return file.status();
  auto mapping = map_memory(*file, bytes, Protection::kReadWrite);
  if (!mapping.ok()) return mapping.status();
  return Doorbell(std::move(*file), std::move(*mapping));
}

absl::StatusOr<Doorbell> Doorbell::open(const base::FileDescriptor& received) {
  const std::size_t bytes = whole_pages(sizeof(Word));
  RETURN_IF_ERROR(check_received(received, bytes));
  auto mapping = map_memory(received, bytes, Protection::kReadWrite);
  if (!mapping.ok()) return mapping.status();
  return Doorbell(base::FileDescriptor(), std::move(*mapping));
}

void Doorbell::ring() const noexcept {
  if (word().load(std::memory_order_seq_cst) == 0) return;
  if (word().exchange(0, std::memory_order_seq_cst) == 0) return;  // another ringer was faster
  const int saved_errno = errno;                                   // a signal handler may ring
  futex(&word(), FUTEX_WAKE, 1, nullptr);
  errno = saved_errno;
}

bool Doorbell::sleep(Duration timeout) const {
  const Duration rest = std::max(timeout, Duration::zero());
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(rest);
  const timespec relative = {.tv_sec = seconds.count(), .tv_nsec = (rest - seconds).count()};
  futex(&word(), FUTEX_WAIT, 1, &relative);
  return word().exchange(0, std::memory_order_seq_cst) == 0;
}

}  // namespace verbena::transport::shm
