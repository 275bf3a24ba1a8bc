#include "apps/data/triple_names.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>

#include "apps/data/fields.hpp"
#include "apps/data/line_reader.hpp"
#include "apps/data/separated_fields.hpp"
#include "apps/data/triple_layout.hpp"
#include "base/decimal.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps {
namespace {

/// The file's possible names; the first one that is there counts.
std::vector<std::string> paths_of(const std::string& folder, NamesLayout layout, const NumberedPart& part) {
  std::vector<std::string> paths;
  const auto add = [&](std::string_view name, std::string_view ending) {
    for (const std::string_view packed : {"", ".gz"})
      paths.push_back(fmt::format("{}/{}{}{}", folder, name, ending, packed));
  };
  if (layout == NamesLayout::kOpenKe) {
    add(part.one, "2id.txt");
  } else {
    add(part.all, ".dict");
    add(part.all, ".tsv");
  }
  return paths;
}

struct NumberedName {
  std::uint64_t number = 0;
  std::string name;
  std::string second;  ///< another name for it; empty: none
};

class NamesReader {
 public:
  NamesReader(const std::string& path, NamesLayout layout, const NumberedPart& part)
      : path_(path), layout_(layout), part_(part) {}

  /// A path of its result is empty if this is a table of something else.
  absl::StatusOr<NumberedNames> read() {
    absl::StatusOr<LineReader> lines = LineReader::open(path_);
    if (!lines.ok()) return lines.status();
    if (layout_ == NamesLayout::kOpenKe) RETURN_IF_ERROR(read_count(*lines));
    first_line_ = lines->line_number() + 1;
    bool ended = false;  // empty lines are allowed only at the end
    std::string_view line;
    for (;;) {
      const absl::StatusOr<bool> more = lines->next(line);
      if (!more.ok()) return more.status();
      if (!*more) break;
      if (trimmed(line).empty()) {
        ended = true;
        continue;
      }
      if (ended) return lines->error(expected(), "an empty line before this");
      std::optional<NumberedName> found = split(line);
      const bool is_first = found_.empty();
      if (is_first && may_be_something_else() && (!found || found->number != 0)) return NumberedNames();
      if (!found) return lines->error(expected(), line);
      found_.push_back(*std::move(found));
    }
    if (count_ && *count_ != found_.size()) {
      return error(1, fmt::format("the number of {} that follow, {}", part_.all, found_.size()),
                   fmt::format("{}", *count_));
    }
    if (found_.empty() && may_be_something_else()) return NumberedNames();
    if (found_.empty()) return error(first_line_, expected(), "\"the end of the file\"");
    return in_order();
  }

 private:
  [[nodiscard]] std::string_view expected() const {
    return layout_ == NamesLayout::kOpenKe ? "name<TAB>number" : "number<TAB>name";
  }
  /// DGL-KE's own .tsv have names that other tables may have, too.
  [[nodiscard]] bool may_be_something_else() const {
    return std::filesystem::path(path_).filename().string().find(".tsv") != std::string::npos;
  }

  [[nodiscard]] absl::Status error(std::uint64_t line, std::string_view expected,
                                   std::string_view found) const {
    return absl::InvalidArgumentError(
        fmt::format("{}:{}: expected {}, found {}", path_, line, expected, found));
  }

  absl::Status read_count(LineReader& lines) {
    std::string_view line;
    const absl::StatusOr<bool> more = lines.next(line);
    if (!more.ok()) return more.status();
    std::string_view rest = *more ? line : std::string_view();
    count_ = base::parse_decimal<std::uint64_t>(next_field(rest));
    if (count_ && is_all_blank(rest)) return absl::OkStatus();
    return lines.error(fmt::format("the number of {}", part_.all), *more ? line : "the end of the file");
  }

  std::optional<NumberedName> split(std::string_view line) {
    return layout_ == NamesLayout::kOpenKe ? split_for_openke(line) : split_for_dgl_ke(line);
  }

  /// The number is behind the last blank: names may have blanks.
  static std::optional<NumberedName> split_for_openke(std::string_view line) {
    line = trimmed(line);
    const std::size_t blank = line.find_last_of(kBlanks);
    if (blank == std::string_view::npos) return std::nullopt;
    const auto number = base::parse_decimal<std::uint64_t>(line.substr(blank + 1));
    return checked(number, trimmed(line.substr(0, blank)));
  }

  std::optional<NumberedName> split_for_dgl_ke(std::string_view line) {
    if (!separator_) {
      for (const Separator& each : kTripleSeparators) {
        if (base::parse_decimal<std::uint64_t>(trimmed(line.substr(0, line.find(each.text))))) {
          separator_ = each;
          break;
        }
      }
      if (!separator_) return std::nullopt;
    }
    if (trims_fields(*separator_)) line = trimmed(line);
    while (line.ends_with('\t')) line.remove_suffix(1);  // no name has one
    // Not all who write such files quote names that begin with a quote.
    const Separator plain = {separator_->text, separator_->name};
    if (!parts_.split(line, *separator_) && !parts_.split(line, plain)) return std::nullopt;
    if (parts_.count() != 2) return std::nullopt;
    const std::string_view field = parts_.fields()[1];
    std::optional<NumberedName> found =
        checked(base::parse_decimal<std::uint64_t>(trimmed(parts_.fields()[0])),
                trims_fields(*separator_) ? trimmed(field) : field);
    if (found && !separator_->quotes) {
      found->second = unquoted(found->name);
      if (found->second.empty() && trimmed(found->name) != found->name) found->second = trimmed(found->name);
    }
    return found;
  }

  /// DGL-KE's training takes quotes for a part of the name, but its predictions, for which embeddings are
  /// exported, read a name in quotes as CSV has it.
  std::string unquoted(std::string_view name) {
    const Separator quoting = {separator_->text, separator_->name, true};
    if (!name.starts_with('"') || !parts_.split(name, quoting) || parts_.count() != 1) return {};
    return std::string(parts_.fields()[0]);
  }

  /// Names with tabs could not be saved.
  static std::optional<NumberedName> checked(std::optional<std::uint64_t> number, std::string_view name) {
    if (!number || name.empty() || name.find('\t') != std::string_view::npos) return std::nullopt;
    return NumberedName{.number = *number, .name = std::string(name), .second = {}};
  }

  absl::StatusOr<NumberedNames> in_order() {
    const std::size_t size = found_.size();
    if (size >= std::numeric_limits<std::uint32_t>::max())
      return error(1, fmt::format("fewer than 2^32 {}", part_.all), "more");
    NumberedNames result{.path = path_, .names = std::vector<std::string>(size)};
    result.numbers.reserve(size);
    for (std::size_t i = 0; i < size; ++i) {
      auto& [number, name, second] = found_[i];
      if (number >= size || !result.names[number].empty()) {
        return error(first_line_ + i,
                     fmt::format("a number from 0 to {} that no other {} has", size - 1, part_.one),
                     fmt::format("{}", number));
      }
      if (!result.numbers.emplace(name, static_cast<std::uint32_t>(number)).second) {
        return error(first_line_ + i, fmt::format("a name that no other {} has", part_.one),
                     fmt::format("\"{}\"", LineReader::printable(name)));
      }
      result.names[number] = std::move(name);
    }
    // Behind all names, which come first.
    for (auto& [number, name, second] : found_) {
      if (second.empty()) continue;
      if (result.numbers.emplace(std::move(second), static_cast<std::uint32_t>(number)).second)
        result.have_second_names = true;
    }
    return result;
  }

  std::string path_;
  NamesLayout layout_;
  NumberedPart part_;
  std::optional<std::uint64_t> count_;  ///< that the first line says
  std::uint64_t first_line_ = 1;        ///< of the names
  std::optional<Separator> separator_;
  SplitLine parts_;
  std::vector<NumberedName> found_;
};

}  // namespace

std::vector<std::string> numbered_names_files(const std::string& folder, NamesLayout layout) {
  std::vector<std::string> all;
  for (const NumberedPart& part : {kNumberedEntities, kNumberedRelations}) {
    for (std::string& path : paths_of(folder, layout, part)) all.push_back(std::move(path));
  }
  return all;
}

absl::StatusOr<NumberedNames> read_numbered_names(const std::string& folder, NamesLayout layout,
                                                  const NumberedPart& part) {
  for (const std::string& path : paths_of(folder, layout, part)) {
    std::error_code error;
    if (std::filesystem::exists(path, error)) return NamesReader(path, layout, part).read();
  }
  return NumberedNames();
}

}  // namespace verbena::apps
