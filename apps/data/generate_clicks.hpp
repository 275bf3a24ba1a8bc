// Click-through examples with a known answer: `verbena generate ctr`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace CLI {
class App;
}  // namespace CLI

namespace verbena::apps {

/// An example has one id of each field. The fields have 4 to 2,000,000 ids, evenly on a logarithmic scale;
/// the n-th most frequent id of a field is drawn ∝ n^−s, where s is 1.05, 1.15, 1.25 and 1.35 by turns. Its
/// label is 1 with probability 1 / (1 + e^−z), where
///
///   z = bias + Σ w(field, id) + Σ over pairs of fields of v(field, id) · v(other field, other id)
///
/// is a factorization machine (Rendle, ICDM'10) whose weights w and factors v are normal. They are computed
/// from the seed, the field and the id whenever one is drawn, so that any number of ids takes no memory.
/// The share of positives differs from seed to seed (with the defaults mostly 0.17 to 0.29), since few ids
/// make up much of the examples. No model has, but for chance, a larger AUC or a smaller log loss than z
/// itself has: see KnownTruth.
///
/// If there are several days, the fields' ids change: one that has been drawn for 1 / `drift` days is
/// replaced by a new one, which is as frequent as the old one was, with a weight and factors of its own. Each
/// has its turn on another day, so that a share of `drift` of the ids of a day was not there on the day
/// before.
struct GenerateClicksOptions {
  std::int64_t examples = 200'000;  ///< of all days, as evenly as possible
  std::int64_t fields = 26;
  double weights = 0.25;  ///< deviation of w
  double factors = 0.18;  ///< deviation of each of the numbers of v
  std::int64_t rank = 4;  ///< numbers of v
  double bias = -1.6;
  std::int64_t days = 1;
  double drift = 0;
  std::uint64_t seed = 1;

  void add_options(CLI::App& command);
};

/// What the true probabilities of a file's examples reach on its labels.
struct KnownTruth {
  std::string path;
  std::int64_t examples = 0;
  double positive_share = 0;
  std::optional<double> auc;  ///< none if all labels are the same
  double log_loss = 0;        ///< in nats
};

/// Writes lines "label field:id:1 field:id:1 …" (LIBFFM), where fields and ids count from 0: the most
/// frequent id is 0, and new ids follow those of the days before. One day is written to `path`, several to
/// `path`.1, `path`.2, …; the result has one element for each. A file is there whole or not at all; after an
/// error, days before may be there. INVALID_ARGUMENT for options out of range and for what cannot be written.
absl::StatusOr<std::vector<KnownTruth>> generate_clicks(const GenerateClicksOptions& options,
                                                        const std::string& path);

}  // namespace verbena::apps
