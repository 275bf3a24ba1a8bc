#include "apps/embedding/training.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <utility>

#include "apps/divergence.hpp"
#include "apps/embedding/schedule.hpp"
#include "apps/resuming/saved_state.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps {
namespace {

// What is saved; the cursors are made by cursors_of_clocks().
constexpr const char* kRandomState = "random";

absl::Status invalid(std::string_view expected, const auto& found) {
  return absl::InvalidArgumentError(fmt::format("{}, found {}", expected, found));
}

}  // namespace

absl::Status check_schedule(const ScheduleOptions& options, std::int64_t most_batch) {
  if (!(options.learning_rate > 0) || !std::isfinite(options.learning_rate)) {
    return invalid("--learning-rate: expected a number above 0", options.learning_rate);
  }
  if (options.batch < 1 || options.batch > most_batch) {
    return invalid(fmt::format("--batch: expected 1 to {}", most_batch), options.batch);
  }
  if (options.evaluate_every < 0) {
    return invalid("--evaluate-every: expected 0 or more", options.evaluate_every);
  }
  return absl::OkStatus();
}

absl::Status check_iterations(std::int64_t iterations, std::string_view load) {
  if (iterations < 0 || (iterations == 0 && load.empty())) {
    return invalid("--iterations: expected 1 or more, or with --load 0", iterations);
  }
  return absl::OkStatus();
}

std::size_t most_mini_batches(const ScheduleOptions& options, std::size_t examples) {
  const auto clocks = static_cast<std::size_t>(options.clocks_per_iteration);
  const auto batch = static_cast<std::size_t>(options.batch);
  std::size_t most = 0;
  for (std::size_t clock = 0; clock < clocks; ++clock)
    most =
        std::max<std::size_t>(most, (part_of_iteration(examples, clock, clocks).size() + batch - 1) / batch);
  return most;
}

absl::Status evaluate_together(RowStore& rows, absl::FunctionRef<absl::Status()> evaluate) {
  RETURN_IF_ERROR(rows.barrier());
  const bool evaluates = !rows.is_catching_up();
  if (evaluates) RETURN_IF_ERROR(evaluate());
  RETURN_IF_ERROR(rows.barrier());
  // That worker may have died after the second barrier.
  return evaluates || rows.is_catching_up() ? absl::OkStatus() : evaluate();
}

Training::Training(const ScheduleOptions& options, std::size_t examples, RowStore& rows,
                   std::vector<DataCursor> cursors)
    : options_(options), examples_(examples), rows_(rows), cursors_(std::move(cursors)) {}

absl::Status Training::run(Reporter& reporter, const std::atomic<bool>& stop, Checkpoints& checkpoints) {
  if (options_.iterations == 0) return evaluate_untrained(reporter, stop);
  if (const nlohmann::json* const saved = checkpoints.resumed()) {
    RETURN_IF_ERROR(restore(*saved));
    checkpoints.forget_resumed();
  }
  for (std::int64_t iteration = checkpoints.first_iteration(); iteration <= options_.iterations;
       ++iteration) {
    RETURN_IF_ERROR(run_iteration(iteration, reporter, stop));
    RETURN_IF_ERROR(
        checkpoints.after_iteration(iteration, iteration == options_.iterations, [this] { return state(); }));
  }
  return stop.load(std::memory_order_relaxed) ? absl::CancelledError("stopped") : absl::OkStatus();
}

nlohmann::json Training::state() const {
  nlohmann::json state = nlohmann::json::object();
  state[kRandomState] = random_state();
  state[kSavedPlaces] = saved_places(cursors_);
  return state;
}

absl::Status Training::restore(const nlohmann::json& saved) {
  const absl::StatusOr<std::string> random = SavedState(saved).text(kRandomState);
  if (!random.ok()) return random.status();
  return set_random_state(*random) ? absl::OkStatus() : wrong_state("the random numbers' state is none");
}

absl::Status Training::evaluate_untrained(Reporter& reporter, const std::atomic<bool>& stop) {
  IterationReport report;
  RETURN_IF_ERROR(evaluate(true, reporter, stop, report.sums));
  reporter.iteration(report);
  return absl::OkStatus();
}

absl::Status Training::run_iteration(std::int64_t iteration, Reporter& reporter,
                                     const std::atomic<bool>& stop) {
  IterationReport report{.iteration = iteration, .sums = {{kLoss, 0}}};
  const auto start = std::chrono::steady_clock::now();
  const auto clocks = static_cast<std::size_t>(options_.clocks_per_iteration);
  for (std::size_t clock = 0; clock < clocks; ++clock) {
    if (stop.load(std::memory_order_relaxed)) return absl::CancelledError("stopped");
    if (!rows_.is_catching_up()) RETURN_IF_ERROR(train_clock(clock, report, stop));
    RETURN_IF_ERROR(rows_.clock());
  }
  const bool last = iteration == options_.iterations;
  if (!last && options_.barrier_every > 0 && iteration % options_.barrier_every == 0) {
    RETURN_IF_ERROR(rows_.barrier());
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!std::isfinite(report.sums[kLoss])) {
    return diverged(fmt::format("training has diverged in iteration {}: lower --learning-rate (it is {})",
                                iteration, options_.learning_rate));
  }
  if (last || (options_.evaluate_every > 0 && iteration % options_.evaluate_every == 0)) {
    RETURN_IF_ERROR(evaluate(last, reporter, stop, report.sums));
  }
  reporter.iteration(report);
  return absl::OkStatus();
}

absl::Status Training::train_clock(std::size_t clock, IterationReport& report,
                                   const std::atomic<bool>& stop) {
  const auto clocks = static_cast<double>(options_.clocks_per_iteration);
  const std::size_t in_clock =
      part_of_iteration(examples_, clock, static_cast<std::size_t>(options_.clocks_per_iteration)).size();
  struct Prepared {
    std::size_t slot;
    std::uint64_t examples;
  };
  std::deque<Prepared> prepared;
  std::size_t next_slot = 0;
  std::uint64_t handed_out = 0;
  bool all_handed_out = false;
  const auto prepare_up_to = [&](std::size_t count) {
    while (!all_handed_out && prepared.size() < count) {
      const absl::StatusOr<ExampleRange> batch = next_batch(clock, handed_out);
      if (!batch.ok()) return batch.status();
      all_handed_out = batch->empty();
      if (all_handed_out) break;
      const double share_of_clock = static_cast<double>(handed_out) / static_cast<double>(in_clock);
      prepare(next_slot, {.examples = *batch,
                          .passes = static_cast<double>(report.iteration - 1) +
                                    (static_cast<double>(clock) + share_of_clock) / clocks});
      prepared.push_back({next_slot, batch->size()});
      next_slot = (next_slot + 1) % slots();
      handed_out += batch->size();
    }
    return absl::OkStatus();
  };
  for (;;) {
    RETURN_IF_ERROR(prepare_up_to(std::max<std::size_t>(rows_.lookahead(), 1)));
    if (prepared.empty()) break;
    if (stop.load(std::memory_order_relaxed)) return absl::CancelledError("stopped");
    const absl::StatusOr<std::span<const RowPointers>> rows = rows_.open();
    if (!rows.ok()) return rows.status();
    // The next rows come while these are trained.
    RETURN_IF_ERROR(prepare_up_to(slots()));
    train(prepared.front().slot, *rows, report.sums);
    RETURN_IF_ERROR(rows_.close(prepared.front().examples));
    prepared.pop_front();
  }
  report.items += static_cast<double>(handed_out);
  return absl::OkStatus();
}

absl::StatusOr<ExampleRange> Training::next_batch(std::size_t clock, std::uint64_t handed_out) {
  const ExampleRange whole =
      part_of_iteration(examples_, clock, static_cast<std::size_t>(options_.clocks_per_iteration));
  ExampleRange batch{handed_out,
                     std::min(handed_out + static_cast<std::uint64_t>(options_.batch), whole.size())};
  if (!cursors_.empty()) {
    const absl::StatusOr<ExampleRange> next = cursors_[clock].next();
    if (!next.ok()) return next.status();
    batch = *next;
  }
  return ExampleRange{whole.first + batch.first, whole.first + batch.last};
}

}  // namespace verbena::apps
