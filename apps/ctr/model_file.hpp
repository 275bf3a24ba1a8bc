// The model as text, for --output and --load, and what it predicts.
//
//   # verbena ctr: rank 2
//   3:17<TAB>0.5<TAB>0.1<TAB>-0.2
//   bias<TAB>-1.25<TAB>0<TAB>0
//
// A line is a feature (feature_keys.hpp), its weight, and its factors. Features that are not there have
// zeros.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/ctr/parameters.hpp"
#include "apps/data/examples.hpp"

namespace verbena::apps::ctr {

/// How many keys a model has, and how many of their weights are not 0.
struct ModelSize {
  std::uint64_t keys = 0;
  std::uint64_t nonzero_weights = 0;
};

/// A model that is not trained any more. Copies of one are safe to use in several threads.
class TrainedModel {
 public:
  explicit TrainedModel(std::size_t rank) : rank_(rank) {}
  /// INVALID_ARGUMENT "file:line: what was expected"; NOT_FOUND.
  static absl::StatusOr<TrainedModel> load(const std::string& path);
  /// What has been trained. OUT_OF_RANGE (diverged()): a number is none, or infinite.
  static absl::StatusOr<TrainedModel> of(Parameters& parameters, std::size_t rank);

  /// The file is there whole or not at all.
  [[nodiscard]] absl::Status save(const std::string& path) const;
  [[nodiscard]] ModelSize size() const;
  [[nodiscard]] std::size_t rank() const { return rank_; }
  /// In the order of their keys.
  void for_each(absl::FunctionRef<void(Key, float, std::span<const float>)> use) const;
  [[nodiscard]] double score(const Example& example);

 private:
  void add(Key key, float weight, std::span<const float> factors);
  [[nodiscard]] std::vector<Key> sorted_keys() const;
  [[nodiscard]] const float* find(Key key) const;

  std::size_t rank_;
  absl::flat_hash_map<Key, std::size_t> place_of_;  ///< in `numbers_`
  std::vector<float> numbers_;                      ///< of each key: its weight, then its factors
  std::vector<float> sums_;                         ///< scratch
};

}  // namespace verbena::apps::ctr
