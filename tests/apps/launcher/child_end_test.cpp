#include "apps/launcher/child_end.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <optional>

#include "apps/launcher/stop_signals.hpp"

namespace verbena::apps {
namespace {

using ::testing::HasSubstr;

constexpr int kEndedWell = 0;
constexpr int kEndedWith3 = 3 << 8;
constexpr int kEndedOnSigterm = (128 + SIGTERM) << 8;

std::optional<job::Cause> cause_of(int wait_status, const ChildHistory& history) {
  const auto failed = judge_end("worker 1", wait_status, history, count_memory_kills());
  if (!failed) return std::nullopt;
  EXPECT_THAT(std::string(failed->status.message()), HasSubstr("worker 1 "));
  return failed->cause;
}

TEST(JudgeEndTest, WhatNobodyHasAskedForOrSaidIsAFailure) {
  EXPECT_EQ(cause_of(kEndedWell, {}), std::nullopt);
  EXPECT_EQ(cause_of(kEndedWith3, {}), job::Cause::kSilentEnd);
  EXPECT_EQ(cause_of(kEndedWith3, {.reported_failure = true}), std::nullopt);
  EXPECT_EQ(cause_of(SIGKILL, {}), job::Cause::kKilled);
  EXPECT_EQ(cause_of(SIGSEGV, {.reported_failure = true}), job::Cause::kKilled);
}

TEST(JudgeEndTest, OnlyWhatItWasAskedForIsExcused) {
  EXPECT_EQ(cause_of(SIGTERM, {.asked_to_end = true}), std::nullopt);
  EXPECT_EQ(cause_of(kEndedOnSigterm, {.asked_to_end = true}), std::nullopt);
  EXPECT_EQ(cause_of(kSaveSignal, {.asked_to_end = true}), std::nullopt) << "before it could save anything";
  EXPECT_EQ(cause_of(kSaveSignal, {}), job::Cause::kKilled);
  EXPECT_EQ(cause_of(kEndedOnSigterm, {}), job::Cause::kSilentEnd);
  EXPECT_EQ(cause_of(SIGKILL, {.asked_to_end = true}), job::Cause::kKilled);
  EXPECT_EQ(cause_of(SIGKILL, {.asked_to_end = true, .killed = true}), std::nullopt);
  EXPECT_EQ(cause_of(kEndedWith3, {.asked_to_end = true}), job::Cause::kSilentEnd) << "it may be the cause";
}

TEST(JudgeEndTest, AProgramMustHaveBeenAWorkerToTheEnd) {
  EXPECT_EQ(cause_of(kEndedWell, {.must_finish = true}), job::Cause::kOwnError);
  EXPECT_EQ(cause_of(kEndedWell, {.must_finish = true, .finished = true}), std::nullopt);
  EXPECT_EQ(cause_of(kEndedWell, {.asked_to_end = true, .must_finish = true}), std::nullopt);
}

}  // namespace
}  // namespace verbena::apps
