#include "worker/moving/own_slots.hpp"

#include <thread>

#include "base/word_copy.hpp"

namespace verbena::worker {

using protocol::LockResult;
using protocol::SlotHeader;

namespace {

/// How often to try to take a row's lock. The holder needs some tens of nanoseconds if it has a processor.
/// After kLockTriesAtOnce tries, others get this thread's processor; after kLockTries, the session does its
/// other work.
constexpr int kLockTriesAtOnce = 100;
constexpr int kLockTries = 120;

}  // namespace

void OwnSlots::map(std::byte* slots, std::uint64_t rows, KeyRange home_keys) {
  slots_ = slots;
  home_keys_ = home_keys;
  presence_ = {slots + protocol::presence_offset(rows, layout_.slot_bytes), home_keys};
}

LockResult OwnSlots::push(Key key, const std::byte* update) const {
  LockResult result = LockResult::kBusy;
  for (int tries = 0; tries < kLockTries && result == LockResult::kBusy; ++tries) {
    if (tries > kLockTriesAtOnce) std::this_thread::yield();
    result = try_push(key, update);
  }
  return result;
}

void OwnSlots::install(Key key, const std::byte* values, std::uint64_t epoch, std::uint32_t intents) const {
  const protocol::Slot to = slot(key);
  if (values != nullptr) {
    base::copy_words(reinterpret_cast<std::uint64_t*>(protocol::slot_values(to)),
                     reinterpret_cast<const std::uint64_t*>(values),
                     layout_.stride_bytes / sizeof(std::uint64_t));
  }
  protocol::store_header(to, SlotHeader::owned(epoch).changed());
  presence_.store(key, protocol::Presence::here(epoch, intents));
}

}  // namespace verbena::worker
