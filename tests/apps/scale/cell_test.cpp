// How long a simulated job takes, where this can be worked out by hand.
#include "apps/scale/cell.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/scale/measure.hpp"

namespace verbena::apps::scale {
namespace {

constexpr Costs kFree = {.example = 0,
                         .worker_row = 0,
                         .received_row = 0,
                         .message = 0,
                         .applied_row = 0,
                         .held_row = 0,
                         .pushed_row = 0,
                         .advance_per_worker = 0,
                         .turn_per_worker = 0};
/// The bytes of a key with its row of 4 floats, and of a message's header.
constexpr double kRecordBytes = 8 + 16;
constexpr double kHeaderBytes = 40;

/// A job in which only computing takes time: 100 µs a clock.
CellOptions job(const ConsistencyModel& model) {
  CellOptions options{.model = model, .workers = 4, .servers = 2, .rows = 64, .width = 4, .examples = 100};
  options.spread = 0;
  options.header_bytes = 0;
  options.costs = kFree;
  options.costs.example = 1000;
  return options;
}

CellFigures simulated(const CellOptions& options) {
  const auto figures = simulate(options);
  EXPECT_TRUE(figures.ok()) << figures.status();
  return figures.ok() ? *figures : CellFigures{};
}

double seconds_a_clock(const CellOptions& options, const CellFigures& figures) {
  return figures.seconds / static_cast<double>(options.clocks);
}

std::uint64_t reads(const CellFigures& figures) {
  std::uint64_t all = 0;
  for (const std::uint64_t count : figures.reads_by_lag) all += count;
  return all;
}

TEST(CellTest, WhereOnlyComputingTakesTimeNobodyWaits) {
  for (const ConsistencyModel& model :
       {ConsistencyModel(Bsp{}), ConsistencyModel(Ssp{2}), ConsistencyModel(Essp{2})}) {
    const CellOptions options = job(model);
    const CellFigures figures = simulated(options);
    EXPECT_NEAR(seconds_a_clock(options, figures), 100e-6, 1e-9);
    EXPECT_NEAR(figures.waited, 0, 1e-6);
    EXPECT_NEAR(figures.computed, 1, 1e-6);
    EXPECT_NEAR(figures.slowest, 1, 1e-6);
    EXPECT_EQ(reads(figures), 4U * 64U * 16U);
  }
}

TEST(CellTest, UnderBspAllGoWithTheStraggler) {
  CellOptions options = job(Bsp{});
  options.straggler = 3;
  const CellFigures figures = simulated(options);
  EXPECT_NEAR(seconds_a_clock(options, figures), 300e-6, 1e-9);
  EXPECT_NEAR(figures.waited, 0.5, 1e-6) << "three of four wait two thirds of the time";
  EXPECT_NEAR(figures.slowest, 1, 1e-6);
  EXPECT_EQ(figures.reads_by_lag[0], reads(figures));
}

TEST(CellTest, TheSlowestOfManyIsSlower) {
  CellOptions options = job(Bsp{});
  options.spread = 0.3;
  options.workers = 32;
  const CellFigures strict = simulated(options);
  options.model = Ssp{4};
  const CellFigures loose = simulated(options);
  EXPECT_GT(strict.seconds, 1.2 * loose.seconds);
  EXPECT_GT(strict.waited, loose.waited + 0.2);
  EXPECT_NEAR(strict.slowest, 1, 0.01);
}

TEST(CellTest, BytesAreThoseOfRowsAndCards) {
  CellOptions options = job(Essp{0});
  options.network = {.latency = std::chrono::microseconds(5), .bits_per_second = 8e8};  // 10 bytes a µs
  const CellFigures figures = simulated(options);
  // Updates of 32 rows from each of 4 workers, and some control messages; as much on the way back.
  EXPECT_GE(figures.bytes_in, 4 * (32 * kRecordBytes + kHeaderBytes));
  EXPECT_LE(figures.bytes_in, 1.3 * 4 * (32 * kRecordBytes + kHeaderBytes));
  EXPECT_GE(figures.bytes_out, 4 * (32 * kRecordBytes + kHeaderBytes));
  EXPECT_LE(figures.bytes_out, 1.3 * 4 * (32 * kRecordBytes + kHeaderBytes));
  const double card_seconds = figures.bytes_in / 1e8;
  EXPECT_NEAR(figures.server.card_in, card_seconds / seconds_a_clock(options, figures), 0.02);
  // All workers send at once: their updates arrive one after the other, then the rows go out.
  EXPECT_GE(seconds_a_clock(options, figures), 100e-6 + 10e-6 + card_seconds);
}

TEST(CellTest, AServersProcessorIsUsedUp) {
  for (const ConsistencyModel& model : {ConsistencyModel(Ssp{2}), ConsistencyModel(Essp{2})}) {
    CellOptions options = job(model);
    options.workers = 8;
    options.servers = 1;
    options.examples = 10;
    options.clocks = 100;
    options.costs.applied_row = 1000;
    const CellFigures figures = simulated(options);
    EXPECT_NEAR(seconds_a_clock(options, figures), 8 * 64 * 1e-6, 60e-6);
    EXPECT_GT(figures.server.processor, 0.9);
  }
}

/// Updates that are held back are applied when all workers have ended the clock, while they wait.
TEST(CellTest, UnderBspUpdatesAreAppliedWhileAllWait) {
  CellOptions options = job(Bsp{});
  options.costs.applied_row = 1000;
  const CellFigures figures = simulated(options);
  EXPECT_NEAR(seconds_a_clock(options, figures), 100e-6 + 4 * 32 * 1e-6, 1e-6);
  EXPECT_NEAR(figures.waited, 128.0 / 228.0, 0.01);
}

/// In each clock, each of the two servers pushes its 32 rows to each of the four workers.
TEST(CellTest, PushedRowsCostTheServer) {
  CellOptions options = job(Essp{0});
  options.costs.pushed_row = 1000;
  const CellFigures figures = simulated(options);
  EXPECT_NEAR(figures.server.processor * seconds_a_clock(options, figures), 4 * 32 * 1e-6, 2e-6);
  EXPECT_NEAR(figures.server_work.rows, figures.server.processor, 0.01);
  options.model = Ssp{0};
  EXPECT_NEAR(simulated(options).server.processor, 0, 1e-9) << "one-sided reads cost it nothing";
}

TEST(CellTest, EachWorkerOfTheJobCostsAtEachAdvanceAndTurn) {
  CellOptions options = job(Ssp{2});
  options.costs.advance_per_worker = 500;
  const CellFigures advances = simulated(options);
  EXPECT_NEAR(advances.server.processor * seconds_a_clock(options, advances), 4 * 500e-9, 0.2e-6);
  EXPECT_NEAR(advances.server_work.advances * seconds_a_clock(options, advances), 4 * 500e-9, 0.2e-6);
  options.costs.advance_per_worker = 0;
  options.costs.turn_per_worker = 500;
  const CellFigures turns = simulated(options);
  EXPECT_GT(turns.server.processor, 0);
  EXPECT_NEAR(turns.server_work.turns, turns.server.processor, 0.01);
  EXPECT_EQ(turns.server_work.advances, 0);
}

TEST(CellTest, OneSeedIsOneJob) {
  CellOptions options = job(Essp{1});
  options.spread = 0.2;
  options.network = {.latency = std::chrono::microseconds(5), .bits_per_second = 1e9};
  options.costs.message = 700;
  const CellFigures first = simulated(options);
  const CellFigures again = simulated(options);
  EXPECT_EQ(first.seconds, again.seconds);
  EXPECT_EQ(first.steps, again.steps);
  EXPECT_EQ(first.reads_by_lag, again.reads_by_lag);
  options.seed = 2;
  EXPECT_NE(simulated(options).seconds, first.seconds);
}

TEST(CellTest, AnUnknownCostIsRefused) {
  CellOptions options = job(Bsp{});
  options.costs.held_row = -1;
  EXPECT_EQ(simulate(options).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(MeasureTest, WhatIsKnownStaysAndTheRestIsMeasured) {
  Costs known;
  known.held_row = 12.5;
  known.message = 0;
  const auto costs = measure(known, {.rows = 64, .width = 8});
  ASSERT_TRUE(costs.ok()) << costs.status();
  EXPECT_TRUE(all_known(*costs));
  EXPECT_EQ(costs->held_row, 12.5);
  EXPECT_EQ(costs->message, 0);
  EXPECT_GT(costs->example, 0);
}

}  // namespace
}  // namespace verbena::apps::scale
