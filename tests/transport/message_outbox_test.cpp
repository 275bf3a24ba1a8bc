#include "transport/message_outbox.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace verbena::transport {
namespace {

using ::testing::ElementsAre;

/// Takes as many messages as the test allows (`room`).
class ReluctantConnection final : public Connection {
 public:
  absl::StatusOr<RemoteDescriptor> grant(const MemoryRegion& /*region*/) override {
    return absl::UnimplementedError("");
  }
  std::size_t do_post(std::span<const WorkRequest> requests) override {
    std::size_t posted = 0;
    for (; posted < requests.size() && room > 0 && failure.ok(); ++posted, --room) {
      EXPECT_EQ(requests[posted].opcode, Opcode::kSend);
      const std::span<const std::byte> bytes = requests[posted].local;
      taken.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    return posted;
  }
  const std::byte* mapped(const RemoteDescriptor& /*remote*/) override { return nullptr; }
  [[nodiscard]] const absl::Status& status() const override { return failure; }

  std::size_t room = 0;
  absl::Status failure;
  std::vector<std::string> taken;
};

TEST(MessageOutboxTest, MessagesWaitInTheirOrder) {
  ReluctantConnection connection;
  MessageOutbox outbox;
  connection.room = 1;
  EXPECT_TRUE(outbox.send(connection, "one"));
  EXPECT_TRUE(outbox.empty());
  EXPECT_TRUE(outbox.send(connection, "two"));
  EXPECT_TRUE(outbox.send(connection, "three"));
  EXPECT_FALSE(outbox.empty());
  connection.room = 1;
  EXPECT_TRUE(outbox.send(connection, "four"));  // must not overtake those that wait
  EXPECT_THAT(connection.taken, ElementsAre("one", "two"));
  connection.room = 9;
  outbox.flush(connection);
  EXPECT_THAT(connection.taken, ElementsAre("one", "two", "three", "four"));
  EXPECT_TRUE(outbox.empty());
}

TEST(MessageOutboxTest, ThereIsABound) {
  ReluctantConnection connection;
  MessageOutbox outbox;
  for (std::size_t i = 0; i < MessageOutbox::kMostWaiting; ++i) EXPECT_TRUE(outbox.send(connection, "hello"));
  EXPECT_FALSE(outbox.send(connection, "too many"));
}

TEST(MessageOutboxTest, AFailedConnectionTakesNothing) {
  ReluctantConnection connection;
  MessageOutbox outbox;
  connection.room = 9;
  connection.failure = absl::UnavailableError("gone");
  EXPECT_TRUE(outbox.send(connection, "late"));
  outbox.flush(connection);
  EXPECT_FALSE(outbox.empty());
  EXPECT_TRUE(connection.taken.empty());
}

}  // namespace
}  // namespace verbena::transport
