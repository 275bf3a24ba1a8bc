// Those who use a store, in virtual time, while it does to them all that a store may do.
#include "apps/simulation/simulated_store.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cluster/mirror.hpp"
#include "tests/store/driver.hpp"

namespace verbena::simulation {
namespace {

using cluster::Condition;
using cluster::Driver;
using cluster::Entry;
using cluster::Heard;
using cluster::Mirror;
using cluster::Revision;
using cluster::Snapshot;
using cluster::Store;
using std::chrono::milliseconds;
using std::chrono::seconds;
using transport::Duration;
using transport::TimePoint;

class VirtualTime final : public cluster::Surroundings {
 public:
  [[nodiscard]] TimePoint now() const override { return now_; }
  void wait(std::vector<pollfd>& /*wanted*/, TimePoint until) override { now_ = std::max(now_, until); }
  [[nodiscard]] TimePoint next_poll() const override {
    TimePoint next = TimePoint::max();
    for (const Mirror* each : mirrors) next = std::min(next, each->next_poll());
    return next;
  }
  void poll(TimePoint now) override {
    for (Mirror* const each : mirrors) each->poll(now);
  }
  std::vector<Mirror*> mirrors;

 private:
  TimePoint now_ = TimePoint(seconds(1));
};

/// Adds one to a number as often as it is told, each time once, whatever becomes of answers.
class Adder {
 public:
  Adder(Store& store, const VirtualTime& time, int number, int additions)
      : store_(store), time_(time), own_key_(fmt::format("/t/own/{}", number)), left_(additions) {
    read();
  }
  [[nodiscard]] bool is_done() const { return left_ == 0; }
  [[nodiscard]] int unknown() const { return unknown_; }
  [[nodiscard]] int found_done() const { return found_done_; }

 private:
  static constexpr Duration kLimit = milliseconds(200);

  void read() {
    if (is_done()) return;
    store_.get({.key = "/t/", .is_prefix = true}, time_.now() + kLimit,
               [this](const absl::StatusOr<Snapshot>& snapshot) {
                 if (snapshot.ok()) {
                   add(*snapshot);
                 } else {
                   read();
                 }
               });
  }
  void add(const Snapshot& snapshot) {
    Entry number;
    Entry own;
    for (const Entry& each : snapshot.entries) {
      if (each.key == "/t/number") number = each;
      if (each.key == own_key_) own = each;
    }
    // In each transaction something that nobody else puts: so it is known whether it has happened.
    const std::string mark = fmt::format("{}", left_);
    if (own.value == mark) {
      ++found_done_;
      --left_;
      return read();
    }
    const int value = number.value.empty() ? 0 : std::stoi(number.value);
    store_.transact({.conditions = {{"/t/number", Condition::Of::kModified, number.modified}},
                     .puts = {{"/t/number", fmt::format("{}", value + 1)}, {own_key_, mark}}},
                    time_.now() + kLimit, [this](const auto& result) {
                      if (result.ok() && result->succeeded) --left_;
                      if (cluster::outcome_unknown(result.status())) ++unknown_;
                      read();
                    });
  }

  Store& store_;
  const VirtualTime& time_;
  const std::string own_key_;
  int left_;
  int unknown_ = 0;
  int found_done_ = 0;
};

struct Outcome {
  Revision revision = 0;
  int unknown = 0;
  int found_done = 0;
  bool operator==(const Outcome&) const = default;
};

/// Three processes add and one follows, while the store is away now and then.
Outcome run(std::uint64_t seed) {
  constexpr int kAdders = 3;
  constexpr int kAdditions = 10;
  VirtualTime time;
  Driver driver(time);
  SimulatedStoreService service({.seed = seed,
                                 .lost_request = 0.1,
                                 .lost_answer = 0.1,
                                 .silence = 0.1,
                                 .late_events = 0.3,
                                 .cut_watch = 0.1,
                                 .lost_events = 0.1,
                                 .lease_drift = 0.05});
  SimulatedStore follower(service);
  driver.add(follower);
  Mirror mirror(follower, "/t/", {.read_interval = milliseconds(5)});  // so that reads meet events
  time.mirrors.push_back(&mirror);
  std::vector<std::unique_ptr<SimulatedStore>> stores;
  std::vector<std::unique_ptr<Adder>> adders;
  for (int i = 0; i < kAdders; ++i) {
    stores.push_back(std::make_unique<SimulatedStore>(service));
    driver.add(*stores.back());
    adders.push_back(std::make_unique<Adder>(*stores.back(), time, i, kAdditions));
  }
  Revision seen = 0;
  std::map<TimePoint, Snapshot> changed;
  TimePoint next_trouble = time.now() + milliseconds(50 + seed % 100);
  driver.run_until([&] {
    EXPECT_GE(mirror.revision(), seen) << "seed " << seed;
    seen = mirror.revision();
    changed.try_emplace(time.now(), std::get<Snapshot>(*service.state().execute(
                                        cluster::KeyRange{.key = "/t/", .is_prefix = true}, time.now())));
    // What had happened when it says that it is current, it has.
    if (const auto later = changed.lower_bound(mirror.current_at()); later != changed.begin()) {
      for (const Entry& each : std::prev(later)->second.entries) {
        const auto known = mirror.entries().find(each.key);
        EXPECT_TRUE(known != mirror.entries().end() && known->second.modified >= each.modified)
            << "seed " << seed << ": " << each.key;
      }
    }
    if (time.now() >= next_trouble) {
      service.set_available(!service.is_available(), time.now());
      next_trouble = time.now() + milliseconds(service.is_available() ? 1000 : 300);
    }
    return std::all_of(adders.begin(), adders.end(), [](const auto& each) { return each->is_done(); });
  });
  service.set_available(true, time.now());
  Outcome outcome{.revision = service.state().revision()};
  for (const auto& each : adders) {
    outcome.unknown += each->unknown();
    outcome.found_done += each->found_done();
  }
  // Each addition once, and the follower sees all of it, though its watch may never tell.
  driver.run_until([&] {
    const auto number = mirror.entries().find("/t/number");
    return number != mirror.entries().end() &&
           number->second.value == fmt::format("{}", kAdders * kAdditions);
  });
  const Snapshot truth = std::get<Snapshot>(
      *service.state().execute(cluster::KeyRange{.key = "/t/", .is_prefix = true}, time.now()));
  for (const Entry& each : truth.entries) {
    if (each.key != "/t/number") continue;
    EXPECT_EQ(each.value, fmt::format("{}", kAdders * kAdditions)) << "seed " << seed;
  }
  return outcome;
}

TEST(SimulatedStoreTest, NoAdditionIsLostOrDoubled) {
  Outcome all;
  for (std::uint64_t seed = 1; seed <= 200 && !::testing::Test::HasFailure(); ++seed) {
    const Outcome outcome = run(seed);
    all.unknown += outcome.unknown;
    all.found_done += outcome.found_done;
  }
  // The faults have come.
  EXPECT_GT(all.unknown, 200);
  EXPECT_GT(all.found_done, 50);
  EXPECT_LT(all.found_done, all.unknown);
}

TEST(SimulatedStoreTest, ASeedReplaysExactly) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) EXPECT_EQ(run(seed), run(seed));
}

TEST(SimulatedStoreTest, LeasesDriftOneWay) {
  VirtualTime time;
  Driver driver(time);
  SimulatedStoreService service({.seed = 1, .lease_drift = 0.5});
  SimulatedStore store(service);
  driver.add(store);
  const auto lease = driver.grant(store, seconds(10));
  ASSERT_TRUE(lease.ok());
  const TimePoint begin = time.now();
  ASSERT_TRUE(driver.put(store, "/k", "v", lease->id).ok());
  Heard heard;
  store.watch("/k", 1, heard.listener());
  driver.run_until([&] { return heard.events.size() == 2; });
  EXPECT_GE(time.now() - begin, seconds(19));
  EXPECT_LE(time.now() - begin, seconds(21));
}

TEST(SimulatedStoreTest, LeasesOutliveTheStoresAbsence) {
  VirtualTime time;
  Driver driver(time);
  SimulatedStoreService service({.seed = 1});
  SimulatedStore store(service);
  driver.add(store);
  const auto lease = driver.grant(store, seconds(2));
  ASSERT_TRUE(lease.ok());
  Heard heard;
  store.watch("/k", 1, heard.listener());
  driver.run_for(seconds(1));
  service.set_available(false, time.now());
  driver.run_for(seconds(60));
  EXPECT_TRUE(heard.end.has_value());
  EXPECT_TRUE(absl::IsUnavailable(driver.get(store, {.key = "/k"}, seconds(1)).status()));
  service.set_available(true, time.now());
  EXPECT_TRUE(driver.keep_alive(store, lease->id).ok());
}

TEST(MirrorTest, AsksSeldomWhenNothingHappens) {
  VirtualTime time;
  Driver driver(time);
  SimulatedStoreService service({.seed = 1});
  SimulatedStore store(service);
  driver.add(store);
  int reads = 0;
  TimePoint last;
  Mirror mirror(store, "/k", {.read_interval = seconds(2)});
  time.mirrors.push_back(&mirror);
  for (const TimePoint end = time.now() + seconds(60); time.now() < end; driver.run_for(milliseconds(100))) {
    if (mirror.current_at() != last) ++reads;
    last = mirror.current_at();
  }
  EXPECT_GE(reads, 25);
  EXPECT_LE(reads, 35);
}

TEST(MirrorTest, MayGoBeforeItsAnswer) {
  VirtualTime time;
  Driver driver(time);
  SimulatedStoreService service({.seed = 1});
  SimulatedStore store(service);
  driver.add(store);
  {
    Mirror mirror(store, "/k");
    mirror.poll(time.now());
  }
  driver.run_for(seconds(1));
}

}  // namespace
}  // namespace verbena::simulation
