#include "apps/lda/trainer.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "apps/resuming/saved_state.hpp"
#include "base/return_if_error.hpp"
#include "protocol/partition.hpp"

namespace verbena::apps::lda {
namespace {

constexpr std::size_t kCountBytesAtOnce = std::size_t{256} << 10;
constexpr std::int64_t kClocksOfEvaluation = 2;  // it has two barriers
// What is saved.
constexpr const char* kData = "data";
constexpr const char* kRandom = "random";
constexpr const char* kPlaces = "places";

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

std::size_t rows_at_once(std::size_t topics) {
  return std::max<std::size_t>(kCountBytesAtOnce / (topics * sizeof(std::int32_t)), 1);
}

Trainer::Trainer(const TrainingOptions& options, std::size_t vocabulary, const Part& part,
                 const Random& random, TrainingData& data, WordCounts& counts,
                 std::vector<DataCursor> cursors)
    : options_(options),
      vocabulary_(vocabulary),
      part_(part),
      data_(data),
      counts_(counts),
      sampler_(counts.topics(), vocabulary, options.priors(), random),
      likelihood_(counts.topics(), vocabulary, options.alpha, options.beta),
      held_out_(vocabulary, options.priors()),
      cursors_(std::move(cursors)) {}

template <class Use>
absl::Status Trainer::for_each_word(std::size_t block, const ExampleRange& batch, const Use& use) {
  const std::size_t first = data_.blocks[block] + batch.first;
  const auto words = std::span(data_.words).subspan(first, batch.size());
  const absl::StatusOr<WordCounts::Rows> rows = counts_.open(words);
  if (!rows.ok()) return rows.status();
  sampler_.set_totals(counts_.totals());
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::uint64_t begin = data_.begin[first + i];
    const std::uint64_t size = data_.begin[first + i + 1] - begin;
    use((*rows)[i], Sampler::Tokens{std::span(data_.documents).subspan(begin, size),
                                    std::span(data_.topics).subspan(begin, size)});
  }
  return counts_.close(data_.begin[first + words.size()] - data_.begin[first]);
}

ExampleRange Trainer::batch_after(std::size_t block, std::uint64_t done) const {
  return {done, std::min<std::uint64_t>(done + options_.words_at_once(counts_.topics()), words_of(block))};
}

absl::Status Trainer::count_topics() {
  const Counts totals = counts_.totals();
  const auto count = [&](std::int32_t* row, const Sampler::Tokens& tokens) {
    for (const std::uint16_t topic : tokens.topics) {
      ++row[topic];
      ++totals[topic];
    }
  };
  for (std::size_t block = 0; block + 1 < data_.blocks.size(); ++block) {
    ExampleRange batch = batch_after(block, 0);
    for (; !batch.empty(); batch = batch_after(block, batch.last)) {
      RETURN_IF_ERROR(for_each_word(block, batch, count));
    }
  }
  return counts_.barrier();
}

nlohmann::json Trainer::state() const {
  nlohmann::json state = nlohmann::json::object();
  state[kData] = saved(data_);
  state[kRandom] = sampler_.random().state();
  state[kPlaces] = saved_places(cursors_);
  return state;
}

absl::Status Trainer::resume(const nlohmann::json& saved) {
  const SavedState state(saved);
  const absl::StatusOr<std::uint64_t> random = state.whole_number(kRandom);
  if (!random.ok()) return random.status();
  const absl::StatusOr<const nlohmann::json*> data = state.object(kData);
  if (!data.ok()) return data.status();
  sampler_.set_random(Random(*random));
  return restore(**data, data_);
}

absl::StatusOr<std::vector<std::uint64_t>> Trainer::places(const nlohmann::json& saved, std::size_t blocks) {
  return SavedState(saved).places(kPlaces, blocks);
}

absl::StatusOr<std::size_t> Trainer::blocks(const nlohmann::json& saved) {
  const absl::StatusOr<const nlohmann::json*> data = SavedState(saved).object(kData);
  return data.ok() ? saved_blocks(**data) : data.status();
}

absl::StatusOr<std::uint64_t> Trainer::train(std::int64_t iteration, const std::atomic<bool>& stop,
                                             const Checkpoints& checkpoints) {
  const std::size_t blocks = data_.blocks.size() - 1;
  std::uint64_t sampled = 0;
  for (std::size_t clock = 0; clock < blocks; ++clock) {
    RETURN_IF_ERROR(clock == 0 ? absl::OkStatus() : counts_.clock());
    RETURN_IF_ERROR(counts_.block_begins(
        [&](std::size_t ahead) { return upcoming(iteration, clock, ahead, checkpoints); }));
    const absl::StatusOr<std::uint64_t> of_block =
        train_block(scheduled_block(clock, part_.rank, part_.workers, blocks), stop);
    if (!of_block.ok()) return of_block.status();
    sampled += *of_block;
  }
  return sampled;
}

UpcomingBlock Trainer::upcoming(std::int64_t iteration, std::size_t clock, std::size_t ahead,
                                const Checkpoints& checkpoints) const {
  const std::size_t blocks = data_.blocks.size() - 1;
  auto clocks = static_cast<std::int64_t>(ahead);
  for (clock += ahead; clock >= blocks; clock -= blocks, ++iteration) {
    if (is_evaluated(iteration)) clocks += kClocksOfEvaluation;
    clocks += checkpoints.clocks_after(iteration);
  }
  if (iteration > options_.iterations) return {};
  const std::size_t block = scheduled_block(clock, part_.rank, part_.workers, blocks);
  return {.rows = std::span<const Key>(data_.words).subspan(data_.blocks[block], words_of(block)),
          .clocks = clocks};
}

absl::StatusOr<std::uint64_t> Trainer::train_block(std::size_t block, const std::atomic<bool>& stop) {
  std::uint64_t sampled = 0;
  const auto sample = [&](std::int32_t* row, const Sampler::Tokens& tokens) {
    sampler_.sample(row, tokens, data_.document_topics);
    sampled += tokens.topics.size();
  };
  std::uint64_t done = 0;
  for (;;) {
    if (stop.load(std::memory_order_relaxed)) return absl::CancelledError("stopped");
    const absl::StatusOr<ExampleRange> batch =
        cursors_.empty() ? batch_after(block, done) : cursors_[block].next();
    if (!batch.ok()) return batch.status();
    if (batch->empty()) return sampled;
    RETURN_IF_ERROR(for_each_word(block, *batch, sample));
    done = batch->last;
  }
}

absl::Status Trainer::evaluate(std::map<std::string, double>& sums) {
  RETURN_IF_ERROR(counts_.barrier());
  RETURN_IF_ERROR(counts_.read_totals());
  double& log_likelihood = sums[kLogLikelihood];
  if (part_.rank == 0) log_likelihood += likelihood_.of_totals(counts_.totals());
  log_likelihood += likelihood_.of_documents(data_.document_topics);
  const KeyRange words = protocol::RangePartition(vocabulary_, part_.workers).range(part_.rank);
  const std::size_t at_once = rows_at_once(counts_.topics());
  std::vector<std::int32_t> rows;
  for (Key first = words.first; first < words.last; first += at_once) {
    const KeyRange some{first, std::min<Key>(first + at_once, words.last)};
    rows.resize(some.size() * counts_.topics());
    RETURN_IF_ERROR(counts_.read(some, rows));
    log_likelihood += likelihood_.of_words(rows);
  }
  sums[kTokens] += static_cast<double>(data_.topics.size());

  const absl::StatusOr<HeldOutSums> held_out = held_out_.evaluate(data_.held_out, counts_);
  if (!held_out.ok()) return held_out.status();
  sums[kHeldOutLogLikelihood] += held_out->log_likelihood;
  sums[kHeldOutTokens] += static_cast<double>(held_out->tokens);
  return absl::OkStatus();
}

absl::Status Trainer::run(Reporter& reporter, const std::atomic<bool>& stop, Checkpoints& checkpoints) {
  for (std::int64_t iteration = checkpoints.first_iteration(); iteration <= options_.iterations;
       ++iteration) {
    const auto start = std::chrono::steady_clock::now();
    const absl::StatusOr<std::uint64_t> sampled = train(iteration, stop, checkpoints);
    if (!sampled.ok()) return sampled.status();
    RETURN_IF_ERROR(counts_.clock());
    IterationReport report{
        .iteration = iteration, .items = static_cast<double>(*sampled), .seconds = seconds_since(start)};
    const bool last = iteration == options_.iterations;
    if (is_evaluated(iteration)) {
      RETURN_IF_ERROR(evaluate(report.sums));
      // No worker continues to train before all have evaluated.
      RETURN_IF_ERROR(last ? absl::OkStatus() : counts_.barrier());
    }
    reporter.iteration(report);
    RETURN_IF_ERROR(checkpoints.after_iteration(iteration, last, [this] { return state(); }));
  }
  return absl::OkStatus();
}

}  // namespace verbena::apps::lda
