#include "worker/moving/request_queue.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace verbena::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Kind = RequestQueue::Kind;

class RequestQueueTest : public ::testing::Test {
 protected:
  RequestQueueTest() {
    for (int server = 0; server < 2; ++server) queue_.add_server();
  }
  void send() {
    queue_.send([&](std::uint32_t server, const protocol::KeyRequests& requests) {
      if (room_ == 0) return false;
      --room_;
      EXPECT_EQ(requests.table, 3);
      for (const RequestQueue::Row& row : requests.rows) sent_.emplace_back(server, requests.kind, row.key);
      sizes_.push_back(requests.rows.size());
      return true;
    });
  }
  RequestQueue queue_{3};
  int room_ = 1000;
  std::vector<std::tuple<std::uint32_t, Kind, Key>> sent_;
  std::vector<std::size_t> sizes_;  ///< by message
};

TEST_F(RequestQueueTest, WhatIsSentIsSentOnceAndInOrder) {
  queue_.add(1, Kind::kDone, {.key = 8});
  queue_.add(1, Kind::kDone, {.key = 4});
  queue_.add(0, Kind::kReleased, {.key = 5});
  queue_.add(1, Kind::kLocate, {.key = 6});
  EXPECT_FALSE(queue_.is_empty(1, Kind::kDone));
  EXPECT_TRUE(queue_.is_empty(0, Kind::kDone));
  send();
  EXPECT_THAT(sent_, ElementsAre(std::tuple(0, Kind::kReleased, 5), std::tuple(1, Kind::kLocate, 6),
                                 std::tuple(1, Kind::kDone, 8), std::tuple(1, Kind::kDone, 4)));
  EXPECT_TRUE(queue_.is_empty(1, Kind::kDone));
  send();
  EXPECT_EQ(sent_.size(), 4);
}

TEST_F(RequestQueueTest, WhatDoesNotGoNowStays) {
  // No key follows the one before it, so each is a run of its own. A message has room for kMaxRuns.
  constexpr std::size_t kMost = protocol::MessageRoom<RequestQueue::Row>::kMaxRuns;
  for (Key key = 0; key < 2 * kMost + 1; ++key) queue_.add(1, Kind::kDone, {.key = 2 * key});
  room_ = 2;
  send();
  EXPECT_THAT(sizes_, ElementsAre(kMost, kMost));
  EXPECT_FALSE(queue_.is_empty(1, Kind::kDone));
  room_ = 1;
  send();
  EXPECT_THAT(sizes_, ElementsAre(kMost, kMost, 1));
  EXPECT_TRUE(queue_.is_empty(1, Kind::kDone));
  for (std::size_t i = 0; i < sent_.size(); ++i) EXPECT_EQ(std::get<2>(sent_[i]), 2 * i);
}

TEST_F(RequestQueueTest, TheDeadAreToldNothing) {
  queue_.add(1, Kind::kDone, {.key = 8});
  queue_.drop_server(1);
  queue_.add(1, Kind::kLocate, {.key = 9});
  send();
  EXPECT_THAT(sent_, IsEmpty());
  EXPECT_TRUE(queue_.is_empty(1, Kind::kDone));
  EXPECT_TRUE(queue_.is_empty(1, Kind::kLocate));
}

}  // namespace
}  // namespace verbena::worker
