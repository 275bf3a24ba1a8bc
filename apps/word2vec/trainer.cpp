#include "apps/word2vec/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <utility>

#include "apps/embedding/schedule.hpp"

namespace verbena::apps::word2vec {
namespace {

constexpr const char* kHeldOut = "held_out_";
/// Of the first learning rate: what is left of it at the end (as word2vec does it).
constexpr double kLeastLearning = 1e-4;

}  // namespace

std::map<std::string, double> objectives_of(const std::map<std::string, double>& sums) {
  std::map<std::string, double> result;
  const auto pairs = sums.find(kPairs);
  if (pairs != sums.end() && pairs->second > 0) result["train_loss"] = sums.at(kLoss) / pairs->second;
  add_objectives(kHeldOut, sums, result);
  return result;
}

Trainer::Trainer(const TrainingOptions& options, const TrainingData& data, const WindowMaker& windows,
                 RowStore& rows, unsigned evaluation_threads, std::vector<DataCursor> cursors)
    : options_(options),
      data_(data),
      windows_(windows),
      rows_(rows),
      evaluation_threads_(evaluation_threads),
      cursors_(std::move(cursors)),
      random_(options.seed, data.rank) {}

absl::Status Trainer::run(Reporter& reporter, const std::atomic<bool>& stop) {
  for (std::int64_t iteration = 1; iteration <= options_.iterations; ++iteration) {
    if (absl::Status status = run_iteration(iteration, reporter, stop); !status.ok()) return status;
  }
  return stop.load(std::memory_order_relaxed) ? absl::CancelledError("stopped") : absl::OkStatus();
}

absl::Status Trainer::run_iteration(std::int64_t iteration, Reporter& reporter,
                                    const std::atomic<bool>& stop) {
  IterationReport report{.iteration = iteration, .sums = {{kLoss, 0}, {kPairs, 0}}};
  const auto start = std::chrono::steady_clock::now();
  const auto clocks = static_cast<std::size_t>(options_.clocks_per_iteration);
  for (std::size_t part = 0; part < clocks; ++part) {
    if (absl::Status status = train_part(part, report, stop); !status.ok()) return status;
    if (absl::Status status = rows_.clock(); !status.ok()) return status;
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!std::isfinite(report.sums[kLoss])) {
    return absl::InvalidArgumentError(
        fmt::format("training has diverged in iteration {}: lower --learning-rate (it is {})", iteration,
                    options_.learning_rate));
  }
  const bool last = iteration == options_.iterations;
  if (last || (options_.evaluate_every > 0 && iteration % options_.evaluate_every == 0)) {
    if (absl::Status status = evaluate(reporter, stop, report.sums); !status.ok()) return status;
  }
  reporter.iteration(report);
  return absl::OkStatus();
}

absl::Status Trainer::train_part(std::size_t part, IterationReport& report, const std::atomic<bool>& stop) {
  std::uint64_t done = 0;
  if (absl::Status status = prepare(part, report.iteration, done, piece_); !status.ok()) return status;
  while (piece_.words > 0) {
    if (stop.load(std::memory_order_relaxed)) return absl::CancelledError("stopped");
    done += piece_.words;
    const absl::StatusOr<std::span<float* const>> rows = rows_.open();
    if (!rows.ok()) return rows.status();
    // The next rows come while these are trained.
    if (absl::Status status = prepare(part, report.iteration, done, next_piece_); !status.ok()) return status;
    report.sums[kLoss] += train(piece_.batch, {(*rows)[kInputTable], (*rows)[kOutputTable]},
                                padded(data_.dimension), piece_.learning_rate, scratch_);
    for (const Window& window : piece_.batch.windows) report.sums[kPairs] += window.pairs();
    if (absl::Status status = rows_.close(piece_.words); !status.ok()) return status;
    std::swap(piece_, next_piece_);
  }
  report.items += static_cast<double>(done);
  return absl::OkStatus();
}

absl::Status Trainer::prepare(std::size_t part, std::int64_t iteration, std::uint64_t done, Piece& piece) {
  const auto clocks = static_cast<std::size_t>(options_.clocks_per_iteration);
  const ExampleRange whole = part_of_iteration(data_.text.words.size(), part, clocks);
  ExampleRange range{done, std::min(done + static_cast<std::uint64_t>(options_.batch), whole.size())};
  if (!cursors_.empty()) {
    const absl::StatusOr<ExampleRange> next = cursors_[part].next();
    if (!next.ok()) return next.status();
    range = *next;
  }
  piece.batch.clear();
  piece.words = range.size();
  if (range.empty()) return absl::OkStatus();
  const double share_of_part = static_cast<double>(done) / static_cast<double>(whole.size());
  const double passes = static_cast<double>(iteration - 1) +
                        (static_cast<double>(part) + share_of_part) / static_cast<double>(clocks);
  const double left = 1 - passes / static_cast<double>(options_.iterations);
  piece.learning_rate = static_cast<float>(options_.learning_rate * std::max(left, kLeastLearning));
  windows_.add(data_.text, whole.first + range.first, whole.first + range.last, random_, piece.batch);
  rows_.request(std::array<NeededRows, 3>{{{kInputTable, piece.batch.inputs},
                                           {kOutputTable, piece.batch.outputs},
                                           {kOutputTable, piece.batch.negatives}}});
  return absl::OkStatus();
}

absl::Status Trainer::evaluate(Reporter& reporter, const std::atomic<bool>& stop,
                               std::map<std::string, double>& sums) {
  if (absl::Status status = rows_.barrier(); !status.ok()) return status;
  const std::size_t size = padded(data_.dimension);
  Parameters parameters(data_.chances.size(), size);
  absl::Status status = rows_.read(kInputTable, size, parameters.inputs.get());
  if (status.ok()) status = rows_.read(kOutputTable, size, parameters.outputs.get());
  if (!status.ok()) return status;
  // Nobody goes on training while another still reads.
  if (status = rows_.barrier(); !status.ok()) return status;
  const RankingOptions options{
      .threads = evaluation_threads_, .stop = stop, .progress = [&](double done, double total) {
        reporter.progress("ranking words for held-out gaps", done, total);
      }};
  const absl::StatusOr<RankSums> ranks = word2vec::evaluate(parameters, data_.chances, data_.gaps, options);
  if (!ranks.ok()) return ranks.status();
  report(*ranks, kHeldOut, sums);
  return absl::OkStatus();
}

}  // namespace verbena::apps::word2vec
