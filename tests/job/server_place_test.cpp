#include "job/server_place.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace verbena::job {
namespace {

TEST(ServerPlaceTest, IsReadAsItIsWritten) {
  for (const ServerPlace& place :
       {ServerPlace{"demo", 3}, ServerPlace{"a/server-1", 0}, ServerPlace::fresh(4711, 12)}) {
    const auto again = ServerPlace::parse(place.text());
    ASSERT_TRUE(again) << place.text();
    EXPECT_EQ(again->job, place.job);
    EXPECT_EQ(again->server, place.server);
  }
  for (const char* text :
       {"", "demo", "/server-1", "demo/server-", "demo/server-x", "demo/server-1/more", "scale-7/8"})
    EXPECT_FALSE(ServerPlace::parse(text)) << text;
}

TEST(ServerPlaceTest, ServersOfARunShowTheSameJob) {
  const ServerPlace first = ServerPlace::fresh(4711, 0);
  const ServerPlace second = ServerPlace::fresh(4711, 1);
  EXPECT_NE(first.job, second.job);
  EXPECT_EQ(first.shown_job(), "run-4711");
  EXPECT_EQ(second.shown_job(), "run-4711");
  EXPECT_EQ(ServerPlace::run_of("run-4711"), 4711);
  EXPECT_EQ(ServerPlace::run_of("run-x"), std::nullopt);
  EXPECT_EQ(ServerPlace::run_of("demo"), std::nullopt);
  for (const char* job : {"demo", "run-4711", "run-4711-short", "my-0123456789abcdef"})
    EXPECT_EQ(ServerPlace({job, 0}).shown_job(), job);
}

}  // namespace
}  // namespace verbena::job
