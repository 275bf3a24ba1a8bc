// The formats that files of vectors have.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace verbena::apps::word2vec {

enum class VectorFormat : std::uint8_t {
  kText,         ///< of word2vec: a line with how many words and numbers there are, then a word a line
  kBinary,       ///< of word2vec: the same line; then each word, a blank and its numbers as floats
  kGlove,        ///< as kText without the first line
  kNpy,          ///< an array, and a second file with the words
  kSafetensors,  ///< an array "vectors", and a second file with the words
};

/// "text", "binary", "glove", "npy", "safetensors"
std::string_view to_string(VectorFormat format);
/// What --output-format says; "auto": what the ending of the name says: .bin, .npy, .safetensors, else text.
std::optional<VectorFormat> parse_format(std::string_view name, std::string_view path);

/// The files in which vectors are saved: the words' own file, where there is one, is the second.
std::vector<std::string> files_of(const std::string& path, VectorFormat format);

}  // namespace verbena::apps::word2vec
