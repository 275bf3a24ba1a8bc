#include "apps/report/run_record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "apps/divergence.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps {
namespace {

double rate(double items, double seconds) {
  return seconds > 0 ? items / seconds : 0;
}

/// In the order of RunEvent::Kind.
constexpr std::array<std::string_view, 6> kEventNames = {"failover", "join",    "no join",
                                                         "silence",  "restart", "replacement"};

absl::Status unknown_worker(std::uint32_t worker, std::size_t workers) {
  return absl::InvalidArgumentError(fmt::format("a report of worker {}, of {} workers", worker, workers));
}

/// Checks what workers report and what is computed from it, for any application.
absl::Status check_finite(std::int64_t iteration, const std::map<std::string, double>& numbers) {
  for (const auto& [name, value] : numbers) {
    if (std::isfinite(value)) continue;
    return diverged(
        fmt::format("training has diverged in iteration {}: {} is {}; a lower learning rate may help",
                    iteration, name, std::isnan(value) ? "no number" : "infinite"));
  }
  return absl::OkStatus();
}

}  // namespace

std::string_view name_of(RunEvent::Kind kind) {
  return kEventNames.at(static_cast<std::size_t>(kind));
}

std::optional<RunEvent::Kind> event_kind_of(std::string_view name) {
  const auto found = std::ranges::find(kEventNames, name);
  if (found == kEventNames.end()) return std::nullopt;
  return static_cast<RunEvent::Kind>(found - kEventNames.begin());
}

double WorkerRecord::throughput() const {
  return rate(items, training_seconds);
}

double WorkerRecord::share_waited() const {
  return finished && finished->seconds > 0 ? finished->statistics.waited_seconds / finished->seconds : 0;
}

job::StatisticsMessage WorkerRecord::newest_statistics() const {
  if (finished) return {finished->worker, finished->seconds, finished->statistics};
  return so_far.value_or(job::StatisticsMessage{});
}

RunRecord::RunRecord(std::uint32_t workers, Objectives objectives)
    : compute_objectives_(std::move(objectives)), workers_(workers) {}

absl::StatusOr<std::optional<IterationRecord>> RunRecord::add(const job::IterationMessage& message,
                                                              double elapsed_seconds) {
  if (message.worker >= workers_.size()) return unknown_worker(message.worker, workers_.size());
  const IterationReport& report = message.report;
  WorkerRecord& worker = workers_[message.worker];
  if (report.iteration <= worker.last_iteration && worker.is_replaced)
    return std::optional<IterationRecord>();  // of the process before it
  if (report.iteration <= worker.last_iteration) {
    return absl::InvalidArgumentError(fmt::format("worker {} reported iteration {} after iteration {}",
                                                  message.worker, report.iteration, worker.last_iteration));
  }
  RETURN_IF_ERROR(check_finite(report.iteration, report.sums));
  worker.last_iteration = report.iteration;
  worker.reported_seconds = elapsed_seconds;
  worker.items += report.items;
  worker.training_seconds += report.seconds;

  Partial& partial = partial_[report.iteration];
  ++partial.reported;
  partial.items += report.items;
  partial.seconds = std::max(partial.seconds, report.seconds);
  partial.training_seconds = std::max(partial.training_seconds, worker.training_seconds);
  for (const auto& [name, value] : report.sums) partial.sums[name] += value;
  if (partial.reported < workers_.size()) return std::nullopt;

  IterationRecord record{.iteration = report.iteration,
                         .items = partial.items,
                         .seconds = partial.seconds,
                         .training_seconds = partial.training_seconds,
                         .elapsed_seconds = elapsed_seconds,
                         .objectives = {}};
  if (!partial.sums.empty()) record.objectives = compute_objectives_(partial.sums);
  partial_.erase(report.iteration);
  RETURN_IF_ERROR(check_finite(record.iteration, record.objectives));
  if (std::exchange(begins_anywhere_, false)) forget_after(record.iteration - 1);
  for (const auto& [name, value] : record.objectives) newest_objectives_[name] = value;
  iterations_.push_back(record);
  return record;
}

absl::Status RunRecord::add(const job::StatisticsMessage& message) {
  if (message.worker >= workers_.size()) return unknown_worker(message.worker, workers_.size());
  workers_[message.worker].so_far = message;
  return absl::OkStatus();
}

absl::Status RunRecord::add(const job::FinishedMessage& message) {
  if (message.worker >= workers_.size()) return unknown_worker(message.worker, workers_.size());
  workers_[message.worker].finished = message;
  return absl::OkStatus();
}

void RunRecord::go_back(std::optional<std::int64_t> after_iteration) {
  ++restarts_;
  // Iteration 0 comes again, too, where all begins again.
  const std::int64_t last = after_iteration > 0 ? *after_iteration : -1;
  for (WorkerRecord& worker : workers_) {
    worker.last_iteration = std::min(worker.last_iteration, last);
    worker.so_far.reset();
    worker.finished.reset();
    worker.is_replaced = false;
  }
  partial_.clear();
  begins_anywhere_ = !after_iteration;
  if (!begins_anywhere_) forget_after(last);
}

void RunRecord::forget_after(std::int64_t iteration) {
  std::erase_if(iterations_, [&](const IterationRecord& record) { return record.iteration > iteration; });
  newest_objectives_.clear();
  for (const IterationRecord& record : iterations_) {
    for (const auto& [name, value] : record.objectives) newest_objectives_[name] = value;
  }
}

void RunRecord::replace(std::uint32_t worker) {
  workers_[worker].is_replaced = true;
  workers_[worker].so_far.reset();
}

std::uint32_t RunRecord::count(RunEvent::Kind kind) const {
  return static_cast<std::uint32_t>(std::ranges::count(events_, kind, &RunEvent::kind));
}

std::int64_t RunRecord::iterations_trained() const {
  return std::count_if(iterations_.begin(), iterations_.end(),
                       [](const IterationRecord& record) { return record.iteration > 0; });
}

double RunRecord::items() const {
  return std::accumulate(workers_.begin(), workers_.end(), 0.0,
                         [](double sum, const WorkerRecord& worker) { return sum + worker.items; });
}

double RunRecord::training_seconds() const {
  double slowest = 0;
  for (const WorkerRecord& worker : workers_) slowest = std::max(slowest, worker.training_seconds);
  return slowest;
}

double RunRecord::throughput() const {
  return rate(items(), training_seconds());
}

double RunRecord::throughput_per_worker() const {
  return throughput() / static_cast<double>(std::max<std::size_t>(workers_.size(), 1));
}

double RunRecord::share_waited() const {
  double sum = 0;
  for (const WorkerRecord& worker : workers_) sum += worker.share_waited();
  return sum / static_cast<double>(std::max<std::size_t>(workers_.size(), 1));
}

StalenessHistogram RunRecord::staleness() const {
  StalenessHistogram all;
  for (const WorkerRecord& worker : workers_) {
    if (worker.finished) all.merge(worker.finished->statistics.staleness);
  }
  return all;
}

DurationHistogram RunRecord::move_times() const {
  DurationHistogram all;
  for (const WorkerRecord& worker : workers_) {
    if (worker.finished) all.merge(worker.finished->statistics.move_times);
  }
  return all;
}

std::uint64_t RunRecord::total(std::uint64_t SessionStatistics::*count) const {
  std::uint64_t sum = 0;
  for (const WorkerRecord& worker : workers_) {
    if (worker.finished) sum += worker.finished->statistics.*count;
  }
  return sum;
}

std::uint64_t RunRecord::rows_moved() const {
  return total(&SessionStatistics::rows_localized) + total(&SessionStatistics::rows_moved_by_intent);
}

std::optional<double> RunRecord::share_local() const {
  const std::uint64_t near = total(&SessionStatistics::rows_pulled_locally) +
                             total(&SessionStatistics::rows_pushed_locally) +
                             total(&SessionStatistics::rows_pulled_from_replicas) +
                             total(&SessionStatistics::rows_pushed_to_replicas);
  const std::uint64_t all = near + total(&SessionStatistics::rows_pulled_remotely) +
                            total(&SessionStatistics::rows_pushed_remotely);
  return all > 0 ? std::optional(static_cast<double>(near) / static_cast<double>(all)) : std::nullopt;
}

std::optional<double> RunRecord::share_gathered() const {
  const std::uint64_t gathered = total(&SessionStatistics::rows_gathered);
  if (gathered == 0) return std::nullopt;
  return static_cast<double>(gathered) / static_cast<double>(total(&SessionStatistics::rows_pulled));
}

std::optional<double> RunRecord::share_shipped() const {
  const std::uint64_t kept = total(&SessionStatistics::rows_kept_back);
  const std::uint64_t shipped = total(&SessionStatistics::rows_shipped);
  if (kept == 0) return std::nullopt;
  return static_cast<double>(shipped) / static_cast<double>(shipped + kept);
}

std::optional<double> RunRecord::bytes_an_update() const {
  const std::uint64_t updates =
      total(&SessionStatistics::rows_kept_back) + total(&SessionStatistics::rows_shipped);
  if (updates == 0) return std::nullopt;
  return static_cast<double>(total(&SessionStatistics::update_bytes)) / static_cast<double>(updates);
}

std::optional<RunRecord::PostedPerRow> RunRecord::posted_per_pushed_row() const {
  const auto pushed = static_cast<double>(total(&SessionStatistics::rows_pushed));
  const std::uint64_t requests = total(&SessionStatistics::requests_posted);
  if (pushed == 0 || requests == 0) return std::nullopt;
  return PostedPerRow{.bytes = static_cast<double>(total(&SessionStatistics::bytes_posted)) / pushed,
                      .requests = static_cast<double>(requests) / pushed,
                      .doorbells = static_cast<double>(total(&SessionStatistics::doorbells_rung)) / pushed};
}

std::optional<double> RunRecord::share_filtering() const {
  double filtering_seconds = 0;
  double seconds = 0;
  for (const WorkerRecord& worker : workers_) {
    if (!worker.finished) continue;
    filtering_seconds += worker.finished->statistics.filter_seconds;
    seconds += worker.finished->seconds;
  }
  if (filtering_seconds == 0) return std::nullopt;
  return filtering_seconds / seconds;
}

std::optional<double> RunRecord::mean_clock_differential() const {
  return apps::mean_clock_differential(staleness());
}

std::optional<double> mean_clock_differential(const StalenessHistogram& reads) {
  const bool any = std::any_of(reads.reads_by_lag.begin(), reads.reads_by_lag.end(),
                               [](std::uint64_t count) { return count > 0; });
  return any ? std::optional(reads.mean_clock_differential()) : std::nullopt;
}

}  // namespace verbena::apps
