// The examples of a worker, laid out for training: in mini-batches, each with its distinct keys, so that a
// key is pulled and pushed once a mini-batch and is looked for only while the data is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "apps/data/examples.hpp"
#include <verbena/keys.hpp>

namespace verbena::apps::ctr {

/// The key of the bias, a feature that every example has. No file has its slot.
inline constexpr Key kBias = kBeyondFeatures;
/// The most factors of a feature.
inline constexpr std::uint64_t kMostRank = 1024;

/// A mini-batch. Feature f of example e, for f in [begin[e], begin[e + 1]), is places[f], an index into
/// `keys`, with values[f].
struct MiniBatch {
  std::span<const Key> keys;              ///< each once; the first is kBias, which is not among the features
  std::span<const std::uint32_t> begin;   ///< one more than examples
  std::span<const std::uint32_t> places;  ///< by feature
  std::span<const float> values;          ///< by feature; empty: all are 1
  std::span<const float> weights;         ///< by example; empty: all are 1
  std::span<const std::uint8_t> labels;   ///< by example; 1: positive

  [[nodiscard]] std::size_t examples() const { return labels.size(); }
  [[nodiscard]] float value(std::size_t feature) const { return values.empty() ? 1 : values[feature]; }
  [[nodiscard]] float weight(std::size_t example) const { return weights.empty() ? 1 : weights[example]; }
};

/// Where a worker has its mini-batches from.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  /// Calls use() for each mini-batch, which is valid during the call: the same ones in the same order
  /// whenever it is called. An error of use() ends it and is returned.
  virtual absl::Status for_each(absl::FunctionRef<absl::Status(const MiniBatch&)> use) const = 0;
};

/// Mini-batches in memory.
class MiniBatches final : public BatchSource {
 public:
  /// Of so many examples each; the last may be smaller.
  explicit MiniBatches(std::size_t examples_each) : examples_each_(examples_each) {}

  void add(const Example& example);
  /// The last example has been added: gives memory back that is of no more use.
  void finish();
  /// As new, but for its memory.
  void clear();

  [[nodiscard]] std::size_t size() const { return extents_.size(); }
  /// Valid until another function that is not const is called.
  [[nodiscard]] MiniBatch operator[](std::size_t index) const;
  absl::Status for_each(absl::FunctionRef<absl::Status(const MiniBatch&)> use) const override;
  [[nodiscard]] std::size_t examples() const { return labels_.size(); }

 private:
  struct Extent {
    std::size_t first_key = 0;
    std::size_t first_feature = 0;
    std::size_t first_example = 0;
    std::size_t first_begin = 0;  ///< in begin_, which has one more for each mini-batch than examples
  };
  void start();
  [[nodiscard]] Extent end() const { return {keys_.size(), places_.size(), labels_.size(), begin_.size()}; }

  const std::size_t examples_each_;
  std::vector<Extent> extents_;
  std::vector<Key> keys_;
  std::vector<std::uint32_t> begin_;
  std::vector<std::uint32_t> places_;
  std::vector<float> values_;   ///< empty as long as all are 1
  std::vector<float> weights_;  ///< empty as long as all are 1
  std::vector<std::uint8_t> labels_;
  absl::flat_hash_map<Key, std::uint32_t> place_of_;  ///< of the keys of the last mini-batch
};

}  // namespace verbena::apps::ctr
