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
  std::uint32_t head = 0;  ///< dense ids, in the order of first appearance in train, valid, test
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
  std::string format;  ///< the order of the columns of `train`, and what tells it, for people
};

/// The names that read_triples() looks for.
std::vector<std::string> triple_files(const std::string& folder);

/// Reads FOLDER/train, FOLDER/valid and FOLDER/test, each named .txt, .txt.gz, .tsv or .tsv.gz, or train2id
/// and so on as OpenKE names them, and then entity2id.txt and relation2id.txt, maybe .gz, if they are there:
/// those of their numbers that are in no triple follow the others, in their order. Lines are of three columns
/// between tabs: head, relation, tail, unless a header or what is in the columns tells another order
/// (docs/data.md). The same files give the same ids in every process. Errors: NOT_FOUND; INVALID_ARGUMENT
/// "file:line: what was expected, what was found".
absl::StatusOr<KnowledgeGraph> read_triples(const std::string& folder, const ReadProgress& progress = {});

}  // namespace verbena::apps
