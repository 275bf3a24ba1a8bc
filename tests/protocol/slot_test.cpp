#include "protocol/slot.hpp"

#include <gtest/gtest.h>

#include <array>

namespace verbena::protocol {
namespace {

struct Slot {
  alignas(8) std::array<std::byte, slot_bytes(8)> bytes{};
  std::byte* at() { return bytes.data(); }
};

TEST(SlotTest, AHeaderIsItsParts) {
  EXPECT_EQ(SlotHeader().bits(), 0U);
  EXPECT_FALSE(SlotHeader().is_owned());
  const SlotHeader owned = SlotHeader::owned(SlotHeader::kMaxEpoch);
  EXPECT_TRUE(owned.is_owned_at(SlotHeader::kMaxEpoch));
  EXPECT_FALSE(owned.is_owned_at(0));
  EXPECT_EQ(owned.holder(), 0U);
  const SlotHeader held = owned.held_by(SlotHeader::kServer);
  EXPECT_EQ(held.holder(), SlotHeader::kServer);
  EXPECT_TRUE(held.is_owned_at(SlotHeader::kMaxEpoch)) << "whoever holds it";
  EXPECT_EQ(held.held_by(0), owned);
  EXPECT_FALSE(SlotHeader::moved(3).is_owned_at(3));
  EXPECT_EQ(SlotHeader::moved(3).epoch(), 3U);
  EXPECT_EQ(SlotHeader::owned(0x0102030405).bits(), 0x0102030405010000U) << "as docs/protocol.md says";
}

TEST(SlotTest, TheLockIsOneHoldersAndOnlyOfARowThatIsOwned) {
  Slot slot;
  SlotHeader header;
  EXPECT_EQ(try_lock(slot.at(), 1, header), LockResult::kNotOwned);
  store_header(slot.at(), SlotHeader::owned(5));
  EXPECT_EQ(try_lock(slot.at(), 1, header), LockResult::kLocked);
  EXPECT_EQ(try_lock(slot.at(), 2, header), LockResult::kBusy);
  EXPECT_TRUE(load_header(slot.at()).is_owned_at(5)) << "readers do not mind the lock";
  store_header(slot.at(), SlotHeader::owned(5));
  EXPECT_EQ(try_lock(slot.at(), 2, header), LockResult::kLocked);
}

TEST(SlotTest, ARowIsHandedOverOnceAtItsEpochAndNotUnderTheLock) {
  Slot slot;
  store_header(slot.at(), SlotHeader::owned(5));
  EXPECT_EQ(try_hand_over(slot.at(), 4), LockResult::kNotOwned);
  SlotHeader header;
  ASSERT_EQ(try_lock(slot.at(), 1, header), LockResult::kLocked);
  EXPECT_EQ(try_hand_over(slot.at(), 5), LockResult::kBusy);
  store_header(slot.at(), header);
  EXPECT_EQ(try_hand_over(slot.at(), 5), LockResult::kLocked);
  EXPECT_EQ(load_header(slot.at()), SlotHeader::moved(5));
  EXPECT_EQ(try_hand_over(slot.at(), 5), LockResult::kNotOwned);
  EXPECT_EQ(try_lock(slot.at(), 1, header), LockResult::kNotOwned);
}

}  // namespace
}  // namespace verbena::protocol
