#include "apps/ctr/columns.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "apps/ctr/batches.hpp"
#include "apps/data/feature_keys.hpp"

namespace verbena::apps::ctr {
namespace {

using Features = std::vector<Feature>;

struct OneExample {
  bool is_positive = false;
  float weight = 1;
  Features features;
};

/// The columns of these examples, taken apart again: by key, then by example.
std::map<Key, std::map<std::uint32_t, Columns::Entry>> entries_of(const Columns& columns) {
  std::map<Key, std::map<std::uint32_t, Columns::Entry>> all;
  for (std::size_t column = 0; column < columns.columns(); ++column) {
    const Columns::Range range = columns.entries_of(column);
    for (std::size_t i = range.first; i < range.last; ++i) {
      const Columns::Entry entry = columns.entry(i);
      EXPECT_TRUE(all[columns.keys()[column]].emplace(entry.example, entry).second);
    }
  }
  return all;
}

const Key kA1 = feature_key(1, 1);
const Key kA2 = feature_key(1, 2);
const Key kB1 = feature_key(7, 1);

TEST(ColumnsTest, HaveWhatTheExamplesHave) {
  for (const bool has_values : {false, true}) {
    const float half = has_values ? 0.5F : 1.0F;
    const std::vector<OneExample> examples = {
        {true, 1, {{kA1, 1}, {kB1, 1}}},
        {false, has_values ? 2.0F : 1.0F, {{kA1, half}, {kA2, 1}, {kB1, 1}}},
        {true, 1, {}}};
    BlockPlan plan;
    Columns columns;
    for (const OneExample& example : examples) {
      for (const Feature& feature : example.features) plan.add(feature.key);
      columns.add(
          {.is_positive = example.is_positive, .weight = example.weight, .features = example.features});
    }
    plan.finish(0);
    columns.finish(plan);
    ASSERT_EQ(plan.blocks(), 3U) << "two slots and the bias";
    ASSERT_EQ(columns.examples(), 3U);
    EXPECT_EQ(columns.label(0), 1);
    EXPECT_EQ(columns.label(1), -1);
    EXPECT_EQ(columns.weight(1), has_values ? 2 : 1);
    auto entries = entries_of(columns);
    EXPECT_EQ(entries.size(), 4U);
    EXPECT_EQ(entries[kBias].size(), 3U);
    EXPECT_EQ(entries[kA1].size(), 2U);
    EXPECT_EQ(entries[kA1][1].value, half);
    EXPECT_EQ(entries[kA1][0].crowd, 1U);
    EXPECT_EQ(entries[kA1][1].crowd, 2U) << "with the other one of its slot";
    EXPECT_EQ(entries[kB1][1].crowd, 1U);
    // Each column is in its block, and in one only.
    std::set<Key> seen;
    for (std::uint32_t block = 0; block < plan.blocks(); ++block) {
      const Columns::Range range = columns.columns_of(block);
      for (std::size_t column = range.first; column < range.last; ++column) {
        EXPECT_EQ(plan.block_of(columns.keys()[column]), block);
        EXPECT_TRUE(seen.insert(columns.keys()[column]).second);
      }
    }
    EXPECT_EQ(seen.size(), 4U);
    EXPECT_EQ(columns.columns_of(2).size(), 1U) << "the bias is alone";
  }
}

TEST(BlockPlanTest, WithoutSlotsHashesDecide) {
  BlockPlan plan;
  for (std::uint64_t index = 0; index < 1000; ++index) plan.add(feature_key(0, index));
  plan.finish(0);
  std::map<std::uint32_t, int> counts;
  for (std::uint64_t index = 0; index < 1000; ++index) ++counts[plan.block_of(feature_key(0, index))];
  EXPECT_EQ(counts.size() + 1, plan.blocks());
  for (const auto& [block, count] : counts) EXPECT_GT(count, 20);
}

TEST(BlockPlanTest, SlotsShareBlocks) {
  BlockPlan plan;
  for (std::uint64_t slot = 0; slot < 10; ++slot) plan.add(feature_key(slot * 3, 5));
  plan.finish(4);
  EXPECT_EQ(plan.blocks(), 5U);
  std::map<std::uint32_t, int> counts;
  for (std::uint64_t slot = 0; slot < 10; ++slot) ++counts[plan.block_of(feature_key(slot * 3, 9))];
  EXPECT_EQ(counts.size(), 4U);
  EXPECT_EQ(plan.block_of(kBias), 4U);
}

/// A worker may have no examples.
TEST(ColumnsTest, MayBeEmpty) {
  BlockPlan plan;
  plan.add(kA1);
  plan.finish(2);
  Columns columns;
  columns.finish(plan);
  EXPECT_EQ(columns.columns(), 0U);
  EXPECT_EQ(columns.columns_of(2).size(), 0U);
}

}  // namespace
}  // namespace verbena::apps::ctr
