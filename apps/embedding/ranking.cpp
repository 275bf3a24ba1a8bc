#include "apps/embedding/ranking.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "apps/thrown.hpp"

namespace verbena::apps {
namespace {

constexpr std::chrono::milliseconds kBetweenReports{100};
constexpr const char* kRankedQuestions = "ranked_questions";

struct RankSum {
  const char* sum;
  const char* objective;  ///< the mean over all questions
  double RankSums::*value;
};
constexpr std::array<RankSum, 4> kRankSums = {{{"reciprocal_ranks", "mrr", &RankSums::reciprocal_ranks},
                                               {"hits_at_1", "hits_at_1", &RankSums::hits_at_1},
                                               {"hits_at_3", "hits_at_3", &RankSums::hits_at_3},
                                               {"hits_at_10", "hits_at_10", &RankSums::hits_at_10}}};

void add(RankSums& sums, double rank) {
  sums.reciprocal_ranks += 1 / rank;
  sums.hits_at_1 += rank <= 1 ? 1 : 0;
  sums.hits_at_3 += rank <= 3 ? 1 : 0;
  sums.hits_at_10 += rank <= 10 ? 1 : 0;
  sums.questions += 1;
}

}  // namespace

absl::StatusOr<RankSums> rank_all(std::size_t questions, std::size_t at_once, const RankSome& rank_some,
                                  const RankingOptions& options) {
  // Ranks are kept and added up in order, so that the number of threads does not change the sums.
  std::vector<double> ranks(questions);
  std::atomic<std::size_t> next{0};
  std::atomic<std::size_t> done{0};
  const auto work = [&](bool reports) {
    auto reported = std::chrono::steady_clock::now();
    while (!options.stop.load(std::memory_order_relaxed)) {
      const std::size_t first = next.fetch_add(at_once, std::memory_order_relaxed);
      if (first >= questions) return;
      const std::size_t count = std::min(at_once, questions - first);
      rank_some(first, count, std::span(ranks).subspan(first, count));
      const std::size_t finished = done.fetch_add(count, std::memory_order_relaxed) + count;
      const auto now = std::chrono::steady_clock::now();
      if (!reports || !options.progress || now - reported < kBetweenReports) continue;
      reported = now;
      options.progress(static_cast<double>(finished), static_cast<double>(questions));
    }
  };
  std::mutex mutex;
  absl::Status failed;
  const auto work_caught = [&](bool reports) {
    const absl::Status worked = run_caught([&] {
      work(reports);
      return absl::OkStatus();
    });
    const std::lock_guard lock(mutex);
    failed.Update(worked);
  };
  {
    std::vector<std::jthread> helpers;
    // If no more threads can be started, fewer do the work.
    run_caught([&] {
      for (unsigned n = 1; n < options.threads; ++n) helpers.emplace_back(work_caught, false);
      return absl::OkStatus();
    }).IgnoreError();
    work_caught(true);
  }
  if (!failed.ok()) return failed;
  if (options.stop.load(std::memory_order_relaxed)) return absl::CancelledError("stopped");
  if (options.progress && questions > 0) {
    options.progress(static_cast<double>(questions), static_cast<double>(questions));
  }
  RankSums sums;
  for (const double rank : ranks) add(sums, rank);
  return sums;
}

void report(const RankSums& ranks, const std::string& prefix, std::map<std::string, double>& sums) {
  for (const RankSum& sum : kRankSums) sums[prefix + sum.sum] = ranks.*sum.value;
  sums[prefix + kRankedQuestions] = ranks.questions;
}

void add_objectives(const std::string& prefix, const std::map<std::string, double>& sums,
                    std::map<std::string, double>& objectives) {
  const auto questions = sums.find(prefix + kRankedQuestions);
  if (questions == sums.end() || questions->second == 0) return;
  for (const RankSum& sum : kRankSums) {
    objectives[prefix + sum.objective] = sums.at(prefix + sum.sum) / questions->second;
  }
}

}  // namespace verbena::apps
