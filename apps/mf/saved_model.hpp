// A factorization that was saved (model.hpp): the ratings that it predicts, and the items that it recommends.
#pragma once

#include <hwy/aligned_allocator.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"

namespace verbena::apps::mf {

struct Recommendation {
  std::uint32_t item = 0;
  float rating = 0;
};

class SavedModel {
 public:
  /// Reads both files of --output PREFIX. NOT_FOUND; INVALID_ARGUMENT "file:line: what was expected, what was
  /// found".
  static absl::StatusOr<SavedModel> load(const std::string& prefix);

  [[nodiscard]] std::size_t rank() const { return rank_; }
  /// As the files spell them.
  [[nodiscard]] const std::vector<std::string>& users() const { return users_.names; }
  [[nodiscard]] const std::vector<std::string>& items() const { return items_.names; }
  /// By the name that the ratings have; nullopt: the model does not know it.
  [[nodiscard]] std::optional<std::uint32_t> user(std::string_view name) const { return users_.find(name); }
  [[nodiscard]] std::optional<std::uint32_t> item(std::string_view name) const { return items_.find(name); }

  /// In the units of the ratings. A user or an item that the model does not know adds nothing to the mean.
  [[nodiscard]] float rating(std::optional<std::uint32_t> user, std::optional<std::uint32_t> item) const;

  /// The `count` items with the highest ratings for the user, the highest first; among equal ones, the first
  /// of the file first. Without those in `left_out`, and without those that no rating has trained, whose
  /// numbers are all 0.
  [[nodiscard]] std::vector<Recommendation> recommend(std::uint32_t user,
                                                      std::span<const std::uint32_t> left_out,
                                                      std::size_t count) const;

 private:
  friend class SavedModelReader;
  /// One of the two files.
  struct Side {
    std::vector<std::string> names;
    absl::flat_hash_map<std::string, std::uint32_t> ids;
    std::vector<float> biases;
    hwy::AlignedFreeUniquePtr<float[]> factors;  ///< padded(rank) of each
    [[nodiscard]] std::optional<std::uint32_t> find(std::string_view name) const;
  };
  SavedModel() = default;
  [[nodiscard]] const float* row(const Side& side, std::uint32_t id) const;

  double mean_ = 0;
  std::size_t rank_ = 0;
  Side users_;
  Side items_;
  std::vector<bool> is_untrained_;  ///< by item
};

}  // namespace verbena::apps::mf
