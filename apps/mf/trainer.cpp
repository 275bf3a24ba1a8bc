#include "apps/mf/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "apps/divergence.hpp"
#include "apps/resuming/saved_state.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps::mf {
namespace {

constexpr std::int64_t kClocksOfEvaluation = 2;  // it has two barriers
// What is saved.
constexpr const char* kUsers = "users";
constexpr const char* kPlaces = "places";

}  // namespace

Trainer::Trainer(const TrainingOptions& options, const TrainingData& data, FactorRows& users,
                 ItemStore& items, double squared_unit, std::vector<DataCursor> cursors,
                 MiniBatchItems* mini_batches)
    : options_(options),
      shape_(users.format().shape()),
      data_(data),
      users_(users),
      items_(items),
      squared_unit_(squared_unit),
      cursors_(std::move(cursors)),
      mini_batches_(mini_batches),
      tiles_(data.train.blocks.size()) {
  for (std::size_t block = 0; block < tiles_.size(); ++block) {
    for (const Slice& slice : data.train.blocks[block]) {
      for (const Tile& tile : slice.tiles) tiles_[block].push_back({tile, &slice});
    }
  }
}

absl::Status Trainer::run(Reporter& reporter, const std::atomic<bool>& stop, Checkpoints& checkpoints) {
  for (std::int64_t iteration = checkpoints.first_iteration(); iteration <= options_.iterations;
       ++iteration) {
    RETURN_IF_ERROR(run_iteration(iteration, reporter, stop, checkpoints));
    RETURN_IF_ERROR(
        checkpoints.after_iteration(iteration, iteration == options_.iterations, [this] { return state(); }));
  }
  return stop.load(std::memory_order_relaxed) ? absl::CancelledError("stopped") : absl::OkStatus();
}

nlohmann::json Trainer::state() const {
  std::vector<float> packed(users_.size() * users_.format().width());
  users_.pack(packed);
  nlohmann::json state = nlohmann::json::object();
  state[kUsers] = saved_array(std::span(packed));
  state[kPlaces] = saved_places(cursors_);
  return state;
}

absl::Status Trainer::restore(const nlohmann::json& saved, FactorRows& users) {
  const auto packed = SavedState(saved).array<float>(kUsers, users.size() * users.format().width());
  if (!packed.ok()) return packed.status();
  users.unpack(*packed);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::uint64_t>> Trainer::places(const nlohmann::json& saved, std::size_t blocks) {
  return SavedState(saved).places(kPlaces, blocks);
}

absl::Status Trainer::run_iteration(std::int64_t iteration, Reporter& reporter, const std::atomic<bool>& stop,
                                    const Checkpoints& checkpoints) {
  const double learning_rate =
      options_.learning_rate * std::pow(options_.decay, static_cast<double>(iteration - 1));
  const Step step{.learning_rate = static_cast<float>(learning_rate),
                  .regularization = static_cast<float>(options_.regularization)};
  const std::size_t blocks = data_.train.blocks.size();
  IterationReport report{.iteration = iteration};
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t clock = 0; clock < blocks; ++clock) {
    const std::size_t block = scheduled_block(clock, data_.rank, data_.workers, blocks);
    absl::Status status = items_.block_begins(
        [&](std::size_t ahead) { return upcoming(iteration, clock + ahead, ahead, checkpoints); });
    if (!status.ok()) return status;
    const absl::StatusOr<std::uint64_t> trained =
        mini_batches_ == nullptr ? train_block(block, step, stop) : train_mini_batches(block, step, stop);
    if (!trained.ok()) return trained.status();
    report.items += static_cast<double>(*trained);
    if (status = items_.clock(); !status.ok()) return status;
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (is_evaluated(iteration)) {
    RETURN_IF_ERROR(evaluate(report.sums));
    if (!std::isfinite(report.sums[kTrainSquaredError]) || !std::isfinite(report.sums[kTestSquaredError])) {
      return diverged(fmt::format("training has diverged in iteration {}: lower --learning-rate (it is {})",
                                  iteration, options_.learning_rate));
    }
  }
  reporter.iteration(report);
  return absl::OkStatus();
}

bool Trainer::is_evaluated(std::int64_t iteration) const {
  return iteration % options_.evaluate_every == 0 || iteration == options_.iterations;
}

UpcomingBlock Trainer::upcoming(std::int64_t iteration, std::size_t clock, std::size_t ahead,
                                const Checkpoints& checkpoints) const {
  const std::size_t blocks = data_.train.blocks.size();
  UpcomingBlock block{.clocks = static_cast<std::int64_t>(ahead)};
  for (; clock >= blocks; clock -= blocks, ++iteration) {
    if (is_evaluated(iteration)) block.clocks += kClocksOfEvaluation;
    block.clocks += checkpoints.clocks_after(iteration);
  }
  if (iteration > options_.iterations) return {};
  block.rows = data_.train.rows(scheduled_block(clock, data_.rank, data_.workers, blocks));
  return block;
}

absl::StatusOr<std::uint64_t> Trainer::train_block(std::size_t block, const Step& step,
                                                   const std::atomic<bool>& stop) {
  std::uint64_t trained = 0;
  for (;;) {
    if (stop.load(std::memory_order_relaxed)) return absl::CancelledError("stopped");
    const absl::StatusOr<ExampleRange> batch = next_batch(block, trained);
    if (!batch.ok()) return batch.status();
    if (batch->empty()) break;
    // Requesting the batch is not computing: meanwhile, rows arrive that were pushed since.
    items_.mini_batch_begins();
    RETURN_IF_ERROR(train_batch(block, *batch, step));
    items_.mini_batch_ends(std::exchange(trained_since_, 0));
    trained += batch->size();
  }
  RETURN_IF_ERROR(open(nullptr));
  return trained;
}

absl::StatusOr<ExampleRange> Trainer::next_batch(std::size_t block, std::uint64_t trained) {
  if (!cursors_.empty()) return cursors_[block].next();
  const Tile whole = data_.train.whole(block);
  return ExampleRange{trained, std::min<std::uint64_t>(trained + static_cast<std::uint64_t>(options_.batch),
                                                       whole.end - whole.begin)};
}

template <class Use>
absl::Status Trainer::for_parts(std::size_t block, const ExampleRange& batch, const Use& use) const {
  const std::size_t start = data_.train.whole(block).begin;
  const Tile wanted{start + batch.first, start + batch.last};
  const std::vector<PlacedTile>& tiles = tiles_[block];
  auto place = std::partition_point(tiles.begin(), tiles.end(),
                                    [&](const PlacedTile& one) { return one.tile.end <= wanted.begin; });
  for (; place != tiles.end() && place->tile.begin < wanted.end; ++place) {
    const Tile part{std::max(place->tile.begin, wanted.begin), std::min(place->tile.end, wanted.end)};
    RETURN_IF_ERROR(use(*place->slice, part));
  }
  return absl::OkStatus();
}

/// A slice stays open from one mini-batch to the next, so that it is pulled and pushed once.
absl::Status Trainer::train_batch(std::size_t block, const ExampleRange& batch, const Step& step) {
  return for_parts(block, batch, [&](const Slice& slice, const Tile& part) {
    RETURN_IF_ERROR(open(&slice));
    train(data_.train.of(part), users_.rows(), open_items_, shape_, step);
    trained_since_ += part.end - part.begin;
    return absl::OkStatus();
  });
}

absl::StatusOr<std::uint64_t> Trainer::train_mini_batches(std::size_t block, const Step& step,
                                                          const std::atomic<bool>& stop) {
  std::uint64_t taken = 0;
  const auto request_next = [&](MiniBatch& batch) {
    absl::Status status = fill(block, taken, batch);
    if (!status.ok() || batch.ratings.empty()) return status;
    taken += batch.ratings.size();
    mini_batches_->request(batch);
    return status;
  };
  RETURN_IF_ERROR(request_next(batch_));
  while (!batch_.ratings.empty()) {
    if (stop.load(std::memory_order_relaxed)) return absl::CancelledError("stopped");
    const absl::StatusOr<Rows> items = mini_batches_->open(batch_);
    if (!items.ok()) return items.status();
    if (mini_batches_->ahead()) {
      RETURN_IF_ERROR(request_next(next_batch_));
    }
    train(batch_.ratings, users_.rows(), *items, shape_, step);
    RETURN_IF_ERROR(mini_batches_->close(batch_));
    if (!mini_batches_->ahead()) {
      RETURN_IF_ERROR(request_next(next_batch_));
    }
    std::swap(batch_, next_batch_);
  }
  return taken;
}

absl::Status Trainer::fill(std::size_t block, std::uint64_t taken, MiniBatch& batch) {
  batch.ratings.clear();
  const absl::StatusOr<ExampleRange> range = next_batch(block, taken);
  if (!range.ok()) return range.status();
  return for_parts(block, *range, [&](const Slice& slice, const Tile& part) {
    for (Rating rating : data_.train.of(part)) {
      rating.item += slice.first_row;
      batch.ratings.push_back(rating);
    }
    return absl::OkStatus();
  });
}

/// Opens `slice`, after it has closed the slice that is open. nullptr: only closes.
absl::Status Trainer::open(const Slice* slice) {
  if (slice == open_) return absl::OkStatus();
  if (open_ != nullptr) {
    RETURN_IF_ERROR(items_.close(std::exchange(trained_since_, 0)));
  }
  open_ = slice;
  if (slice == nullptr) return absl::OkStatus();
  const absl::StatusOr<Rows> items = items_.open(slice->first_row, slice->last_row);
  if (!items.ok()) return items.status();
  open_items_ = *items;
  return absl::OkStatus();
}

absl::Status Trainer::evaluate(std::map<std::string, double>& sums) {
  RETURN_IF_ERROR(items_.barrier());
  const absl::StatusOr<double> train_error = squared_error_of(data_.train);
  if (!train_error.ok()) return train_error.status();
  const absl::StatusOr<double> test_error = squared_error_of(data_.test);
  if (!test_error.ok()) return test_error.status();
  sums = {{kTrainSquaredError, *train_error * squared_unit_},
          {kTestSquaredError, *test_error * squared_unit_},
          {kTrainRatings, static_cast<double>(data_.train.ratings.size())},
          {kTestRatings, static_cast<double>(data_.test.ratings.size())}};
  // No worker continues to train while another still reads.
  return items_.barrier();
}

absl::StatusOr<double> Trainer::squared_error_of(const RatingBlocks& ratings) {
  double sum = 0;
  for (const std::vector<Slice>& block : ratings.blocks) {
    for (const Slice& slice : block) {
      const absl::StatusOr<Rows> items = items_.read(slice.first_row, slice.last_row);
      if (!items.ok()) return items.status();
      for (const Tile& tile : slice.tiles) {
        sum += squared_error(ratings.of(tile), users_.rows(), *items, shape_);
      }
    }
  }
  return sum;
}

}  // namespace verbena::apps::mf
