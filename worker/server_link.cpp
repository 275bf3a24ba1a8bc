#include "worker/server_link.hpp"

namespace verbena::worker {

absl::Status SmallMessages::allocate(LocalMemory& memory) {
  absl::StatusOr<LocalSpan> span = memory.allocate(kSlots * kSlotBytes);
  if (!span.ok()) return span.status();
  memory_ = *span;
  return absl::OkStatus();
}

std::span<std::byte> SmallMessages::slot(const transport::RingSender& ring) {
  if (positions_[next_] > ring.reusable_position()) return {};
  return memory_.bytes.subspan(next_ * kSlotBytes, kSlotBytes);
}

void SmallMessages::sent(std::uint64_t position) {
  positions_[next_] = position;
  next_ = (next_ + 1) % kSlots;
}

}  // namespace verbena::worker
