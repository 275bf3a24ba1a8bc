#include "apps/word2vec/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/decimal.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps::word2vec {
namespace {

constexpr const char* kHeldOut = "held_out_";
/// The share of the first learning rate that is left at the end (as word2vec does it).
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
    : Training(options, data.text.words.size(), rows, std::move(cursors)),
      options_(options),
      data_(data),
      windows_(windows),
      rows_(rows),
      evaluation_threads_(evaluation_threads),
      random_(options.seed, data.rank),
      pieces_(slots()) {}

std::string Trainer::random_state() const {
  return std::to_string(random_.state());
}

bool Trainer::set_random_state(const std::string& text) {
  const std::optional<std::uint64_t> state = base::parse_decimal<std::uint64_t>(text);
  if (state) random_ = Random(*state);
  return state.has_value();
}

void Trainer::prepare(std::size_t slot, const Place& place) {
  Piece& piece = pieces_[slot];
  const double left = 1 - place.passes / static_cast<double>(options_.iterations);
  piece.learning_rate = static_cast<float>(options_.learning_rate * std::max(left, kLeastLearning));
  piece.batch.clear();
  windows_.add(data_.text, place.examples.first, place.examples.last, random_, piece.batch);
  rows_.request(std::array<NeededRows, 3>{{{kInputTable, piece.batch.inputs},
                                           {kOutputTable, piece.batch.outputs},
                                           {kOutputTable, piece.batch.negatives}}});
}

void Trainer::train(std::size_t slot, std::span<const RowPointers> rows,
                    std::map<std::string, double>& sums) {
  const Piece& piece = pieces_[slot];
  sums[kLoss] += word2vec::train(piece.batch, {rows[kInputTable], rows[kOutputTable]},
                                 padded(data_.dimension), piece.learning_rate, scratch_);
  double& pairs = sums[kPairs];
  for (const Window& window : piece.batch.windows) pairs += window.pairs();
}

absl::Status Trainer::evaluate(bool /*last*/, Reporter& reporter, const std::atomic<bool>& stop,
                               std::map<std::string, double>& sums) {
  const std::size_t size = padded(data_.dimension);
  Parameters parameters(data_.chances.size(), size);
  const auto read_and_rank = [&]() -> absl::Status {
    RETURN_IF_ERROR(rows_.read(kInputTable, size, parameters.inputs.get()));
    RETURN_IF_ERROR(rows_.read(kOutputTable, size, parameters.outputs.get()));
    const RankingOptions options{
        .threads = evaluation_threads_, .stop = stop, .progress = [&](double done, double total) {
          reporter.progress("ranking words for held-out gaps", done, total);
        }};
    const absl::StatusOr<RankSums> ranks = word2vec::evaluate(parameters, data_.chances, data_.gaps, options);
    if (!ranks.ok()) return ranks.status();
    report(*ranks, kHeldOut, sums);
    return absl::OkStatus();
  };
  return evaluate_together(rows_, read_and_rank);
}

}  // namespace verbena::apps::word2vec
