// Which worker trains which triples ("data clustering": Renz-Wieland et al., VLDB 2020): so that most rows
// are used by one worker, or few. The same input gives the same answer in every process.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "apps/data/triples.hpp"

namespace verbena::apps::kge {

/// The worker of each triple. All of a relation's go to one worker, the most frequent relation first, always
/// to the worker that has fewest triples; but no worker has more than its even share of one relation: from a
/// relation that is larger, whole shares are cut off first.
std::vector<std::uint32_t> share_out_relations(std::span<const Triple> triples, std::size_t relations,
                                               std::uint32_t workers);

/// The worker of each triple. One worker after the other gets an even share that grows from an entity to its
/// neighbours: always all triples of the entity on its border that has fewest left, and those among entities
/// already reached
/// ("neighbourhood expansion": Zhang et al., Graph Edge Partitioning via Neighborhood Heuristic, KDD 2017).
/// Takes O(triples · log triples), and 50 bytes a triple while it does.
std::vector<std::uint32_t> share_out_entities(std::span<const Triple> triples, std::size_t entities,
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

/// Triples that are brought together because they have an entity in common, and how long the stretches are
/// within which their order is random again. Right one after the other they would train the same few numbers
/// with the same wrong answers, and symmetric relations become mere likeness: each entity is then the best
/// answer to its own question. More of them would take its row to and fro still less.
inline constexpr std::size_t kTogether = 8;
inline constexpr std::size_t kStretch = 64;
/// The same triples; those that have an entity that others use, too (its number of uses_by_others() is not
/// 0), come where the first of them was, kTogether at a time. Then each stretch of kStretch is put in random
/// order.
std::vector<Triple> bring_together(std::span<const Triple> part, std::span<const double> uses_by_others,
                                   std::uint64_t seed);

struct RowWidths {
  std::size_t entity = 1;
  std::size_t relation = 1;
};
/// What would have to come from elsewhere in a pass if each row lay with the worker that uses it in most
/// mini-batches: how many numbers of rows, expected, negatives left out. The less, the better triples are
/// shared out.
double numbers_from_elsewhere(std::span<const Triple> triples, std::span<const std::uint32_t> workers,
                              const MiniBatches& batches, const RowWidths& widths);

}  // namespace verbena::apps::kge
