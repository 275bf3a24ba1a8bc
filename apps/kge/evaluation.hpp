// How well the right answers rank among all entities: for each triple of a test set, both the tail and the
// head are asked for. Other answers that are known to be right (they are in any of the three files) are left
// out ("filtered": Bordes et al., NIPS 2013). Among equal scores, the right answer counts as the middle one:
// an answer that ties with all others does not rank first.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "apps/data/triples.hpp"
#include "apps/embedding/ranking.hpp"
#include "apps/kge/kernel.hpp"
#include "apps/kge/model.hpp"

namespace verbena::apps::kge {

/// All answers that are known to be right.
class KnownAnswers {
 public:
  explicit KnownAnswers(const KnowledgeGraph& graph);
  [[nodiscard]] std::span<const std::uint32_t> of(Side side, const Triple& triple) const;

 private:
  using Answers = absl::flat_hash_map<std::uint64_t, std::vector<std::uint32_t>>;
  Answers tails_;  ///< by head and relation
  Answers heads_;  ///< by tail and relation
};

/// Writes, for each triple, the rank of its tail, then the rank of its head: 1 + the number of better answers
/// + half the number of equal ones. REQUIRES: two `ranks` for each triple.
void rank(const Embeddings& embeddings, std::span<const Triple> triples, const KnownAnswers& known,
          std::span<double> ranks);

/// As rank_all().
absl::StatusOr<RankSums> evaluate(const Embeddings& embeddings, std::span<const Triple> triples,
                                  const KnownAnswers& known, const RankingOptions& options);

}  // namespace verbena::apps::kge
