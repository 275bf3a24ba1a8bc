#include "job/shared_word.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <utility>

namespace verbena::job {
namespace {

TEST(SharedWordTest, TwoMappingsAreOneWord) {
  absl::StatusOr<SharedWord> made = SharedWord::make();
  ASSERT_TRUE(made.ok()) << made.status();
  const SharedWord word = *std::move(made);
  const absl::StatusOr<SharedWord> other = SharedWord::map(::dup(word.descriptor()));
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(other->word(), 0U);
  word.word() = 7;
  EXPECT_EQ(other->word(), 7U);
}

TEST(SharedWordTest, OtherDescriptorsAreRefused) {
  int ends[2] = {};
  ASSERT_EQ(::pipe(ends), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(SharedWord::map(ends[0]).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(SharedWord::map(-1).status()));
  ::close(ends[1]);
}

}  // namespace
}  // namespace verbena::job
