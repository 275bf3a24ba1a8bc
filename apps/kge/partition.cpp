#include "apps/kge/partition.hpp"

#include <algorithm>
#include <cassert>
#include <random>
#include <utility>

#include "apps/embedding/random.hpp"

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

std::vector<Triple> part_of(std::span<const Triple> triples, std::size_t relations, std::uint32_t rank,
                            std::uint32_t workers, std::uint64_t seed) {
  assert(rank < workers);
  std::vector<std::uint64_t> sizes(relations);
  for (const Triple& triple : triples) ++sizes[triple.relation];
  std::vector<std::uint64_t> load(workers);
  std::vector<std::vector<Piece>> mine(relations);
  for (const Piece& piece : cut(sizes, (triples.size() + workers - 1) / workers)) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += piece.size;
    if (least - load.begin() == static_cast<std::ptrdiff_t>(rank)) mine[piece.relation].push_back(piece);
  }
  std::vector<std::uint64_t> seen(relations);
  std::vector<Triple> part;
  part.reserve(load[rank]);
  for (const Triple& triple : triples) {
    const std::uint64_t place = seen[triple.relation]++;
    for (const Piece& piece : mine[triple.relation]) {
      if (place >= piece.first && place - piece.first < piece.size) part.push_back(triple);
    }
  }
  std::mt19937_64 random(seed);
  for (std::size_t n = part.size(); n > 1; --n) std::swap(part[n - 1], part[random_below(random, n)]);
  return part;
}

}  // namespace verbena::apps::kge
