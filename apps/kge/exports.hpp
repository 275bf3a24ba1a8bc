// Embeddings as files that other programs read. They are not read back: for that there is the text of
// model.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "apps/kge/model.hpp"

namespace verbena::apps::kge {

enum class EmbeddingFormat : std::uint8_t {
  kText,         ///< of model.hpp
  kNpy,          ///< an array of the entities and one of the relations, and a file of names for each
  kSafetensors,  ///< both arrays in one file, and the names likewise
  kOpenKe,       ///< github.com/thunlp/OpenKE: the parameters of its modules, as JSON, and its files of names
  kDglKe,        ///< github.com/awslabs/dgl-ke: its arrays, its configuration, and its files of names
};

/// "text", "npy", "safetensors", "openke", "dgl-ke"
std::string_view to_string(EmbeddingFormat format);
std::optional<EmbeddingFormat> parse_embedding_format(std::string_view name);

/// The files that save_as() writes for --output PREFIX. `model`: DGL-KE's files are named after it.
std::vector<std::string> files_of(const std::string& prefix, EmbeddingFormat format, Model model);

/// Upper bound of their sizes together, unless names are unusually long.
std::uint64_t files_bytes(EmbeddingFormat format, const Shape& shape, std::size_t entities,
                          std::size_t relations);

/// Whether some of these files have names that do not begin with PREFIX, so that another model, or a data
/// set, may have files of these names in the same folder.
bool has_fixed_names(EmbeddingFormat format);

/// Writes them; each is there whole or not at all. Rows are in the order of the ids.
absl::Status save_as(EmbeddingFormat format, const std::string& prefix, const Embeddings& embeddings,
                     const Names& names);

}  // namespace verbena::apps::kge
