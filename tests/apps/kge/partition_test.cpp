#include "apps/kge/partition.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <utility>

namespace verbena::apps::kge {
namespace {

std::vector<Triple> graph(const std::vector<std::uint32_t>& sizes) {
  std::vector<Triple> triples;
  for (std::uint32_t relation = 0; relation < sizes.size(); ++relation) {
    for (std::uint32_t n = 0; n < sizes[relation]; ++n) triples.push_back({n, relation, n + 1});
  }
  return triples;
}

std::vector<std::vector<Triple>> parts(const std::vector<Triple>& triples, std::size_t relations,
                                       std::uint32_t workers) {
  std::vector<std::vector<Triple>> all;
  const std::vector<std::uint32_t> owners = share_out_relations(triples, relations, workers);
  for (std::uint32_t rank = 0; rank < workers; ++rank) all.push_back(part_of(triples, owners, rank, 1));
  return all;
}

/// For each relation, the workers that have triples of it.
std::map<std::uint32_t, std::set<std::size_t>> owners(const std::vector<std::vector<Triple>>& all) {
  std::map<std::uint32_t, std::set<std::size_t>> result;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    for (const Triple& triple : all[rank]) result[triple.relation].insert(rank);
  }
  return result;
}

std::vector<Triple> sorted(std::vector<Triple> triples) {
  std::sort(triples.begin(), triples.end());
  return triples;
}

TEST(PartitionTest, EachTripleGoesToOneWorker) {
  const std::vector<Triple> triples = graph({40, 7, 300, 1, 25, 0, 13});
  for (const std::uint32_t workers : {1U, 2U, 3U, 5U, 16U, 500U}) {
    std::vector<Triple> together;
    for (const std::vector<Triple>& part : parts(triples, 7, workers)) {
      together.insert(together.end(), part.begin(), part.end());
    }
    EXPECT_EQ(sorted(together), sorted(triples)) << workers;
  }
}

TEST(PartitionTest, RelationsStayTogetherAndLoadsAreEven) {
  // The sizes of WN18RR's relations, in hundreds.
  const std::vector<Triple> triples = graph({348, 297, 74, 48, 31, 29, 13, 11, 9, 6, 1});
  const auto two = parts(triples, 11, 2);
  for (const auto& [relation, workers] : owners(two)) EXPECT_EQ(workers.size(), 1U) << relation;
  EXPECT_NEAR(static_cast<double>(two[0].size()), static_cast<double>(two[1].size()), 5);
}

TEST(PartitionTest, OnlyARelationLargerThanAShareIsCut) {
  const std::vector<Triple> triples = graph({348, 297, 74, 48, 31, 29, 13, 11, 9, 6, 1});
  const auto four = parts(triples, 11, 4);
  const auto by_relation = owners(four);
  EXPECT_EQ(by_relation.at(0).size(), 2U);
  EXPECT_EQ(by_relation.at(1).size(), 2U);
  for (std::uint32_t relation = 2; relation < 11; ++relation) EXPECT_EQ(by_relation.at(relation).size(), 1U);
  for (const std::vector<Triple>& part : four) {
    EXPECT_NEAR(static_cast<double>(part.size()), static_cast<double>(triples.size()) / 4, 40);
  }
}

/// Villages of 20 entities. Each entity is joined with the next two of its village, and each village with the
/// next one by a single triple. The order is random.
std::vector<Triple> villages(std::uint32_t count) {
  constexpr std::uint32_t kSize = 20;
  std::vector<Triple> triples;
  for (std::uint32_t entity = 0; entity < count * kSize; ++entity) {
    const std::uint32_t first = entity / kSize * kSize;
    for (const std::uint32_t step : {1U, 2U})
      triples.push_back({entity, step, first + (entity - first + step) % kSize});
    if (entity == first && entity > 0) triples.push_back({entity, 0, entity - 1});
  }
  return part_of(triples, std::vector<std::uint32_t>(triples.size()), 0, 1);
}

/// How many pairs of an entity and a worker that uses it there are.
std::size_t uses_by_workers(const std::vector<Triple>& triples, const std::vector<std::uint32_t>& workers) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> uses;
  for (std::size_t n = 0; n < triples.size(); ++n) {
    uses.insert({triples[n].head, workers[n]});
    uses.insert({triples[n].tail, workers[n]});
  }
  return uses.size();
}

TEST(PartitionTest, SharesOfEntitiesAreEven) {
  const std::vector<Triple> triples = villages(10);
  for (const std::uint32_t workers : {1U, 2U, 3U, 7U, 500U}) {
    std::vector<std::size_t> shares(workers);
    for (const std::uint32_t worker : share_out_entities(triples, 200, workers)) ++shares.at(worker);
    const auto [least, most] = std::minmax_element(shares.begin(), shares.end());
    EXPECT_LE(*most - *least, 1U) << workers;
  }
}

TEST(PartitionTest, NeighboursStayTogether) {
  const std::vector<Triple> triples = villages(16);
  const auto by_entity = share_out_entities(triples, 320, 4);
  // A share may end in the middle of a village. This cuts the village's ring at two places, and at each of
  // them two or three entities are used by both workers.
  EXPECT_LE(uses_by_workers(triples, by_entity), 320U + 3 * 6);
  EXPECT_GE(uses_by_workers(triples, share_out_relations(triples, 3, 4)), 600U);
}

TEST(PartitionTest, EntitiesThatMeetThemselvesOrNobodyAreSharedOutToo) {
  const std::vector<Triple> triples = {{0, 0, 0}, {0, 0, 0}, {3, 0, 4}, {3, 1, 4}, {4, 0, 3}, {6, 0, 6}};
  std::vector<std::uint32_t> workers = share_out_entities(triples, 8, 2);
  std::sort(workers.begin(), workers.end());
  EXPECT_THAT(workers, ::testing::ElementsAre(0, 0, 0, 1, 1, 1));
  EXPECT_THAT(share_out_entities({}, 3, 2), ::testing::IsEmpty());
}

TEST(PartitionTest, WhatComesFromElsewhereIsWhatMainUsersLack) {
  const std::vector<Triple> triples = {{0, 0, 1}, {0, 0, 2}, {0, 1, 3}, {0, 1, 3}, {1, 1, 3}, {2, 1, 3}};
  const std::vector<std::uint32_t> workers = {0, 0, 1, 1, 1, 1};
  // The first worker has one mini-batch, the second has two. Both use entities 0, 1 and 2. Each of these lies
  // with the second worker if that uses it in more mini-batches.
  const MiniBatches batches{.triples = 2, .entities = 4, .relations = 2};
  const auto with = [](double uses, double of_batches) {
    return of_batches * (1 - std::exp(-uses / of_batches));
  };
  const double entities = with(2, 1) + 2 * std::min(with(1, 1), with(1, 2));
  EXPECT_NEAR(numbers_from_elsewhere(triples, workers, batches, {.entity = 10, .relation = 1000}),
              10 * entities, 1e-9);
  // Shared out in another way, each relation has two users.
  const std::vector<std::uint32_t> otherwise = {0, 1, 0, 1, 0, 1};
  EXPECT_GT(numbers_from_elsewhere(triples, otherwise, batches, {.entity = 10, .relation = 1000}), 1000);
  EXPECT_EQ(numbers_from_elsewhere(triples, std::vector<std::uint32_t>(6), batches, {}), 0);
}

TEST(PartitionTest, TheOrderIsRandomAndTheSeeds) {
  const std::vector<Triple> triples = graph({100});
  const std::vector<std::uint32_t> workers(triples.size());
  const std::vector<Triple> one = part_of(triples, workers, 0, 1);
  EXPECT_EQ(one, part_of(triples, workers, 0, 1));
  EXPECT_NE(one, part_of(triples, workers, 0, 2));
  EXPECT_NE(one, triples);
}

/// Returns how many triples with `entity` each stretch of kStretch triples has, and how often such a triple
/// directly follows another one.
std::pair<std::vector<std::size_t>, std::size_t> stretches_with(std::uint32_t entity,
                                                                std::span<const Triple> ordered) {
  std::vector<std::size_t> counts((ordered.size() + kStretch - 1) / kStretch);
  std::size_t followers = 0;
  bool before = false;
  for (std::size_t n = 0; n < ordered.size(); ++n) {
    const bool has = ordered[n].head == entity || ordered[n].tail == entity;
    if (has) ++counts[n / kStretch];
    if (has && before) ++followers;
    before = has;
  }
  return {counts, followers};
}

TEST(PartitionTest, TriplesWithASharedEntityComeTogether) {
  constexpr std::size_t kTimes = 40;
  // Entity 0 is in the first triple of each stretch, by turns as head and as tail, twice together with entity
  // 1. All other entities come once.
  std::vector<Triple> part;
  std::uint32_t next = 2;
  for (std::uint32_t n = 0; n < kTimes; ++n) {
    const std::uint32_t other = n % 20 == 5 ? 1 : next++;
    part.push_back(n % 2 == 0 ? Triple{0, 0, other} : Triple{other, 0, 0});
    for (std::size_t i = 1; i < kStretch; ++i, next += 2) part.push_back({next, 1, next + 1});
  }
  std::vector<double> uses_by_others(next);
  uses_by_others[0] = uses_by_others[1] = 0.5;
  const std::vector<Triple> ordered = bring_together(part, uses_by_others, 1);
  EXPECT_EQ(sorted(ordered), sorted(part));
  const auto [counts, followers] = stretches_with(0, ordered);
  for (std::size_t stretch = 0; stretch < counts.size(); ++stretch) {
    EXPECT_EQ(counts[stretch], stretch % kTogether == 0 ? kTogether : 0) << stretch;
  }
  // At random places, few triples with the entity directly follow another one.
  EXPECT_LE(followers, kTimes / 4) << "too many directly follow another one";
  EXPECT_EQ(bring_together(part, uses_by_others, 1), ordered);
  EXPECT_NE(bring_together(part, uses_by_others, 2), ordered);
  // If no entity is shared, each triple stays in its stretch.
  EXPECT_THAT(stretches_with(0, bring_together(part, std::vector<double>(next), 1)).first,
              ::testing::Each(1U));
}

TEST(PartitionTest, UsesByOthersAreTheirs) {
  // Entities 0 to 3, relations 0 and 1.
  const std::vector<Triple> triples = {{0, 0, 1}, {0, 0, 2}, {0, 1, 3}, {0, 1, 3}, {1, 1, 3}, {2, 1, 3}};
  const std::vector<std::uint32_t> workers = {0, 0, 1, 1, 1, 1};
  const MiniBatches batches{.triples = 2, .negatives = 1, .entities = 4, .relations = 2};
  const UsesByOthers first = uses_by_others(triples, workers, 0, batches);
  // A mini-batch has half of the other worker's triples, and one negative, drawn from four entities.
  EXPECT_THAT(first.entities, ::testing::ElementsAre(1.25, 0.75, 0.75, 2.25));
  EXPECT_THAT(first.relations, ::testing::ElementsAre(0, 2));
  const UsesByOthers second = uses_by_others(triples, workers, 1, batches);
  EXPECT_THAT(second.entities, ::testing::ElementsAre(2.25, 1.25, 1.25, 0.25));
  const UsesByOthers third = uses_by_others(triples, workers, 2, batches);
  EXPECT_THAT(third.relations, ::testing::ElementsAre(2, 2));
  const std::vector<std::uint32_t> alone(triples.size());
  EXPECT_THAT(uses_by_others(triples, alone, 0, batches).entities, ::testing::Each(0));
}

}  // namespace
}  // namespace verbena::apps::kge
