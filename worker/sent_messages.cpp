#include "worker/sent_messages.hpp"

#include <fmt/format.h>

namespace verbena::worker {

absl::StatusOr<LocalSpan> SentMessages::take_slot() {
  if (free_.empty()) return memory_.allocate(kSlotBytes);
  const LocalSpan slot = free_.back();
  free_.pop_back();
  return slot;
}

void SentMessages::add(const KeptMessage& message) {
  kept_.push_back(message);
  ++messages_;
  again_ = kept_.size();
}

void SentMessages::drop_first() {
  if (kept_.front().slot) free_.push_back(*kept_.front().slot);
  kept_.pop_front();
}

void SentMessages::forget_up_to(std::uint64_t position) {
  for (; again_ > 0 && kept_.front().end <= position; --again_) drop_first();
}

absl::Status SentMessages::begin_again(std::uint64_t messages) {
  if (messages > messages_ || messages_ - messages > kept_.size()) {
    return absl::OutOfRangeError(
        fmt::format("has {} of this worker's messages; {} were sent, and {} are kept", messages, messages_,
                    kept_.size()));
  }
  while (kept_.size() > messages_ - messages) drop_first();
  again_ = 0;
  return absl::OkStatus();
}

}  // namespace verbena::worker
