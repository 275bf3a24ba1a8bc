// Which worker trains which triples. Workers share out the relations, so that a relation's row is used by few
// workers, of most relations by one ("data clustering": Renz-Wieland et al., VLDB 2020).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "apps/data/triples.hpp"

namespace verbena::apps::kge {

/// The triples of worker `rank`. All of a relation's go to one worker, the most frequent relation first, always to
/// the worker that has fewest triples; but no worker has more than its even share of one relation: from a
/// relation that is larger, whole shares are cut off first. Each worker's triples come in a random order, which
/// depends on `seed`.
std::vector<Triple> part_of(std::span<const Triple> triples, std::size_t relations, std::uint32_t rank,
                            std::uint32_t workers, std::uint64_t seed);

}  // namespace verbena::apps::kge
