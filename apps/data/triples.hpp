// Facts (head, relation, tail) of a knowledge graph.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/data/corpus.hpp"

namespace verbena::apps {

struct Triple {
  std::uint32_t head = 0;  ///< dense ids, see read_triples()
  std::uint32_t relation = 0;
  std::uint32_t tail = 0;
  friend auto operator<=>(const Triple&, const Triple&) = default;
};

struct KnowledgeGraph {
  std::vector<std::string> entity_names;  ///< of all files, as they spell them
  std::vector<std::string> relation_names;
  std::vector<Triple> train;  ///< in file order
  std::vector<Triple> valid;
  std::vector<Triple> test;
  /// The order of the columns of `train`, what tells it, and which files have the names, for people.
  std::string format;
  /// Files of OpenKE's names beside triples that are not OpenKE's.
  std::vector<std::string> unused_files;
};

/// The names that read_triples() looks for.
std::vector<std::string> triple_files(const std::string& folder);

/// Reads FOLDER/train, FOLDER/valid and FOLDER/test, each named .txt, .tsv or .csv, or train2id.txt and so on
/// as OpenKE names them, maybe with .gz. Lines are of three columns between tabs, or another separator: head,
/// relation, tail, unless a header or what is in the columns tells another order (docs/data.md).
///
/// Ids are the numbers of the files of names that stand beside them, if there are any: those of OpenKE, whose
/// triples are numbers, or of DGL-KE, whose triples are names or numbers, which `train` decides. What is in
/// no triple has its name, too. Without such files, ids are numbered as they first appear in train, valid and
/// test; but if the names are the numbers from 0 on themselves, by these. The same files give the same ids in
/// every process. Errors: NOT_FOUND; INVALID_ARGUMENT "file:line: what was expected, what was found".
absl::StatusOr<KnowledgeGraph> read_triples(const std::string& folder, const ReadProgress& progress = {});

}  // namespace verbena::apps
