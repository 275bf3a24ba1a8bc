#include "worker/moving/directory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace verbena::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Advice = Directory::Advice;

constexpr Key kKey = 25;  // its home is node 2

class DirectoryTest : public ::testing::Test {
 protected:
  DirectoryTest() { directory_.allocate(); }
  /// The home says where the row is, and the row is not there either.
  Advice miss_again(Location told) {
    EXPECT_TRUE(directory_.end_asking(kKey));
    directory_.set(kKey, told);
    return directory_.missed(kKey, /*is_sure=*/true);
  }
  Directory directory_{{40, 4}};
};

TEST_F(DirectoryTest, ARowIsBelievedToBeAtHomeUntilSomethingElseIsHeard) {
  EXPECT_EQ(directory_.location(kKey), (Location{.node = 2, .epoch = 0}));
  directory_.set(kKey, {.node = 1, .epoch = 7});
  EXPECT_EQ(directory_.location(kKey), (Location{.node = 1, .epoch = 7}));
  EXPECT_EQ(directory_.location(kKey + 1), (Location{.node = 2, .epoch = 0}));
}

TEST_F(DirectoryTest, AHomeIsAskedOnceAtATime) {
  EXPECT_FALSE(directory_.end_asking(kKey)) << "nobody has asked";
  EXPECT_EQ(directory_.missed(kKey, true), Advice::kAsk);
  EXPECT_EQ(directory_.missed(kKey, true), Advice::kWait);
  EXPECT_TRUE(directory_.is_asked(kKey));
  EXPECT_TRUE(directory_.end_asking(kKey));
  EXPECT_FALSE(directory_.is_asked(kKey));
  EXPECT_EQ(directory_.missed(kKey, true), Advice::kAsk);
}

TEST_F(DirectoryTest, WhatIsMissedTooOftenInARowIsFetched) {
  EXPECT_EQ(directory_.missed(kKey, true), Advice::kAsk);
  for (std::uint64_t epoch = 1; epoch < Directory::kMostVainAttempts; ++epoch)
    EXPECT_EQ(miss_again({.node = 1, .epoch = epoch}), Advice::kAsk) << epoch;
  EXPECT_EQ(miss_again({.node = 1, .epoch = 9}), Advice::kAskAndFetch);
}

TEST_F(DirectoryTest, ARowThatIsReachedHasNotBeenMissed) {
  EXPECT_EQ(directory_.missed(kKey, true), Advice::kAsk);
  for (std::uint64_t epoch = 1; epoch < 3 * Directory::kMostVainAttempts; ++epoch) {
    EXPECT_FALSE(directory_.end_chase(kKey)) << "it was not fetched";
    EXPECT_EQ(miss_again({.node = 1, .epoch = epoch}), Advice::kAsk) << epoch;
  }
}

TEST_F(DirectoryTest, AFetchEndsWhenTheRowIsReached) {
  directory_.missed(kKey, true);
  EXPECT_TRUE(directory_.begin_fetch(kKey));
  EXPECT_FALSE(directory_.begin_fetch(kKey));
  EXPECT_TRUE(directory_.is_fetched(kKey));
  EXPECT_TRUE(directory_.end_chase(kKey));
  EXPECT_FALSE(directory_.is_fetched(kKey));
}

TEST_F(DirectoryTest, WhereARowWasMissedForSureItIsKnownNotToBe) {
  directory_.set(kKey, {.node = 1, .epoch = 7});
  directory_.missed(kKey, /*is_sure=*/false);
  EXPECT_FALSE(directory_.is_known_not_to_be(kKey, {.node = 1, .epoch = 7}));
  miss_again({.node = 1, .epoch = 7});
  EXPECT_TRUE(directory_.is_known_not_to_be(kKey, {.node = 1, .epoch = 7}));
  EXPECT_FALSE(directory_.is_known_not_to_be(kKey, {.node = 1, .epoch = 8})) << "it may have come back";
  EXPECT_FALSE(directory_.is_known_not_to_be(kKey, {.node = 3, .epoch = 7}));
}

TEST_F(DirectoryTest, WhatADeadHomeWasAskedItsHeirIs) {
  for (const Key key : {29UL, 5UL, 21UL}) directory_.missed(key, true);
  EXPECT_THAT(directory_.lose(2), ElementsAre(21, 29));
  EXPECT_EQ(directory_.home(21), 3U);
  EXPECT_TRUE(directory_.is_asked(21));
  EXPECT_EQ(directory_.location(22), (Location{.node = 2, .epoch = 0})) << "where rows were at first";
  EXPECT_THAT(directory_.lose(1), IsEmpty());
  directory_.missed(35, true);
  EXPECT_THAT(directory_.lose(3), ElementsAre(21, 29, 35));
  for (const Key key : {15UL, 21UL, 35UL}) EXPECT_EQ(directory_.home(key), 0U);
}

}  // namespace
}  // namespace verbena::worker
