#include "server/backlog.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace verbena::server {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(BacklogTest, RecordsAreCopiedAndStayUntilNobodyUsesThem) {
  Backlog backlog;
  InboxMessage in_ring;
  std::string record = "a record";
  backlog.add(bytes_of(record), in_ring, 100);
  EXPECT_EQ(in_ring.users, 0U) << "its place in the ring is free";
  record = "anything";
  EXPECT_EQ(backlog.waiting(), 1U);
  const std::optional<Backlog::Record> next = backlog.take();
  ASSERT_TRUE(next);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(next->bytes.data()), next->bytes.size()), "a record");
  EXPECT_EQ(backlog.waiting(), 0U);
  EXPECT_FALSE(backlog.take());
  next->inbox->users = 1;
  backlog.release();
  EXPECT_FALSE(backlog.empty());
  next->inbox->users = 0;
  backlog.release();
  EXPECT_TRUE(backlog.empty());
}

TEST(BacklogTest, BeyondTheBoundRecordsStayInTheRing) {
  Backlog backlog;
  InboxMessage rings[3];
  const std::string record = "ten bytes.";
  backlog.add(bytes_of(record), rings[0], 15);
  backlog.add(bytes_of(record), rings[1], 15);
  EXPECT_EQ(rings[0].users, 0U);
  EXPECT_EQ(rings[1].users, 1U) << "whoever sends waits";
  static_cast<void>(backlog.take());
  backlog.release();
  backlog.add(bytes_of(record), rings[2], 15);
  EXPECT_EQ(rings[2].users, 0U) << "there is room again";
  const std::optional<Backlog::Record> second = backlog.take();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->bytes.data(), bytes_of(record).data());
  EXPECT_EQ(second->inbox, &rings[1]);
  EXPECT_EQ(rings[1].users, 0U) << "whoever goes by it says who uses it";
  EXPECT_EQ(backlog.waiting(), 1U);
}

}  // namespace
}  // namespace verbena::server
