// Which worker trains which triples ("data clustering": Renz-Wieland et al., VLDB 2020): so that most rows
// are used by one worker, or few. The same input gives the same answer in every process.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "apps/data/triples.hpp"

namespace verbena::apps::kge {

/// The worker of each triple. All triples of a relation go to one worker: the most frequent relation comes
/// first, and each goes to the worker that has the fewest triples. But no worker has more than its even share
/// of one relation: from a relation that is larger, whole shares are cut off first.
std::vector<std::uint32_t> share_out_relations(std::span<const Triple> triples, std::size_t relations,
                                               std::uint32_t workers);

/// The worker of each triple. One worker after the other gets an even share that grows from an entity to its
/// neighbours: it always takes all triples of the entity on its border that has the fewest left, and those
/// among entities that it has already reached ("neighbourhood expansion": Zhang et al., Graph Edge
/// Partitioning via Neighborhood Heuristic, KDD 2017). Takes O(triples · log triples) time, and 50 bytes of
/// memory a triple meanwhile.
std::vector<std::uint32_t> share_out_entities(std::span<const Triple> triples, std::size_t entities,
                                              std::uint32_t workers);

/// The triples of worker `rank`, in a random order, which depends on `seed`. `workers`: the worker of each
/// triple.
std::vector<Triple> part_of(std::span<const Triple> triples, std::span<const std::uint32_t> workers,
                            std::uint32_t rank, std::uint64_t seed);

struct MiniBatches {
  double triples = 1;
  double negatives = 0;  ///< drawn for one mini-batch, from all entities
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

/// How many triples are brought together because they have an entity in common, and how long the stretches
/// are within which the order is random again. Directly one after the other, these triples would train the
/// same few numbers with the same wrong answers, and symmetric relations would become mere similarity: each
/// entity would then be the best answer to its own question. A larger kTogether would move the row of the
/// entity to and fro even less often.
inline constexpr std::size_t kTogether = 8;
inline constexpr std::size_t kStretch = 64;
/// Returns the same triples. Those with an entity that other workers use, too (its number in `uses_by_others`
/// is not 0), come where the first of them was, kTogether at a time. Then each stretch of kStretch triples is
/// put in random order.
std::vector<Triple> bring_together(std::span<const Triple> part, std::span<const double> uses_by_others,
                                   std::uint64_t seed);

struct RowWidths {
  std::size_t entity = 1;
  std::size_t relation = 1;
};
/// How many numbers of rows are expected to come from elsewhere in an iteration if each row lies with the
/// worker that uses it in the most mini-batches. Negatives are left out. The smaller the result, the better
/// the triples are shared out.
double numbers_from_elsewhere(std::span<const Triple> triples, std::span<const std::uint32_t> workers,
                              const MiniBatches& batches, const RowWidths& widths);

}  // namespace verbena::apps::kge
