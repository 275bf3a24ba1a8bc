#include "apps/sketch/sketch.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "apps/data/dealing.hpp"
#include "apps/data/examples.hpp"
#include "apps/data/feature_keys.hpp"
#include "apps/data/output_file.hpp"
#include "apps/data/random.hpp"
#include "apps/enough_memory.hpp"
#include "apps/options/numbers.hpp"
#include "apps/sketch/sampled_counts.hpp"
#include "apps/sketch/sketch_lines.hpp"
#include "base/return_if_error.hpp"
#include "consistency/model.hpp"
#include "consistency/rules.hpp"
#include <verbena/table.hpp>

namespace verbena::apps {
namespace {

using namespace sketch;

constexpr std::int64_t kParts = 10;  ///< in which a run is reported
constexpr std::int64_t kMostBatch = 1 << 24;
constexpr std::int64_t kMostTop = 100'000;
constexpr double kMostMegabytes = 1 << 20;
constexpr std::size_t kLineBytes = kCounters * sizeof(Counter);
constexpr std::size_t kStrangers = 10'000;  ///< keys that never came, whose estimates show the error
constexpr std::uint32_t kCandidateNumbers = 2;
constexpr std::uint64_t kMinLineBytes = 6;  ///< of --output
constexpr const char* kFewer = "fewer examples";
constexpr std::string_view kBatch = "batch";  ///< the option, and what the summary says of it
/// Of several workers, so that the shares of all are about even; each mini-batch more costs a push and a
/// clock.
constexpr BatchSize kBatchSize = {.most = 10'000, .least = 100, .batches = 4};

// Names of the sums in IterationReport.
constexpr const char* kFeatures = "features";
constexpr const char* kExcess = "mean_excess";
constexpr const char* kError = "relative_error";

/// A key and how often it has come, about.
struct Ranked {
  Counter count = 0;
  Key key = 0;
  /// The most frequent first; of equal ones that of the least key.
  friend bool operator<(const Ranked& a, const Ranked& b) {
    return a.count != b.count ? a.count > b.count : a.key < b.key;
  }
};

/// The features of one worker's examples, in the order in which they came.
struct Features {
  std::vector<Key> keys;
  std::vector<std::size_t> end_of_batch;
  std::uint64_t clocks = 0;  ///< mini-batches of the worker that has the most
  SampledCounts sample;      ///< of all workers' examples; only the first worker has it
  std::uint64_t batch = 0;   ///< examples of a mini-batch
  std::string format;
};

/// Where the sketch is.
class Sketch {
 public:
  virtual ~Sketch() = default;
  virtual absl::Status add(const Counts::Lines& lines) = 0;
  virtual absl::Status clock() = 0;
  /// Afterwards read() sees what all workers have added before.
  virtual absl::Status barrier() = 0;
  /// All counters.
  virtual absl::Status read(std::span<Counter> counters) = 0;
  /// Calls use() for the most frequent keys that the workers have found; for the first worker only.
  virtual absl::Status gather(std::span<const Ranked> own, std::size_t most,
                              absl::FunctionRef<void(const Ranked&)> use) = 0;
};

class SketchTable final : public Sketch {
 public:
  static absl::StatusOr<SketchTable> open(WorkerContext& context, std::uint64_t line_count,
                                          std::size_t most) {
    SketchTable opened(context);
    auto lines = context.session.table<Counter>(
        {.name = "sketch.lines", .rows = line_count, .width = kCounters, .consistency = context.consistency});
    if (!lines.ok()) return lines.status();
    opened.lines_ = *lines;
    auto candidates = context.session.table<std::int64_t>({.name = "sketch.candidates",
                                                           .rows = context.session.workers() * most,
                                                           .width = kCandidateNumbers,
                                                           .consistency = Asp{}});
    if (!candidates.ok()) return candidates.status();
    opened.candidates_ = *candidates;
    return opened;
  }
  absl::Status add(const Counts::Lines& lines) override { return lines_.push(lines.numbers, lines.counters); }
  absl::Status clock() override {
    context_.watch.clock_ends();
    return context_.session.clock();
  }
  absl::Status barrier() override { return context_.session.barrier(); }
  absl::Status read(std::span<Counter> counters) override {
    return lines_.pull(KeyRange{0, lines_.rows()}, counters);
  }
  absl::Status gather(std::span<const Ranked> own, std::size_t most,
                      absl::FunctionRef<void(const Ranked&)> use) override {
    const std::uint64_t first = context_.session.rank() * most;
    std::vector<std::int64_t> numbers;
    for (const Ranked& one : own) {
      numbers.push_back(static_cast<std::int64_t>(one.key));
      numbers.push_back(one.count);
    }
    RETURN_IF_ERROR(candidates_.push(KeyRange{first, first + own.size()}, numbers));
    RETURN_IF_ERROR(context_.session.barrier());
    if (context_.session.rank() != 0) return absl::OkStatus();
    numbers.resize(candidates_.rows() * kCandidateNumbers);
    RETURN_IF_ERROR(candidates_.pull(KeyRange{0, candidates_.rows()}, numbers));
    for (std::size_t i = 0; i < numbers.size(); i += kCandidateNumbers) {
      if (numbers[i + 1] > 0) use({.count = numbers[i + 1], .key = static_cast<Key>(numbers[i])});
    }
    return absl::OkStatus();
  }

 private:
  explicit SketchTable(WorkerContext& context) : context_(context) {}

  WorkerContext& context_;
  Table<Counter> lines_;
  Table<std::int64_t> candidates_;  ///< of each worker so many rows: a key and its estimate
};

class LocalSketch final : public Sketch {
 public:
  explicit LocalSketch(std::uint64_t lines) : counters_(lines * kCounters) {}
  absl::Status add(const Counts::Lines& lines) override {
    for (std::size_t i = 0; i < lines.numbers.size(); ++i) {
      for (std::size_t j = 0; j < kCounters; ++j)
        counters_[lines.numbers[i] * kCounters + j] += lines.counters[i * kCounters + j];
    }
    return absl::OkStatus();
  }
  absl::Status clock() override { return absl::OkStatus(); }
  absl::Status barrier() override { return absl::OkStatus(); }
  absl::Status read(std::span<Counter> counters) override {
    std::copy(counters_.begin(), counters_.end(), counters.begin());
    return absl::OkStatus();
  }
  absl::Status gather(std::span<const Ranked> own, std::size_t /*most*/,
                      absl::FunctionRef<void(const Ranked&)> use) override {
    for (const Ranked& one : own) use(one);
    return absl::OkStatus();
  }

 private:
  std::vector<Counter> counters_;
};

class SketchApplication final : public Application {
 public:
  [[nodiscard]] std::string_view name() const override { return "sketch"; }
  [[nodiscard]] std::string_view description() const override {
    return "how often features occur, about, by a CountMin sketch";
  }
  [[nodiscard]] std::string_view throughput_unit() const override { return "features"; }
  [[nodiscard]] std::string_view main_objective() const override { return kFeatures; }
  [[nodiscard]] std::string default_consistency(bool /*is_one_node*/,
                                                std::uint32_t /*workers*/) const override {
    return "asp";
  }
  [[nodiscard]] std::int64_t iterations() const override { return kParts; }

  void add_options(CLI::App& command) override;
  [[nodiscard]] std::vector<ChoiceOption> choices() const override { return {{kBatch, kBatch}}; }
  [[nodiscard]] bool leaves_open(std::string_view option) const override {
    return option == kBatch && batch_ == 0;
  }
  [[nodiscard]] Files files() const override;
  absl::Status check(std::uint32_t workers) override;
  [[nodiscard]] absl::Status check_consistency(const ConsistencyModel& consistency) const override {
    if (!consistency::rules_of(consistency).needs_sums()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "--consistency: sketch adds up counts, which this model cannot bound or weigh");
  }
  [[nodiscard]] std::map<std::string, double> objectives(
      const std::map<std::string, double>& sums) const override {
    return sums;
  }
  absl::Status run_worker(WorkerContext& context) const override {
    return with_enough_memory(kFewer, [&] { return run_as_worker(context); });
  }
  absl::Status run_baseline(BaselineContext& context) const override {
    return with_enough_memory(kFewer, [&]() -> absl::Status {
      LocalSketch sketch(lines());
      TrainingWatch watch;
      return run({}, sketch, context.reporter, context.stop, watch);
    });
  }

 private:
  [[nodiscard]] std::uint64_t lines() const {
    return std::max<std::uint64_t>(static_cast<std::uint64_t>(megabytes_ * 1e6 / kLineBytes), 1);
  }
  [[nodiscard]] std::size_t top() const { return static_cast<std::size_t>(top_); }
  [[nodiscard]] ExamplesOptions examples() const {
    return {.paths = data_, .format = *parse_example_format(format_)};
  }
  absl::StatusOr<ExamplesRead> read(absl::FunctionRef<absl::Status(const Example&)> use,
                                    const ReadProgress& progress = {}) const {
    return read_examples(examples(), use, progress);
  }
  absl::Status run_as_worker(WorkerContext& context) const {
    absl::StatusOr<SketchTable> sketch = SketchTable::open(context, lines(), top());
    if (!sketch.ok()) return sketch.status();
    const Member member{context.session.rank(), context.session.workers()};
    return run(member, *sketch, context.reporter, context.stop, context.watch);
  }
  /// Examples of a mini-batch where there are so many workers.
  [[nodiscard]] absl::StatusOr<std::uint64_t> examples_of_batch(std::uint32_t workers) const;
  absl::StatusOr<Features> load(const Member& member, Reporter& reporter) const;
  absl::Status run(const Member& member, Sketch& sketch, Reporter& reporter, const std::atomic<bool>& stop,
                   TrainingWatch& watch) const;
  void evaluate(std::span<const Counter> counters, const SampledCounts& sample,
                std::map<std::string, double>& sums) const;
  [[nodiscard]] std::vector<Ranked> most_frequent(std::span<const Key> keys,
                                                  std::span<const Counter> counters) const;
  absl::Status present(std::vector<Ranked> ranked, const Features& features, Reporter& reporter) const;

  std::vector<std::string> data_;
  std::string format_ = "auto";
  double megabytes_ = 16;
  std::int64_t top_ = 20;
  std::int64_t batch_ = 0;  ///< 0: left open
  std::int64_t evaluate_every_ = 0;
  std::string output_;
};

void SketchApplication::add_options(CLI::App& command) {
  command
      .add_option("--data", data_,
                  "examples, whose features are counted: LIBSVM, LIBFFM, Criteo's TSV, Avazu's CSV, Vowpal "
                  "Wabbit, or ratings; gzip of any; several files (docs/data.md)")
      ->required()
      ->type_name("FILE");
  command.add_option("--format", format_, "how the examples are written; auto: found out")
      ->capture_default_str()
      ->type_name("auto|libsvm|libffm|criteo|avazu|vw|ratings");
  add_number(command, "--megabytes", megabytes_, "of counters, all servers together")->capture_default_str();
  add_number(command, "--top", top_, "the most frequent features to print, and to save")
      ->capture_default_str();
  add_number(command, fmt::format("--{}", kBatch), batch_,
             fmt::format("examples of a mini-batch, and of a worker's clock. 0: {}, and fewer where each of "
                         "several workers would have fewer than {} mini-batches, down to {}",
                         kBatchSize.most, kBatchSize.batches, kBatchSize.least))
      ->capture_default_str();
  add_number(
      command, "--evaluate-every", evaluate_every_,
      "tenths of the run from one look at how wrong the counts still are to the next; 0: only at the end")
      ->capture_default_str();
  command.add_option("--output", output_, "save the most frequent features and their counts, as text")
      ->type_name("FILE");
}

Files SketchApplication::files() const {
  Files files;
  for (const std::string& path : data_) files.reads("--data", path);
  files.writes("--output", output_);
  return files;
}

absl::Status SketchApplication::check(std::uint32_t workers) {
  RETURN_IF_ERROR(parse_example_format(format_).status());
  for (const auto& [name, value, least, most] :
       {std::tuple("--top", top_, std::int64_t{1}, kMostTop),
        std::tuple("--batch", batch_, std::int64_t{0}, kMostBatch)}) {
    if (value < least || value > most) {
      return absl::InvalidArgumentError(
          fmt::format("{}: expected {} to {}, found {}", name, least, most, value));
    }
  }
  if (evaluate_every_ < 0) {
    return absl::InvalidArgumentError(
        fmt::format("--evaluate-every: expected 0 or more, found {}", evaluate_every_));
  }
  if (!(megabytes_ > 0 && megabytes_ <= kMostMegabytes)) {
    return absl::InvalidArgumentError(fmt::format(
        "--megabytes: expected more than 0 and at most {}, found {}", kMostMegabytes, megabytes_));
  }
  const absl::StatusOr<ExamplesRead> read = this->read([](const Example&) { return absl::OkStatus(); });
  if (!read.ok()) return read.status();
  if (!output_.empty()) RETURN_IF_ERROR(OutputFile::check(output_, kMinLineBytes));
  // The features; the sketch, and on each worker what it counts in a clock and, later, all counters, which it
  // may also have in a cache. The first worker looks at all counters while it still counts.
  const double bytes = 8 * static_cast<double>(read->features) + (2 + 2.0 * workers) * 1e6 * megabytes_;
  return check_memory(bytes, fmt::format("{} features then need", read->features), kFewer);
}

absl::StatusOr<std::uint64_t> SketchApplication::examples_of_batch(std::uint32_t workers) const {
  if (batch_ > 0) return static_cast<std::uint64_t>(batch_);
  if (workers == 1) return kBatchSize.most;
  const absl::StatusOr<std::uint64_t> found =
      count_examples(examples(), kBatchSize.examples_that_decide(workers),
                     [](std::uint64_t /*number*/, std::size_t /*file*/) { return true; });
  if (!found.ok()) return found.status();
  return kBatchSize.of(*found, workers);
}

absl::StatusOr<Features> SketchApplication::load(const Member& member, Reporter& reporter) const {
  const absl::StatusOr<std::uint64_t> found = examples_of_batch(member.workers);
  if (!found.ok()) return found.status();
  const std::uint64_t batch = *found;
  Features features;
  features.batch = batch;
  std::uint64_t examples = 0;
  const absl::StatusOr<ExamplesRead> read = this->read(
      [&](const Example& example) {
        const std::uint64_t number = examples++;
        if (member.rank == 0) {
          for (const Feature& feature : example.features) features.sample.add(feature.key);
        }
        if (!member.has(number, batch)) return absl::OkStatus();
        if (number % batch == 0) features.end_of_batch.push_back(features.keys.size());
        for (const Feature& feature : example.features) features.keys.push_back(feature.key);
        features.end_of_batch.back() = features.keys.size();
        return absl::OkStatus();
      },
      [&](double done, double total) { reporter.progress("reading examples", done, total); });
  if (!read.ok()) return read.status();
  features.clocks = member.most_batches(examples, batch);
  features.format = read->format;
  return features;
}

absl::Status SketchApplication::run(const Member& member, Sketch& sketch, Reporter& reporter,
                                    const std::atomic<bool>& stop, TrainingWatch& watch) const {
  const absl::StatusOr<Features> features = load(member, reporter);
  if (!features.ok()) return features.status();
  std::optional<Counts> counts(lines());
  std::size_t begin = 0;
  std::uint64_t clock = 0;
  std::vector<Counter> counters;
  std::vector<Ranked> own;
  for (std::int64_t part = 1; part <= kParts; ++part) {
    IterationReport report{.iteration = part};
    const auto start = std::chrono::steady_clock::now();
    const std::size_t first = begin;
    for (; clock < features->clocks * static_cast<std::uint64_t>(part) / kParts; ++clock) {
      if (stop.load(std::memory_order_relaxed)) return absl::CancelledError("stopped");
      if (clock < features->end_of_batch.size()) {
        const std::size_t end = features->end_of_batch[clock];
        watch.computing_begins();
        counts->add(std::span(features->keys).subspan(begin, end - begin));
        watch.computing_ends(end - begin);
        begin = end;
        RETURN_IF_ERROR(sketch.add(counts->take()));
      }
      RETURN_IF_ERROR(sketch.clock());
    }
    const bool last = part == kParts;
    const bool is_evaluated = last || (evaluate_every_ > 0 && part % evaluate_every_ == 0);
    // What has not arrived is not counted.
    if (is_evaluated) RETURN_IF_ERROR(sketch.barrier());
    report.items = static_cast<double>(begin - first);
    report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    report.sums[kFeatures] = static_cast<double>(begin);
    if (last) counts.reset();
    if (is_evaluated && (last || member.rank == 0)) {
      counters.resize(lines() * kCounters);
      RETURN_IF_ERROR(sketch.read(counters));
    }
    if (is_evaluated && member.rank == 0) evaluate(counters, features->sample, report.sums);
    // No worker counts on while the first one still reads.
    if (is_evaluated && !last) RETURN_IF_ERROR(sketch.barrier());
    if (last) own = most_frequent(features->keys, counters);
    reporter.iteration(report);
  }
  if (stop.load(std::memory_order_relaxed)) return absl::CancelledError("stopped");
  std::vector<Ranked> ranked;
  RETURN_IF_ERROR(sketch.gather(own, top(), [&](const Ranked& one) { ranked.push_back(one); }));
  return member.rank == 0 ? present(std::move(ranked), *features, reporter) : absl::OkStatus();
}

void SketchApplication::evaluate(std::span<const Counter> counters, const SampledCounts& sample,
                                 std::map<std::string, double>& sums) const {
  double excess = 0;
  for (std::size_t i = 0; i < kStrangers; ++i) {
    const Place place(kBeyondFeatures + i, lines());
    excess += static_cast<double>(place.estimate(counters.subspan(place.line() * kCounters, kCounters)));
  }
  sums[kExcess] = excess / kStrangers;
  sums[kError] = sample.relative_error(counters, lines());
}

/// Of these keys, the `top_` most frequent ones.
std::vector<Ranked> SketchApplication::most_frequent(std::span<const Key> keys,
                                                     std::span<const Counter> counters) const {
  std::vector<Ranked> ranked;  // a heap, the least frequent in front
  absl::flat_hash_map<Key, Counter> is_ranked;
  for (const Key key : keys) {
    const Place place(key, lines());
    const Ranked one{place.estimate(counters.subspan(place.line() * kCounters, kCounters)), key};
    if (ranked.size() == top() && !(one < ranked.front())) continue;
    if (!is_ranked.emplace(key, one.count).second) continue;
    if (ranked.size() == top()) {
      std::pop_heap(ranked.begin(), ranked.end());
      is_ranked.erase(ranked.back().key);
      ranked.pop_back();
    }
    ranked.push_back(one);
    std::push_heap(ranked.begin(), ranked.end());
  }
  return ranked;
}

absl::Status SketchApplication::present(std::vector<Ranked> ranked, const Features& features,
                                        Reporter& reporter) const {
  std::sort(ranked.begin(), ranked.end());
  ranked.erase(std::unique(ranked.begin(), ranked.end(),
                           [](const Ranked& a, const Ranked& b) { return a.key == b.key; }),
               ranked.end());
  if (ranked.size() > top()) ranked.resize(top());
  nlohmann::json most = nlohmann::json::array();
  for (const Ranked& one : ranked) {
    reporter.print(fmt::format("{:>12}  {}", one.count, feature_name(one.key)));
    most.push_back({{"feature", feature_name(one.key)}, {"count", one.count}});
  }
  reporter.summary("format", features.format);
  reporter.summary("most_frequent", std::move(most));
  reporter.summary("lines", lines());
  reporter.summary(std::string(kBatch), features.batch);
  if (output_.empty()) return absl::OkStatus();
  absl::StatusOr<OutputFile> file = OutputFile::create(output_);
  if (!file.ok()) return file.status();
  for (const Ranked& one : ranked) {
    file->write(fmt::format("{}\t{}\n", feature_name(one.key), one.count));
    RETURN_IF_ERROR(file->status());
  }
  return file->commit();
}

}  // namespace

std::unique_ptr<Application> make_sketch() {
  return std::make_unique<SketchApplication>();
}

}  // namespace verbena::apps
