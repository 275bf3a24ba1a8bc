// How the processes of a job find rank 0 by etcd, and what becomes of entries that are wrong. With Debian's
// etcd-server, on the loopback interface.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "cluster/etcd_store.hpp"
#include "job/meeting/leader_entry.hpp"
#include "job/meeting/store_caller.hpp"
#include "job/network_rendezvous.hpp"
#include "tests/free_port.hpp"
#include "tests/store/etcd_process.hpp"

namespace verbena::job {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Joined = absl::StatusOr<std::unique_ptr<NetworkRendezvous>>;

bool never_stops() {
  return false;
}

class EtcdRendezvousTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    etcd = std::make_unique<cluster::EtcdProcesses>();
    started = etcd->start(1);
  }
  static void TearDownTestSuite() { etcd.reset(); }
  void SetUp() override {
    if (absl::IsNotFound(started)) GTEST_SKIP() << "skipped: " << started;
    ASSERT_TRUE(started.ok()) << started;
    auto store = cluster::EtcdStore::create({.endpoints = etcd->endpoints()});
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = std::make_unique<StoreCaller>(*std::move(store));
  }

  [[nodiscard]] EtcdPlace place() const {
    return {.etcd = {.endpoints = etcd->endpoints()},
            .job = ::testing::UnitTest::GetInstance()->current_test_info()->name(),
            .between_renewals = milliseconds(50)};
  }
  [[nodiscard]] NetworkRendezvous::Options process(std::uint32_t rank, std::uint32_t size) const {
    return {.etcd = place(),
            .rank = rank,
            .size = size,
            .secret = secret_,
            .grace = milliseconds(50),
            .end = [](const std::string& why) { ADD_FAILURE() << why; }};
  }
  static Joined join(const NetworkRendezvous::Options& options, milliseconds patience = seconds(30)) {
    return NetworkRendezvous::join(options, patience, never_stops);
  }
  /// It comes, tells the others who it is, and meets them.
  static void meet(const NetworkRendezvous::Options& options, const std::string& name,
                   const std::string& name_of_0) {
    const Joined mine = join(options);
    ASSERT_TRUE(mine.ok()) << mine.status();
    ASSERT_TRUE((*mine)->put("name", name).ok());
    const absl::Status met = (*mine)->fence(seconds(30), never_stops);
    ASSERT_TRUE(met.ok()) << met;
    EXPECT_EQ((*mine)->get(0, "name").value(), name_of_0);
    ASSERT_TRUE((*mine)->fence(seconds(30), never_stops).ok());
  }

  /// The entry's value; empty: there is none.
  [[nodiscard]] std::string entry() const {
    const auto snapshot = store_->get(key_of(place()));
    EXPECT_TRUE(snapshot.ok()) << snapshot.status();
    return snapshot.ok() && !snapshot->entries.empty() ? snapshot->entries[0].value : "";
  }
  void write(const std::string& value) const {
    EXPECT_TRUE(store_->transact({.puts = {{.key = key_of(place()), .value = value}}}).ok());
  }
  [[nodiscard]] static bool becomes(const std::function<bool()>& so) {
    const auto deadline = std::chrono::steady_clock::now() + seconds(30);
    while (!so()) {
      if (std::chrono::steady_clock::now() >= deadline) return false;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return true;
  }

  static std::unique_ptr<cluster::EtcdProcesses> etcd;
  static absl::Status started;
  const std::shared_ptr<const transport::Secret> secret_ = *transport::Secret::random();
  std::unique_ptr<StoreCaller> store_;
};
std::unique_ptr<cluster::EtcdProcesses> EtcdRendezvousTest::etcd;
absl::Status EtcdRendezvousTest::started;

TEST_F(EtcdRendezvousTest, NobodyHasToKnowWhereRankZeroIs) {
  std::thread early([&] { meet(process(1, 3), "one", "zero"); });
  std::this_thread::sleep_for(milliseconds(700));  // it waits
  std::thread host([&] { meet(process(0, 3), "zero", "zero"); });
  meet(process(2, 3), "two", "zero");
  early.join();
  host.join();
  EXPECT_EQ(entry(), "") << "it has left";
}

/// Another job has the same secret, and waits for its processes where a rank 0 of this one was once.
TEST_F(EtcdRendezvousTest, AnEntryOfAnEarlierRunLeadsNobodyAstray) {
  const std::uint16_t port = verbena::testing::free_port();
  NetworkRendezvous::Options of_other = process(0, 2);
  of_other.etcd.reset();
  of_other.place = {.host = "127.0.0.1", .port = port};
  std::thread other([&] { meet(of_other, "other zero", "other zero"); });
  write(encode({.place = of_other.place, .mark = "of an earlier run"}));
  std::thread guest([&] { meet(process(1, 2), "one", "zero"); });
  std::this_thread::sleep_for(milliseconds(500));  // it has looked there
  std::thread host([&] { meet(process(0, 2), "zero", "zero"); });
  guest.join();
  host.join();
  of_other.rank = 1;
  meet(of_other, "other one", "other zero");
  other.join();
}

TEST_F(EtcdRendezvousTest, AWrongEntryOnlyDelaysAndIsSaid) {
  const auto why = [&] {
    const Joined guest = join(process(1, 2), milliseconds(700));
    EXPECT_FALSE(guest.ok());
    return std::string(guest.status().message());
  };
  EXPECT_THAT(why(), AllOf(HasSubstr("rank 0 cannot be reached: etcd://127.0.0.1:"),
                           HasSubstr("/AWrongEntryOnlyDelaysAndIsSaid: it has not told etcd where it is")));
  write("10.0.0.1:7000");
  EXPECT_THAT(why(),
              HasSubstr("what etcd has as /verbena/AWrongEntryOnlyDelaysAndIsSaid/rank-0 does not say"));
  NetworkRendezvous::Options stranger = process(0, 2);
  stranger.etcd.reset();
  stranger.place = {.host = "127.0.0.1", .port = verbena::testing::free_port()};
  stranger.secret = *transport::Secret::random();
  const Joined listens = join(stranger);
  ASSERT_TRUE(listens.ok()) << listens.status();
  write(encode({.place = stranger.place, .mark = "a mark"}));
  EXPECT_THAT(why(), AllOf(HasSubstr("says that it is at 127.0.0.1:"), HasSubstr("secret")));
  std::thread guest([&] { meet(process(1, 2), "one", "zero"); });
  std::this_thread::sleep_for(milliseconds(500));  // it has looked there
  meet(process(0, 2), "zero", "zero");
  guest.join();
}

TEST_F(EtcdRendezvousTest, ASecondRankZeroIsRefusedWhileTheFirstLives) {
  const Joined first = join(process(0, 2));
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string of_first = entry();
  const Joined second = join(process(0, 2));
  EXPECT_TRUE(absl::IsAlreadyExists(second.status())) << second.status();
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("rank 0 of that job is at "));
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("to take its place, end that one first"));
  EXPECT_EQ(entry(), of_first);
}

TEST_F(EtcdRendezvousTest, WhatIsDoneToTheEntryIsMended) {
  const Joined host = join(process(0, 2));
  ASSERT_TRUE(host.ok()) << host.status();
  const std::string own = entry();
  ASSERT_NE(own, "");
  EXPECT_TRUE(store_->transact({.deletes = {key_of(place())}}).ok());
  ASSERT_TRUE(becomes([&] { return entry() == own; })) << "it was deleted";
  const cluster::LeaseId lease = store_->get(key_of(place()))->entries[0].lease;
  ASSERT_NE(lease, cluster::kNoLease);
  store_->revoke(lease, seconds(5));
  ASSERT_TRUE(becomes([&] { return entry() == own; })) << "etcd was away for longer than the lease";
  write("nonsense");
  EXPECT_TRUE(becomes([&] { return entry() == own; }));
  write(encode({.place = {.host = "127.0.0.1", .port = verbena::testing::free_port()}, .mark = "a mark"}));
  ASSERT_TRUE(becomes([&] { return entry() == own; })) << "nobody is there";
  EXPECT_TRUE(becomes([&] { return store_->get(key_of(place()))->entries[0].lease != cluster::kNoLease; }));
}

/// It looks after its entry meanwhile, and wants to take it away at its end.
TEST_F(EtcdRendezvousTest, WhoHasMetNeedsNoEtcd) {
  Joined host = join(process(0, 2));
  ASSERT_TRUE(host.ok()) << host.status();
  Joined guest = join(process(1, 2));
  ASSERT_TRUE(guest.ok()) << guest.status();
  etcd->stop(0);
  std::this_thread::sleep_for(milliseconds(200));
  std::thread other([&] { EXPECT_TRUE((*guest)->fence(seconds(30), never_stops).ok()); });
  EXPECT_TRUE((*host)->fence(seconds(30), never_stops).ok());
  other.join();
  const auto since = std::chrono::steady_clock::now();
  guest->reset();
  host->reset();
  EXPECT_LT(std::chrono::steady_clock::now() - since, seconds(5));
  etcd->go_on(0);
}

TEST_F(EtcdRendezvousTest, WithoutEtcdNobodyMeetsAndItIsSaid) {
  for (const std::uint32_t rank : {0U, 1U}) {
    NetworkRendezvous::Options options = process(rank, 2);
    options.etcd->etcd.endpoints = {fmt::format("http://127.0.0.1:{}", verbena::testing::free_port())};
    const Joined joined = join(options, seconds(1));
    EXPECT_TRUE(absl::IsUnavailable(joined.status())) << joined.status();
    EXPECT_THAT(std::string(joined.status().message()),
                AllOf(HasSubstr(rank == 0 ? "etcd has not answered within 1 s" : "rank 0 cannot be reached"),
                      HasSubstr("etcd://127.0.0.1:"), HasSubstr("onnect")));
  }
}

}  // namespace
}  // namespace verbena::job
