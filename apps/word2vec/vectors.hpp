// Words and their vectors: in memory, as files (vector_formats.hpp), and which of them are near one another.
#pragma once

#include <hwy/aligned_allocator.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/embedding/row_source.hpp"
#include "apps/word2vec/vector_formats.hpp"

namespace verbena::apps::word2vec {

inline constexpr std::size_t kMaxDimension = 65'535;

class Vectors {
 public:
  /// All 0.
  Vectors(std::vector<std::string> words, std::size_t dimension)
      : words_(std::move(words)),
        dimension_(dimension),
        numbers_(aligned_floats(words_.size() * padded(dimension))) {}
  [[nodiscard]] const std::vector<std::string>& words() const { return words_; }
  [[nodiscard]] std::size_t dimension() const { return dimension_; }
  [[nodiscard]] std::size_t row_size() const { return padded(dimension_); }
  [[nodiscard]] float* row(std::size_t id) { return numbers_.get() + id * row_size(); }
  [[nodiscard]] const float* row(std::size_t id) const { return numbers_.get() + id * row_size(); }

 private:
  std::vector<std::string> words_;
  std::size_t dimension_;
  hwy::AlignedFreeUniquePtr<float[]> numbers_;
};

/// Upper bound of the size of files_of() together, unless words are unusually long.
std::uint64_t files_bytes(std::size_t words, std::size_t dimension, VectorFormat format);

/// Each file is there whole or not at all. load() reads exactly the same numbers, but not from arrays.
absl::Status save(const std::string& path, const Vectors& vectors, VectorFormat format = VectorFormat::kText);

/// What load() has found beside the vectors.
struct VectorsFile {
  VectorFormat format = VectorFormat::kText;
  /// Words that were left out: they had come before, or have blanks in them, as some of GloVe's have.
  std::uint64_t ignored_words = 0;
  std::string first_ignored;  ///< where the first of them is: "line 7", or of binary files "word 7"
};
/// Reads what save(), word2vec, fastText, gensim or GloVe have written, as text or binary; the contents say
/// which. Of a word that comes several times the first vector counts, and one word at least must have no
/// blank. NOT_FOUND; INVALID_ARGUMENT "file:line: what was expected, what was found", or of binary files
/// "file: word N: …".
absl::StatusOr<Vectors> load(const std::string& path, VectorsFile* file = nullptr);

struct Neighbour {
  std::uint32_t word = 0;
  float cosine = 0;
};

/// The words whose vectors have the smallest angles with the vector of `word`, the nearest first; among equal
/// ones, the smaller id first. A vector with a length of 0, or beyond what a float holds, has no neighbours
/// and is no neighbour of others.
std::vector<Neighbour> neighbours(const Vectors& vectors, std::uint32_t word, std::size_t count);

}  // namespace verbena::apps::word2vec
