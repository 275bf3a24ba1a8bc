// What every store promises (cluster/store.hpp), against each of them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/store/backend.hpp"
#include "tests/store/driver.hpp"

namespace verbena::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class StoreContract : public ::testing::TestWithParam<BackendKind> {
 protected:
  /// One for all tests of a kind: some take a while to start.
  static void SetUpTestSuite() { backends().clear(); }
  static void TearDownTestSuite() { backends().clear(); }

  void SetUp() override {
    auto& made = backends()[GetParam().name];
    if (made == nullptr) {
      auto backend = GetParam().make();
      ASSERT_TRUE(backend.ok()) << backend.status();
      made = *std::move(backend);
    }
    driver_.emplace(*made);
    a_ = connect();
    b_ = connect();
    // Of this test alone, since the backend is not.
    static int tests = 0;
    prefix_ = fmt::format("/test-{}/", ++tests);
  }

  std::unique_ptr<Store> connect() {
    auto store = backend().connect();
    driver_->add(*store);
    return store;
  }
  static Backend& backend() { return *backends()[GetParam().name]; }
  [[nodiscard]] std::string key(const std::string& name) const { return prefix_ + name; }
  [[nodiscard]] KeyRange all() const { return {.key = prefix_, .is_prefix = true}; }

  Snapshot get(Store& store, const KeyRange& range) {
    const auto snapshot = driver_->get(store, range);
    EXPECT_TRUE(snapshot.ok()) << snapshot.status();
    return snapshot.ok() ? *snapshot : Snapshot{};
  }
  TransactionResult transact(Store& store, Transaction transaction) {
    const auto result = driver_->transact(store, std::move(transaction));
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *result : TransactionResult{};
  }
  Revision put(Store& store, const std::string& name, const std::string& value, LeaseId lease = kNoLease) {
    return transact(store, {.puts = {{key(name), value, lease}}}).revision;
  }
  /// The names, without the prefix, that are there now.
  std::vector<std::string> names(Store& store) {
    std::vector<std::string> names;
    for (const Entry& each : get(store, all()).entries) names.push_back(each.key.substr(prefix_.size()));
    return names;
  }

  std::string prefix_;
  std::optional<Driver> driver_;
  std::unique_ptr<Store> a_;
  std::unique_ptr<Store> b_;

 private:
  static std::map<std::string, std::unique_ptr<Backend>>& backends() {
    static std::map<std::string, std::unique_ptr<Backend>> all;
    return all;
  }
};

INSTANTIATE_TEST_SUITE_P(All, StoreContract, ::testing::ValuesIn(backend_kinds()),
                         [](const auto& kind) { return kind.param.name; });

TEST_P(StoreContract, GetsWhatWasPut) {
  EXPECT_THAT(get(*a_, all()).entries, IsEmpty());
  const std::string bytes("\0\xff\n\"\\ \xc3", 7);
  const Revision first = put(*a_, "b", bytes);
  const Revision second = put(*b_, "a", "");
  EXPECT_GT(first, 0U);
  EXPECT_EQ(second, first + 1);
  const Snapshot snapshot = get(*a_, all());
  EXPECT_EQ(snapshot.revision, second);
  EXPECT_THAT(snapshot.entries,
              ElementsAre(Entry{.key = key("a"), .value = "", .created = second, .modified = second},
                          Entry{.key = key("b"), .value = bytes, .created = first, .modified = first}));
}

TEST_P(StoreContract, KeysAreBytesInTheirOrder) {
  const std::vector<std::string> unusual = {std::string(1, '\0'), "\x01", "a",   "a\xff",
                                            "a\xff\xff",          "b",    "\xff"};
  for (const std::string& each : unusual) put(*a_, each, "x");
  EXPECT_EQ(names(*b_), unusual);
  // A prefix that ends with the last byte; one key alone.
  EXPECT_THAT(get(*b_, {.key = key("a\xff"), .is_prefix = true}).entries, SizeIs(2));
  EXPECT_THAT(get(*b_, {.key = key("\xff"), .is_prefix = true}).entries, SizeIs(1));
  EXPECT_THAT(get(*b_, {.key = key("a")}).entries, SizeIs(1));
  EXPECT_THAT(get(*b_, {.key = key("c")}).entries, IsEmpty());
}

TEST_P(StoreContract, AnEntryKnowsItsRevisions) {
  const Revision created = put(*a_, "k", "1");
  const Revision modified = put(*a_, "k", "2");
  const auto one = [&] { return get(*b_, {.key = key("k")}).entries.at(0); };
  EXPECT_EQ(one().created, created);
  EXPECT_EQ(one().modified, modified);
  EXPECT_EQ(transact(*a_, {.deletes = {key("k")}}).revision, modified + 1);
  const Revision again = put(*a_, "k", "3");
  EXPECT_EQ(one().created, again);
}

TEST_P(StoreContract, ATransactionIsOneChangeOrNone) {
  const Revision before = put(*a_, "old", "1");
  const TransactionResult result =
      transact(*a_, {.conditions = {{key("old"), Condition::Of::kModified, before},
                                    {key("new"), Condition::Of::kCreated, 0}},
                     .puts = {{key("new"), "2"}, {key("newer"), "3"}},
                     .deletes = {key("old"), key("never")}});
  EXPECT_TRUE(result.succeeded);
  EXPECT_EQ(result.revision, before + 1);
  const Snapshot snapshot = get(*b_, all());
  EXPECT_EQ(snapshot.revision, before + 1);
  ASSERT_THAT(snapshot.entries, SizeIs(2));
  for (const Entry& each : snapshot.entries) EXPECT_EQ(each.modified, before + 1);
}

TEST_P(StoreContract, EachConditionCounts) {
  const Revision created = put(*a_, "k", "1");
  const Revision modified = put(*a_, "k", "2");
  using Of = Condition::Of;
  const std::vector<std::pair<Condition, bool>> cases = {
      {{key("k"), Of::kCreated, created}, true},   {{key("k"), Of::kCreated, modified}, false},
      {{key("k"), Of::kModified, modified}, true}, {{key("k"), Of::kModified, created}, false},
      {{key("k"), Of::kCreated, 0}, false},        {{key("k"), Of::kModified, 0}, false},
      {{key("none"), Of::kCreated, 0}, true},      {{key("none"), Of::kModified, 0}, true},
      {{key("none"), Of::kModified, 1}, false}};
  for (const auto& [condition, holds] : cases) {
    const TransactionResult alone = transact(*a_, {.conditions = {condition}});
    EXPECT_EQ(alone.succeeded, holds) << condition.key << " " << condition.is;
    EXPECT_EQ(alone.revision, modified);
    // With one that holds, and something to do that must not be done.
    if (holds) continue;
    const TransactionResult both =
        transact(*a_, {.conditions = {{key("k"), Of::kModified, modified}, condition},
                       .puts = {{key("k"), "3"}},
                       .deletes = {key("k2")}});
    EXPECT_FALSE(both.succeeded);
    EXPECT_EQ(both.revision, modified);
  }
  EXPECT_EQ(get(*b_, {.key = key("k")}).entries.at(0).value, "2");
}

TEST_P(StoreContract, NothingChangedIsNoRevision) {
  const Revision before = put(*a_, "k", "1");
  EXPECT_EQ(transact(*a_, {.deletes = {key("never")}}).revision, before);
  EXPECT_EQ(transact(*a_, {}).revision, before);
  EXPECT_TRUE(transact(*a_, {}).succeeded);
  // The same value again is a change.
  EXPECT_EQ(put(*a_, "k", "1"), before + 1);
}

TEST_P(StoreContract, OneOfManyWins) {
  constexpr int kRivals = 8;
  std::vector<std::unique_ptr<Store>> rivals;
  std::vector<int> winners;
  int answers = 0;
  for (int i = 0; i < kRivals; ++i) {
    rivals.push_back(connect());
    rivals.back()->transact({.conditions = {{key("leader"), Condition::Of::kCreated, 0}},
                             .puts = {{key("leader"), fmt::format("{}", i)}}},
                            driver_->now() + seconds(20), [&, i](const auto& result) {
                              ASSERT_TRUE(result.ok()) << result.status();
                              if (result->succeeded) winners.push_back(i);
                              ++answers;
                            });
  }
  driver_->run_until([&] { return answers == kRivals; });
  ASSERT_THAT(winners, SizeIs(1));
  EXPECT_EQ(get(*a_, {.key = key("leader")}).entries.at(0).value, fmt::format("{}", winners[0]));
  for (const auto& each : rivals) driver_->remove(*each);
}

TEST_P(StoreContract, CountsByComparing) {
  // Each reads, adds one and writes if nobody else has; no addition may be lost.
  constexpr int kEach = 5;
  put(*a_, "n", "0");
  int done = 0;
  const auto add_all = [&](Store& store) {
    auto again = std::make_shared<std::function<void(int)>>();
    *again = [&, again](int left) {
      if (left == 0) {
        ++done;
        *again = nullptr;
        return;
      }
      store.get({.key = key("n")}, driver_->now() + seconds(20), [&, again, left](const auto& snapshot) {
        ASSERT_TRUE(snapshot.ok()) << snapshot.status();
        const Entry entry = snapshot->entries.at(0);
        store.transact({.conditions = {{entry.key, Condition::Of::kModified, entry.modified}},
                        .puts = {{entry.key, fmt::format("{}", std::stoi(entry.value) + 1)}}},
                       driver_->now() + seconds(20), [again, left](const auto& result) {
                         ASSERT_TRUE(result.ok()) << result.status();
                         (*again)(result->succeeded ? left - 1 : left);
                       });
      });
    };
    (*again)(kEach);
  };
  add_all(*a_);
  add_all(*b_);
  driver_->run_until([&] { return done == 2; });
  EXPECT_EQ(get(*a_, {.key = key("n")}).entries.at(0).value, fmt::format("{}", 2 * kEach));
}

TEST_P(StoreContract, RefusesWhatBreaksLimits) {
  const std::string long_key(kMostKeyBytes + 1, 'k');
  EXPECT_TRUE(absl::IsInvalidArgument(driver_->get(*a_, {.key = ""}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(driver_->get(*a_, {.key = long_key}).status()));
  const auto refused = [&](const Transaction& transaction) {
    return absl::IsInvalidArgument(driver_->transact(*a_, transaction).status());
  };
  EXPECT_TRUE(refused({.puts = {{"", "v"}}}));
  EXPECT_TRUE(refused({.puts = {{long_key, "v"}}}));
  EXPECT_TRUE(refused({.deletes = {long_key}}));
  EXPECT_TRUE(refused({.conditions = {{long_key}}}));
  EXPECT_TRUE(refused({.puts = {{key("k"), "1"}, {key("k"), "2"}}}));
  EXPECT_TRUE(refused({.puts = {{key("k"), "1"}}, .deletes = {key("k")}}));
  EXPECT_TRUE(refused({.puts = {{key("k"), std::string(kMostRequestBytes, 'v')}}}));
  EXPECT_TRUE(refused({.puts = {{key("k"), "1", ~LeaseId{0}}}}));
  Transaction many;
  for (std::size_t i = 0; i <= kMostOperations; ++i) many.deletes.push_back(key(fmt::format("{}", i)));
  EXPECT_TRUE(refused(many));
  EXPECT_TRUE(absl::IsInvalidArgument(driver_->grant(*a_, kShortestTtl / 2).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(driver_->grant(*a_, 2 * kLongestTtl).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(driver_->keep_alive(*a_, kNoLease).status()));
  Heard heard;
  a_->watch("", 1, heard.listener());
  driver_->run_until([&] { return heard.end.has_value(); });
  EXPECT_TRUE(absl::IsInvalidArgument(*heard.end));
  EXPECT_THAT(names(*b_), IsEmpty());
}

TEST_P(StoreContract, TakesTheLargestAllowed) {
  Transaction full;
  const std::size_t each = kMostRequestBytes / kMostOperations - prefix_.size() - 3;
  for (std::size_t i = 0; i < kMostOperations; ++i)
    full.puts.push_back({key(fmt::format("{:03}", i)), std::string(each, '\xff')});
  for (const Put& put : full.puts)
    full.conditions.push_back({put.key.substr(0, 1), Condition::Of::kModified, 0});
  for (Condition& condition : full.conditions) condition.key = "#";
  // The conditions' keys count, too.
  full.puts.back().value.resize(each - kMostOperations);
  EXPECT_TRUE(transact(*a_, full).succeeded);
  const Snapshot snapshot = get(*b_, all());
  ASSERT_THAT(snapshot.entries, SizeIs(kMostOperations));
  for (std::size_t i = 0; i < kMostOperations; ++i) {
    EXPECT_EQ(snapshot.entries[i].value.size(), full.puts[i].value.size());
    EXPECT_EQ(snapshot.entries[i].modified, snapshot.revision);
  }
  const std::string longest(kMostKeyBytes - prefix_.size(), 'k');
  put(*a_, longest, "v");
  EXPECT_THAT(get(*b_, {.key = key(longest)}).entries, SizeIs(1));
}

TEST_P(StoreContract, WhatIsLateIsNotAsked) {
  // The deadline has passed before the first poll().
  const auto result = driver_->transact(*a_, {.puts = {{key("k"), "1"}}}, Duration::zero());
  EXPECT_TRUE(absl::IsUnavailable(result.status())) << result.status();
  EXPECT_FALSE(outcome_unknown(result.status()));
  EXPECT_THAT(names(*b_), IsEmpty());
}

TEST_P(StoreContract, ManyRequestsAtOnce) {
  std::size_t answers = 0;
  std::size_t refused = 0;
  for (std::size_t i = 0; i < kMostUnanswered + 10; ++i) {
    a_->get({.key = key("k")}, driver_->now() + seconds(60), [&](const auto& snapshot) {
      ++answers;
      if (!snapshot.ok()) {
        ++refused;
        EXPECT_TRUE(absl::IsResourceExhausted(snapshot.status())) << snapshot.status();
      }
    });
  }
  driver_->run_until([&] { return answers == kMostUnanswered + 10; });
  EXPECT_EQ(refused, 10U);
}

TEST_P(StoreContract, KeysGoWithTheirLease) {
  const auto lease = driver_->grant(*a_, seconds(60));
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_NE(lease->id, kNoLease);
  EXPECT_GE(lease->ttl, seconds(60));
  put(*a_, "a", "1", lease->id);
  put(*b_, "b", "2", lease->id);  // whoever knows it may use it
  put(*a_, "c", "3");
  put(*a_, "d", "4", lease->id);
  const Revision last = put(*a_, "d", "5");  // no longer the lease's
  EXPECT_EQ(get(*b_, {.key = key("a")}).entries.at(0).lease, lease->id);
  EXPECT_EQ(get(*b_, {.key = key("d")}).entries.at(0).lease, kNoLease);
  const auto kept = driver_->keep_alive(*b_, lease->id);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->id, lease->id);
  EXPECT_GE(kept->ttl, seconds(60));

  Heard heard;
  b_->watch(prefix_, last + 1, heard.listener());
  EXPECT_TRUE(driver_->revoke(*a_, lease->id).ok());
  EXPECT_THAT(names(*b_), ElementsAre("c", "d"));
  driver_->run_until([&] { return heard.events.size() >= 2; });
  // All in one change.
  ASSERT_THAT(heard.events, SizeIs(2));
  for (const Event& each : heard.events) {
    EXPECT_TRUE(each.is_delete);
    EXPECT_EQ(each.entry.modified, last + 1);
  }
  EXPECT_TRUE(absl::IsNotFound(driver_->keep_alive(*a_, lease->id).status()));
  EXPECT_TRUE(driver_->revoke(*a_, lease->id).ok());
  const auto late = driver_->put(*a_, key("e"), "6", lease->id);
  EXPECT_TRUE(absl::IsNotFound(late.status())) << late.status();
}

TEST_P(StoreContract, ALeaseEndsUnlessItIsKeptAlive) {
  // One that is kept alive outlives one that is not, and its own time. On a busy machine a renewal may come
  // too late: then it is tried again.
  constexpr int kTrials = 10;
  bool was_late = true;
  for (int trial = 0; was_late && trial < kTrials; ++trial) {
    const auto kept = driver_->grant(*a_, seconds(1));
    const TimePoint begin = driver_->now();
    const auto left = driver_->grant(*a_, seconds(1));
    ASSERT_TRUE(kept.ok() && left.ok());
    EXPECT_GE(kept->ttl, seconds(1));
    put(*a_, "kept", "1", kept->id);
    const auto put_left = driver_->put(*a_, key("left"), "2", left->id);
    Heard heard;
    const Store::WatchId watch =
        b_->watch(key("left"), put_left.ok() ? put_left->revision + 1 : 1, heard.listener());
    TimePoint asked = begin;
    was_late = !put_left.ok();
    while (!was_late && (heard.events.empty() || driver_->now() - begin < 2 * kept->ttl)) {
      const TimePoint now = driver_->now();
      const auto renewed = driver_->keep_alive(*a_, kept->id);
      was_late = driver_->now() - asked >= kept->ttl;
      asked = now;
      if (!was_late) {
        ASSERT_TRUE(renewed.ok()) << renewed.status();
        driver_->run_for(kept->ttl / 5);
      }
    }
    if (!was_late) {
      ASSERT_THAT(heard.events, SizeIs(1));
      EXPECT_TRUE(heard.events[0].is_delete);
      EXPECT_THAT(names(*b_), ElementsAre("kept"));
      EXPECT_TRUE(absl::IsNotFound(driver_->keep_alive(*a_, left->id).status()));
    }
    b_->unwatch(watch);
    // What ends later would be a change in other tests.
    EXPECT_TRUE(driver_->revoke(*a_, kept->id).ok());
    EXPECT_TRUE(driver_->revoke(*a_, left->id).ok());
  }
  EXPECT_FALSE(was_late) << "this machine is too busy for leases of a second";
}

TEST_P(StoreContract, AWatchTellsAllInOrder) {
  put(*a_, "before", "0");
  const Revision from = get(*a_, all()).revision + 1;
  put(*a_, "k", "1");  // before the watch begins, but not before its revision
  Heard heard;
  Heard other;
  b_->watch(prefix_, from, heard.listener());
  b_->watch(key("other"), from, other.listener());
  put(*a_, "k", "2");
  transact(*a_, {.puts = {{key("l"), "3"}, {key("m"), "4"}}, .deletes = {key("k")}});
  const Revision last = put(*a_, "other", "5");
  driver_->run_until([&] { return heard.events.size() >= 6 && !other.events.empty(); });
  ASSERT_THAT(heard.events, SizeIs(6));
  EXPECT_EQ(heard.events[0].entry, (Entry{.key = key("k"), .value = "1", .created = from, .modified = from}));
  EXPECT_EQ(heard.events[1].entry,
            (Entry{.key = key("k"), .value = "2", .created = from, .modified = from + 1}));
  std::set<std::string> changed;
  for (std::size_t i = 2; i < 5; ++i) {
    EXPECT_EQ(heard.events[i].entry.modified, from + 2);
    EXPECT_EQ(heard.events[i].is_delete, heard.events[i].entry.key == key("k"));
    changed.insert(heard.events[i].entry.key);
  }
  EXPECT_THAT(changed, ElementsAre(key("k"), key("l"), key("m")));
  EXPECT_EQ(heard.events[5].entry.modified, last);
  ASSERT_THAT(other.events, SizeIs(1));
  EXPECT_EQ(other.events[0].entry.value, "5");
  EXPECT_FALSE(heard.end || other.end);
}

TEST_P(StoreContract, AWatchMayBeginInTheFuture) {
  const Revision now = put(*a_, "k", "1");
  Heard heard;
  b_->watch(prefix_, now + 2, heard.listener());
  put(*a_, "k", "2");
  put(*a_, "k", "3");
  driver_->run_until([&] { return !heard.events.empty(); });
  EXPECT_EQ(heard.events[0].entry.value, "3");
}

TEST_P(StoreContract, WhatIsUnwatchedIsSilent) {
  const Revision now = put(*a_, "k", "1");
  Heard heard;
  Heard lasting;
  const Store::WatchId watch = b_->watch(prefix_, now + 1, heard.listener());
  put(*a_, "k", "2");
  driver_->run_until([&] { return !heard.events.empty(); });
  b_->unwatch(watch);
  b_->unwatch(watch);
  b_->watch(prefix_, now + 1, lasting.listener());
  put(*a_, "k", "3");
  driver_->run_until([&] { return lasting.events.size() == 2; });
  EXPECT_THAT(heard.events, SizeIs(1));
  EXPECT_FALSE(heard.end);
}

TEST_P(StoreContract, ForgottenRevisionsEndAWatch) {
  const Revision first = put(*a_, "k", "1");
  put(*a_, "k", "2");
  const Revision last = put(*a_, "k", "3");
  ASSERT_TRUE(backend().compact(last).ok());
  Heard heard;
  b_->watch(prefix_, first, heard.listener());
  driver_->run_until([&] { return heard.end.has_value(); });
  EXPECT_TRUE(absl::IsOutOfRange(*heard.end)) << *heard.end;
  EXPECT_THAT(heard.events, IsEmpty());
  // Reading again helps.
  const Revision again = get(*b_, all()).revision + 1;
  Heard more;
  b_->watch(prefix_, again, more.listener());
  put(*a_, "k", "4");
  driver_->run_until([&] { return !more.events.empty(); });
  EXPECT_EQ(more.events[0].entry.value, "4");
}

TEST_P(StoreContract, CallbacksMayAskAndEnd) {
  const Revision now = put(*a_, "k", "1");
  bool done = false;
  Store::WatchId watch = 0;
  watch = a_->watch(prefix_, now + 1, [&](const auto& events) {
    ASSERT_TRUE(events.ok()) << events.status();
    a_->unwatch(watch);
    a_->get(all(), driver_->now() + seconds(20), [&](const auto& snapshot) {
      EXPECT_TRUE(snapshot.ok()) << snapshot.status();
      done = true;
    });
  });
  put(*b_, "k", "2");
  driver_->run_until([&] { return done; });
}

TEST_P(StoreContract, WhoGoesIsNotCalledBack) {
  auto going = connect();
  int calls = 0;
  going->get(all(), driver_->now() + seconds(20), [&](const auto&) { ++calls; });
  going->watch(prefix_, 1, [&](const auto&) { ++calls; });
  going->poll(driver_->now());
  calls = 0;  // some answer at once
  driver_->remove(*going);
  going.reset();
  put(*a_, "k", "1");
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace verbena::cluster
