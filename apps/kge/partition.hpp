// Which worker trains which triples. Workers share out the relations, so that a relation's row is used by few
// workers, of most relations by one ("data clustering": Renz-Wieland et al., VLDB 2020).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "apps/data/triples.hpp"

namespace verbena::apps::kge {

/// The worker of each triple. All of a relation's go to one worker, the most frequent relation first, always to
/// the worker that has fewest triples; but no worker has more than its even share of one relation: from a
/// relation that is larger, whole shares are cut off first.
std::vector<std::uint32_t> workers_of(std::span<const Triple> triples, std::size_t relations,
                                      std::uint32_t workers);

/// The triples of worker `rank`, in a random order, which depends on `seed`. `workers`: of each triple.
std::vector<Triple> part_of(std::span<const Triple> triples, std::span<const std::uint32_t> workers,
                            std::uint32_t rank, std::uint64_t seed);

struct MiniBatches {
  double triples = 1;
  double negatives = 0;  ///< drawn for one, from all entities
  std::size_t entities = 0;
  std::size_t relations = 0;
};
/// How often other workers than `rank` are expected to use each row while it trains one mini-batch.
struct UsesByOthers {
  std::vector<double> entities;
  std::vector<double> relations;
};
UsesByOthers uses_by_others(std::span<const Triple> triples, std::span<const std::uint32_t> workers,
                            std::uint32_t rank, const MiniBatches& batches);

}  // namespace verbena::apps::kge
