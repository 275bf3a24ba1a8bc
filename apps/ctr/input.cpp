#include "apps/ctr/input.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "apps/data/random.hpp"
#include "apps/enough_memory.hpp"
#include "base/return_if_error.hpp"
#include <verbena/table.hpp>

namespace verbena::apps::ctr {

namespace {

constexpr std::size_t kTestBatch = 1000;

/// About how many different keys there are, by linear counting (Whang et al., TODS'90): which bits of a table
/// are set by their hashes. Within some per cent up to some hundred million keys.
class DistinctKeys {
 public:
  DistinctKeys() : bits_(kBits) {}
  void add(Key key) {
    const std::size_t bit = mix(key) % kBits;
    if (!bits_[bit]) ++set_;
    bits_[bit] = true;
  }
  [[nodiscard]] double count() const {
    const double share_left = std::max(1.0 - static_cast<double>(set_) / kBits, 1.0 / kBits);
    return -kBits * std::log(share_left);
  }

 private:
  static constexpr std::size_t kBits = std::size_t{1} << 26;  // 8 MB
  std::vector<bool> bits_;
  std::size_t set_ = 0;
};

/// Whether an example of --data is in the share for the test.
bool is_in_test_share(const Options& options, std::uint64_t number) {
  return to_unit_interval(mix(options.seed ^ mix(number))) < options.test_fraction;
}

/// All examples: those of --data, then those of --test-data, which have the same format, for the keys of
/// another's features would mean others.
ExamplesOptions all_examples(const Options& options) {
  std::vector<std::string> paths = options.data;
  paths.insert(paths.end(), options.test_data.begin(), options.test_data.end());
  return examples_in(options, paths);
}
/// Whether an example of these is for the test.
bool is_for_test(const Options& options, std::uint64_t number, std::size_t file) {
  if (!options.trains()) return true;
  return options.test_data.empty() ? is_in_test_share(options, number) : file >= options.data.size();
}

/// A worker's mini-batches in the files: all examples are passed over, and its own are read.
class BatchesInFiles final : public BatchSource {
 public:
  /// `examples`: how many there are of these, of all workers; so many there must be each time.
  /// `examples_each`: of a mini-batch.
  BatchesInFiles(const Options& options, const Member& member, bool of_test, std::uint64_t examples,
                 std::uint64_t examples_each)
      : options_(options),
        member_(member),
        of_test_(of_test),
        examples_(examples),
        examples_each_(examples_each) {}

  absl::Status for_each(absl::FunctionRef<absl::Status(const MiniBatch&)> use) const override {
    const bool has_own_files = !options_.test_data.empty();
    ExamplesOptions files =
        examples_in(options_, of_test_ && has_own_files ? options_.test_data : options_.data);
    std::uint64_t count = 0;  // of those that are trained, or of those for the test
    files.is_used = [&](std::uint64_t number, std::size_t /*file*/) {
      const bool is_of_these = has_own_files || is_in_test_share(options_, number) == of_test_;
      if (!is_of_these) return false;
      // Of those that are too many none is trained: others would wait for this worker, or it for them.
      return count++ < examples_ && member_.has(count - 1, examples_each_);
    };
    MiniBatches batch(examples_each_);
    const auto add = [&](const Example& example) {
      batch.add(example);
      if (batch.examples() < examples_each_) return absl::OkStatus();
      absl::Status status = use(batch[0]);
      batch.clear();
      return status;
    };
    RETURN_IF_ERROR(read_examples(files, add).status());
    if (batch.examples() > 0) RETURN_IF_ERROR(use(batch[0]));
    if (count == examples_) return absl::OkStatus();
    return absl::FailedPreconditionError(
        fmt::format("{}: expected {} examples for {}, as before the training, found {}: a file has changed",
                    absl::StrJoin(files.paths, ", "), examples_, of_test_ ? "the test" : "training", count));
  }

 private:
  const Options& options_;
  const Member member_;
  const bool of_test_;
  const std::uint64_t examples_;
  const std::uint64_t examples_each_;
};

}  // namespace

ExamplesOptions examples_in(const Options& options, const std::vector<std::string>& paths) {
  return {.paths = paths, .format = *parse_example_format(options.format), .positive = options.positive};
}

absl::StatusOr<std::uint64_t> check_examples(const Options& options) {
  std::uint64_t train[2] = {0, 0};  // by label
  std::uint64_t test = 0;
  DistinctKeys keys;
  const absl::StatusOr<ExamplesRead> read = read_examples(all_examples(options), [&](const Example& example) {
    ++(is_for_test(options, example.number, example.file) ? test : train[example.is_positive ? 1 : 0]);
    for (const Feature& feature : example.features) keys.add(feature.key);
    return absl::OkStatus();
  });
  if (!read.ok()) return read.status();
  if (options.says_positive() && read->found != ExampleFormat::kRatings) {
    return absl::InvalidArgumentError(fmt::format(
        "--positive: expected only with a table of ratings, whose examples have no labels; {} is {}",
        options.data[0], read->format));
  }
  if (!options.trains()) return test;
  if (train[0] == 0 || train[1] == 0) {
    const bool has_share = test > 0 && options.test_data.empty();
    return absl::InvalidArgumentError(fmt::format(
        "{}: expected examples of both labels to be trained, found {} positive and {} others{}",
        options.data[0], train[1], train[0],
        has_share ? fmt::format("; --test-fraction {} has taken {} for the test", options.test_fraction, test)
                  : ""));
  }
  if (test == 0 && (options.test_fraction > 0 || !options.test_data.empty())) {
    return absl::InvalidArgumentError(
        fmt::format("{}: expected enough examples for some to be tested (a larger --test-fraction, or 0 for "
                    "no test), found {}",
                    options.data[0], read->examples));
  }
  // The examples as they are trained, if they are kept; for each key the index, the row and what the rule
  // keeps of it, and the first worker's copy of the model.
  const bool has_blocks = options.has_blocks();
  const double examples_bytes = (has_blocks ? 26 : 8) * static_cast<double>(read->features) +
                                (has_blocks ? 48 : 8) * static_cast<double>(read->examples);
  const double keys_bytes = keys.count() * (100 + 16 * static_cast<double>(options.rank));
  RETURN_IF_ERROR(
      check_memory((options.streams() ? 0 : examples_bytes) + keys_bytes,
                   fmt::format("{} features of about {:.0f} kinds then need", read->features, keys.count()),
                   options.what_needs_less_memory()));
  return test;
}

namespace {

ReadProgress progress_of_reading(Reporter& reporter) {
  return [&reporter](double done, double total) { reporter.progress("reading examples", done, total); };
}

/// The examples stay where they are, but are counted.
absl::StatusOr<Input> stream_input(const Options& options, const Member& member, Reporter& reporter) {
  Input input;
  ExamplesOptions files = all_examples(options);
  files.is_used = [&](std::uint64_t number, std::size_t file) {
    ++(is_for_test(options, number, file) ? input.test_examples : input.train_examples);
    return false;
  };
  absl::StatusOr<ExamplesRead> read = read_examples(
      files, [](const Example&) { return absl::OkStatus(); }, progress_of_reading(reporter));
  if (!read.ok()) return read.status();
  input.read = *std::move(read);
  input.batch = options.batch_examples().value_or(kBatchSize.of(input.train_examples, member.workers));
  input.train =
      std::make_unique<BatchesInFiles>(options, member, /*of_test=*/false, input.train_examples, input.batch);
  input.test =
      std::make_unique<BatchesInFiles>(options, member, /*of_test=*/true, input.test_examples, kTestBatch);
  return input;
}

/// Before examples are dealt, as many are counted as have a say in how.
absl::StatusOr<std::uint64_t> batch_of(const Options& options, std::uint32_t workers) {
  if (const std::optional<std::uint64_t> known = options.batch_examples()) return *known;
  const absl::StatusOr<std::uint64_t> train_examples = count_examples(
      all_examples(options), kBatchSize.examples_that_decide(workers),
      [&](std::uint64_t number, std::size_t file) { return !is_for_test(options, number, file); });
  if (!train_examples.ok()) return train_examples.status();
  return kBatchSize.of(*train_examples, workers);
}

absl::StatusOr<Input> keep_input(const Options& options, const Member& member, Reporter& reporter) {
  const absl::StatusOr<std::uint64_t> batch = batch_of(options, member.workers);
  if (!batch.ok()) return batch.status();
  const bool has_blocks = options.has_blocks();
  Input input;
  input.batch = *batch;
  auto train = std::make_unique<MiniBatches>(input.batch);
  auto test = std::make_unique<MiniBatches>(kTestBatch);
  absl::StatusOr<ExamplesRead> read = read_examples(
      all_examples(options),
      [&](const Example& example) {
        const bool is_test = is_for_test(options, example.number, example.file);
        const std::uint64_t number = is_test ? input.test_examples++ : input.train_examples++;
        if (is_test && member.has(number, kTestBatch)) test->add(example);
        if (!is_test && has_blocks) {
          for (const Feature& feature : example.features) input.plan.add(feature.key);
        }
        const bool trains = !is_test && member.has(number, input.batch);
        if (trains && has_blocks) input.columns.add(example);
        if (trains && !has_blocks) train->add(example);
        return absl::OkStatus();
      },
      progress_of_reading(reporter));
  if (!read.ok()) return read.status();
  input.read = *std::move(read);
  train->finish();
  test->finish();
  input.plan.finish(static_cast<std::uint32_t>(options.blocks));
  input.columns.finish(input.plan);
  input.train = std::move(train);
  input.test = std::move(test);
  return input;
}

}  // namespace

absl::StatusOr<Input> load_input(const Options& options, const Member& member, Reporter& reporter) {
  return options.streams() ? stream_input(options, member, reporter) : keep_input(options, member, reporter);
}

absl::Status check_all_have_read_the_same(Session& session, const Input& input) {
  const auto table = session.table<std::int64_t>(
      {.name = "ctr.examples", .rows = session.workers(), .width = 2, .consistency = Bsp{}});
  if (!table.ok()) return table.status();
  const auto counts = [&](const std::uint64_t train, const std::uint64_t test) {
    return std::vector<std::int64_t>{static_cast<std::int64_t>(train), static_cast<std::int64_t>(test)};
  };
  const std::vector<std::int64_t> own = counts(input.train_examples, input.test_examples);
  // Where the session goes on from a checkpoint, the numbers of before are there.
  std::vector<std::int64_t> change(own.size());
  RETURN_IF_ERROR(table->pull(std::vector<Key>{session.rank()}, change));
  for (std::size_t i = 0; i < own.size(); ++i) change[i] = own[i] - change[i];
  RETURN_IF_ERROR(table->push(std::vector<Key>{session.rank()}, change));
  RETURN_IF_ERROR(session.barrier());
  std::vector<std::int64_t> others(own.size());
  for (Key worker = 0; worker < session.workers(); ++worker) {
    RETURN_IF_ERROR(table->pull(std::vector<Key>{worker}, others));
    if (others == own) continue;
    return absl::FailedPreconditionError(
        fmt::format("worker {} has read {} examples to be trained and {} for the test, worker {} has read {} "
                    "and {}: all need the same files, and none may change",
                    session.rank(), own[0], own[1], worker, others[0], others[1]));
  }
  return absl::OkStatus();
}

}  // namespace verbena::apps::ctr
