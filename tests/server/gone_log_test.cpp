#include "server/gone_log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace verbena::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::uint64_t> release(GoneLog& log) {
  std::vector<std::uint64_t> freed;
  log.release([&](const GoneLog::Entry& entry) { freed.push_back(entry.number); });
  return freed;
}

void tell(GoneLog& log, std::uint32_t worker) {
  while (log.left_to_tell(worker) > 0) log.told(worker);
}

TEST(GoneLogTest, WhatAllHaveHeardIsFree) {
  GoneLog log(2);
  log.add({.table = 1, .key = 7, .number = 70});
  log.add({.table = 1, .number = 71});
  EXPECT_EQ(log.left_to_tell(0), 2);
  EXPECT_EQ(log.next_to_tell(0).key, 7);
  tell(log, 0);
  log.hear(0, 2);
  EXPECT_THAT(release(log), IsEmpty()) << "worker 1 has not heard of it";
  tell(log, 1);
  log.hear(1, 1);
  EXPECT_THAT(release(log), ElementsAre(70));
  log.add({.number = 72});
  EXPECT_EQ(log.next_to_tell(0).number, 72);
  log.hear(1, 2);
  EXPECT_THAT(release(log), ElementsAre(71));
  EXPECT_EQ(log.end(), 3);
}

TEST(GoneLogTest, NobodyHasHeardMoreThanHeWasTold) {
  GoneLog log(1);
  log.add({.number = 5});
  log.hear(0, 1000);
  EXPECT_THAT(release(log), IsEmpty());
  tell(log, 0);
  log.hear(0, 1000);
  EXPECT_THAT(release(log), ElementsAre(5));
}

TEST(GoneLogTest, WhoHasLeftIsNotWaitedFor) {
  GoneLog log(2);
  log.add({.number = 5});
  tell(log, 0);
  log.hear(0, 1);
  log.leave(1);
  EXPECT_EQ(log.left_to_tell(1), 0);
  EXPECT_THAT(release(log), ElementsAre(5));
  log.add({.number = 6});
  EXPECT_EQ(log.left_to_tell(1), 0);
  log.leave(0);
  EXPECT_THAT(release(log), ElementsAre(6));
}

}  // namespace
}  // namespace verbena::server
