#include "apps/kge/partition.hpp"

#include <algorithm>
#include <cassert>
#include <random>
#include <utility>

#include "apps/data/random.hpp"

namespace verbena::apps::kge {
namespace {

/// Triples [first, first + size) of a relation, in the order of the file.
struct Piece {
  std::size_t relation;
  std::uint64_t first;
  std::uint64_t size;
};

std::vector<Piece> cut(std::span<const std::uint64_t> sizes, std::uint64_t share) {
  std::vector<Piece> pieces;
  for (std::size_t relation = 0; relation < sizes.size(); ++relation) {
    for (std::uint64_t first = 0; first < sizes[relation]; first += share) {
      pieces.push_back({relation, first, std::min(share, sizes[relation] - first)});
    }
  }
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const Piece& a, const Piece& b) { return a.size > b.size; });
  return pieces;
}

}  // namespace

std::vector<std::uint32_t> workers_of(std::span<const Triple> triples, std::size_t relations,
                                      std::uint32_t workers) {
  std::vector<std::uint64_t> sizes(relations);
  for (const Triple& triple : triples) ++sizes[triple.relation];
  std::vector<std::uint64_t> load(workers);
  struct Placed {
    Piece piece;
    std::uint32_t worker;
  };
  std::vector<std::vector<Placed>> placed(relations);
  for (const Piece& piece : cut(sizes, (triples.size() + workers - 1) / workers)) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += piece.size;
    placed[piece.relation].push_back({piece, static_cast<std::uint32_t>(least - load.begin())});
  }
  std::vector<std::uint64_t> seen(relations);
  std::vector<std::uint32_t> result;
  result.reserve(triples.size());
  for (const Triple& triple : triples) {
    const std::uint64_t place = seen[triple.relation]++;
    for (const auto& [piece, worker] : placed[triple.relation]) {
      if (place >= piece.first && place - piece.first < piece.size) result.push_back(worker);
    }
  }
  return result;
}

std::vector<Triple> part_of(std::span<const Triple> triples, std::span<const std::uint32_t> workers,
                            std::uint32_t rank, std::uint64_t seed) {
  std::vector<Triple> part;
  for (std::size_t n = 0; n < triples.size(); ++n) {
    if (workers[n] == rank) part.push_back(triples[n]);
  }
  std::mt19937_64 random(seed);
  for (std::size_t n = part.size(); n > 1; --n) std::swap(part[n - 1], part[random_below(random, n)]);
  return part;
}

UsesByOthers uses_by_others(std::span<const Triple> triples, std::span<const std::uint32_t> workers,
                            std::uint32_t rank, const MiniBatches& batches) {
  std::vector<double> sizes;
  for (const std::uint32_t worker : workers) {
    if (worker >= sizes.size()) sizes.resize(worker + 1);
    ++sizes[worker];
  }
  double drawn = 0;
  for (std::uint32_t worker = 0; worker < sizes.size(); ++worker) {
    if (worker != rank && sizes[worker] > 0)
      drawn += batches.negatives / static_cast<double>(batches.entities);
  }
  UsesByOthers uses{.entities = std::vector<double>(batches.entities, drawn),
                    .relations = std::vector<double>(batches.relations)};
  for (std::size_t n = 0; n < triples.size(); ++n) {
    if (workers[n] == rank) continue;
    const double of_batch = std::min(batches.triples / sizes[workers[n]], 1.0);
    uses.entities[triples[n].head] += of_batch;
    uses.entities[triples[n].tail] += of_batch;
    uses.relations[triples[n].relation] += of_batch;
  }
  return uses;
}

}  // namespace verbena::apps::kge
