// Files beside triples that number their entities and relations, as OpenKE and DGL-KE have them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"

namespace verbena::apps {

enum class NamesLayout : std::uint8_t {
  kOpenKe,  ///< entity2id.txt, relation2id.txt: how many there are, then lines of a name and its number
  kDglKe,   ///< entities.dict, relations.dict, or .tsv, as DGL-KE itself writes them: a number and its name
};

/// What is numbered, for people and in the names of files.
struct NumberedPart {
  std::string_view all;  ///< "entities"
  std::string_view one;  ///< "entity"
};
inline constexpr NumberedPart kNumberedEntities = {.all = "entities", .one = "entity"};
inline constexpr NumberedPart kNumberedRelations = {.all = "relations", .one = "relation"};

struct NumberedNames {
  std::string path;                ///< empty: there is no such file
  std::vector<std::string> names;  ///< by their numbers
  /// By their names; and by second ones, without the quotes of names that are quoted as a whole, or without
  /// the blanks around a name, unless another one is named so.
  absl::flat_hash_map<std::string, std::uint32_t> numbers;
  bool have_second_names = false;  ///< some of them
};

/// The paths at which read_numbered_names() looks for files.
std::vector<std::string> numbered_names_files(const std::string& folder, NamesLayout layout);

/// Reads the folder's file, maybe with .gz, if it is there; a .tsv of kDglKe only if its first line is that
/// of number 0. The fields of kDglKe are those that triples between the same separators have. Numbers are 0,
/// 1, … in any order, and each name is another. INVALID_ARGUMENT "file:line: …".
absl::StatusOr<NumberedNames> read_numbered_names(const std::string& folder, NamesLayout layout,
                                                  const NumberedPart& part);

}  // namespace verbena::apps
