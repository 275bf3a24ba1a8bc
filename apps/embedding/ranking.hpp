// How well right answers rank among all answers: sums over questions, and how they are reported.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace verbena::apps {

/// Sums over questions; additive over parts of a test set.
struct RankSums {
  double reciprocal_ranks = 0;
  double hits_at_1 = 0;
  double hits_at_3 = 0;
  double hits_at_10 = 0;
  double questions = 0;
};

struct RankingOptions {
  unsigned threads = 1;
  const std::atomic<bool>& stop;
  std::function<void(double done, double total)> progress = {};  ///< called from the calling thread
};

/// Writes the ranks of questions [first, first + count).
using RankSome = std::function<void(std::size_t first, std::size_t count, std::span<double> ranks)>;

/// Ranks all `questions`: calls `rank_some` from several threads at a time, for at most `at_once` a call.
/// CANCELLED when `stop` is set. The sums are the same, to the bit, with any number of threads.
absl::StatusOr<RankSums> rank_all(std::size_t questions, std::size_t at_once, const RankSome& rank_some,
                                  const RankingOptions& options);

/// Writes `ranks` into the sums of an IterationReport, under names that begin with `prefix`.
void report(const RankSums& ranks, const std::string& prefix, std::map<std::string, double>& sums);
/// Computes the objectives "PREFIXmrr", "PREFIXhits_at_1", … from these sums, added up over all workers. They
/// are means over all questions. If there was no question, there is no objective.
void add_objectives(const std::string& prefix, const std::map<std::string, double>& sums,
                    std::map<std::string, double>& objectives);

}  // namespace verbena::apps
