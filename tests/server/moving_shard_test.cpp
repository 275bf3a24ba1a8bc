// What it costs to open a dynamic table, and how the intents of a dead worker are forgotten.
#include "server/moving_shard.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "protocol/presence.hpp"
#include "transport/shm/shm_transport.hpp"

namespace verbena::server {
namespace {

std::size_t pages_in_memory(std::span<std::byte> bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> is_there((bytes.size() + page - 1) / page);
  EXPECT_EQ(::mincore(bytes.data(), bytes.size(), is_there.data()), 0);
  return static_cast<std::size_t>(
      std::count_if(is_there.begin(), is_there.end(), [](unsigned char one) { return (one & 1) != 0; }));
}

absl::StatusOr<std::unique_ptr<MovingShard>> shard_of(transport::Transport& transport, std::uint64_t rows,
                                                      std::uint32_t server, std::uint32_t servers) {
  return MovingShard::create(transport,
                             {.value_type = ValueType::kFloat,
                              .rows = rows,
                              .width = 2,
                              .name = "moving",
                              .allocation = Allocation::kDynamic,
                              .consistency = "sequential"},
                             protocol::UpdateRule(ValueType::kFloat, 2), server,
                             protocol::Placement(servers));
}

/// A server that had to write something for each row would stop for seconds if there are many.
TEST(MovingShardTest, OpeningTouchesNoRow) {
  auto transport = transport::make_shm_transport();
  ASSERT_TRUE(transport.ok()) << transport.status();
  constexpr std::uint64_t kRows = std::uint64_t{1} << 20;
  for (const std::uint32_t server : {0U, 1U}) {
    auto shard = shard_of(**transport, kRows, server, /*servers=*/2);
    ASSERT_TRUE(shard.ok()) << shard.status();
    EXPECT_EQ(pages_in_memory((*shard)->region().bytes()), 0U);
    // And yet each row is at its home.
    Homes::Answers answers;
    const Key first = server * kRows / 2;
    for (const Key key : {first, first + kRows / 2 - 1}) {
      ASSERT_TRUE((*shard)
                      ->on_requests({.rank = 3, .node = 1 - server},
                                    {.kind = protocol::KeyRequests::Kind::kLocalize, .rows = {{key, 0}}},
                                    answers)
                      .ok());
      EXPECT_EQ(answers.back().answer.kind, protocol::KeyAnswers::Kind::kTaken) << "from here";
      EXPECT_EQ(answers.back().answer.node, server);
    }
    EXPECT_LE(pages_in_memory((*shard)->region().bytes()), 4U)
        << "the pages of two slots and two presence words";
  }
}

/// Otherwise rows that it intended to use would stay here for ever, for nobody. The server would stop too
/// long for all keys of a large table, so it handles some at a time.
TEST(MovingShardTest, WhatADeadWorkerIntendedIsForgottenSomeKeysAtATime) {
  auto transport = transport::make_shm_transport();
  ASSERT_TRUE(transport.ok()) << transport.status();
  constexpr std::uint64_t kRows = 100'000;
  auto shard = shard_of(**transport, kRows, /*server=*/0, /*servers=*/1);
  ASSERT_TRUE(shard.ok()) << shard.status();
  const protocol::PresenceMap presence(
      (*shard)->region().bytes().data() + protocol::presence_offset(kRows, (*shard)->slot_bytes()),
      {0, kRows});
  constexpr std::array<Key, 4> kIntended = {0, 1, kRows / 2, kRows - 1};
  for (const Key key : kIntended) ASSERT_TRUE(presence.begin_intent(key).has_value());
  const auto forgotten = [&] {
    return std::ranges::count(kIntended, 0U, [&](Key key) { return presence.load(key).intents(); });
  };

  Homes::Answers answers;
  MessageAnswers message_answers;
  (*shard)->on_lost({.rank = 1, .node = 1}, answers);
  EXPECT_FALSE((*shard)->has_put_off());
  EXPECT_EQ(forgotten(), 0) << "what workers of another node intended is counted there";

  (*shard)->on_lost({.rank = 0, .node = 0}, answers);
  EXPECT_EQ(forgotten(), 2) << "not all keys at once";
  while ((*shard)->has_put_off()) ASSERT_TRUE((*shard)->try_again(answers, message_answers));
  EXPECT_EQ(forgotten(), 4);
  EXPECT_TRUE(presence.load(kRows - 1).is_here());
}

}  // namespace
}  // namespace verbena::server
