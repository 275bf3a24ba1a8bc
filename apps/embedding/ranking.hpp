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

/// Some of the questions: first, and how many.
using RankSome = std::function<void(std::size_t first, std::size_t count, std::span<double> ranks)>;

/// `rank_some` ranks all `questions`, at most `at_once` a call, in several threads at a time. CANCELLED when
/// `stop` is set. The same sums, to the bit, with any number of threads.
absl::StatusOr<RankSums> rank_all(std::size_t questions, std::size_t at_once, const RankSome& rank_some,
                                  const RankingOptions& options);

/// As sums of an IterationReport whose names begin with `prefix`.
void report(const RankSums& ranks, const std::string& prefix, std::map<std::string, double>& sums);
/// From these sums, added up over all workers, the objectives "PREFIXmrr", "PREFIXhits_at_1", …: means over
/// all questions. None where there was no question.
void add_objectives(const std::string& prefix, const std::map<std::string, double>& sums,
                    std::map<std::string, double>& objectives);

}  // namespace verbena::apps
