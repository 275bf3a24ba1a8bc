#include "apps/word2vec/vector_formats.hpp"

#include <array>
#include <utility>

#include "apps/data/array_files.hpp"
#include "apps/options/choice_names.hpp"

namespace verbena::apps::word2vec {
namespace {

constexpr std::array<std::pair<VectorFormat, std::string_view>, 5> kFormats = {
    {{VectorFormat::kText, "text"},
     {VectorFormat::kBinary, "binary"},
     {VectorFormat::kGlove, "glove"},
     {VectorFormat::kNpy, "npy"},
     {VectorFormat::kSafetensors, "safetensors"}}};
constexpr std::string_view kWordsEnding = ".words.txt";

}  // namespace

std::string_view to_string(VectorFormat format) {
  return name_of(kFormats, format);
}

std::optional<VectorFormat> parse_format(std::string_view name, std::string_view path) {
  if (name == "auto") {
    if (path.ends_with(".bin")) return VectorFormat::kBinary;
    if (path.ends_with(kNpyEnding)) return VectorFormat::kNpy;
    return path.ends_with(kSafetensorsEnding) ? VectorFormat::kSafetensors : VectorFormat::kText;
  }
  return choice_of(kFormats, name);
}

std::vector<std::string> files_of(const std::string& path, VectorFormat format) {
  switch (format) {
    case VectorFormat::kNpy:
      return {path, path_beside(path, kNpyEnding, kWordsEnding)};
    case VectorFormat::kSafetensors:
      return {path, path_beside(path, kSafetensorsEnding, kWordsEnding)};
    default:
      return {path};
  }
}

}  // namespace verbena::apps::word2vec
