#include "apps/kge/partition.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <queue>
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

class NeighbourhoodExpansion {
 public:
  NeighbourhoodExpansion(std::span<const Triple> triples, std::size_t entities)
      : triples_(triples), first_(entities + 1), left_(entities), owners_(triples.size(), kNobody) {
    for (const Triple& triple : triples) {
      ++left_[triple.head];
      ++left_[triple.tail];
    }
    std::partial_sum(left_.begin(), left_.end(), first_.begin() + 1);
    std::vector<std::size_t> next(first_.begin(), first_.end() - 1);
    triples_of_.resize(first_.back());
    for (std::size_t n = 0; n < triples.size(); ++n) {
      triples_of_[next[triples[n].head]++] = n;
      triples_of_[next[triples[n].tail]++] = n;
    }
  }

  std::vector<std::uint32_t> share_out(std::uint32_t workers) && {
    std::size_t unowned = triples_.size();
    for (owner_ = 0; owner_ < workers; ++owner_) {
      wanted_ = unowned / (workers - owner_);
      unowned -= wanted_;
      grow();
    }
    return std::move(owners_);
  }

 private:
  static constexpr std::uint32_t kNobody = UINT32_MAX;
  enum class Reach : std::uint8_t { kOutside, kBorder, kInside };
  /// How many triples an entity had left when it was put into the queue, and which entity it is.
  using Candidate = std::pair<std::size_t, std::size_t>;

  void grow() {
    reach_.assign(left_.size(), Reach::kOutside);
    border_ = {};
    for (std::size_t start = 0; wanted_ > 0;) {
      if (border_.empty()) {
        while (left_[start] == 0) ++start;
        reach(start);
        continue;
      }
      const auto [left, entity] = border_.top();
      border_.pop();
      if (reach_[entity] == Reach::kInside || left != left_[entity]) continue;  // it was queued again
      reach_[entity] = Reach::kInside;
      for (const std::size_t n : triples_of(entity)) {
        if (owners_[n] == kNobody) reach(other(n, entity));
      }
    }
  }

  /// Puts an entity on the border, and takes its triples with entities that were reached before.
  void reach(std::size_t entity) {
    if (reach_[entity] != Reach::kOutside) return;
    reach_[entity] = Reach::kBorder;
    for (const std::size_t n : triples_of(entity)) {
      const std::size_t neighbour = other(n, entity);
      if (wanted_ == 0) return;
      if (owners_[n] != kNobody || reach_[neighbour] == Reach::kOutside) continue;
      owners_[n] = owner_;
      --wanted_;
      --left_[entity];
      --left_[neighbour];
      if (reach_[neighbour] == Reach::kBorder) border_.emplace(left_[neighbour], neighbour);
    }
    border_.emplace(left_[entity], entity);
  }

  [[nodiscard]] std::span<const std::size_t> triples_of(std::size_t entity) const {
    return std::span(triples_of_).subspan(first_[entity], first_[entity + 1] - first_[entity]);
  }
  [[nodiscard]] std::size_t other(std::size_t n, std::size_t entity) const {
    return triples_[n].head == entity ? triples_[n].tail : triples_[n].head;
  }

  std::span<const Triple> triples_;
  std::vector<std::size_t> first_;       ///< by entity: the first of its triples in triples_of_
  std::vector<std::size_t> triples_of_;  ///< entity by entity; a triple of an entity with itself comes twice
  std::vector<std::size_t> left_;        ///< by entity: its triples without an owner
  std::vector<std::uint32_t> owners_;
  std::uint32_t owner_ = 0;  ///< the worker whose share grows
  std::size_t wanted_ = 0;   ///< how many triples it still wants
  std::vector<Reach> reach_;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> border_;
};

/// The use of a row in a triple: the row, and the worker that has the triple.
using Use = std::pair<std::uint32_t, std::uint32_t>;

/// In how many mini-batches rows are used by workers other than the one that uses them in the most.
double batches_elsewhere(std::vector<Use> uses, std::span<const double> batches_of_worker) {
  std::sort(uses.begin(), uses.end());
  double elsewhere = 0;
  for (auto use = uses.begin(); use != uses.end();) {
    double all = 0;
    double most = 0;
    const std::uint32_t row = use->first;
    while (use != uses.end() && use->first == row) {
      const auto next = std::upper_bound(use, uses.end(), *use);
      const double batches = batches_of_worker[use->second];
      const double with_it = -std::expm1(-static_cast<double>(next - use) / batches) * batches;
      all += with_it;
      most = std::max(most, with_it);
      use = next;
    }
    elsewhere += all - most;
  }
  return elsewhere;
}

std::vector<double> triples_of_workers(std::span<const std::uint32_t> workers) {
  std::vector<double> sizes;
  for (const std::uint32_t worker : workers) {
    if (worker >= sizes.size()) sizes.resize(worker + 1);
    ++sizes[worker];
  }
  return sizes;
}

void shuffle(std::span<Triple> triples, std::mt19937_64& random) {
  for (std::size_t n = triples.size(); n > 1; --n)
    std::swap(triples[n - 1], triples[random_below(random, n)]);
}

}  // namespace

std::vector<std::uint32_t> share_out_relations(std::span<const Triple> triples, std::size_t relations,
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

std::vector<std::uint32_t> share_out_entities(std::span<const Triple> triples, std::size_t entities,
                                              std::uint32_t workers) {
  return NeighbourhoodExpansion(triples, entities).share_out(workers);
}

std::vector<Triple> part_of(std::span<const Triple> triples, std::span<const std::uint32_t> workers,
                            std::uint32_t rank, std::uint64_t seed) {
  std::vector<Triple> part;
  for (std::size_t n = 0; n < triples.size(); ++n) {
    if (workers[n] == rank) part.push_back(triples[n]);
  }
  std::mt19937_64 random(seed);
  shuffle(part, random);
  return part;
}

std::vector<Triple> bring_together(std::span<const Triple> part, std::span<const double> uses_by_others,
                                   std::uint64_t seed) {
  std::vector<std::size_t> uses(uses_by_others.size());
  for (const Triple& triple : part) {
    ++uses[triple.head];
    ++uses[triple.tail];
  }
  // Of two shared entities, the one that is used more often in `part`.
  const auto common = [&](const Triple& triple) -> std::optional<std::uint32_t> {
    const bool has_shared_tail = uses_by_others[triple.tail] > 0;
    if (uses_by_others[triple.head] > 0 && (!has_shared_tail || uses[triple.head] >= uses[triple.tail]))
      return triple.head;
    if (has_shared_tail) return triple.tail;
    return std::nullopt;
  };
  std::vector<std::vector<std::size_t>> with_entity(uses.size());  // the last triple first
  for (std::size_t n = part.size(); n-- > 0;) {
    if (const auto entity = common(part[n])) with_entity[*entity].push_back(n);
  }
  std::vector<Triple> ordered;
  ordered.reserve(part.size());
  std::vector<bool> is_placed(part.size());
  for (std::size_t n = 0; n < part.size(); ++n) {
    const std::optional<std::uint32_t> entity = common(part[n]);
    if (!entity) ordered.push_back(part[n]);
    if (!entity || is_placed[n]) continue;
    // All triples before this one are placed, so it is the first of those that are left.
    std::vector<std::size_t>& left = with_entity[*entity];
    for (std::size_t i = 0; i < kTogether && !left.empty(); ++i) {
      ordered.push_back(part[left.back()]);
      is_placed[left.back()] = true;
      left.pop_back();
    }
  }
  std::mt19937_64 random(seed);
  for (std::size_t first = 0; first < ordered.size(); first += kStretch) {
    shuffle(std::span(ordered).subspan(first, std::min(kStretch, ordered.size() - first)), random);
  }
  return ordered;
}

UsesByOthers uses_by_others(std::span<const Triple> triples, std::span<const std::uint32_t> workers,
                            std::uint32_t rank, const MiniBatches& batches) {
  const std::vector<double> sizes = triples_of_workers(workers);
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

double numbers_from_elsewhere(std::span<const Triple> triples, std::span<const std::uint32_t> workers,
                              const MiniBatches& batches, const RowWidths& widths) {
  std::vector<double> batches_of_worker = triples_of_workers(workers);
  for (double& triples_or_batches : batches_of_worker) triples_or_batches /= batches.triples;
  std::vector<Use> entities;
  std::vector<Use> relations;
  for (std::size_t n = 0; n < triples.size(); ++n) {
    entities.emplace_back(triples[n].head, workers[n]);
    entities.emplace_back(triples[n].tail, workers[n]);
    relations.emplace_back(triples[n].relation, workers[n]);
  }
  return static_cast<double>(widths.entity) * batches_elsewhere(std::move(entities), batches_of_worker) +
         static_cast<double>(widths.relation) * batches_elsewhere(std::move(relations), batches_of_worker);
}

}  // namespace verbena::apps::kge
