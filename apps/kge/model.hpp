// The rows of a knowledge-graph embedding: their initial values, in memory, and as text.
#pragma once

#include <hwy/aligned_allocator.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/embedding/row_source.hpp"
#include "apps/kge/kernel.hpp"

namespace verbena::apps::kge {

/// The parameters of all rows, without Adagrad's sums.
class Embeddings {
 public:
  Embeddings(const Shape& shape, std::size_t entities, std::size_t relations);
  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] std::size_t entities() const { return entity_count_; }
  [[nodiscard]] std::size_t relations() const { return relation_count_; }
  [[nodiscard]] float* entity(std::size_t id) { return entities_.get() + id * shape_.entity_size(); }
  [[nodiscard]] const float* entity(std::size_t id) const {
    return entities_.get() + id * shape_.entity_size();
  }
  [[nodiscard]] float* relation(std::size_t id) { return relations_.get() + id * shape_.relation_size(); }
  [[nodiscard]] const float* relation(std::size_t id) const {
    return relations_.get() + id * shape_.relation_size();
  }

 private:
  Shape shape_;
  std::size_t entity_count_;
  std::size_t relation_count_;
  hwy::AlignedFreeUniquePtr<float[]> entities_;
  hwy::AlignedFreeUniquePtr<float[]> relations_;
};

/// The tables, in the order of a RowStore's.
inline constexpr std::size_t kEntityTable = 0;
inline constexpr std::size_t kRelationTable = 1;
using RowSources = std::array<RowSource, 2>;

/// Small random parameters.
RowSources random_rows(const Shape& shape, std::size_t entities, std::size_t relations, std::uint64_t seed);
/// The rows of `embeddings`, which must outlive the sources; Adagrad begins anew.
RowSources rows_from(const Embeddings& embeddings);

/// The largest dimension that it may have.
std::size_t most_dimension(Model model);

/// "complex", "distmult", "rescal", "transe", "rotate"
std::string_view to_string(Model model);
std::optional<Model> parse_model(std::string_view name);

struct Names {
  const std::vector<std::string>& entities;
  const std::vector<std::string>& relations;
};

std::string entities_path(const std::string& prefix);
std::string relations_path(const std::string& prefix);
/// Upper bounds of the files' sizes, unless names are unusually long.
std::uint64_t entities_file_bytes(const Shape& shape, std::size_t entities);
std::uint64_t relations_file_bytes(const Shape& shape, std::size_t relations);

/// Writes both files; each is there whole or not at all. load() reads exactly the same numbers.
absl::Status save(const std::string& prefix, const Embeddings& embeddings, const Names& names);

/// Reads what save() wrote, for the same model, dimension and names, in any order. NOT_FOUND;
/// INVALID_ARGUMENT "file:line: what was expected, what was found".
absl::StatusOr<Embeddings> load(const std::string& prefix, const Shape& shape, const Names& names);

struct SavedModel {
  Embeddings embeddings;
  std::vector<std::string> entity_names;  ///< in the order of the files
  std::vector<std::string> relation_names;
};
/// The same for whatever model and names the files say.
absl::StatusOr<SavedModel> load(const std::string& prefix);

}  // namespace verbena::apps::kge
