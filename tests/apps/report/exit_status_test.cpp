#include "apps/report/exit_status.hpp"

#include <gtest/gtest.h>

namespace verbena::apps {
namespace {

TEST(ExitStatusTest, ItSaysWhetherTheUserCanMendIt) {
  EXPECT_EQ(exit_status(absl::OkStatus()), kExitOk);
  EXPECT_EQ(exit_status(absl::InvalidArgumentError("--rank 0")), kExitUsage);
  EXPECT_EQ(exit_status(absl::NotFoundError("no such file")), kExitUsage);
  EXPECT_EQ(exit_status(absl::UnavailableError("server 1 is gone")), kExitFailed);
}

/// That something is there already is the user's mistake only where the user has said where.
TEST(ExitStatusTest, APlaceThatAnotherHasIsWrongIfTheUserHasChosenIt) {
  const absl::Status taken = absl::AlreadyExistsError("someone else listens there");
  EXPECT_EQ(exit_status(taken), kExitFailed);
  EXPECT_EQ(exit_status(at_chosen_place(taken)), kExitUsage);
  EXPECT_EQ(at_chosen_place(taken).message(), taken.message());
  EXPECT_TRUE(at_chosen_place(absl::OkStatus()).ok());
  EXPECT_EQ(exit_status(at_chosen_place(absl::InternalError("no memory"))), kExitFailed);
}

}  // namespace
}  // namespace verbena::apps
