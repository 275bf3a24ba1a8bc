// A whole job of one size, simulated: the real server and sessions in one thread and in virtual time. Only
// the network's cards and wires (apps/simulation/network_cards.hpp) and the work of the processors, one for
// each node, take time there. The costs are given; nothing is measured, and nothing depends on the host.
//
// At each clock, each worker pulls all rows, computes, pushes an update to each row, and ends the clock.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/conditions/delayed_transport.hpp"
#include "apps/scale/costs.hpp"
#include <verbena/consistency.hpp>

namespace verbena::apps::scale {

struct CellOptions {
  ConsistencyModel model;
  std::uint32_t workers = 1;
  std::uint32_t servers = 1;
  std::uint64_t rows = 512;
  std::uint32_t width = 32;          ///< floats a row
  std::uint64_t examples = 500'000;  ///< for each worker, at each clock
  std::int64_t clocks = 16;          ///< clocks that are measured
  std::int64_t warm_up_clocks = 4;   ///< clocks before those
  double spread = 0.1;               ///< standard deviation of a clock's computing time ÷ its mean
  double straggler = 1;              ///< worker 1 computes this many times slower
  NetworkCost network;
  std::size_t header_bytes = 98;  ///< of each packet of 4 KiB: what RoCEv2 on Ethernet adds
  Costs costs;                    ///< all must be known
  std::uint64_t seed = 1;
};

/// How busy each resource is, as parts of the time.
struct Busy {
  double card_in = 0;
  double card_out = 0;
  double processor = 0;
};

/// What a processor is busy with, in parts of the time.
struct Work {
  double messages = 0;  ///< sending and receiving them
  double rows = 0;
  double advances = 0;  ///< what each advance of the min clock costs for each worker of the job
  double turns = 0;     ///< what each turn does
};

/// Figures of the measured clocks.
struct CellFigures {
  double seconds = 0;   ///< virtual time, of a worker on average
  double waited = 0;    ///< part of the workers' time
  double computed = 0;  ///< part of the workers' time
  double slowest = 0;   ///< computing time of each clock's slowest worker, added up, as a part of the time
  std::vector<std::uint64_t> reads_by_lag;  ///< as StalenessHistogram has them
  double bytes_in = 0;                      ///< per server and clock, on average; without packet headers
  double bytes_out = 0;
  Work server_work;  ///< on average
  Busy server;       ///< for each resource, the value of the busiest one
  Busy worker;
  std::uint64_t steps = 0;  ///< steps of the simulation
};

/// INTERNAL, with what went wrong, if a node ended with an error.
absl::StatusOr<CellFigures> simulate(const CellOptions& options);

}  // namespace verbena::apps::scale
