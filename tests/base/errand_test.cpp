#include "base/errand.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <thread>
#include <utility>

#include "base/stand_in.hpp"

namespace verbena::base {
namespace {

void wait_for(const Errand& errand) {
  while (!errand.has_ended()) std::this_thread::yield();
}

TEST(ErrandTest, RunsOnePieceAfterTheOther) {
  Errand errand;
  EXPECT_FALSE(errand.is_under_way());
  int sum = 0;  // what the work has done is seen once it has ended
  std::atomic<int> woken = 0;
  for (int i = 1; i <= 100; ++i) {
    errand.begin(
        [&, i] {
          sum += i;
          return i % 2 == 0 ? absl::OkStatus() : absl::AbortedError("odd");
        },
        [&] { ++woken; });
    EXPECT_TRUE(errand.is_under_way());
    wait_for(errand);
    EXPECT_EQ(sum, i * (i + 1) / 2);
    EXPECT_EQ(errand.take().ok(), i % 2 == 0);
    EXPECT_FALSE(errand.is_under_way());
    EXPECT_EQ(woken, i);
  }
}

TEST(ErrandTest, WhatIsThrownIsItsStatus) {
  Errand errand;
  errand.begin([]() -> absl::Status { throw std::bad_alloc(); });
  wait_for(errand);
  EXPECT_EQ(errand.take().code(), absl::StatusCode::kResourceExhausted);
  errand.begin([]() -> absl::Status { throw std::runtime_error("what?"); });
  wait_for(errand);
  const absl::Status status = errand.take();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(status.message(), "what?");
}

TEST(ErrandTest, ItsEndWaitsForTheWork) {
  std::atomic<bool> goes_on = false;
  bool is_done = false;
  std::thread other;
  {
    Errand errand;
    errand.begin([&] {
      while (!goes_on) std::this_thread::yield();
      is_done = true;
      return absl::OkStatus();
    });
    other = std::thread([&] { goes_on = true; });
  }
  EXPECT_TRUE(is_done);
  other.join();
}

/// Does the work when it is waited for.
class Lazy final : public ErrandRunner {
 public:
  std::unique_ptr<Run> begin(std::function<void()> work) override {
    return std::make_unique<Later>(std::move(work));
  }

 private:
  class Later final : public Run {
   public:
    explicit Later(std::function<void()> work) : work_(std::move(work)) {}
    ~Later() override { work_(); }

   private:
    std::function<void()> work_;
  };
};

TEST(ErrandTest, AStandInDoesTheWorkOfItsThread) {
  Lazy lazy;
  bool is_done = false;
  {
    const StandIn<ErrandRunner> stand_in(lazy);
    Errand errand;
    errand.begin([&] {
      is_done = true;
      return absl::OkStatus();
    });
    EXPECT_FALSE(errand.has_ended());
    std::thread other([] {
      Errand of_another_thread;
      of_another_thread.begin([] { return absl::OkStatus(); });
      wait_for(of_another_thread);
    });
    other.join();
    EXPECT_FALSE(is_done);
  }
  EXPECT_TRUE(is_done);
  EXPECT_EQ(StandIn<ErrandRunner>::get(), nullptr);
}

}  // namespace
}  // namespace verbena::base
