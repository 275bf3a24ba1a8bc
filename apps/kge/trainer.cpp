#include "apps/kge/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <utility>

#include "apps/data/random.hpp"
#include "apps/embedding/ranking.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps::kge {
namespace {

/// Draws an entity other than `right`, because the right answer must not be used as a wrong one.
std::uint32_t wrong_answer(std::mt19937_64& random, std::size_t entities, std::uint32_t right) {
  if (entities == 1) return right;
  const auto drawn = static_cast<std::uint32_t>(random_below(random, entities - 1));
  return drawn < right ? drawn : drawn + 1;
}

constexpr const char* kValid = "valid_";
constexpr const char* kTest = "test_";

}  // namespace

std::map<std::string, double> objectives_of(const std::map<std::string, double>& sums) {
  std::map<std::string, double> result;
  const auto questions = sums.find(kQuestions);
  if (questions != sums.end() && questions->second > 0) {
    result["train_loss"] = sums.at(kLoss) / questions->second;
  }
  for (const std::string prefix : {kValid, kTest}) add_objectives(prefix, sums, result);
  return result;
}

absl::Status read_embeddings(RowStore& rows, Embeddings& embeddings) {
  const Shape& shape = embeddings.shape();
  absl::Status status = rows.read(kEntityTable, shape.entity_size(), embeddings.entity(0));
  return status.ok() ? rows.read(kRelationTable, shape.relation_size(), embeddings.relation(0)) : status;
}

Trainer::Trainer(const TrainingOptions& options, const Shape& shape, const TrainingData& data,
                 const KnownAnswers& known, RowStore& rows, unsigned evaluation_threads,
                 std::vector<DataCursor> cursors)
    : Training(options, data.train.size(), rows, std::move(cursors)),
      options_(options),
      shape_(shape),
      data_(data),
      known_(known),
      rows_(rows),
      evaluation_threads_(evaluation_threads),
      batches_(slots()) {
  std::seed_seq seed{static_cast<std::uint32_t>(options.seed), static_cast<std::uint32_t>(options.seed >> 32),
                     data.rank};
  random_.seed(seed);
}

std::string Trainer::random_state() const {
  std::ostringstream text;
  text << random_;
  return std::move(text).str();
}

bool Trainer::set_random_state(const std::string& text) {
  std::istringstream words(text);
  words >> random_;
  return !words.fail();
}

void Trainer::prepare(std::size_t slot, const Place& place) {
  MiniBatch& batch = batches_[slot];
  const std::span<const Triple> triples =
      std::span(data_.train).subspan(place.examples.first, place.examples.size());
  batch.triples.assign(triples.begin(), triples.end());
  batch.negatives_a_side = static_cast<std::size_t>(options_.negatives);
  draw_negatives(batch);
  request(batch);
}

void Trainer::train(std::size_t slot, std::span<const RowPointers> rows,
                    std::map<std::string, double>& sums) {
  const Step step{.loss = options_.loss,
                  .learning_rate = static_cast<float>(options_.learning_rate),
                  .regularization = static_cast<float>(options_.regularization),
                  .relation_regularization = static_cast<float>(options_.relation_regularization),
                  .margin = static_cast<float>(options_.margin)};
  const MiniBatch& batch = batches_[slot];
  sums[kLoss] += kge::train(batch, {rows[kEntityTable], rows[kRelationTable]}, shape_, step, scratch_);
  sums[kQuestions] += 2 * static_cast<double>(batch.triples.size());
}

void Trainer::draw_negatives(MiniBatch& batch) {
  const std::size_t count = 2 * batch.negatives_a_side;
  batch.negatives.clear();
  for (std::size_t i = 0; i < batch.triples.size(); ++i) {
    if (i % static_cast<std::size_t>(options_.share_negatives) == 0) {
      shared_negatives_.resize(count);
      rows_.draw(kEntityTable, data_.entities, random_, shared_negatives_);
    }
    for (std::size_t n = 0; n < count; ++n) {
      const std::uint32_t right = n < batch.negatives_a_side ? batch.triples[i].tail : batch.triples[i].head;
      const std::uint32_t drawn = shared_negatives_[n];
      batch.negatives.push_back(drawn != right ? drawn : wrong_answer(random_, data_.entities, right));
    }
  }
}

void Trainer::request(MiniBatch& batch) {
  entities_.clear();
  relations_.clear();
  for (const Triple& triple : batch.triples) {
    entities_.insert(entities_.end(), {triple.head, triple.tail});
    relations_.push_back(triple.relation);
  }
  rows_.request(std::array<NeededRows, 3>{
      {{kEntityTable, entities_}, {kEntityTable, batch.negatives}, {kRelationTable, relations_}}});
  for (std::size_t i = 0; i < batch.triples.size(); ++i) {
    batch.triples[i] = {entities_[2 * i], relations_[i], entities_[2 * i + 1]};
  }
}

absl::Status Trainer::evaluate(bool last, Reporter& reporter, const std::atomic<bool>& stop,
                               std::map<std::string, double>& sums) {
  Embeddings embeddings(shape_, data_.entities, data_.relations);
  const auto add = [&](const std::string& prefix, std::span<const Triple> triples) {
    const RankingOptions options{
        .threads = evaluation_threads_, .stop = stop, .progress = [&](double done, double total) {
          reporter.progress(fmt::format("ranking answers of {}", prefix == kTest ? "test" : "valid"), done,
                            total);
        }};
    const absl::StatusOr<RankSums> ranks = kge::evaluate(embeddings, triples, known_, options);
    if (!ranks.ok()) return ranks.status();
    report(*ranks, prefix, sums);
    return absl::OkStatus();
  };
  const auto read_and_rank = [&]() -> absl::Status {
    RETURN_IF_ERROR(read_embeddings(rows_, embeddings));
    if (options_.evaluate_every > 0) {
      RETURN_IF_ERROR(add(kValid, data_.valid));
    }
    return last ? add(kTest, data_.test) : absl::OkStatus();
  };
  return evaluate_together(rows_, read_and_rank);
}

}  // namespace verbena::apps::kge
