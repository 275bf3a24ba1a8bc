#include "apps/mf/mf.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <variant>

#include "apps/data/output_file.hpp"
#include "apps/data/ratings.hpp"
#include "apps/embedding/allocation.hpp"
#include "apps/embedding/embedding_application.hpp"
#include "apps/embedding/row_store.hpp"
#include "apps/embedding/schedule.hpp"
#include "apps/enough_memory.hpp"
#include "apps/mf/exports.hpp"
#include "apps/mf/predictions.hpp"
#include "apps/mf/trainer.hpp"
#include "apps/options/given_options.hpp"
#include "apps/options/numbers.hpp"
#include "apps/resuming/checkpoints.hpp"
#include "base/return_if_error.hpp"
#include "consistency/model.hpp"
#include "protocol/partition.hpp"
#include <verbena/table.hpp>

namespace verbena::apps {
namespace {

using namespace mf;

constexpr std::int64_t kMaxRank = 65'535;
constexpr std::int64_t kMaxBatch = 1 << 20;
constexpr std::size_t kRowsAtOnce = 4096;
constexpr const char* kRows = "items";  ///< what blocks are of

/// What one process needs of the input, ready for training.
struct Job {
  Ratings ratings;  ///< without the ratings themselves, which are in `data`
  Scale scale;
  ItemLayout layout;
  TrainingData data;
};

std::size_t users_of_part(std::size_t users, std::uint32_t part, std::uint32_t parts) {
  return (users + parts - 1 - part) / parts;
}

void to_local(std::vector<Rating>& ratings, const Scale& scale, std::uint32_t workers) {
  for (Rating& rating : ratings) {
    rating.user /= workers;
    rating.value = static_cast<float>((double{rating.value} - scale.mean) / scale.deviation);
  }
}

/// Whether a user or an item has no rating that is trained. Its row is 0 and stays 0: predictions for it use
/// what is known of the other side, and random factors would only add noise.
bool is_untrained(std::uint64_t trained_ratings) {
  return trained_ratings == 0;
}

std::int64_t count_untrained(std::span<const std::uint64_t> trained_ratings) {
  return std::count_if(trained_ratings.begin(), trained_ratings.end(), is_untrained);
}

FactorRows initial_users(const RowFormat& format, std::uint64_t seed,
                         std::span<const std::uint64_t> trained_ratings, std::uint32_t rank,
                         std::uint32_t workers) {
  FactorRows rows(users_of_part(trained_ratings.size(), rank, workers), format);
  std::vector<float> packed(format.width());
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const std::size_t user = row * workers + rank;
    if (is_untrained(trained_ratings[user])) continue;
    initial_row(format, seed, Side::kUser, user, packed);
    rows.unpack(packed, row);
  }
  return rows;
}

void report_untrained(const Ratings& ratings, Reporter& reporter) {
  const std::int64_t users = count_untrained(ratings.user_train);
  const std::int64_t items = count_untrained(ratings.item_train);
  reporter.summary("untrained_users", users);
  reporter.summary("untrained_items", items);
  if (users == 0 && items == 0) return;
  reporter.print(
      fmt::format("{} of {} users and {} of {} items are in the test only: predicted by the mean and "
                  "the other's bias",
                  users, ratings.user_names.size(), items, ratings.item_names.size()));
}

std::vector<std::uint32_t> items_by_row(const ItemLayout& layout) {
  std::vector<std::uint32_t> items(layout.row_of_item.size());
  for (std::uint32_t item = 0; item < items.size(); ++item) items[layout.row_of_item[item]] = item;
  return items;
}

/// Calls `use(range, packed initial rows)` for the item rows of `range`, some at a time.
template <class Use>
absl::Status for_initial_items(const RowFormat& format, std::uint64_t seed, const Job& job, KeyRange range,
                               const Use& use) {
  const std::vector<std::uint32_t> items = items_by_row(job.layout);
  std::vector<float> packed;
  for (Key first = range.first; first < range.last; first += kRowsAtOnce) {
    const KeyRange some{first, std::min<Key>(first + kRowsAtOnce, range.last)};
    packed.resize(some.size() * format.width());
    for (Key row = some.first; row < some.last; ++row) {
      const auto values = std::span(packed).subspan((row - first) * format.width(), format.width());
      if (is_untrained(job.ratings.item_train[items[row]])) {
        std::fill(values.begin(), values.end(), 0.0F);
      } else {
        initial_row(format, seed, Side::kItem, items[row], values);
      }
    }
    RETURN_IF_ERROR(use(some, packed));
  }
  return absl::OkStatus();
}

absl::Status push_users(Table<float>& table, const FactorRows& users, std::uint32_t rank,
                        std::uint32_t workers) {
  std::vector<Key> keys;
  std::vector<float> packed;
  for (std::size_t first = 0; first < users.size(); first += kRowsAtOnce) {
    const std::size_t last = std::min(first + kRowsAtOnce, users.size());
    keys.clear();
    for (std::size_t row = first; row < last; ++row) keys.push_back(row * workers + rank);
    packed.resize(keys.size() * users.format().width());
    users.pack(packed, first);
    RETURN_IF_ERROR(table.push(keys, packed));
  }
  return absl::OkStatus();
}

/// In each clock a worker trains one block, so each block has a cursor: what a worker has not trained of a
/// block comes first when it is the block's turn again. `places`: where each begins.
std::vector<DataCursor> cursors_of(const RatingBlocks& ratings, std::int64_t batch, Session& session,
                                   std::span<const std::uint64_t> places) {
  std::vector<DataCursor> cursors;
  for (std::size_t block = 0; block < ratings.blocks.size(); ++block) {
    const Tile whole = ratings.whole(block);
    cursors.emplace_back(session, DataCursor::Options{.examples = whole.end - whole.begin,
                                                      .mini_batch = static_cast<std::uint64_t>(batch),
                                                      .first = places[block]});
  }
  return cursors;
}

class MatrixFactorization final : public EmbeddingApplication {
 public:
  MatrixFactorization() : EmbeddingApplication(Sequential{}) {}
  [[nodiscard]] std::string_view name() const override { return "mf"; }
  [[nodiscard]] std::string_view description() const override {
    return "matrix factorization of ratings by stochastic gradient descent";
  }
  [[nodiscard]] std::string_view throughput_unit() const override { return "ratings"; }
  [[nodiscard]] std::string_view main_objective() const override {
    return has_test() || !trains() ? "test_rmse" : "train_rmse";
  }
  [[nodiscard]] std::int64_t iterations() const override { return trains() ? training_.iterations : 0; }
  [[nodiscard]] bool can_be_resumed() const override { return trains(); }
  [[nodiscard]] bool may_change_on_resume(std::string_view option) const override {
    return option == "lookahead" || EmbeddingApplication::may_change_on_resume(option);
  }

  void add_options(CLI::App& command) override;
  [[nodiscard]] std::optional<std::string> chosen(std::string_view option) const override;
  [[nodiscard]] bool leaves_open(std::string_view option) const override;
  [[nodiscard]] std::vector<ChoiceOption> choices() const override {
    return {{"allocation"}, {"lookahead"}, {"clocks-per-iteration"}, {"batch"}};
  }
  [[nodiscard]] absl::Status check_consistency(const ConsistencyModel& consistency) const override;
  [[nodiscard]] Files files() const override;
  [[nodiscard]] std::map<std::string, double> objectives(
      const std::map<std::string, double>& sums) const override;

 private:
  /// A saved model is not trained, but used.
  [[nodiscard]] bool trains() const { return use_.load.empty(); }
  [[nodiscard]] PredictionOptions predictions() const {
    PredictionOptions options = use_;
    options.data = data_;
    return options;
  }
  void add_own_options(CLI::App& command);
  [[nodiscard]] std::string_view why_idle(std::string_view option) const;
  [[nodiscard]] RowFormat format() const {
    return {.rank = static_cast<std::size_t>(rank_), .biases = !no_biases_};
  }
  [[nodiscard]] FactorFormat output_format() const {
    return parse_factor_format(output_format_).value_or(FactorFormat::kText);
  }
  [[nodiscard]] bool has_test() const { return test_fraction_ > 0 || !test_data_.empty(); }
  [[nodiscard]] std::string_view needs_less_memory() const override {
    return trains() ? "a smaller --rank or fewer ratings" : "a smaller model or fewer ratings";
  }
  absl::Status check_options() const override;
  absl::Status check_data(std::uint32_t workers) const override;
  [[nodiscard]] RatingsOptions ratings_options(std::uint32_t part, std::uint32_t parts) const;
  [[nodiscard]] std::size_t blocks(const JobShape& shape) const {
    return blocks_of(clocks_per_iteration_, rows_move(), shape);
  }
  /// Those of a block, which move, or of a mini-batch: so that --lookahead says when. REQUIRES: the job is
  /// decided, and --allocation can be read.
  [[nodiscard]] bool rows_are_asked_for() const;
  absl::StatusOr<Job> load_job(std::uint32_t rank, std::uint32_t workers, std::size_t blocks,
                               Reporter& reporter) const;
  absl::Status train_as_worker(WorkerContext& context) const override;
  absl::Status train_in_table(WorkerContext& context, const Job& job, FactorRows& users, Table<float>& items,
                              std::span<const std::uint64_t> places) const;
  absl::Status train_alone(BaselineContext& context) const override;
  absl::Status save_from_tables(Session& session, const ConsistencyModel& consistency, const Job& job,
                                const FactorRows& users, Table<float>& items) const;
  absl::Status save_local(const Job& job, const FactorRows& users, const FactorRows& items) const;

  std::string data_;
  std::string train_data_;
  std::string test_data_;
  std::string output_;
  std::string output_format_{to_string(FactorFormat::kText)};
  PredictionOptions use_;  ///< without the data
  GivenOptions given_;
  double test_fraction_ = 0.1;
  std::int64_t rank_ = 16;
  bool no_biases_ = false;
  std::int64_t clocks_per_iteration_ = 0;
  TrainingOptions training_;
};

std::optional<std::string> MatrixFactorization::chosen(std::string_view option) const {
  if (!why_idle(option).empty()) return "";
  if (option == "clocks-per-iteration" && job_shape()) return std::to_string(blocks(*job_shape()));
  if (option == "lookahead" && job_shape() && allocation().parsed().ok() && !rows_are_asked_for()) return "";
  // The block that comes next is still another worker's.
  if (option == "lookahead" && leaves_open(option) && job_shape() && allocation().parsed().ok() &&
      fetch_options().allocation == RowAllocation::kLocalize &&
      blocks(*job_shape()) >= job_shape()->workers &&
      !turns(job_shape()->workers, blocks(*job_shape())).next_is_free)
    return "0";
  return EmbeddingApplication::chosen(option);
}

bool MatrixFactorization::leaves_open(std::string_view option) const {
  if (option == "clocks-per-iteration") return clocks_per_iteration_ == 0;
  return EmbeddingApplication::leaves_open(option);
}

Files MatrixFactorization::files() const {
  Files files;
  files.reads("--data", data_);
  files.reads("--train-data", train_data_);
  files.reads("--test-data", test_data_);
  if (!trains()) {
    files.reads("--load", users_path(use_.load));
    files.reads("--load", items_path(use_.load));
    files.writes("--recommendations", use_.recommendations);
    files.writes("--predict", use_.predict);
  }
  if (output_.empty()) return files;
  for (const std::string& path : files_of(output_, output_format(), !no_biases_))
    files.writes("--output", path);
  return files;
}

void MatrixFactorization::add_options(CLI::App& command) {
  given_.watch(command, [&] { add_own_options(command); });
}

/// Why an option does nothing beside the others; empty: it does something.
std::string_view MatrixFactorization::why_idle(std::string_view option) const {
  constexpr std::array<std::string_view, 4> kOfUse = {"recommend", "top-items", "recommendations", "predict"};
  const bool is_of_use = std::find(kOfUse.begin(), kOfUse.end(), option) != kOfUse.end();
  if (trains() && option == "output-format" && output_.empty()) return "expected only with --output";
  if (trains()) return is_of_use ? "expected only with --load" : "";
  if (option == "top-items" && use_.recommend.empty() && use_.recommendations.empty())
    return "expected only with --recommend or --recommendations";
  if (is_of_use || option == "load" || option == "data") return {};
  return "expected only without --load, which trains nothing";
}

void MatrixFactorization::add_own_options(CLI::App& command) {
  CLI::Option* const data =
      command
          .add_option(
              "--data", data_,
              "ratings: lines user, item, rating, as MovieLens has them; a header may name the columns; "
              "Matrix Market; gzip of any (docs/data.md)")
          ->type_name("FILE");
  CLI::Option* const train_data =
      command
          .add_option("--train-data", train_data_, "where the ratings are split already: those to train on")
          ->type_name("FILE")
          ->excludes(data);
  CLI::Option* const test_data =
      command
          .add_option("--test-data", test_data_,
                      "likewise: those held out for the test, not by --test-fraction")
          ->type_name("FILE")
          ->excludes(data)
          ->needs(train_data);
  train_data->needs(test_data);
  add_number(command, "--rank", rank_, "factors of a user or an item")->capture_default_str();
  add_number(command, "--iterations", training_.iterations, "passes over the ratings", {.least = 1})
      ->capture_default_str();
  add_number(command, "--learning-rate", training_.learning_rate, "step of the first iteration")
      ->capture_default_str();
  add_number(command, "--decay", training_.decay,
             "factor of the learning rate from one iteration to the next")
      ->capture_default_str();
  add_number(command, "--regularization", training_.regularization,
             "weight of the squared factors and biases")
      ->capture_default_str();
  command.add_flag("--no-biases", no_biases_, "no bias of a user or an item, only the mean and the factors");
  add_number(
      command, "--clocks-per-iteration", clocks_per_iteration_,
      "clocks in a pass over the ratings: the items are cut into so many blocks, and in each clock "
      "a worker trains another one; 0: workers x (staleness + 1); where rows move, as many as there are "
      "workers with one server and workers x 3 with several; 1 for a single worker. With fewer than workers, "
      "some train the same items at a time and what they learn is added up: that needs a smaller "
      "--learning-rate")
      ->capture_default_str();
  add_fetch_options(
      command,
      {.help = "0: a block's items are asked for when its turn comes; 1: while the block before it is "
               "trained. Where rows stay, that is by --batch, and only with --consistency "
               "sequential",
       .usual = 1,
       .most = 1});
  add_number(command, "--batch", training_.batch,
             "ratings between two looks at the connections; with --consistency sequential and --allocation "
             "static their items' rows are pulled together, the next ones while these are trained")
      ->capture_default_str();
  add_number(command, "--test-fraction", test_fraction_, "share of the ratings that is held out for the test")
      ->capture_default_str()
      ->excludes(test_data);
  add_number(command, "--evaluate-every", training_.evaluate_every,
             "iterations from one evaluation to the next")
      ->capture_default_str();
  add_number(command, "--seed", training_.seed, "of the held-out ratings, the first factors and the order")
      ->capture_default_str();
  command
      .add_option("--output", output_,
                  "save the factors, as --output-format says: by default as text, in PREFIX.users.tsv and "
                  "PREFIX.items.tsv")
      ->type_name("PREFIX");
  command
      .add_option("--output-format", output_format_,
                  "of --output: text, which --load reads; npy and safetensors: arrays for other programs, "
                  "and the names in files beside them (docs/data.md)")
      ->type_name("text|npy|safetensors")
      ->capture_default_str();
  command
      .add_option("--load", use_.load,
                  "factors that --output has saved: nothing is trained, --data is the test")
      ->type_name("PREFIX");
  command
      .add_option("--recommend", use_.recommend,
                  "with --load: users whose best items are printed, without those that --data has for them")
      ->type_name("USER,USER,…");
  add_number(command, "--top-items", use_.top_items, "with --load: items that are recommended to a user")
      ->capture_default_str();
  command
      .add_option("--recommendations", use_.recommendations,
                  "with --load: write the best items of each user, or of those of --recommend, as lines "
                  "user<TAB>item<TAB>rating")
      ->type_name("FILE");
  command
      .add_option("--predict", use_.predict,
                  "with --load: write what is predicted for each rating of --data, one a line")
      ->type_name("FILE");
}

absl::Status MatrixFactorization::check_options() const {
  const auto invalid = [](std::string_view expected, auto found) {
    return absl::InvalidArgumentError(fmt::format("{}, found {}", expected, found));
  };
  RETURN_IF_ERROR(given_.refuse_idle([&](std::string_view option) { return why_idle(option); }));
  if (!trains()) return absl::OkStatus();  // check_data() looks at the rest
  if (data_.empty() && train_data_.empty()) {
    return absl::InvalidArgumentError(
        "--data: expected a file of ratings, or --train-data and --test-data; found none");
  }
  if (!parse_factor_format(output_format_).has_value())
    return invalid("--output-format: expected text, npy or safetensors", output_format_);
  if (rank_ < 1 || rank_ > kMaxRank) {
    return invalid(fmt::format("--rank: expected 1 to {}", kMaxRank), rank_);
  }
  if (!(training_.learning_rate > 0) || !std::isfinite(training_.learning_rate)) {
    return invalid("--learning-rate: expected a number above 0", training_.learning_rate);
  }
  if (!(training_.decay > 0 && training_.decay <= 1)) {
    return invalid("--decay: expected a number above 0 and at most 1", training_.decay);
  }
  if (!(training_.regularization >= 0 && training_.regularization * training_.learning_rate < 1)) {
    return invalid("--regularization: expected 0 or more and less than 1 / learning rate",
                   training_.regularization);
  }
  if (!(test_fraction_ >= 0 && test_fraction_ < 1)) {
    return invalid("--test-fraction: expected 0 or more and less than 1", test_fraction_);
  }
  if (training_.batch < 1 || training_.batch > kMaxBatch) {
    return invalid(fmt::format("--batch: expected 1 to {}", kMaxBatch), training_.batch);
  }
  if (training_.evaluate_every < 1) {
    return invalid("--evaluate-every: expected 1 or more", training_.evaluate_every);
  }
  if (clocks_per_iteration_ < 0 || clocks_per_iteration_ > kMostClocksPerIteration) {
    return invalid(fmt::format("--clocks-per-iteration: expected 0 to {}", kMostClocksPerIteration),
                   clocks_per_iteration_);
  }
  return absl::OkStatus();
}

RatingsOptions MatrixFactorization::ratings_options(std::uint32_t part, std::uint32_t parts) const {
  return {.path = test_data_.empty() ? data_ : train_data_,
          .test_path = test_data_,
          .test_fraction = test_fraction_,
          .seed = training_.seed,
          .part = part,
          .parts = parts};
}

absl::Status MatrixFactorization::check_data(std::uint32_t workers) const {
  if (!trains()) return mf::check(predictions());
  RETURN_IF_ERROR(check_blocks(clocks_per_iteration_, rows_move(), workers, kRows));
  const absl::StatusOr<Ratings> ratings = read_ratings(ratings_options(1, 1));
  if (!ratings.ok()) return ratings.status();
  if (has_test() && ratings->total_test == 0) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: none of the {} ratings was held out: expected a larger --test-fraction, or 0 for no test", data_,
        ratings->total_train));
  }
  const RowFormat format = this->format();
  const auto users = static_cast<double>(ratings->user_names.size());
  const auto items = static_cast<double>(ratings->item_names.size());
  const double row_bytes = static_cast<double>(padded(format.rank) + 1) * sizeof(float);
  const double table_bytes = row_bytes * (items + (output_.empty() ? 0 : users));
  // Ratings are held twice while they are sorted; a worker may cache and buffer every row of a table.
  const double bytes = static_cast<double>(ratings->total_train + ratings->total_test) * 2 * sizeof(Rating) +
                       users * row_bytes + table_bytes + 2 * workers * row_bytes * items;
  absl::Status enough = check_memory(bytes, "this model and data need", "a smaller --rank");
  if (!enough.ok()) return enough;
  if (output_.empty()) return absl::OkStatus();
  // All lie in one folder.
  const std::uint64_t bytes_of_files =
      files_bytes(output_format(), format, ratings->user_names.size(), ratings->item_names.size());
  for (const std::string& path : files_of(output_, output_format(), format.biases))
    RETURN_IF_ERROR(OutputFile::check(path, bytes_of_files));
  return absl::OkStatus();
}

std::map<std::string, double> MatrixFactorization::objectives(
    const std::map<std::string, double>& sums) const {
  std::map<std::string, double> result;
  const auto add = [&](const char* objective, const char* error, const char* count) {
    const auto ratings = sums.find(count);
    if (ratings == sums.end() || ratings->second == 0) return;
    result[objective] = std::sqrt(sums.at(error) / ratings->second);
  };
  add("test_rmse", kTestSquaredError, kTestRatings);
  add("train_rmse", kTrainSquaredError, kTrainRatings);
  return result;
}

absl::Status MatrixFactorization::check_consistency(const ConsistencyModel& consistency) const {
  RETURN_IF_ERROR(EmbeddingApplication::check_consistency(consistency));
  if (lookahead() != 1 || !job_shape()) return absl::OkStatus();
  if (!rows_are_asked_for()) {
    return absl::InvalidArgumentError(
        fmt::format("--lookahead: expected 0 with --consistency {} and --allocation {}, where no rows are "
                    "asked for ahead; found 1",
                    to_string(consistency), allocation().name()));
  }
  if (allocation().value() != RowAllocation::kLocalize) return absl::OkStatus();
  return check_lookahead(job_shape()->workers, blocks(*job_shape()), kRows);
}

bool MatrixFactorization::rows_are_asked_for() const {
  return rows_move() || std::holds_alternative<Sequential>(job_shape()->consistency);
}

absl::StatusOr<Job> MatrixFactorization::load_job(std::uint32_t rank, std::uint32_t workers,
                                                  std::size_t blocks, Reporter& reporter) const {
  absl::StatusOr<Ratings> ratings =
      read_ratings(ratings_options(rank, workers),
                   [&](double done, double total) { reporter.progress("reading ratings", done, total); });
  if (!ratings.ok()) return ratings.status();
  Job job{.ratings = *std::move(ratings)};
  job.scale = {job.ratings.train_mean, job.ratings.train_deviation > 0 ? job.ratings.train_deviation : 1.0};
  job.layout = lay_out_items(job.ratings.item_train, blocks);
  job.data.rank = rank;
  job.data.workers = workers;
  const std::size_t users = users_of_part(job.ratings.user_names.size(), rank, workers);
  const TileLimits limits = cache_sized(padded(format().rank));
  const auto sorted = [&](std::vector<Rating>& part) {
    to_local(part, job.scale, workers);
    RatingBlocks result = sort_into_blocks(part, job.layout, users, limits, training_.seed);
    std::vector<Rating>().swap(part);
    return result;
  };
  job.data.train = sorted(job.ratings.train);
  job.data.test = sorted(job.ratings.test);
  if (rank == 0) {
    reporter.summary("rank", rank_);
    reporter.summary("blocks", job.layout.blocks());
    reporter.summary("format", job.ratings.format);
    reporter.summary("users", job.ratings.user_names.size());
    reporter.summary("items", job.ratings.item_names.size());
    reporter.summary("train_ratings", job.ratings.total_train);
    reporter.summary("test_ratings", job.ratings.total_test);
    report_untrained(job.ratings, reporter);
  }
  return job;
}

absl::Status MatrixFactorization::train_as_worker(WorkerContext& context) const {
  Session& session = context.session;
  if (!trains()) {
    if (session.rank() == 0) return predict(predictions(), context.reporter, context.stop);
    context.reporter.iteration({.iteration = 0});
    return absl::OkStatus();
  }
  const RowFormat format = this->format();
  const JobShape shape{context.consistency, session.workers(), session.servers()};
  absl::StatusOr<Job> job = load_job(session.rank(), session.workers(), blocks(shape), context.reporter);
  if (!job.ok()) return job.status();
  const std::size_t items = job->ratings.item_names.size();
  absl::StatusOr<Table<float>> table =
      session.table<float>({.name = "mf.items",
                            .rows = items,
                            .width = static_cast<std::uint32_t>(format.width()),
                            .consistency = context.consistency,
                            .allocation = table_allocation(fetch_options().allocation)});
  if (!table.ok()) return table.status();
  FactorRows users =
      initial_users(format, training_.seed, job->ratings.user_train, session.rank(), session.workers());
  std::vector<std::uint64_t> places(job->layout.blocks(), 0);
  if (const nlohmann::json* const saved = context.checkpoints.resumed()) {
    RETURN_IF_ERROR(Trainer::restore(*saved, users));
    absl::StatusOr<std::vector<std::uint64_t>> found = Trainer::places(*saved, places.size());
    if (!found.ok()) return found.status();
    places = *std::move(found);
    context.checkpoints.forget_resumed();
  } else {
    RETURN_IF_ERROR(for_initial_items(
        format, training_.seed, *job,
        protocol::RangePartition(items, session.workers()).range(session.rank()),
        [&](KeyRange range, std::span<const float> packed) { return table->push(range, packed); }));
    RETURN_IF_ERROR(session.barrier());
  }
  const absl::Status status = train_in_table(context, *job, users, *table, places);
  if (!status.ok() || output_.empty()) return status;
  return save_from_tables(session, context.consistency, *job, users, *table);
}

absl::Status MatrixFactorization::train_in_table(WorkerContext& context, const Job& job, FactorRows& users,
                                                 Table<float>& items,
                                                 std::span<const std::uint64_t> places) const {
  Session& session = context.session;
  const RowFormat format = this->format();
  const std::size_t slice_rows =
      std::min<std::size_t>(items.rows(), cache_sized(padded(format.rank)).item_rows);
  const double squared_unit = job.scale.deviation * job.scale.deviation;
  const auto train = [&](ItemStore& store, MiniBatchItems* mini_batches = nullptr) {
    return Trainer(training_, job.data, users, store, squared_unit,
                   cursors_of(job.data.train, training_.batch, session, places), mini_batches)
        .run(context.reporter, context.stop, context.checkpoints);
  };
  const FetchOptions fetch = fetch_options();
  const bool ahead = fetch.lookahead > 0;
  if (fetch.allocation != RowAllocation::kStatic) {
    const Turns turns = apps::turns(session.workers(), job.layout.blocks());
    RETURN_IF_ERROR(session.limit_lead(turns.clocks_ahead));
    const bool can_ahead = fetch.allocation == RowAllocation::kIntent || turns.next_is_free;
    MovingItems store(session, items, format, slice_rows, context.watch, fetch.allocation,
                      ahead && can_ahead);
    return train(store);
  }
  TableItems store(session, items, format, slice_rows, context.watch);
  if (!std::holds_alternative<Sequential>(context.consistency)) return train(store);
  // Under sequential, no clock says how fresh a row is, so each mini-batch pulls its own rows.
  TableRows rows(session, std::array{items}, context.watch, fetch);
  MiniBatchItems mini_batches(rows, items.rows(), format, static_cast<std::size_t>(training_.batch), ahead);
  return train(store, &mini_batches);
}

absl::Status MatrixFactorization::save_from_tables(Session& session, const ConsistencyModel& consistency,
                                                   const Job& job, const FactorRows& users,
                                                   Table<float>& items) const {
  // It begins with zeros also where the session goes on from a checkpoint, as "verbena." says.
  absl::StatusOr<Table<float>> table = session.table<float>({.name = "verbena.mf.users",
                                                             .rows = job.ratings.user_names.size(),
                                                             .width = items.width(),
                                                             .consistency = consistency});
  if (!table.ok()) return table.status();
  RETURN_IF_ERROR(push_users(*table, users, session.rank(), session.workers()));
  if (absl::Status status = session.barrier(); !status.ok() || session.rank() != 0) return status;
  return save_as(
      output_format(), output_, format(), job.scale, {job.ratings.user_names, job.ratings.item_names},
      [&](std::size_t first, std::size_t last, std::span<float> packed) {
        return table->pull(KeyRange{first, last}, packed);
      },
      [&](std::size_t first, std::size_t last, std::span<float> packed) {
        const std::vector<Key> keys(job.layout.row_of_item.begin() + static_cast<std::ptrdiff_t>(first),
                                    job.layout.row_of_item.begin() + static_cast<std::ptrdiff_t>(last));
        return items.pull(keys, packed);
      });
}

absl::Status MatrixFactorization::train_alone(BaselineContext& context) const {
  if (!trains()) return predict(predictions(), context.reporter, context.stop);
  const RowFormat format = this->format();
  absl::StatusOr<Job> job = load_job(0, 1, blocks(JobShape{}), context.reporter);
  if (!job.ok()) return job.status();
  FactorRows users = initial_users(format, training_.seed, job->ratings.user_train, 0, 1);
  FactorRows items(job->ratings.item_names.size(), format);
  absl::Status status = for_initial_items(format, training_.seed, *job, {0, items.size()},
                                          [&](KeyRange range, std::span<const float> packed) {
                                            items.unpack(packed, range.first);
                                            return absl::OkStatus();
                                          });
  if (!status.ok()) return status;
  LocalItems store(items);
  const double squared_unit = job->scale.deviation * job->scale.deviation;
  status = Trainer(training_, job->data, users, store, squared_unit).run(context.reporter, context.stop);
  if (!status.ok() || output_.empty()) return status;
  return save_local(*job, users, items);
}

absl::Status MatrixFactorization::save_local(const Job& job, const FactorRows& users,
                                             const FactorRows& items) const {
  const std::size_t width = format().width();
  return save_as(
      output_format(), output_, format(), job.scale, {job.ratings.user_names, job.ratings.item_names},
      [&](std::size_t first, std::size_t /*last*/, std::span<float> packed) {
        users.pack(packed, first);
        return absl::OkStatus();
      },
      [&](std::size_t first, std::size_t last, std::span<float> packed) {
        for (std::size_t item = first; item < last; ++item) {
          items.pack(packed.subspan((item - first) * width, width), job.layout.row_of_item[item]);
        }
        return absl::OkStatus();
      });
}

}  // namespace

std::unique_ptr<Application> make_mf() {
  return std::make_unique<MatrixFactorization>();
}

}  // namespace verbena::apps
