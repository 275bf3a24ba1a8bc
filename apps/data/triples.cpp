#include "apps/data/triples.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "apps/data/fields.hpp"
#include "apps/data/known_formats.hpp"
#include "apps/data/line_reader.hpp"
#include "apps/data/name_ids.hpp"
#include "apps/data/triple_layout.hpp"
#include "apps/data/triple_names.hpp"
#include "base/decimal.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps {
namespace {

constexpr std::array<std::string_view, 8> kEndings = {".txt", ".txt.gz", ".tsv",    ".tsv.gz",
                                                      ".csv", ".csv.gz", "2id.txt", "2id.txt.gz"};
constexpr std::array<std::string_view, 3> kFiles = {"train", "valid", "test"};

absl::StatusOr<std::string> find_file(const std::string& folder, std::string_view name) {
  for (const std::string_view ending : kEndings) {
    std::string path = fmt::format("{}/{}{}", folder, name, ending);
    std::error_code error;
    if (std::filesystem::exists(path, error)) return path;
  }
  return absl::NotFoundError(
      fmt::format("{0}: expected a folder with a file {1}.txt, {1}.tsv, {1}.csv, {1}2id.txt or one of them "
                  "with .gz, found "
                  "none",
                  folder, name));
}

/// Of 0 … size − 1.
std::optional<std::uint32_t> number_below(std::size_t size, std::string_view text) {
  const auto number = base::parse_decimal<std::uint64_t>(text);
  if (!number || *number >= size) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

/// Whether all are like "1 | 2 | 3". Lines of Vowpal Wabbit may have two bars, too, but the names of its
/// namespaces touch them.
bool are_between_bars(std::span<const std::string> lines) {
  return std::ranges::all_of(lines, [](std::string_view line) {
    std::size_t bars = 0;
    for (std::size_t bar = line.find('|'); bar != std::string_view::npos; bar = line.find('|', bar + 1)) {
      if (!is_all_blank(line.substr(bar + 1, 1))) return false;
      ++bars;
    }
    return bars == kTripleColumns - 1 || is_all_blank(line);
  });
}

/// The ids of the entities, or of the relations, that triples name.
class TripleIds {
 public:
  TripleIds(const NumberedPart& part, std::vector<std::string>& names)
      : part_(part), names_(names), ids_(names) {}

  [[nodiscard]] const NumberedPart& part() const { return part_; }
  /// From now on, ids are the numbers of the file. `are_numbers`: triples have them, and not the names.
  void take(NumberedNames file, bool are_numbers) {
    names_ = std::move(file.names);
    if (!are_numbers) numbers_ = std::move(file.numbers);  // as large as the names
    have_second_names_ = file.have_second_names;
    path_ = std::move(file.path);
    are_numbers_ = are_numbers;
  }

  /// nullopt: expected() was expected.
  std::optional<std::uint32_t> id(std::string_view field) {
    if (path_.empty()) return ids_.id(field);
    if (are_numbers_) return number_below(names_.size(), trimmed(field));
    auto found = numbers_.find(std::string(field));
    // Blanks around a field are no part of a name that the file has without them.
    if (found == numbers_.end()) found = numbers_.find(std::string(field = trimmed(field)));
    if (found == numbers_.end()) return std::nullopt;
    // As triples spell it.
    if (have_second_names_ && names_[found->second] != field) names_[found->second] = field;
    return found->second;
  }
  [[nodiscard]] std::string expected() const {
    if (path_.empty()) return fmt::format("fewer than 2^32 {}", part_.all);
    if (!are_numbers_) return fmt::format("the name of one of the {} of {}", part_.all, path_);
    return fmt::format("a number from 0 to {}, of one of the {} of {}", names_.size() - 1, part_.all, path_);
  }

  /// The number of each id, if nobody has numbered them, but the names are the numbers from 0 on.
  [[nodiscard]] std::optional<std::vector<std::uint32_t>> numbers_by_names() const {
    if (!path_.empty()) return std::nullopt;
    std::vector<std::uint32_t> numbers;
    std::vector<bool> is_taken(names_.size());
    for (const std::string& name : names_) {
      const std::optional<std::uint32_t> number = number_below(names_.size(), name);
      if (!number || is_taken[*number]) return std::nullopt;
      is_taken[*number] = true;
      numbers.push_back(*number);
    }
    return numbers;
  }
  /// From now on, these are the ids.
  void renumber(std::span<const std::uint32_t> numbers) {
    std::vector<std::string> ordered(names_.size());
    for (std::size_t id = 0; id < names_.size(); ++id) ordered[numbers[id]] = std::move(names_[id]);
    names_ = std::move(ordered);
  }

 private:
  NumberedPart part_;
  std::vector<std::string>& names_;
  NameIds ids_;  ///< without a file
  // Of the file.
  std::string path_;
  absl::flat_hash_map<std::string, std::uint32_t> numbers_;
  bool are_numbers_ = false;
  bool have_second_names_ = false;
};

class TriplesReader {
 public:
  TriplesReader(std::string folder, KnowledgeGraph& graph)
      : folder_(std::move(folder)),
        graph_(graph),
        entities_(kNumberedEntities, graph.entity_names),
        relations_(kNumberedRelations, graph.relation_names) {}

  absl::Status read(const ReadProgress& progress) {
    for (std::size_t n = 0; n < kFiles.size(); ++n) RETURN_IF_ERROR(find_layout_of(n));
    // Files of names count beside the triples of those who write such files.
    const bool have_counts =
        std::ranges::all_of(files_, [](const File& file) { return file.layout.count.has_value(); });
    const NamesLayout names = have_counts ? NamesLayout::kOpenKe : NamesLayout::kDglKe;
    RETURN_IF_ERROR(read_names(names, entities_));
    RETURN_IF_ERROR(read_names(names, relations_));
    if (!have_counts) graph_.unused_files = names_files_of_openke();
    const std::array<std::vector<Triple>*, kFiles.size()> triples = {&graph_.train, &graph_.valid,
                                                                     &graph_.test};
    for (std::size_t n = 0; n < kFiles.size(); ++n)
      RETURN_IF_ERROR(read_file(files_[n], progress, *triples[n]));
    number_by_names();
    return absl::OkStatus();
  }

 private:
  struct File {
    std::string path;
    TripleLayout layout;
    std::vector<std::string> first_lines;
  };

  /// The order of the columns is that of the first file, unless a header says otherwise.
  absl::Status find_layout_of(std::size_t n) {
    const absl::StatusOr<std::string> path = find_file(folder_, kFiles[n]);
    if (!path.ok()) return path.status();
    absl::StatusOr<std::vector<std::string>> first = first_lines(*path, kTriplesLookedAt);
    if (!first.ok()) return first.status();
    if (const FoundFormat found = format_by_shape(*first);
        found.format != Format::kUnknown && found.format != Format::kUci &&
        !(found.format == Format::kVowpalWabbit && are_between_bars(*first))) {
      return wrong_format(*path, "head<TAB>relation<TAB>tail", found);
    }
    const TripleLayout layout = find_triple_layout(*first, usual_);
    files_[n] = {.path = *path, .layout = layout, .first_lines = *std::move(first)};
    if (n > 0) return absl::OkStatus();
    usual_ = {.order = layout.order, .told_by = layout.told_by.empty() ? "as usual" : layout.told_by};
    graph_.format = layout.description();
    if (!layout.told_by.empty()) graph_.format += fmt::format(", {}", layout.told_by);
    return absl::OkStatus();
  }

  /// The names of those that are there.
  [[nodiscard]] std::vector<std::string> names_files_of_openke() const {
    std::vector<std::string> found;
    for (const std::string& path : numbered_names_files(folder_, NamesLayout::kOpenKe)) {
      std::error_code error;
      if (std::filesystem::exists(path, error))
        found.push_back(std::filesystem::path(path).filename().string());
    }
    return found;
  }

  absl::Status read_names(NamesLayout layout, TripleIds& ids) {
    absl::StatusOr<NumberedNames> names = read_numbered_names(folder_, layout, ids.part());
    if (!names.ok()) return names.status();
    if (names->path.empty()) return absl::OkStatus();
    const bool are_numbers = layout == NamesLayout::kOpenKe || train_has_numbers(*names, &ids == &entities_);
    graph_.format +=
        fmt::format(", {} of {} by {}", ids.part().all,
                    std::filesystem::path(names->path).filename().string(), are_numbers ? "number" : "name");
    ids.take(*std::move(names), are_numbers);
    return absl::OkStatus();
  }

  /// Whether the first triples have more numbers than names of the file. Names may be numbers, too.
  bool train_has_numbers(const NumberedNames& names, bool of_entities) {
    const auto& [path, layout, lines] = files_[0];
    std::size_t named = 0;
    std::size_t numbered = 0;
    TripleFields fields;
    for (const std::string& line : lines) {
      if (!layout.split(line, parts_, fields)) continue;
      const auto& [head, relation, tail] = layout.order;
      for (const std::size_t column : of_entities ? std::array{head, tail} : std::array{relation, relation}) {
        const std::string_view field = trimmed(fields[column]);
        if (names.numbers.contains(std::string(field))) ++named;
        if (number_below(names.names.size(), field)) ++numbered;
      }
    }
    return numbered > named;
  }

  absl::Status read_file(const File& file, const ReadProgress& progress, std::vector<Triple>& triples) {
    const TripleLayout& layout = file.layout;
    absl::StatusOr<LineReader> lines = LineReader::open(file.path, progress);
    if (!lines.ok()) return lines.status();
    bool ended = false;  // blank lines are allowed only at the end of a file
    std::string_view line;
    for (;;) {
      const absl::StatusOr<bool> more = lines->next(line);
      if (!more.ok()) return more.status();
      if (!*more) break;
      if (lines->line_number() == 1 && (layout.has_header || layout.count.has_value())) continue;
      if (line.empty() && lines->line_number() > 1) {
        ended = true;
        continue;
      }
      if (ended) return lines->error(layout.description(), "an empty line before this");
      RETURN_IF_ERROR(read_line(*lines, line, layout, triples));
    }
    const std::uint64_t expected = layout.count.value_or(triples.size());
    if (!triples.empty() && triples.size() == expected) return absl::OkStatus();
    const std::string what =
        triples.empty() ? layout.description() : fmt::format("{} triples, as line 1 says", expected);
    const std::string found = triples.empty() ? "" : fmt::format("{} and ", triples.size());
    return absl::InvalidArgumentError(fmt::format("{}:{}: expected {}, found {}the end of the file",
                                                  file.path, lines->line_number() + 1, what, found));
  }

  absl::Status read_line(const LineReader& lines, std::string_view line, const TripleLayout& layout,
                         std::vector<Triple>& triples) {
    TripleFields fields;
    if (!layout.split(line, parts_, fields)) return lines.error(layout.description(), line);
    const auto is_no_name = [](std::string_view field) {
      return field.empty() || field.find('\t') != std::string_view::npos;  // which could not be saved
    };
    if (std::ranges::any_of(fields, is_no_name))
      return lines.error("a name of the head, the relation and the tail, without tabs", line);
    Triple triple;
    const auto take = [&](std::size_t column, TripleIds& ids, std::uint32_t& id) -> absl::Status {
      const std::optional<std::uint32_t> found = ids.id(fields[column]);
      if (!found) return lines.error(ids.expected(), fields[column]);
      id = *found;
      return absl::OkStatus();
    };
    RETURN_IF_ERROR(take(layout.order[0], entities_, triple.head));
    RETURN_IF_ERROR(take(layout.order[1], relations_, triple.relation));
    RETURN_IF_ERROR(take(layout.order[2], entities_, triple.tail));
    triples.push_back(triple);
    return absl::OkStatus();
  }

  void number_by_names() {
    const auto for_triples = [&](const auto& change) {
      for (std::vector<Triple>* const triples : {&graph_.train, &graph_.valid, &graph_.test})
        std::ranges::for_each(*triples, change);
    };
    if (const auto numbers = entities_.numbers_by_names()) {
      for_triples([&](Triple& triple) {
        triple.head = (*numbers)[triple.head];
        triple.tail = (*numbers)[triple.tail];
      });
      entities_.renumber(*numbers);
    }
    if (const auto numbers = relations_.numbers_by_names()) {
      for_triples([&](Triple& triple) { triple.relation = (*numbers)[triple.relation]; });
      relations_.renumber(*numbers);
    }
  }

  std::string folder_;
  KnowledgeGraph& graph_;
  TripleIds entities_;
  TripleIds relations_;
  std::array<File, kFiles.size()> files_;
  TripleLayout usual_;
  SplitLine parts_;
};

}  // namespace

std::vector<std::string> triple_files(const std::string& folder) {
  std::vector<std::string> paths;
  for (const NamesLayout layout : {NamesLayout::kOpenKe, NamesLayout::kDglKe})
    std::ranges::move(numbered_names_files(folder, layout), std::back_inserter(paths));
  for (const std::string_view name : kFiles) {
    for (const std::string_view ending : kEndings)
      paths.push_back(fmt::format("{}/{}{}", folder, name, ending));
  }
  return paths;
}

absl::StatusOr<KnowledgeGraph> read_triples(const std::string& folder, const ReadProgress& progress) {
  KnowledgeGraph graph;
  RETURN_IF_ERROR(TriplesReader(folder, graph).read(progress));
  return graph;
}

}  // namespace verbena::apps
