#include "protocol/slot.hpp"

#include <gtest/gtest.h>

#include <array>

namespace verbena::protocol {
namespace {

/// The slot of a key whose home is elsewhere, or here (`is_at_home`).
struct Memory {
  alignas(8) std::array<std::byte, slot_bytes(8)> bytes{};
  bool is_at_home = false;
  Slot at() { return {bytes.data(), is_at_home ? SlotHeader::kOwned : 0}; }
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

TEST(SlotTest, ZerosAreHowItIsAtFirst) {
  constexpr KeyRange kHomeKeys{10, 20};
  for (const Key key : {Key{9}, Key{20}, Key{0}}) EXPECT_EQ(first_header_bits(key, kHomeKeys), 0U) << key;
  for (const Key key : {Key{10}, Key{19}})
    EXPECT_EQ(first_header_bits(key, kHomeKeys), SlotHeader::kOwned) << key;
  Memory elsewhere;
  EXPECT_EQ(load_header(elsewhere.at()), SlotHeader());
  Memory at_home{.is_at_home = true};
  EXPECT_EQ(load_header(at_home.at()), SlotHeader::owned(0));
  // The row leaves and comes back like any other.
  SlotHeader header;
  ASSERT_EQ(try_lock(at_home.at(), 1, header), LockResult::kLocked);
  EXPECT_EQ(try_hand_over(at_home.at(), 0), LockResult::kBusy);
  store_header(at_home.at(), header);
  EXPECT_EQ(try_hand_over(at_home.at(), 0), LockResult::kLocked);
  EXPECT_EQ(load_header(at_home.at()), SlotHeader::moved(0));
  EXPECT_EQ(try_lock(at_home.at(), 1, header), LockResult::kNotOwned);
  store_header(at_home.at(), SlotHeader::owned(2));
  EXPECT_EQ(load_header(at_home.at()), SlotHeader::owned(2));
}

TEST(SlotTest, TheLockIsOneHoldersAndOnlyOfARowThatIsOwned) {
  Memory slot;
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
  Memory slot;
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
