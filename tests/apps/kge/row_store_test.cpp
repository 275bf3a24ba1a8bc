#include "apps/kge/row_store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cluster/cluster.hpp"

namespace verbena::apps::kge {
namespace {

using ::testing::ElementsAre;

constexpr Shape kShape{.model = Model::kDistMult, .dimension = 1};
constexpr std::size_t kEntities = 10;
constexpr std::uint32_t kWidth = 2 * kLanes;

/// Entity i begins with i, relation i with 100 + i.
RowSource numbered(std::size_t rows, float first) {
  return {.rows = rows, .width = kWidth, .make = [=](std::size_t id, std::span<float> row) {
            std::fill(row.begin(), row.end(), 0.0F);
            row[0] = first + static_cast<float>(id);
          }};
}
const RowSource kEntityRows = numbered(kEntities, 0);
const RowSource kRelationRows = numbered(2, 100);

float& entity(const Rows& rows, std::uint32_t row) {
  return rows.entities[row * kShape.entity_width()];
}
float& relation(const Rows& rows, std::uint32_t row) {
  return rows.relations[row * kShape.relation_width()];
}

std::vector<float> all_entities(RowStore& store) {
  Embeddings embeddings(kShape, kEntities, 2);
  EXPECT_TRUE(store.read(embeddings).ok());
  std::vector<float> values;
  for (std::size_t id = 0; id < kEntities; ++id) values.push_back(embeddings.entity(id)[0]);
  return values;
}

/// The same for each store.
void expect_rows_to_be_trained(RowStore& store) {
  MiniBatch first{.triples = {{3, 1, 4}}, .negatives_a_side = 1, .negatives = {5, 3}};
  MiniBatch second{.triples = {{6, 0, 3}}, .negatives_a_side = 1, .negatives = {7, 5}};
  store.request(first);
  absl::StatusOr<Rows> rows = store.open();
  ASSERT_TRUE(rows.ok()) << rows.status();
  store.request(second);
  EXPECT_EQ(entity(*rows, first.triples[0].head), 3);
  EXPECT_EQ(entity(*rows, first.triples[0].tail), 4);
  EXPECT_EQ(entity(*rows, first.negatives[0]), 5);
  EXPECT_EQ(relation(*rows, first.triples[0].relation), 101);
  EXPECT_EQ(first.negatives[1], first.triples[0].head) << "one row for one entity";
  entity(*rows, first.triples[0].head) += 0.5F;
  entity(*rows, first.negatives[0]) += 0.25F;
  relation(*rows, first.triples[0].relation) += 0.5F;
  ASSERT_TRUE(store.close().ok());
  rows = store.open();
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(entity(*rows, second.triples[0].head), 6);
  EXPECT_EQ(entity(*rows, second.triples[0].tail), 3.5F) << "trained after it was asked for";
  EXPECT_EQ(entity(*rows, second.negatives[1]), 5.25F);
  EXPECT_EQ(relation(*rows, second.triples[0].relation), 100);
  entity(*rows, second.triples[0].tail) += 0.5F;
  ASSERT_TRUE(store.close().ok());
  // A mini-batch that was asked for when none was open.
  MiniBatch third{.triples = {{3, 1, 5}}, .negatives_a_side = 0, .negatives = {}};
  store.request(third);
  rows = store.open();
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(entity(*rows, third.triples[0].head), 4);
  EXPECT_EQ(entity(*rows, third.triples[0].tail), 5.25F);
  EXPECT_EQ(relation(*rows, third.triples[0].relation), 101.5F);
  ASSERT_TRUE(store.close().ok());
  ASSERT_TRUE(store.clock().ok());
  ASSERT_TRUE(store.barrier().ok());
  EXPECT_THAT(all_entities(store), ElementsAre(0, 1, 2, 4, 4, 5.25F, 6, 7, 8, 9));
}

TEST(RowStoreTest, LocalRowsAreTrainedInPlace) {
  LocalRows store(kShape, kEntityRows, kRelationRows);
  expect_rows_to_be_trained(store);
}

TEST(RowStoreTest, RowsOfTablesAreHandedOver) {
  for (const ReadPath path : {ReadPath::kInPlace, ReadPath::kCached}) {
    const auto result = verbena::testing::run_cluster(
        {.servers = 2, .workers = 1, .read_path = path}, [&](Session& session) -> absl::Status {
          const auto entities =
              session.table<float>({.name = "e", .rows = kEntities, .width = kWidth, .consistency = Bsp{}});
          if (!entities.ok()) return entities.status();
          const auto relations =
              session.table<float>({.name = "r", .rows = 2, .width = kWidth, .consistency = Bsp{}});
          if (!relations.ok()) return relations.status();
          Slowdown none;
          TableRows store(session, kShape, **entities, **relations, none);
          if (absl::Status status = store.initialize(kEntityRows, kRelationRows); !status.ok()) return status;
          expect_rows_to_be_trained(store);
          return absl::OkStatus();
        });
    EXPECT_TRUE(result.first_error().ok()) << result.first_error();
  }
}

TEST(RowStoreTest, WhatWorkersTrainIsAddedUp) {
  const auto result =
      verbena::testing::run_cluster({.servers = 2, .workers = 3}, [&](Session& session) -> absl::Status {
        const auto entities =
            session.table<float>({.name = "e", .rows = kEntities, .width = kWidth, .consistency = Bsp{}});
        if (!entities.ok()) return entities.status();
        const auto relations =
            session.table<float>({.name = "r", .rows = 2, .width = kWidth, .consistency = Bsp{}});
        if (!relations.ok()) return relations.status();
        Slowdown none;
        TableRows store(session, kShape, **entities, **relations, none);
        if (absl::Status status = store.initialize(kEntityRows, kRelationRows); !status.ok()) return status;
        MiniBatch batch{.triples = {{session.rank(), 0, 9}}, .negatives_a_side = 0, .negatives = {}};
        store.request(batch);
        const absl::StatusOr<Rows> rows = store.open();
        if (!rows.ok()) return rows.status();
        entity(*rows, batch.triples[0].head) += 10;
        entity(*rows, batch.triples[0].tail) += 1;
        if (absl::Status status = store.close(); !status.ok()) return status;
        if (absl::Status status = store.barrier(); !status.ok()) return status;
        EXPECT_THAT(all_entities(store), ElementsAre(10, 11, 12, 3, 4, 5, 6, 7, 8, 12));
        return absl::OkStatus();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

}  // namespace
}  // namespace verbena::apps::kge
