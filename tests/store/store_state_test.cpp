// What only a store of our own promises: times of leases, its bounds, what it forgets.
#include "cluster/store_state.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace verbena::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr TimePoint kBegin = TimePoint(seconds(100));
constexpr std::size_t kAll = 1 << 30;

template <class Result>
Result done(StoreState& state, const Request& request, TimePoint now = kBegin) {
  const auto answer = state.execute(request, now);
  EXPECT_TRUE(answer.ok()) << answer.status();
  return answer.ok() ? std::get<Result>(*answer) : Result{};
}
LeaseId granted(StoreState& state, Duration ttl, TimePoint now = kBegin) {
  return done<Lease>(state, GrantLease{ttl}, now).id;
}
Revision put(StoreState& state, const std::string& key, const std::string& value, LeaseId lease = kNoLease) {
  return done<TransactionResult>(state, Transaction{.puts = {{key, value, lease}}}).revision;
}
std::size_t entries(StoreState& state) {
  return done<Snapshot>(state, KeyRange{.key = "k", .is_prefix = true}).entries.size();
}

TEST(StoreStateTest, ALeaseLivesItsTimeAndNotLonger) {
  StoreState state;
  EXPECT_EQ(state.next_expiry(), TimePoint::max());
  const LeaseId lease = granted(state, seconds(2));
  put(state, "k", "v", lease);
  EXPECT_EQ(state.next_expiry(), kBegin + seconds(2));
  state.advance(kBegin + seconds(1));
  EXPECT_EQ(done<Lease>(state, KeepLease{lease}, kBegin + seconds(1)).ttl, seconds(2));
  state.advance(kBegin + seconds(3) - Duration(1));
  EXPECT_EQ(entries(state), 1U);
  state.advance(kBegin + seconds(3));
  EXPECT_EQ(entries(state), 0U);
  EXPECT_EQ(state.next_expiry(), TimePoint::max());
}

TEST(StoreStateTest, AfterAStopAllLeasesBeginAnew) {
  StoreState state;
  const LeaseId a = granted(state, seconds(2));
  granted(state, seconds(60));
  put(state, "k", "v", a);
  const TimePoint late = kBegin + seconds(2) + StoreState::kLate + Duration(1);
  state.advance(late);
  EXPECT_EQ(entries(state), 1U);
  EXPECT_EQ(state.next_expiry(), late + seconds(2));
  // Not so late is late for its holder.
  state.advance(late + seconds(2) + StoreState::kLate);
  EXPECT_EQ(entries(state), 0U);
}

TEST(StoreStateTest, LeasesEndOneByOneAndWhole) {
  StoreState state;
  const LeaseId a = granted(state, seconds(2));
  const LeaseId b = granted(state, milliseconds(2500));
  for (const char* key : {"k1", "k2"}) put(state, key, "v", a);
  const Revision last = put(state, "k3", "v", b);
  state.advance(kBegin + milliseconds(2600));
  EXPECT_EQ(state.revision(), last + 2);
  const auto events = state.events("k", last + 1, kAll);
  ASSERT_TRUE(events.ok());
  ASSERT_THAT(events->events, SizeIs(3));
  EXPECT_EQ(events->events[1].entry.modified, last + 1);
  EXPECT_EQ(events->events[2].entry.modified, last + 2);
}

TEST(StoreStateTest, HasRoomForSoMuch) {
  StoreState state({.most_bytes = 1000, .most_leases = 2, .most_history_bytes = 1 << 20});
  put(state, "k1", std::string(700, 'v'));
  const Revision before = state.revision();
  const Transaction more{.puts = {{"k2", std::string(300, 'v')}}};
  EXPECT_TRUE(absl::IsResourceExhausted(state.execute(more, kBegin).status()));
  EXPECT_EQ(state.revision(), before);
  // One in another's place is none more; and what goes makes room.
  put(state, "k1", std::string(800, 'v'));
  done<TransactionResult>(state, Transaction{.deletes = {"k1"}});
  done<TransactionResult>(state, more);
  // Many empty ones are not free.
  std::size_t keys = 0;
  while (state.execute(Transaction{.puts = {{fmt::format("k-{}", keys), ""}}}, kBegin).ok()) ++keys;
  EXPECT_LT(keys, 20U);
  granted(state, seconds(1));
  const LeaseId second = granted(state, seconds(1));
  EXPECT_TRUE(absl::IsResourceExhausted(state.execute(GrantLease{seconds(1)}, kBegin).status()));
  done<Revoked>(state, RevokeLease{second});
  granted(state, seconds(1));
}

TEST(StoreStateTest, AFullStoreStillShrinks) {
  StoreState state({.most_bytes = 1000, .most_leases = 2, .most_history_bytes = 1 << 20});
  put(state, "k1", std::string(900, 'v'));
  put(state, "k1", std::string(100, 'v'));
  done<TransactionResult>(state, Transaction{.deletes = {"k1"}});
}

TEST(StoreStateTest, ForgetsTheOldest) {
  StoreState state({.most_bytes = 1 << 20, .most_leases = 2, .most_history_bytes = 1000});
  const Revision first = put(state, "k", std::string(300, 'v'));
  EXPECT_TRUE(state.events("k", 1, kAll).ok());
  EXPECT_TRUE(state.events("k", first, kAll).ok());
  for (int i = 0; i < 10; ++i) put(state, "k", std::string(300, 'v'));
  EXPECT_TRUE(absl::IsOutOfRange(state.events("k", first, kAll).status()));
  EXPECT_TRUE(absl::IsOutOfRange(state.events("k", 1, kAll).status()));
  EXPECT_TRUE(state.events("k", state.revision(), kAll).ok());
  // One change larger than all that is kept is kept.
  put(state, "k", std::string(2000, 'v'));
  const auto events = state.events("k", state.revision(), kAll);
  ASSERT_TRUE(events.ok());
  EXPECT_THAT(events->events, SizeIs(1));
}

TEST(StoreStateTest, EventsComeInWholeRevisions) {
  StoreState state;
  const Revision first = put(state, "k1", "v");
  done<TransactionResult>(state, Transaction{.puts = {{"k2", "v"}, {"k3", "v"}, {"other", "v"}}});
  put(state, "k4", "v");
  auto part = state.events("k", first, 1);
  ASSERT_TRUE(part.ok());
  EXPECT_THAT(part->events, SizeIs(1));
  part = state.events("k", part->next, 1);
  ASSERT_TRUE(part.ok());
  EXPECT_THAT(part->events, SizeIs(2));
  part = state.events("k", part->next, 1);
  ASSERT_TRUE(part.ok());
  EXPECT_THAT(part->events, SizeIs(1));
  EXPECT_EQ(part->next, state.revision() + 1);
  part = state.events("k", part->next, 1);
  ASSERT_TRUE(part.ok());
  EXPECT_THAT(part->events, IsEmpty());
  EXPECT_EQ(part->next, state.revision() + 1);
  // From a revision that is not yet there.
  part = state.events("k", state.revision() + 5, 1);
  ASSERT_TRUE(part.ok());
  EXPECT_EQ(part->next, state.revision() + 5);
}

}  // namespace
}  // namespace verbena::cluster
