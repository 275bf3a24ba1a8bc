// A lane alone, step by step: what it applies and when, and what it sends to which worker.
#include "server/lane.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <list>
#include <map>
#include <optional>
#include <random>
#include <tuple>

#include "consistency/model.hpp"
#include "consistency/weight_of_means.hpp"
#include "protocol/server_function.hpp"
#include "server/dense_shard.hpp"
#include "server/function_run.hpp"
#include "server/region_desk.hpp"
#include "server/row_books.hpp"
#include "server/shard_memory.hpp"
#include "transport/shm/host_memory.hpp"
#include "transport/shm/shm_transport.hpp"

namespace verbena::server {
namespace {

using protocol::BulkHeader;
using protocol::BulkKind;

constexpr std::uint32_t kWidth = 2;
constexpr std::size_t kStride = 8;
constexpr std::size_t kRecord = protocol::record_bytes(kStride);

struct Told {
  BulkHeader header;
  std::map<Key, float> rows;  ///< the first number of each row
};

class LaneTest : public ::testing::Test {
 protected:
  void start(ConsistencyModel model, std::uint32_t workers, std::size_t buffer_records = 100,
             std::size_t buffers = Lane::kPushBuffers, std::optional<std::int64_t> budget_bytes = {},
             const char* rule = "add") {
    rows_.assign(kRows * kStride, std::byte{0});
    shard_.emplace(
        protocol::OpenTable{
            .table = 0, .value_type = ValueType::kFloat, .rows = kRows, .width = kWidth, .name = "rows"},
        consistency::rules_of(model), protocol::UpdateRule::find(rule, ValueType::kFloat, kWidth).value());
    ASSERT_EQ(shard_->stride_bytes, kStride);
    shard_->range = protocol::RowRange({kFirst, kFirst + kRows});
    shard_->lanes = {shard_->range.keys()};
    const RowBooks::Needs needs(*shard_, workers, budget_bytes.has_value());
    shard_->books = RowBooks::create(*transport_, *shard_, needs, kRows).value();
    shard_->stored =
        StoredRows({.row_bytes = kStride, .state_bytes = needs.state_bytes, .bits_bytes = needs.bits_bytes},
                   StoredRows::kOneChunk);
    shard_->stored.add_chunk(shard_->books.chunk(rows_.data()));
    std::vector<transport::TokenBucket*> budgets;
    for (std::uint32_t worker = 0; budget_bytes && worker < workers; ++worker)
      budgets.push_back(&budgets_.emplace_back(1e9, *budget_bytes, transport::TimePoint()));
    lane_.emplace(0, workers, budgets);
    for (std::uint32_t worker = 0; worker < workers; ++worker) {
      for (std::size_t i = 0; i < buffers; ++i) {
        memory_.emplace_back(sizeof(BulkHeader) + buffer_records * kRecord);
        buffers_.push_back({.worker = worker, .memory = memory_.back()});
        lane_->add_push_buffer(&buffers_.back());
      }
    }
    lane_->enqueue({.kind = LaneTask::Kind::kOpen, .shard = &*shard_});
    for (std::uint32_t worker = 0; worker < workers; ++worker)
      lane_->enqueue({.kind = LaneTask::Kind::kTell, .worker = worker});
  }

  void updates(std::uint32_t worker, const std::vector<std::pair<Key, float>>& rows,
               consistency::Clock clock = 0) {
    inbox_.emplace_back(rows.size() * kRecord);
    std::byte* to = inbox_.back().data();
    for (const auto& [key, value] : rows) {
      const float values[kWidth] = {value, -value};
      std::memcpy(to, &key, sizeof key);
      std::memcpy(to + sizeof key, values, sizeof values);
      to += kRecord;
    }
    const BulkHeader header{
        .kind = BulkKind::kUpdates, .count = static_cast<std::uint32_t>(rows.size()), .clock = clock};
    messages_.emplace_back().users = 1;
    lane_->enqueue({.kind = LaneTask::Kind::kUpdates,
                    .worker = worker,
                    .message = {header, inbox_.back()},
                    .inbox = &messages_.back()});
  }

  void subscribe(std::uint32_t worker, const std::vector<Key>& keys, BulkKind kind = BulkKind::kSubscribe) {
    inbox_.emplace_back(keys.size() * sizeof(Key));
    std::memcpy(inbox_.back().data(), keys.data(), inbox_.back().size());
    const BulkHeader header{.kind = kind, .count = static_cast<std::uint32_t>(keys.size())};
    lane_->enqueue(
        {.kind = LaneTask::Kind::kSubscribe, .worker = worker, .message = {header, inbox_.back()}});
  }

  void clock(std::uint32_t worker, consistency::Clock clock,
             const consistency::ExampleCounts& examples = {}) {
    lane_->enqueue({.kind = LaneTask::Kind::kClock, .worker = worker, .clock = clock, .examples = examples});
  }

  /// A call for all rows.
  void call(std::uint32_t worker, std::string_view function, consistency::Clock clock = 0,
            protocol::Tag tag = 0) {
    EXPECT_TRUE(lane_->may_call(worker, protocol::kMaxOpenCalls));
    lane_->enqueue({.kind = LaneTask::Kind::kCall,
                    .worker = worker,
                    .call = std::make_shared<FunctionRun>(
                        worker, /*table=*/0, clock, protocol::CallMessage{.tag = tag, .range = kAllKeys},
                        protocol::BoundFunction::find(function, shard_->rule, /*numbers_a_key=*/0))});
  }

  /// Drives the lane until it is idle. Returns what it has sent to the worker. Gives buffers back at once
  /// unless `keep`.
  std::vector<Told> poll(std::uint32_t worker, bool keep = false) {
    while (lane_->poll() || collect(keep)) {
    }
    std::vector<Told> told = std::move(told_[worker]);
    told_[worker].clear();
    return told;
  }

  bool collect(bool keep) {
    PushBuffer* buffer = nullptr;
    bool any = false;
    while (lane_->take_outgoing(buffer)) {
      any = true;
      Told told;
      const auto message = protocol::decode_bulk(buffer->memory.first(buffer->used_bytes));
      EXPECT_TRUE(message.ok());
      if (message->header.kind == BulkKind::kResult) {
        std::vector<std::uint64_t> words;
        const auto piece = protocol::take_piece(*message, words);
        EXPECT_TRUE(piece.ok()) << piece.status();
        std::vector<std::uint64_t>& all = words_[piece->tag];
        all.insert(all.end(), words.begin(), words.end());
        if (piece->words_left == 0) results_[piece->tag] = protocol::decode_answer(all).value();
        keep ? kept_.push_back(buffer) : lane_->give_back(buffer);
        continue;
      }
      EXPECT_TRUE(protocol::check_records(*message, kStride, shard_->range.keys()).ok());
      told.header = message->header;
      for (std::size_t i = 0; i < told.header.count; ++i) {
        float value;
        std::memcpy(&value, protocol::record_values(message->payload, kStride, i), sizeof value);
        told.rows[protocol::record_key(message->payload, kStride, i)] = value;
      }
      told_[buffer->worker].push_back(told);
      if (keep) {
        kept_.push_back(buffer);
      } else {
        lane_->give_back(buffer);
      }
    }
    return any;
  }

  float row(Key key) const {
    float value;
    std::memcpy(&value, shard_->stored.values(shard_->range.row_of(key)), sizeof value);
    return value;
  }

  std::map<protocol::Tag, std::vector<std::uint64_t>> words_;
  std::map<protocol::Tag, protocol::CallAnswer> results_;
  static constexpr Key kFirst = 100;
  static constexpr std::uint64_t kRows = 20;
  std::vector<std::byte> rows_;
  std::unique_ptr<transport::Transport> transport_ = transport::make_shm_transport().value();
  std::optional<DenseShard> shard_;
  std::deque<transport::TokenBucket> budgets_;
  std::optional<Lane> lane_;
  std::list<std::vector<std::byte>> memory_;
  std::list<PushBuffer> buffers_;
  std::list<std::vector<std::byte>> inbox_;
  std::deque<InboxMessage> messages_;
  std::map<std::uint32_t, std::vector<Told>> told_;
  std::vector<PushBuffer*> kept_;
};

/// A worker can write into its inbox after the receiver has checked what is there.
TEST_F(LaneTest, KeysOfOthersAreLeftAlone) {
  start(Essp{1}, 1);
  updates(0, {{100, 1}});
  subscribe(0, {99, 101, 120, UINT64_MAX});
  clock(0, 1);
  const std::vector<Told> told = poll(0);
  EXPECT_EQ(row(100), 1);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].header.count, 1U);
  EXPECT_TRUE(told[0].rows.contains(101));
}

/// More records than are looked at together, of few rows: to the bit what one after the other would give.
TEST_F(LaneTest, ManyUpdatesAreAddedInTheirOrder) {
  for (const std::size_t records : {0U, 1U, 31U, 32U, 33U, 64U, 500U}) {
    SCOPED_TRACE(records);
    start(Essp{1}, 1);
    std::mt19937 random(3);
    std::vector<std::pair<Key, float>> rows;
    std::map<Key, float> expected;
    for (std::size_t i = 0; i < records; ++i) {
      const Key key = kFirst + random() % kRows;
      const float value = static_cast<float>(random() % 100'000) / 7;
      rows.emplace_back(key, value);
      expected[key] += value;
    }
    subscribe(0, {kFirst + 1});
    updates(0, rows);
    clock(0, 1);
    const std::vector<Told> told = poll(0);
    for (Key key = kFirst; key < kFirst + kRows; ++key) EXPECT_EQ(row(key), expected[key]) << key;
    ASSERT_EQ(told.size(), 1U);
    EXPECT_EQ(told[0].rows, (std::map<Key, float>{{kFirst + 1, expected[kFirst + 1]}}));
    EXPECT_EQ(messages_.back().users, 0U);
  }
}

TEST_F(LaneTest, SspAppliesAtOnceBspHoldsBack) {
  start(Ssp{1}, 2);
  updates(0, {{100, 1}, {119, 2}});
  poll(0);
  EXPECT_EQ(row(100), 1);
  EXPECT_EQ(row(119), 2);
  EXPECT_EQ(messages_.front().users, 0U);

  start(Bsp{}, 2);
  updates(1, {{100, 1}});
  clock(1, 1);
  updates(1, {{100, 10}}, 1);  // already of the next clock
  updates(0, {{100, 100}});
  poll(0);
  EXPECT_EQ(row(100), 0);
  EXPECT_EQ(messages_.back().users, 0U) << "a held-back update must not keep the inbox";
  clock(0, 1);
  poll(0);
  EXPECT_EQ(row(100), 101);
  clock(0, 2);
  poll(0);
  EXPECT_EQ(row(100), 101);
  clock(1, 2);
  poll(0);
  EXPECT_EQ(row(100), 111);
}

TEST_F(LaneTest, BspAppliesInWorkerOrderWhateverTheArrival) {
  // As floats, the sum of these is 0 in the order 0, 1, 2, and 1 if worker 2 comes before worker 1.
  const std::vector<float> values{16777216.0F, 1.0F, -16777216.0F};
  for (const std::vector<std::uint32_t>& arrival :
       std::vector<std::vector<std::uint32_t>>{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {2, 0, 1}}) {
    start(Bsp{}, 3);
    for (const std::uint32_t worker : arrival) {
      updates(worker, {{105, values[worker]}});
      clock(worker, 1);
    }
    poll(0);
    EXPECT_EQ(row(105), 0.0F);
  }
}

TEST_F(LaneTest, MeansWeighWhatTheirExamplesDo) {
  start(ABsp{Updates::kMeans}, 3);
  // Worker 0 has processed all of its examples, worker 1 a quarter, worker 2 takes no part.
  updates(0, {{100, 8}, {101, 8}});
  updates(1, {{101, 16}});
  updates(2, {{100, 100}, {101, 100}});
  clock(0, 1, {.processed = 300, .planned = 300});
  clock(1, 1, {.processed = 100, .planned = 400});
  poll(0);
  EXPECT_EQ(row(101), 0);
  clock(2, 1);
  poll(0);
  // 400 of 700 planned examples were processed: 300 of 300, and 100 of 400.
  EXPECT_FLOAT_EQ(row(100), 8 * 1.75F + 100);
  EXPECT_FLOAT_EQ(row(101), 8 * 1.75F + 16 * 0.4375F + 100);
}

TEST_F(LaneTest, EachClockHasItsOwnWeights) {
  start(ABsp{Updates::kMeans}, 2);
  for (consistency::Clock t = 0; t < 3; ++t)
    updates(0, {{100, 1}}, t), clock(0, t + 1, {.processed = 10, .planned = 10});
  poll(0);
  EXPECT_EQ(row(100), 0);
  clock(1, 1, {.processed = 10, .planned = 10});
  poll(0);
  EXPECT_EQ(row(100), 1) << "both have processed all examples: the weight is 1";
  updates(1, {{101, std::numeric_limits<float>::quiet_NaN()}}, 1);
  clock(1, 2, {.processed = 0, .planned = 10});
  poll(0);
  EXPECT_EQ(row(100), 3) << "worker 1 has processed nothing: worker 0's update weighs 2";
  EXPECT_EQ(row(101), 0) << "a mean of nothing";
  clock(1, 3);
  poll(0);
  EXPECT_EQ(row(100), 4) << "worker 0 takes part alone: the weight is 1";
}

TEST_F(LaneTest, SumsAreNotWeighted) {
  start(ABsp{}, 2);
  updates(0, {{100, 8}});
  updates(1, {{100, 1}});
  clock(0, 1, {.processed = 300, .planned = 300});
  clock(1, 1, {.processed = 1, .planned = 400});
  poll(0);
  EXPECT_EQ(row(100), 9);
}

/// The last updates of a worker that leaves in the middle of an iteration are weighted, too.
TEST_F(LaneTest, OneThatLeavesIsWeighted) {
  start(ABsp{Updates::kMeans}, 2);
  updates(0, {{100, 4}});
  clock(0, 1, {.processed = 10, .planned = 40});
  clock(0, consistency::VectorClock::kLeft);
  updates(1, {{101, 4}});
  clock(1, 1, {.processed = 30, .planned = 40});
  poll(0);
  EXPECT_EQ(row(100), 2);
  EXPECT_EQ(row(101), 6);
}

TEST_F(LaneTest, EachAdvanceIsToldWithWhatIsApplied) {
  start(Ssp{0}, 2);
  updates(0, {{100, 1}});
  updates(0, {{101, 1}});
  clock(0, 1);
  std::vector<Told> told = poll(0);
  ASSERT_EQ(told.size(), 1U);  // its own updates are applied, though the min clock has not advanced
  EXPECT_EQ(told[0].header.clock, 0);
  EXPECT_EQ(told[0].header.applied, 2U);
  EXPECT_TRUE(poll(1).empty());
  clock(1, 1);
  told = poll(1);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].header.clock, 1);
  EXPECT_EQ(told[0].header.applied, 0U);
  ASSERT_EQ(poll(0).size(), 1U);
}

TEST_F(LaneTest, DirtySubscribedRowsGoBeforeTheClock) {
  start(Essp{1}, 2, 3);  // three rows a message
  subscribe(1, {100, 101, 102, 103, 104, 105, 106});
  updates(0, {{100, 1}, {101, 2}, {110, 3}});
  clock(0, 1);
  EXPECT_TRUE(poll(1).empty());
  clock(1, 1);
  std::vector<Told> told = poll(1);
  ASSERT_EQ(told.size(), 3U);
  std::map<Key, float> seen;
  for (std::size_t i = 0; i < told.size(); ++i) {
    EXPECT_EQ(told[i].header.clock, i + 1 == told.size() ? 1 : 0);
    seen.insert(told[i].rows.begin(), told[i].rows.end());
  }
  // All rows that it has subscribed to, since its copies may be old; not row 110, which it does not cache.
  EXPECT_EQ(seen,
            (std::map<Key, float>{{100, 1}, {101, 2}, {102, 0}, {103, 0}, {104, 0}, {105, 0}, {106, 0}}));
  // From now on only rows that change.
  updates(0, {{105, 7}}, 1);
  clock(0, 2);
  clock(1, 2);
  told = poll(1);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].rows, (std::map<Key, float>{{105, 7}}));
  EXPECT_EQ(told[0].header.clock, 2);
}

/// Bits of workers are looked at in words of several sizes.
TEST_F(LaneTest, EachOfManyWorkersGetsWhatItHasSubscribedTo) {
  for (const std::uint32_t workers : {8U, 9U, 16U, 17U, 32U, 33U, 64U, 65U, 130U}) {
    SCOPED_TRACE(workers);
    start(Essp{1}, workers);
    const auto all_finish = [&](consistency::Clock clock) {
      for (std::uint32_t worker = 0; worker < workers; ++worker) this->clock(worker, clock);
    };
    for (std::uint32_t worker = 0; worker < workers; worker += 2) subscribe(worker, {100, 119});
    all_finish(1);
    static_cast<void>(poll(0));
    for (std::uint32_t worker = 0; worker < workers; ++worker) told_[worker].clear();
    updates(1, {{100, 1}, {101, 2}, {119, 3}}, 1);
    all_finish(2);
    static_cast<void>(poll(0));  // what worker 0 is told, it returns
    for (std::uint32_t worker = 1; worker < workers; ++worker) {
      std::map<Key, float> rows;
      for (const Told& told : told_[worker]) rows.insert(told.rows.begin(), told.rows.end());
      const bool is_told = worker % 2 == 0;
      EXPECT_EQ(rows, is_told ? (std::map<Key, float>{{100, 1}, {119, 3}}) : (std::map<Key, float>{}))
          << worker;
      told_[worker].clear();
    }
  }
}

TEST_F(LaneTest, WhatHasLeftTheCacheIsPushedNoMore) {
  start(Essp{1}, 2);
  subscribe(1, {100, 101});
  clock(0, 1);
  clock(1, 1);
  std::vector<Told> told = poll(1);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].header.subscriptions, 1U);
  subscribe(1, {100}, BulkKind::kUnsubscribe);
  updates(0, {{100, 1}, {101, 2}}, 1);
  clock(0, 2);
  clock(1, 2);
  told = poll(1);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].rows, (std::map<Key, float>{{101, 2}}));
  EXPECT_EQ(told[0].header.subscriptions, 2U);
  // When the row is subscribed to again, it is pushed once, although nobody changes it.
  subscribe(1, {100});
  clock(0, 3);
  clock(1, 3);
  told = poll(1);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].rows, (std::map<Key, float>{{100, 1}}));
  EXPECT_EQ(told[0].header.subscriptions, 3U);
}

TEST_F(LaneTest, ASlowWorkerGetsTheNewestRowsOnce) {
  start(Essp{1}, 2, 100, 1);  // one buffer
  subscribe(1, {100});
  clock(0, 1);
  clock(1, 1);
  ASSERT_EQ(poll(1, true).size(), 1U);
  for (consistency::Clock t = 2; t < 50; ++t) {
    updates(0, {{100, 1}}, t - 1);
    clock(0, t);
    clock(1, t);
    EXPECT_TRUE(poll(1, true).empty());
    poll(0);
  }
  for (PushBuffer* buffer : kept_) lane_->give_back(buffer);
  kept_.clear();
  const std::vector<Told> told = poll(1);
  ASSERT_FALSE(told.empty());
  ASSERT_LE(told.size(), 2U);
  EXPECT_EQ(told.front().rows.at(100), 48);
  EXPECT_EQ(told.back().header.clock, 49);
}

TEST_F(LaneTest, ABudgetHoldsBackWhatIsNotDue) {
  start(Essp{1}, 2, 100, Lane::kPushBuffers, 3 * kRecord);
  subscribe(1, {100, 101, 102});
  budgets_[1].take(3 * kRecord);
  updates(0, {{100, 1}, {101, 2}, {102, 3}});
  updates(1, {{103, 1}});
  clock(0, 1);
  clock(1, 1);
  std::vector<Told> told = poll(1);
  ASSERT_EQ(told.size(), 1U) << "its budget is spent, and at clock 1 it need not see the updates of clock 0";
  EXPECT_EQ(told[0].header.clock, 0);
  EXPECT_EQ(told[0].header.applied, 1U) << "it must be told which of its own updates are applied";
  EXPECT_TRUE(told[0].rows.empty());
  EXPECT_TRUE(poll(1).empty());
  clock(1, 2);
  told = poll(1);
  ASSERT_EQ(told.size(), 1U) << "at clock 2 it must see the updates of clock 0";
  EXPECT_EQ(told[0].header.clock, 1);
  EXPECT_EQ(told[0].rows, (std::map<Key, float>{{100, 1}, {101, 2}, {102, 3}}));
}

TEST_F(LaneTest, ABudgetGoesToTheMostImportantRowsFirst) {
  start(Essp{5}, 2, 100, Lane::kPushBuffers, 4 * kRecord);
  updates(0, {{100, 8}, {101, 8}, {102, 8}, {103, 8}});
  clock(0, 1);
  clock(1, 1);
  poll(0);
  poll(1);
  subscribe(1, {100, 101, 102, 103});
  budgets_[1].take(1000);
  clock(0, 2);
  clock(1, 2);
  EXPECT_TRUE(poll(1).empty());
  budgets_[1].refill(transport::TimePoint(transport::Duration(1'000'000)));
  ASSERT_FALSE(poll(1).empty());
  // All four are known to worker 1. Now they change by a half, next to nothing, a ninth and a third.
  budgets_[1].take(1000);
  updates(0, {{100, 8}, {101, 0.001F}, {102, 1}, {103, 4}}, 2);
  clock(0, 3);
  clock(1, 3);
  EXPECT_TRUE(poll(1).empty());
  std::vector<Key> order;
  for (std::int64_t step = 1; order.size() < 4; ++step) {
    ASSERT_LT(step, 100'000);
    budgets_[1].refill(transport::TimePoint(transport::Duration(1'000'000 + step)));
    for (const Told& told : poll(1)) {
      for (const auto& [key, value] : told.rows) order.push_back(key);
    }
  }
  EXPECT_EQ(order, (std::vector<Key>{100, 103, 102, 101}));
}

TEST_F(LaneTest, UnderABudgetAStepCountsByWhatItHasChanged) {
  start(Essp{.staleness = 1}, 1, 100, Lane::kPushBuffers, 1000, "sgd(rate=0.1)");
  updates(0, {{kFirst, 10}});
  poll(0);
  EXPECT_FLOAT_EQ(row(kFirst), -1);
  EXPECT_NEAR(shard_->stored.changes(protocol::Row{0}), 1, 1e-6);
  updates(0, {{kFirst, 10}});
  poll(0);
  EXPECT_FLOAT_EQ(row(kFirst), -2);
  EXPECT_NEAR(shard_->stored.changes(protocol::Row{0}), 1.5, 1e-6)
      << "1 / (1 + 1) more; the gradient would have been 10 / (1 + 10)";
}

TEST_F(LaneTest, AFullBudgetBringsRowsWithinAClock) {
  start(Essp{1}, 2, 100, Lane::kPushBuffers, 2 * kRecord);
  subscribe(1, {100, 101, 102, 103});
  clock(0, 1);
  clock(1, 1);
  while (!poll(1).empty()) budgets_[1].refill(transport::TimePoint(transport::Duration(1'000)));
  budgets_[1].refill(transport::TimePoint(transport::Duration(2'000)));
  ASSERT_TRUE(budgets_[1].is_full());
  updates(0, {{100, 5}}, 1);
  std::vector<Told> told = poll(1);
  ASSERT_EQ(told.size(), 1U) << "worker 0 has not finished its clock, but the link is idle";
  EXPECT_EQ(told[0].rows, (std::map<Key, float>{{100, 5}}));
  EXPECT_EQ(told[0].header.clock, 1);
  updates(0, {{100, 5}}, 1);
  EXPECT_TRUE(poll(1).empty()) << "the budget is not full any more";
}

TEST_F(LaneTest, AWorkerThatLeftHoldsNobodyBack) {
  start(Bsp{}, 3);
  clock(0, 1);
  clock(1, 1);
  updates(2, {{100, 5}});
  clock(2, consistency::VectorClock::kLeft);
  ASSERT_FALSE(poll(0).empty());
  EXPECT_EQ(row(100), 5);
  clock(0, 2);
  clock(1, 2);
  EXPECT_EQ(poll(0).back().header.clock, 2);
}

// Random jobs of two workers that cache everything. Whenever a worker is told a clock, the rows that it has
// received hold all updates of earlier clocks, and `applied` counts exactly the worker's own updates in them.
TEST_F(LaneTest, RandomSchedulesKeepThePromise) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    start(Essp{3}, 2, random() % 4 + 1, random() % 3 + 1);
    struct Worker {
      consistency::Clock clock = 0;
      std::vector<std::vector<std::pair<Key, float>>> sent;  ///< messages
      std::vector<consistency::Clock> sent_at;
      std::map<Key, float> cache;
    };
    std::vector<Worker> workers(2);
    for (std::uint32_t worker = 0; worker < 2; ++worker) {
      std::vector<Key> all;
      for (Key key = kFirst; key < kFirst + kRows; ++key) all.push_back(key);
      subscribe(worker, all);
    }
    for (int step = 0; step < 100; ++step) {
      const auto index = static_cast<std::uint32_t>(random() % 2);
      Worker& worker = workers[index];
      if (random() % 2 == 0) {
        // Worker 0 counts in ones, worker 1 in thousands, so that a row tells how many of each it holds.
        const std::vector<std::pair<Key, float>> rows{
            {kFirst + random() % kRows, index == 0 ? 1.0F : 1000.0F}};
        worker.sent.push_back(rows);
        worker.sent_at.push_back(worker.clock);
        updates(index, rows, worker.clock);
      } else if (worker.clock <= workers[1 - index].clock + 3) {
        clock(index, ++worker.clock);
      }
      if (random() % 3 == 0) lane_->poll();
      collect(random() % 2 == 0);
      if (random() % 3 == 0) {
        for (PushBuffer* buffer : kept_) lane_->give_back(buffer);
        kept_.clear();
      }
      for (std::uint32_t reader = 0; reader < 2; ++reader) {
        for (const Told& told : told_[reader]) {
          for (const auto& [key, value] : told.rows) {
            workers[reader].cache[key] = value;
            int own = 0;
            for (std::size_t i = 0; i < told.header.applied; ++i)
              own += workers[reader].sent[i][0].first == key;
            const int seen = reader == 0 ? static_cast<int>(value) % 1000 : static_cast<int>(value) / 1000;
            ASSERT_EQ(seen, own) << "seed " << seed;
          }
          if (told.header.clock == 0) continue;
          for (Key key = kFirst; key < kFirst + kRows; ++key) {
            for (std::uint32_t other = 0; other < 2; ++other) {
              int least = 0;
              for (std::size_t i = 0; i < workers[other].sent.size(); ++i) {
                least +=
                    workers[other].sent[i][0].first == key && workers[other].sent_at[i] < told.header.clock;
              }
              const auto value = static_cast<int>(workers[reader].cache.at(key));
              ASSERT_GE(other == 0 ? value % 1000 : value / 1000, least) << "seed " << seed;
            }
          }
        }
        told_[reader].clear();
      }
    }
  }
}

/// Of the first numbers of rows; the second ones are their negatives.
constexpr auto norms_of = [](double rows, double first) {
  return std::vector<double>{rows, first == 0 ? 0.0 : 2.0, 2 * first, 2 * first * first, first};
};

TEST_F(LaneTest, ACallComesAfterWhatItsWorkerHasPushed) {
  start(Asp{}, 2);
  updates(0, {{105, 3}});
  call(0, "norms");
  poll(0);
  EXPECT_EQ(results_.at(0).result.numbers, norms_of(kRows, 3));
  call(0, "scale(factor=2)", 0, 1);
  updates(0, {{105, 1}});
  call(0, "scale(factor=10)", 0, 2);
  poll(0);
  EXPECT_TRUE(results_.at(1).status.ok());
  EXPECT_TRUE(results_.at(2).status.ok());
  EXPECT_EQ(row(105), 70);
}

/// One that only looks takes turns with other tasks; one that changes rows is alone.
TEST_F(LaneTest, ACallGoesOnPieceByPiece) {
  start(Asp{}, 2);
  // A lane looks at 2,048 rows at a time; so it is given the same key again and again.
  const auto call_for_many = [&](std::string_view function, protocol::Tag tag) {
    EXPECT_TRUE(lane_->may_call(0, protocol::kMaxOpenCalls));
    lane_->enqueue({.kind = LaneTask::Kind::kCall,
                    .worker = 0,
                    .call = std::make_shared<FunctionRun>(
                        0, 0, 0, protocol::CallMessage{.tag = tag, .keys = std::vector<Key>(10'000, 105)},
                        protocol::BoundFunction::find(function, shard_->rule, 0))});
  };
  static_cast<void>(lane_->poll());
  call_for_many("norms", 0);
  updates(1, {{105, 1}});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(lane_->poll());
  EXPECT_EQ(row(105), 1) << "beside the call";
  collect(false);
  EXPECT_TRUE(results_.empty());
  poll(0);
  EXPECT_EQ(results_.at(0).result.numbers[0], 10'000);
  call_for_many("scale(factor=1)", 1);
  updates(1, {{105, 1}});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(lane_->poll());
  EXPECT_EQ(row(105), 1) << "after the call";
  collect(false);
  EXPECT_FALSE(results_.contains(1));
  poll(0);
  EXPECT_TRUE(results_.contains(1));
  EXPECT_EQ(row(105), 2);
}

/// The results of a worker that takes nothing wait, and hold nobody back; but it may not call for ever.
TEST_F(LaneTest, ASlowWorkerMayNotCallForEver) {
  start(Asp{}, 2);
  for (std::uint32_t i = 0; i < protocol::kMaxOpenCalls; ++i) call(0, "norms", 0, i);
  EXPECT_FALSE(lane_->may_call(0, protocol::kMaxOpenCalls));
  poll(0, /*keep=*/true);
  EXPECT_EQ(results_.size(), Lane::kPushBuffers);
  for (std::size_t i = 0; i < Lane::kPushBuffers; ++i)
    EXPECT_TRUE(lane_->may_call(0, protocol::kMaxOpenCalls));
  EXPECT_FALSE(lane_->may_call(0, protocol::kMaxOpenCalls));
  call(1, "norms", 0, 999);
  poll(1);
  EXPECT_TRUE(results_.contains(999));
  for (PushBuffer* const buffer : kept_) lane_->give_back(buffer);
  kept_.clear();
  poll(0);
  EXPECT_EQ(results_.size(), protocol::kMaxOpenCalls + 1);
}

TEST_F(LaneTest, ResultsTravelInPieces) {
  start(Asp{}, 1, /*buffer_records=*/2);
  std::vector<std::pair<Key, float>> rows;
  for (Key key = kFirst; key < kFirst + kRows; ++key) rows.emplace_back(key, static_cast<float>(key));
  for (const auto& one : rows) updates(0, {one});
  call(0, "top(count=15)");
  poll(0);
  EXPECT_EQ(results_.at(0).result.keys.size(), 15U);
  EXPECT_EQ(results_.at(0).result.keys.front(), kFirst + kRows - 1);
}

/// Changes come after all updates of the clock, and those of a rule after its step.
TEST_F(LaneTest, BspHoldsChangesBackToo) {
  for (const char* const rule : {"add", "sgd(rate=1)"}) {
    start(Bsp{}, 2, 100, Lane::kPushBuffers, {}, rule);
    const float sign = std::string_view(rule) == "add" ? 1 : -1;
    call(1, "scale(factor=3)", 0, 1);
    updates(1, {{105, 1}});
    call(0, "norms", 0, 2);
    clock(1, 1);
    poll(0);
    EXPECT_TRUE(results_.contains(2));
    EXPECT_FALSE(results_.contains(1));
    updates(0, {{105, 2}});
    clock(0, 1);
    poll(0);
    EXPECT_TRUE(results_.contains(1));
    EXPECT_EQ(row(105), sign * 9) << rule;
    results_.clear();
    words_.clear();
  }
}

/// Rows that a call changes are dirty for those who have them.
TEST_F(LaneTest, SubscribersGetWhatACallChanges) {
  for (const std::optional<std::int64_t> budget : {std::optional<std::int64_t>(), std::optional(100'000L)}) {
    start(Essp{1}, 2, 100, Lane::kPushBuffers, budget);
    words_.clear();
    updates(0, {{105, 2}});
    subscribe(1, {105, 106});
    clock(0, 1);
    clock(1, 1);
    poll(1);
    call(0, "scale(factor=3)", 1);
    clock(0, 2);
    clock(1, 2);
    const std::vector<Told> told = poll(1);
    ASSERT_FALSE(told.empty());
    float seen = 0;
    for (const Told& one : told) {
      if (one.rows.contains(105)) seen = one.rows.at(105);
    }
    EXPECT_EQ(seen, 6);
  }
}

/// A change of a held-back clock takes the step of that clock, as its updates do.
TEST_F(LaneTest, AHeldChangeBelongsToItsClock) {
  start(Bsp{}, 2, 100, Lane::kPushBuffers, {}, "sgd(rate=1,decay=0.5)");
  updates(0, {{105, -4}});
  clock(0, 1);
  clock(1, 1);
  call(0, "regularize(l2=1)", 1);
  clock(0, 2);
  clock(1, 2);
  poll(0);
  EXPECT_EQ(row(105), 4 - 0.5F * 4);
}

/// A short call does not wait for a long one.
TEST_F(LaneTest, CallsThatLookTakeTurns) {
  start(Asp{}, 2);
  lane_->enqueue({.kind = LaneTask::Kind::kCall,
                  .worker = 0,
                  .call = std::make_shared<FunctionRun>(
                      0, 0, 0, protocol::CallMessage{.tag = 1, .keys = std::vector<Key>(100'000, 105)},
                      protocol::BoundFunction::find("norms", shard_->rule, 0))});
  EXPECT_TRUE(lane_->may_call(0, protocol::kMaxOpenCalls));
  call(1, "norms", 0, 2);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(lane_->poll());
  collect(false);
  EXPECT_TRUE(results_.contains(2));
  EXPECT_FALSE(results_.contains(1));
  poll(0);
  EXPECT_TRUE(results_.contains(1));
}

TEST_F(LaneTest, AFunctionThatNobodyKnowsIsAnswered) {
  start(Bsp{}, 1);
  call(0, "no-such-function");
  poll(0);
  EXPECT_EQ(results_.at(0).status.code(), absl::StatusCode::kInvalidArgument);
}

#ifndef VERBENA_SANITIZED  // sanitizers need address space of their own
/// If there is no memory for updates that wait for others' clocks, the job must fail with an error. The
/// thread and its process must not end.
TEST_F(LaneTest, WithoutMemoryItStopsAndSaysSo) {
  const auto stops_and_says_so = [&] {
    const std::vector<std::pair<Key, float>> rows(std::size_t{1} << 22, {kFirst, 1.0F});
    start(Bsp{}, 2);
    poll(0);
    updates(0, rows);
    updates(1, {{kFirst, 1.0F}});
    const rlimit none{.rlim_cur = 0, .rlim_max = 0};  // not one byte more than it has now
    if (::setrlimit(RLIMIT_DATA, &none) != 0) return false;
    while (lane_->poll()) {
    }
    return lane_->has_failed() && std::all_of(messages_.begin(), messages_.end(),
                                              [](const InboxMessage& one) { return one.users == 0; });
  };
  EXPECT_EXIT(::_exit(stops_and_says_so() ? 0 : 1), ::testing::ExitedWithCode(0), "");
}
#endif

TEST(ShardTest, WhatALaneNeedsForEachRowIsThereOrTheTableIsRefused) {
  auto transport = transport::make_shm_transport();
  ASSERT_TRUE(transport.ok()) << transport.status();
  RegionDesk desk([](RegionDesk::Order&) {}, [] {});
  ShardMemory memory(**transport, desk);
  protocol::OpenTable open{
      .value_type = ValueType::kFloat, .rows = 1000, .width = 1, .name = "rows", .consistency = "essp:1"};
  for (const bool has_budget : {false, true}) {
    const auto made = memory.create(open, {.lanes = 2, .workers = 65, .has_push_budget = has_budget});
    ASSERT_TRUE(made.ok()) << made.status();
    const StoredRows::Chunk& chunk = (*made)->for_lanes()->part(1).rows->first_chunk();
    ASSERT_NE(chunk.subscribed, nullptr);
    const std::ptrdiff_t bits_bytes = std::ptrdiff_t{1000} * 16;
    EXPECT_EQ(chunk.dirty, chunk.subscribed + bits_bytes);
    EXPECT_EQ(chunk.changes != nullptr, has_budget);
    if (has_budget) {
      EXPECT_EQ(reinterpret_cast<std::uint8_t*>(chunk.changes + 1000), chunk.subscribed);
    }
  }
  // With the largest number of workers, lanes need more memory for each row than the row itself.
  const std::uint64_t free = transport::shm::free_memory().bytes;
  open.rows = free / 256;
  const absl::Status status =
      memory.create(open, {.workers = protocol::kMaxWorkers, .has_push_budget = true}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("to know who has which row"));
}

/// With rules that add, that take each update by itself, and that take one step a clock.
class WrongKeyTest : public LaneTest,
                     public ::testing::WithParamInterface<std::tuple<const char*, const char*>> {};

TEST_P(WrongKeyTest, EndsItAllAndNamesTheWorker) {
  const auto& [model, rule] = GetParam();
  for (const Key wrong : {Key{0}, kFirst - 1, kFirst + kRows, Key{1} << 40U, ~Key{0}}) {
    SCOPED_TRACE(wrong);
    start(*parse_consistency(model), 2, 100, Lane::kPushBuffers, {}, rule);
    updates(0, {{kFirst, 1}});
    updates(1, {{kFirst + 1, 1}, {wrong, 1}, {kFirst + 2, 1}});
    for (std::uint32_t worker = 0; worker < 2; ++worker) clock(worker, 1);
    updates(0, {{kFirst + 3, 1}}, 1);
    poll(0);
    ASSERT_TRUE(lane_->has_failed());
    EXPECT_EQ(lane_->culprit(), 1U);
    EXPECT_THAT(std::string(lane_->failure().message()),
                ::testing::HasSubstr(fmt::format("record of key {}, expected 100 to below 120", wrong)));
    EXPECT_EQ(row(kFirst + 3), 0) << "nothing more is applied";
    for (const InboxMessage& message : messages_) EXPECT_EQ(message.users, 0U);
  }
}
INSTANTIATE_TEST_SUITE_P(ModelsAndRules, WrongKeyTest,
                         ::testing::Combine(::testing::Values("essp:1", "bsp", "asp"),
                                            ::testing::Values("add", "adagrad")));

}  // namespace
}  // namespace verbena::server
