// What opening a dynamic table costs.
#include "server/moving_shard.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

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

/// A server that has to write something for each of its rows stops for seconds where there are many.
TEST(MovingShardTest, OpeningTouchesNoRow) {
  auto transport = transport::make_shm_transport();
  ASSERT_TRUE(transport.ok()) << transport.status();
  constexpr std::uint64_t kRows = std::uint64_t{1} << 20;
  for (const std::uint32_t server : {0U, 1U}) {
    auto shard = MovingShard::create(**transport,
                                     {.value_type = protocol::ValueType::kFloat,
                                      .rows = kRows,
                                      .width = 2,
                                      .name = "moving",
                                      .allocation = protocol::Allocation::kDynamic,
                                      .consistency = "sequential"},
                                     server, /*servers=*/2);
    ASSERT_TRUE(shard.ok()) << shard.status();
    EXPECT_EQ(pages_in_memory((*shard)->region().bytes()), 0U);
    // And yet each row is where it is at first.
    Homes::Answers answers;
    const protocol::Key first = server * kRows / 2;
    for (const protocol::Key key : {first, first + kRows / 2 - 1}) {
      ASSERT_TRUE((*shard)
                      ->on_requests({.rank = 3, .node = 1 - server},
                                    {.kind = protocol::KeyRequests::Kind::kLocalize, .rows = {{key, 0}}},
                                    answers)
                      .ok());
      EXPECT_EQ(answers.back().answer.kind, protocol::KeyAnswers::Kind::kTaken) << "from here";
      EXPECT_EQ(answers.back().answer.node, server);
    }
    EXPECT_LE(pages_in_memory((*shard)->region().bytes()), 4U) << "of two slots and two presences";
  }
}

}  // namespace
}  // namespace verbena::server
