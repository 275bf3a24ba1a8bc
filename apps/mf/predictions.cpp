#include "apps/mf/predictions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "apps/data/output_file.hpp"
#include "apps/data/ratings.hpp"
#include "apps/mf/saved_model.hpp"
#include "apps/mf/trainer.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps::mf {
namespace {

constexpr std::uint64_t kLeastLineBytes = 2;

RatingsOptions all_of(const std::string& path) {
  return {.path = path, .test_path = {}, .test_fraction = 0};
}

/// The users of --recommend, by their places in the model; all if there are none.
absl::StatusOr<std::vector<std::uint32_t>> users_of(const PredictionOptions& options,
                                                    const SavedModel& model) {
  std::vector<std::uint32_t> users;
  if (options.recommend.empty()) {
    for (std::uint32_t user = 0; user < model.users().size(); ++user) users.push_back(user);
    return users;
  }
  for (const std::string& name : std::vector<std::string>(absl::StrSplit(options.recommend, ','))) {
    const std::optional<std::uint32_t> user = model.user(name);
    if (!user) {
      return absl::InvalidArgumentError(
          fmt::format("--recommend: expected users of the model, separated by commas, found \"{}\"", name));
    }
    users.push_back(*user);
  }
  return users;
}

/// The ratings that were read, with the places of their users and items in the model.
struct KnownRatings {
  Ratings ratings;
  std::vector<std::optional<std::uint32_t>> users;  ///< by the ids of `ratings`
  std::vector<std::optional<std::uint32_t>> items;
  std::vector<std::vector<std::uint32_t>> items_of_user;  ///< places, by places
};

KnownRatings find_in_model(Ratings ratings, const SavedModel& model) {
  KnownRatings known{.ratings = std::move(ratings),
                     .users = {},
                     .items = {},
                     .items_of_user = std::vector<std::vector<std::uint32_t>>(model.users().size())};
  for (const std::string& name : known.ratings.user_names) known.users.push_back(model.user(name));
  for (const std::string& name : known.ratings.item_names) known.items.push_back(model.item(name));
  for (const Rating& rating : known.ratings.train) {
    const auto user = known.users[rating.user];
    const auto item = known.items[rating.item];
    if (user && item) known.items_of_user[*user].push_back(*item);
  }
  return known;
}

/// Of all ratings of --data, in their order; adds up how wrong they are.
absl::Status predict_ratings(const PredictionOptions& options, const SavedModel& model,
                             const KnownRatings& known, const std::atomic<bool>& stop,
                             std::map<std::string, double>& sums) {
  absl::StatusOr<OutputFile> file = absl::UnknownError("not asked for");
  if (!options.predict.empty()) {
    file = OutputFile::create(options.predict);
    if (!file.ok()) return file.status();
  }
  double squares = 0;
  for (const Rating& rating : known.ratings.train) {
    if (stop.load(std::memory_order_relaxed)) return absl::CancelledError("stopped");
    const float predicted = model.rating(known.users[rating.user], known.items[rating.item]);
    const double error = double{rating.value} - double{predicted};
    squares += error * error;
    if (file.ok()) file->write(fmt::format("{}\n", predicted));
  }
  sums[kTestSquaredError] = squares;
  sums[kTestRatings] = static_cast<double>(known.ratings.train.size());
  return file.ok() ? file->commit() : absl::OkStatus();
}

/// Writes and prints the best items of some users.
absl::Status recommend(const PredictionOptions& options, const SavedModel& model, const KnownRatings& known,
                       Reporter& reporter, const std::atomic<bool>& stop) {
  const absl::StatusOr<std::vector<std::uint32_t>> users = users_of(options, model);
  if (!users.ok()) return users.status();
  absl::StatusOr<OutputFile> file = absl::UnknownError("not asked for");
  if (!options.recommendations.empty()) {
    file = OutputFile::create(options.recommendations);
    if (!file.ok()) return file.status();
  }
  nlohmann::json all = nlohmann::json::object();
  if (!options.recommend.empty())
    reporter.print(fmt::format("{:<12} items, each with the rating that is predicted", "user"));
  double done = 0;
  for (const std::uint32_t user : *users) {
    if (stop.load(std::memory_order_relaxed)) return absl::CancelledError("stopped");
    reporter.progress("recommending", done++, static_cast<double>(users->size()));
    const std::string& name = model.users()[user];
    std::string line = fmt::format("{:<12}", name);
    nlohmann::json items = nlohmann::json::array();
    for (const Recommendation& one :
         model.recommend(user, known.items_of_user[user], static_cast<std::size_t>(options.top_items))) {
      const std::string& item = model.items()[one.item];
      items.push_back(item);
      line += fmt::format(" {} {:.2f}", item, one.rating);
      if (file.ok()) file->write(fmt::format("{}\t{}\t{}\n", name, item, one.rating));
    }
    if (file.ok()) RETURN_IF_ERROR(file->status());
    if (options.recommend.empty()) continue;
    reporter.print(line);
    all[name] = std::move(items);
  }
  if (!options.recommend.empty()) reporter.summary("recommendations", std::move(all));
  return file.ok() ? file->commit() : absl::OkStatus();
}

}  // namespace

absl::Status check(const PredictionOptions& options) {
  if (options.top_items < 1) {
    return absl::InvalidArgumentError(
        fmt::format("--top-items: expected 1 or more, found {}", options.top_items));
  }
  if (options.data.empty() && options.recommend.empty() && options.recommendations.empty()) {
    return absl::InvalidArgumentError(
        "--load: expected --data, whose ratings are predicted, --recommend or --recommendations, found none");
  }
  if (options.data.empty() && !options.predict.empty())
    return absl::InvalidArgumentError("--predict: expected --data, whose ratings are predicted, found none");
  const absl::StatusOr<SavedModel> model = SavedModel::load(options.load);
  if (!model.ok()) return model.status();
  const absl::StatusOr<std::vector<std::uint32_t>> users = users_of(options, *model);
  if (!users.ok()) return users.status();
  std::uint64_t ratings = 0;
  if (!options.data.empty()) {
    RatingsOptions none_kept = all_of(options.data);
    none_kept.part = none_kept.parts;
    const absl::StatusOr<Ratings> found = read_ratings(none_kept);
    if (!found.ok()) return found.status();
    ratings = found->total_train;
  }
  for (const auto& [path, lines] : {std::pair<const std::string&, std::uint64_t>(options.predict, ratings),
                                    {options.recommendations, users->size()}}) {
    if (!path.empty()) RETURN_IF_ERROR(OutputFile::check(path, lines * kLeastLineBytes));
  }
  return absl::OkStatus();
}

absl::Status predict(const PredictionOptions& options, Reporter& reporter, const std::atomic<bool>& stop) {
  const absl::StatusOr<SavedModel> model = SavedModel::load(options.load);
  if (!model.ok()) return model.status();
  reporter.summary("rank", model->rank());
  reporter.summary("users", model->users().size());
  reporter.summary("items", model->items().size());
  IterationReport report{.iteration = 0};
  Ratings ratings;
  if (!options.data.empty()) {
    absl::StatusOr<Ratings> read = read_ratings(all_of(options.data), [&](double done, double total) {
      reporter.progress("reading ratings", done, total);
    });
    if (!read.ok()) return read.status();
    ratings = *std::move(read);
    reporter.summary("format", ratings.format);
    reporter.summary("test_ratings", ratings.total_train);
  }
  const KnownRatings known = find_in_model(std::move(ratings), *model);
  if (!options.data.empty()) RETURN_IF_ERROR(predict_ratings(options, *model, known, stop, report.sums));
  if (!options.recommend.empty() || !options.recommendations.empty())
    RETURN_IF_ERROR(recommend(options, *model, known, reporter, stop));
  reporter.iteration(report);
  return absl::OkStatus();
}

}  // namespace verbena::apps::mf
