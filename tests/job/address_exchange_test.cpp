#include "job/address_exchange.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

namespace verbena::job {
namespace {

using ::testing::ElementsAre;

/// Where the threads of a test meet, and what each has put there.
struct Place {
  const std::uint32_t size;
  std::mutex mutex;
  std::condition_variable changed;
  std::uint32_t here = 0;
  std::map<std::pair<std::uint32_t, std::string>, std::string> told;
};

class PlaceRendezvous : public Rendezvous {
 public:
  PlaceRendezvous(Place& place, std::uint32_t rank) : Rendezvous(rank, place.size), place_(place) {}

  absl::Status put(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(place_.mutex);
    place_.told[{rank(), key}] = value;
    return absl::OkStatus();
  }
  absl::Status fence(std::chrono::milliseconds patience, const Stopped& /*stopped*/) override {
    std::unique_lock lock(place_.mutex);
    ++place_.here;
    place_.changed.notify_all();
    const bool all = place_.changed.wait_for(lock, patience, [&] { return place_.here >= place_.size; });
    return all ? absl::OkStatus() : absl::DeadlineExceededError("not all have come");
  }
  absl::StatusOr<std::string> get(std::uint32_t rank, const std::string& key) override {
    const std::lock_guard lock(place_.mutex);
    return place_.told.at({rank, key});
  }

 private:
  Place& place_;
};

/// Two servers and a worker.
class AddressExchangeTest : public ::testing::Test {
 protected:
  Place place_{.size = 3};
  std::array<PlaceRendezvous, 3> seats_{{{place_, 0}, {place_, 1}, {place_, 2}}};
  std::array<AddressExchange, 3> exchanges_{{{seats_[0], 2}, {seats_[1], 2}, {seats_[2], 2}}};
  const std::atomic<bool> stop_ = false;
};

TEST_F(AddressExchangeTest, AllLearnWhereTheServersAre) {
  std::thread first([&] { EXPECT_TRUE(exchanges_[0].addresses("a", stop_).ok()); });
  std::thread second([&] { EXPECT_TRUE(exchanges_[1].addresses("b", stop_).ok()); });
  for (int thread = 0; thread < 2; ++thread) {  // the second call asks nobody
    EXPECT_THAT(exchanges_[2].addresses("", stop_).value(), ElementsAre("a", "b"));
  }
  first.join();
  second.join();
  EXPECT_EQ(place_.here, 3U);
}

TEST_F(AddressExchangeTest, NobodyWaitsForAServerThatHasGivenUp) {
  std::thread failed([&] { exchanges_[0].give_up(); });
  std::thread server([&] { EXPECT_TRUE(absl::IsCancelled(exchanges_[1].addresses("b", stop_).status())); });
  EXPECT_TRUE(absl::IsCancelled(exchanges_[2].addresses("", stop_).status()));
  failed.join();
  server.join();
  exchanges_[1].give_up();  // does nothing: it has met the others before
  EXPECT_EQ(place_.here, 3U);
}

TEST_F(AddressExchangeTest, WorkerThatHasGivenUpIsNotMissed) {
  std::thread first([&] { EXPECT_TRUE(exchanges_[0].addresses("a", stop_).ok()); });
  std::thread failed([&] { exchanges_[2].give_up(); });
  EXPECT_THAT(exchanges_[1].addresses("b", stop_).value(), ElementsAre("a", "b"));
  first.join();
  failed.join();
}

}  // namespace
}  // namespace verbena::job
