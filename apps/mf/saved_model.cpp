#include "apps/mf/saved_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "apps/data/fields.hpp"
#include "apps/data/line_reader.hpp"
#include "apps/data/numbers.hpp"
#include "apps/embedding/best.hpp"
#include "apps/embedding/row_source.hpp"
#include "apps/lane_sums.hpp"
#include "apps/mf/model.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps::mf {
/// Reads both files; what the first says of the model, the second must say, too.
class SavedModelReader {
 public:
  absl::StatusOr<SavedModel> read(const std::string& prefix) {
    RETURN_IF_ERROR(read_side(users_path(prefix), "user", model_.users_));
    RETURN_IF_ERROR(read_side(items_path(prefix), "item", model_.items_));
    find_untrained_items();
    return std::move(model_);
  }

 private:
  absl::Status read_side(const std::string& path, std::string_view what, SavedModel::Side& side) {
    absl::StatusOr<LineReader> lines = LineReader::open(path);
    if (!lines.ok()) return lines.status();
    RETURN_IF_ERROR(read_head(path, *lines, what));
    std::vector<float> numbers;  // of all rows: how many there are is not known before
    std::string_view line;
    for (;;) {
      const absl::StatusOr<bool> more = lines->next(line);
      if (!more.ok()) return more.status();
      if (!*more) break;
      RETURN_IF_ERROR(read_row(*lines, line, what, side, numbers));
    }
    if (side.names.empty()) return ends_before(path, *lines, fmt::format("{}s", what));
    const std::size_t stride = padded(model_.rank_);
    side.factors = aligned_floats(side.names.size() * stride);
    for (std::size_t id = 0; id < side.names.size(); ++id)
      std::copy_n(numbers.data() + id * model_.rank_, model_.rank_, side.factors.get() + id * stride);
    return absl::OkStatus();
  }

  void find_untrained_items() {
    const SavedModel::Side& items = model_.items_;
    for (std::uint32_t item = 0; item < items.names.size(); ++item) {
      const float* const factors = model_.row(items, item);
      model_.is_untrained_.push_back(
          (items.biases.empty() || items.biases[item] == 0) &&
          std::all_of(factors, factors + model_.rank_, [](float factor) { return factor == 0; }));
    }
  }

  static absl::Status ends_before(const std::string& path, const LineReader& lines,
                                  std::string_view expected) {
    return absl::InvalidArgumentError(fmt::format("{}:{}: expected {}, found the end of the file", path,
                                                  lines.line_number() + 1, expected));
  }

  absl::Status read_head(const std::string& path, LineReader& lines, std::string_view what) {
    std::string_view line;
    absl::StatusOr<bool> more = lines.next(line);
    if (!more.ok()) return more.status();
    if (!*more) return ends_before(path, lines, kExpectedHead);
    const std::string first(line);
    if (head_.empty()) {
      RETURN_IF_ERROR(read_formula(lines, first));
    } else if (first != head_) {
      return lines.error(fmt::format("\"{}\", as the file of the users has it", head_), first);
    }
    more = lines.next(line);
    if (!more.ok()) return more.status();
    if (!*more) return ends_before(path, lines, "the names of the columns");
    const std::string_view columns = line;
    if (rank_is_known_) {
      if (columns == columns_of(what)) return absl::OkStatus();
      return lines.error(fmt::format("\"{}\"", columns_of(what)), columns);
    }
    // The first file says by its columns how many factors there are.
    const auto tabs = static_cast<std::size_t>(std::count(columns.begin(), columns.end(), '\t'));
    model_.rank_ = tabs - std::min<std::size_t>(tabs, has_biases_ ? 1 : 0);
    rank_is_known_ = true;
    if (model_.rank_ > 0 && columns == columns_of(what)) return absl::OkStatus();
    return lines.error(
        fmt::format("{}{}, factor1, factor2, …, separated by tabs", what, has_biases_ ? ", bias" : ""),
        columns);
  }

  absl::Status read_formula(const LineReader& lines, std::string_view line) {
    const std::string_view number = line.starts_with(kRating) ? line.substr(kRating.size()) : "";
    const std::optional<double> mean = parse_double(number.substr(0, number.find(' ')));
    for (const bool has_biases : {true, false}) {
      if (!mean || line != model_head(*mean, has_biases)) continue;
      model_.mean_ = *mean;
      has_biases_ = has_biases;
      head_ = line;
      return absl::OkStatus();
    }
    return lines.error(kExpectedHead, line);
  }

  [[nodiscard]] std::string columns_of(std::string_view what) const {
    return model_columns({.rank = model_.rank_, .biases = has_biases_}, what);
  }

  absl::Status read_row(const LineReader& lines, std::string_view line, std::string_view what,
                        SavedModel::Side& side, std::vector<float>& numbers) const {
    const std::string_view whole = line;
    const std::string name(take_before(line, '\t'));
    if (!side.ids.emplace(name, static_cast<std::uint32_t>(side.names.size())).second)
      return lines.error(fmt::format("the name of another {}", what), name);
    side.names.push_back(name);
    const auto add = [&](std::vector<float>& to) {
      const std::optional<float> number = parse_float(take_before(line, '\t'));
      if (number) to.push_back(*number);
      return number.has_value();
    };
    bool are_numbers = !has_biases_ || add(side.biases);
    for (std::size_t k = 0; k < model_.rank_ && are_numbers; ++k) are_numbers = add(numbers);
    if (are_numbers && line.empty()) return absl::OkStatus();
    return lines.error(fmt::format("{} numbers after the name of the {}, separated by tabs",
                                   model_.rank_ + (has_biases_ ? 1 : 0), what),
                       whole);
  }

  static constexpr std::string_view kRating = "# rating = ";
  static constexpr std::string_view kExpectedHead =
      "\"# rating = MEAN + user bias + item bias + user factors * item factors\", or the same without biases";

  SavedModel model_;
  std::string head_;
  bool has_biases_ = true;
  bool rank_is_known_ = false;
};

absl::StatusOr<SavedModel> SavedModel::load(const std::string& prefix) {
  return SavedModelReader().read(prefix);
}

std::optional<std::uint32_t> SavedModel::Side::find(std::string_view name) const {
  const auto found = ids.find(written_name(name));
  if (found == ids.end()) return std::nullopt;
  return found->second;
}

const float* SavedModel::row(const Side& side, std::uint32_t id) const {
  return side.factors.get() + id * padded(rank_);
}

float SavedModel::rating(std::optional<std::uint32_t> user, std::optional<std::uint32_t> item) const {
  auto rating = static_cast<float>(mean_);
  if (user && !users_.biases.empty()) rating += users_.biases[*user];
  if (item && !items_.biases.empty()) rating += items_.biases[*item];
  if (user && item) rating += sum_of_products(row(users_, *user), row(items_, *item), padded(rank_));
  return rating;
}

std::vector<Recommendation> SavedModel::recommend(std::uint32_t user, std::span<const std::uint32_t> left_out,
                                                  std::size_t count) const {
  std::vector<float> ratings(items_.names.size());
  for (std::uint32_t item = 0; item < ratings.size(); ++item)
    ratings[item] = is_untrained_[item] ? kNoAnswer : rating(user, item);
  for (const std::uint32_t item : left_out) ratings[item] = kNoAnswer;
  std::vector<Recommendation> result;
  for (const std::uint32_t item : best(ratings, count)) result.push_back({item, ratings[item]});
  return result;
}

}  // namespace verbena::apps::mf
