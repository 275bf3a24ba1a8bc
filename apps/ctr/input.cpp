#include "apps/ctr/input.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "apps/data/random.hpp"
#include "apps/enough_memory.hpp"
#include "base/return_if_error.hpp"

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

bool is_for_test(const Options& options, const Example& example) {
  if (!options.trains()) return true;
  if (!options.test_data.empty()) return example.file >= options.data.size();
  return to_unit_interval(mix(options.seed ^ mix(example.number))) < options.test_fraction;
}

/// Calls use(example, whether it is for the test) for the examples of --data, then for those of --test-data,
/// which have the same format: the keys of another's features would mean others.
absl::StatusOr<ExamplesRead> read_all(const Options& options,
                                      absl::FunctionRef<absl::Status(const Example&, bool)> use,
                                      const ReadProgress& progress = {}) {
  std::vector<std::string> paths = options.data;
  paths.insert(paths.end(), options.test_data.begin(), options.test_data.end());
  return read_files(
      options, paths, [&](const Example& example) { return use(example, is_for_test(options, example)); },
      progress);
}

}  // namespace

absl::StatusOr<ExamplesRead> read_files(const Options& options, const std::vector<std::string>& paths,
                                        absl::FunctionRef<absl::Status(const Example&)> use,
                                        const ReadProgress& progress) {
  return read_examples(
      {.paths = paths, .format = *parse_example_format(options.format), .positive = options.positive}, use,
      progress);
}

absl::StatusOr<std::uint64_t> check_examples(const Options& options) {
  std::uint64_t train[2] = {0, 0};  // by label
  std::uint64_t test = 0;
  DistinctKeys keys;
  const absl::StatusOr<ExamplesRead> read = read_all(options, [&](const Example& example, bool is_test) {
    if (is_test) ++test;
    if (!is_test) ++train[example.is_positive ? 1 : 0];
    for (const Feature& feature : example.features) keys.add(feature.key);
    return absl::OkStatus();
  });
  if (!read.ok()) return read.status();
  if (!options.trains()) return test;
  if (train[0] == 0 || train[1] == 0) {
    return absl::InvalidArgumentError(
        fmt::format("{}: expected examples of both labels to be trained, found {} positive and {} others",
                    options.data[0], train[1], train[0]));
  }
  if (test == 0 && (options.test_fraction > 0 || !options.test_data.empty())) {
    return absl::InvalidArgumentError(
        fmt::format("{}: expected enough examples for some to be tested (a larger --test-fraction, or 0 for "
                    "no test), found {}",
                    options.data[0], read->examples));
  }
  // The examples as they are trained; for each key the index, the row and what the rule keeps of it, and the
  // first worker's copy of the model.
  const bool has_blocks = options.has_blocks();
  const double bytes = (has_blocks ? 26 : 8) * static_cast<double>(read->features) +
                       (has_blocks ? 48 : 8) * static_cast<double>(read->examples) +
                       keys.count() * (100 + 16 * static_cast<double>(options.rank));
  RETURN_IF_ERROR(check_memory(
      bytes, fmt::format("{} features of about {:.0f} kinds then need", read->features, keys.count()),
      options.rank > 0 ? "fewer examples or a smaller --rank" : "fewer examples"));
  return test;
}

absl::StatusOr<Input> load_input(const WorkerRun& run) {
  const Options& options = run.options;
  const bool has_blocks = options.has_blocks();
  Input input{.train = MiniBatches(options.batch_examples()),
              .columns = {},
              .plan = {},
              .test = MiniBatches(kTestBatch)};
  absl::StatusOr<ExamplesRead> read = read_all(
      options,
      [&](const Example& example, bool is_test) {
        const std::uint64_t number = is_test ? input.test_examples++ : input.train_examples++;
        if (is_test && run.member.has(number, kTestBatch)) input.test.add(example);
        if (!is_test && has_blocks) {
          for (const Feature& feature : example.features) input.plan.add(feature.key);
        }
        const bool trains = !is_test && run.member.has(number, options.batch_examples());
        if (trains && has_blocks) input.columns.add(example);
        if (trains && !has_blocks) input.train.add(example);
        return absl::OkStatus();
      },
      [&](double done, double total) { run.reporter.progress("reading examples", done, total); });
  if (!read.ok()) return read.status();
  input.read = *std::move(read);
  input.train.finish();
  input.plan.finish(static_cast<std::uint32_t>(options.blocks));
  input.columns.finish(input.plan);
  input.test.finish();
  return input;
}

}  // namespace verbena::apps::ctr
