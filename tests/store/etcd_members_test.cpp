// The store in a cluster of three etcd members, of which one is killed or stopped.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "cluster/etcd_store.hpp"
#include "tests/store/driver.hpp"
#include "tests/store/etcd_process.hpp"

namespace verbena::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class EtcdMembersTest : public ::testing::Test, public Surroundings {
 protected:
  void SetUp() override {
    const absl::Status started = etcd_.start(3);
    ASSERT_TRUE(started.ok()) << started;
  }

  /// A store that asks this member first, and then the others.
  std::unique_ptr<EtcdStore> connect(std::size_t first) {
    EtcdOptions options;
    for (std::size_t i = 0; i < 3; ++i) options.endpoints.push_back(etcd_.endpoint((first + i) % 3));
    options.attempt_limit = seconds(1);
    auto store = EtcdStore::create(std::move(options));
    EXPECT_TRUE(store.ok()) << store.status();
    driver_.add(**store);
    return *std::move(store);
  }

  /// Puts keys one after the other until `enough` have been put since the last call, and remembers which.
  void put_many(Store& store, int enough) {
    for (int done = 0; done < enough && !HasFailure();) {
      const std::string key = fmt::format("/n/{:04}", next_++);
      const auto result =
          driver_.transact(store, {.conditions = {{key, Condition::Of::kCreated, 0}}, .puts = {{key, "v"}}});
      if (result.ok()) {
        // Nobody else puts it: a transaction that went out twice would fail the second time.
        EXPECT_TRUE(result->succeeded) << key;
        EXPECT_GT(result->revision, last_);
        last_ = result->revision;
        acknowledged_.insert(key);
        ++done;
      } else {
        EXPECT_TRUE(outcome_unknown(result.status()) || absl::IsUnavailable(result.status()))
            << result.status();
        if (outcome_unknown(result.status())) open_.insert(key);
      }
    }
  }
  /// All that was acknowledged is there, and nothing else but what is open.
  void expect_all(Store& store) {
    const auto snapshot = driver_.get(store, {.key = "/n/", .is_prefix = true});
    ASSERT_TRUE(snapshot.ok()) << snapshot.status();
    std::set<std::string> there;
    for (const Entry& each : snapshot->entries) there.insert(each.key);
    for (const std::string& key : acknowledged_) EXPECT_TRUE(there.contains(key)) << key;
    for (const std::string& key : there)
      EXPECT_TRUE(acknowledged_.contains(key) || open_.contains(key)) << key;
  }

  EtcdProcesses etcd_;
  Driver driver_{*this};
  int next_ = 0;
  Revision last_ = 0;
  std::set<std::string> acknowledged_;
  std::set<std::string> open_;
};

TEST_F(EtcdMembersTest, TheLeaderIsKilled) {
  const auto leader = etcd_.leader(0);
  ASSERT_TRUE(leader.ok()) << leader.status();
  const auto store = connect(*leader);
  const auto other = connect((*leader + 1) % 3);
  const auto lease = driver_.grant(*store, seconds(60));
  ASSERT_TRUE(lease.ok()) << lease.status();
  ASSERT_TRUE(driver_.put(*store, "/leased", "v", lease->id).ok());
  Heard heard;
  store->watch("/n/", 1, heard.listener());
  put_many(*store, 5);
  driver_.run_until([&] { return heard.events.size() >= 5; });
  etcd_.kill(*leader);
  put_many(*store, 5);
  put_many(*other, 5);
  expect_all(*store);
  expect_all(*other);
  EXPECT_TRUE(driver_.keep_alive(*store, lease->id).ok());
  // The watch was at the member that is gone.
  driver_.run_until([&] { return heard.end.has_value(); });
  EXPECT_TRUE(absl::IsUnavailable(*heard.end)) << *heard.end;
  const auto again = driver_.get(*store, {.key = "/n/", .is_prefix = true});
  ASSERT_TRUE(again.ok());
  Heard more;
  store->watch("/n/", again->revision + 1, more.listener());
  put_many(*other, 1);
  driver_.run_until([&] { return !more.events.empty(); });
}

TEST_F(EtcdMembersTest, AMemberIsStopped) {
  // Its kernel goes on taking connections and posts.
  const auto leader = etcd_.leader(0);
  ASSERT_TRUE(leader.ok()) << leader.status();
  const std::size_t stopped = (*leader + 1) % 3;
  const auto store = connect(stopped);
  Heard heard;
  store->watch("/n/", 1, heard.listener());
  put_many(*store, 5);
  driver_.run_until([&] { return heard.events.size() >= 5; });
  etcd_.stop(stopped);
  put_many(*store, 5);
  expect_all(*store);
  driver_.run_until([&] { return heard.end.has_value(); });
  etcd_.go_on(stopped);
  put_many(*store, 5);
  const auto other = connect(stopped);
  expect_all(*other);
}

TEST_F(EtcdMembersTest, WithoutMostMembersNothingHappensAndItIsSaid) {
  const auto store = connect(0);
  put_many(*store, 1);
  etcd_.stop(1);
  etcd_.stop(2);
  const auto alone = driver_.transact(*store, {.puts = {{"/alone", "v"}}}, milliseconds(500));
  EXPECT_TRUE(outcome_unknown(alone.status())) << alone.status();
  EXPECT_FALSE(driver_.get(*store, {.key = "/alone"}, milliseconds(500)).ok());
  etcd_.go_on(1);
  etcd_.go_on(2);
  put_many(*store, 1);
  expect_all(*store);
}

}  // namespace
}  // namespace verbena::cluster
