#include "apps/embedding/clocks_option.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "apps/embedding/row_store.hpp"
#include "apps/embedding/schedule.hpp"
#include "apps/options/numbers.hpp"
#include "apps/resuming/checkpoints.hpp"
#include "base/decimal.hpp"
#include "consistency/model.hpp"

namespace verbena::apps {

bool sees_mini_batches(const ConsistencyModel& consistency, RowAllocation allocation) {
  return consistency::rules_of(consistency).pushes_at_once || allocation == RowAllocation::kIntent;
}

std::int64_t clocks_for(const ClockedJob& job, const ClockSize& size) {
  const auto all = static_cast<double>(job.examples);
  const double unseen = job.sees_mini_batches ? 0 : (job.workers - 1.0) * (job.staleness + 1.0);
  const double wanted = std::ceil(std::max(all / size.most, all * unseen / size.most_unseen));
  const double affordable = std::floor(all / (size.least_of_worker * job.workers));
  return static_cast<std::int64_t>(
      std::clamp(std::min(wanted, affordable), 1.0, static_cast<double>(kMostClocksPerIteration)));
}

void ClocksOption::add(CLI::App& command) {
  add_number(
      command, fmt::format("--{}", kName), given_,
      fmt::format(
          "clocks in a pass over the {0}; more: workers see earlier what others have learnt. 0: one "
          "for each {1:g} {0}; where workers see each other's updates by the clock, others x "
          "(staleness + 1) for each {2:g}, if that is more; but a worker has at least {3:g} in a clock",
          examples_, size_.most, size_.most_unseen, size_.least_of_worker))
      ->capture_default_str();
}

absl::Status ClocksOption::check() const {
  if (given_ >= 0 && given_ <= kMostClocksPerIteration) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("--{}: expected 0 to {}, found {}", kName, kMostClocksPerIteration, given_));
}

std::optional<std::string> ClocksOption::chosen() const {
  return leaves_open() && saved_ ? std::optional(std::to_string(*saved_)) : std::nullopt;
}

void ClocksOption::goes_on_from(const std::map<std::string, std::string>& notes) {
  const auto note = notes.find(fmt::format("--{}", kName));
  if (note == notes.end()) return;
  const auto saved = base::parse_decimal<std::int64_t>(note->second);
  if (saved && *saved > 0 && *saved <= kMostClocksPerIteration) saved_ = *saved;
}

std::int64_t ClocksOption::clocks(const ClockedJob& job) const {
  if (!leaves_open()) return given_;
  return saved_ ? *saved_ : clocks_for(job, size_);
}

absl::StatusOr<std::int64_t> ClocksOption::agreed(WorkerContext& context, std::uint64_t examples,
                                                  RowAllocation allocation) const {
  Session& session = context.session;
  const std::int64_t own = clocks({.examples = examples,
                                   .workers = session.workers(),
                                   .sees_mini_batches = sees_mini_batches(context.consistency, allocation),
                                   .staleness = consistency::staleness(context.consistency)});
  const absl::StatusOr<std::vector<std::int64_t>> all =
      numbers_of_all_workers(session, kInSummary, own, table_allocation(allocation));
  if (!all.ok()) return all.status();
  for (std::size_t worker = 0; worker < all->size(); ++worker) {
    if ((*all)[worker] == own) continue;
    return absl::FailedPreconditionError(
        fmt::format("worker {} has {} clocks in a pass over the {}, worker {} has {}: all need the same "
                    "--{}, or the same "
                    "data",
                    session.rank(), own, examples_, worker, (*all)[worker], kName));
  }
  context.checkpoints.note(fmt::format("--{}", kName), std::to_string(own));
  if (session.rank() == 0) context.reporter.summary(kInSummary, own);
  return own;
}

}  // namespace verbena::apps
