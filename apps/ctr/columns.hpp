// The examples of a worker, laid out by feature: for each key, the examples that have it. Keys are in blocks,
// which the block solver (block_trainer.hpp) takes one after the other: by their slots, since an example then
// has few features of a block, or, if all have the same slot, by their hashes. The bias is a block of its
// own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "apps/data/examples.hpp"
#include <verbena/keys.hpp>

namespace verbena::apps::ctr {

/// Which block a key is in. All workers must have the same.
class BlockPlan {
 public:
  /// A key of any worker's examples.
  void add(Key key);
  /// `blocks`: besides that of the bias; if there are more than slots, each slot is divided by hash. 0: as
  /// many as there are slots, but at most kMostOfSlots, or kBlocksWithoutSlots.
  void finish(std::uint32_t blocks);

  [[nodiscard]] std::uint32_t blocks() const { return blocks_ + 1; }
  [[nodiscard]] std::uint32_t block_of(Key key) const;

 private:
  static constexpr std::uint32_t kBlocksWithoutSlots = 16;
  static constexpr std::uint32_t kMostOfSlots = 64;
  std::vector<bool> has_slot_;
  std::vector<std::uint32_t> slot_number_;  ///< by slot: how many slots there are before it
  std::uint32_t slots_ = 0;
  std::uint32_t blocks_ = 0;
};

class Columns {
 public:
  /// A feature of an example.
  struct Entry {
    std::uint32_t example = 0;
    float value = 1;
    /// How many features of the example are in the same block.
    std::uint16_t crowd = 1;
  };
  struct Range {
    std::size_t first = 0;
    std::size_t last = 0;  ///< not included
    [[nodiscard]] std::size_t size() const { return last - first; }
  };

  /// Of at most 2³² − 1 examples.
  void add(const Example& example);
  /// The last example has been added.
  void finish(const BlockPlan& plan);

  [[nodiscard]] std::size_t examples() const { return labels_.size(); }
  /// 1 or −1.
  [[nodiscard]] float label(std::size_t example) const { return labels_[example]; }
  [[nodiscard]] float weight(std::size_t example) const { return weights_.empty() ? 1 : weights_[example]; }
  [[nodiscard]] std::size_t columns() const { return keys_.size(); }
  [[nodiscard]] std::span<const Key> keys() const { return keys_; }  ///< by column
  [[nodiscard]] Range columns_of(std::uint32_t block) const {
    return {first_column_[block], first_column_[block + 1]};
  }
  [[nodiscard]] Range entries_of(std::size_t column) const { return {begin_[column], begin_[column + 1]}; }
  [[nodiscard]] Entry entry(std::size_t i) const {
    return {examples_[i], values_.empty() ? 1 : values_[i], crowds_.empty() ? std::uint16_t{1} : crowds_[i]};
  }

 private:
  void count_crowds(const BlockPlan& plan);

  // By feature in the order in which they came, until finish().
  std::vector<std::uint32_t> column_of_;
  std::vector<float> value_of_;  ///< empty as long as all are 1
  std::vector<std::size_t> end_of_example_;
  absl::flat_hash_map<Key, std::uint32_t> number_of_;

  std::vector<float> labels_;
  std::vector<float> weights_;  ///< empty as long as all are 1
  std::vector<Key> keys_;
  std::vector<std::size_t> first_column_;  ///< by block, and one more
  std::vector<std::size_t> begin_;         ///< by column, and one more
  std::vector<std::uint32_t> examples_;
  std::vector<float> values_;          ///< empty: all are 1
  std::vector<std::uint16_t> crowds_;  ///< empty: all are 1
};

}  // namespace verbena::apps::ctr
