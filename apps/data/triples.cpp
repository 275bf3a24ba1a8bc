#include "apps/data/triples.hpp"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "apps/data/fields.hpp"
#include "apps/data/known_formats.hpp"
#include "apps/data/line_reader.hpp"
#include "apps/data/name_ids.hpp"
#include "apps/data/triple_layout.hpp"
#include "base/decimal.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps {
namespace {

constexpr std::array<std::string_view, 6> kEndings = {".txt",    ".txt.gz", ".tsv",
                                                      ".tsv.gz", "2id.txt", "2id.txt.gz"};

constexpr std::string_view kEntityNumbers = "entity2id.txt";
constexpr std::string_view kRelationNumbers = "relation2id.txt";
constexpr std::string_view kGzip = ".gz";

/// Reads how many entities or relations an OpenKE file of names has; they are numbered from 0. So many lines
/// must follow the number, so that nothing large is made of a small file.
absl::StatusOr<std::uint64_t> read_count(LineReader& lines, const std::string& path, std::string_view what) {
  std::string_view line;
  absl::StatusOr<bool> more = lines.next(line);
  if (!more.ok()) return more.status();
  std::string_view rest = *more ? line : std::string_view();
  const std::optional<std::uint64_t> count = base::parse_decimal<std::uint64_t>(next_field(rest));
  if (!count || !is_all_blank(rest))
    return lines.error(fmt::format("the number of {}", what), *more ? line : "the end of the file");
  std::uint64_t found = 0;
  for (more = lines.next(line); more.ok() && *more; more = lines.next(line)) {
    if (!line.empty()) ++found;
  }
  if (!more.ok()) return more.status();
  if (found == *count) return found;
  return absl::InvalidArgumentError(
      fmt::format("{}:1: expected the number of {} that follow, {}, found {}", path, what, found, *count));
}

absl::StatusOr<std::string> find_file(const std::string& folder, std::string_view name) {
  for (const std::string_view ending : kEndings) {
    std::string path = fmt::format("{}/{}{}", folder, name, ending);
    std::error_code error;
    if (std::filesystem::exists(path, error)) return path;
  }
  return absl::NotFoundError(fmt::format(
      "{}: expected a folder with a file {}.txt, {}.tsv, {}2id.txt or one of them with .gz, found none",
      folder, name, name, name));
}

class TriplesReader {
 public:
  explicit TriplesReader(KnowledgeGraph& graph)
      : graph_(graph), entities_(graph.entity_names), relations_(graph.relation_names) {}

  absl::Status read(const std::string& folder, std::string_view name, const ReadProgress& progress,
                    std::vector<Triple>& triples) {
    const absl::StatusOr<std::string> path = find_file(folder, name);
    if (!path.ok()) return path.status();
    RETURN_IF_ERROR(find_layout_of(*path));
    has_counts_ = has_counts_ && layout_.count.has_value();
    absl::StatusOr<LineReader> lines = LineReader::open(*path, progress);
    if (!lines.ok()) return lines.status();
    bool ended = false;  // blank lines are allowed only at the end of a file
    std::string_view line;
    for (;;) {
      const absl::StatusOr<bool> more = lines->next(line);
      if (!more.ok()) return more.status();
      if (!*more) break;
      if (lines->line_number() == 1 && (layout_.has_header || layout_.count.has_value())) continue;
      if (line.empty() && lines->line_number() > 1) {
        ended = true;
        continue;
      }
      if (ended) return lines->error(layout_.description(), "an empty line before this");
      RETURN_IF_ERROR(read_line(*lines, line, triples));
    }
    const std::uint64_t expected = layout_.count.value_or(triples.size());
    if (!triples.empty() && triples.size() == expected) return absl::OkStatus();
    const std::string what =
        triples.empty() ? layout_.description() : fmt::format("{} triples, as line 1 says", expected);
    const std::string found = triples.empty() ? "" : fmt::format("{} and ", triples.size());
    return absl::InvalidArgumentError(fmt::format("{}:{}: expected {}, found {}the end of the file", *path,
                                                  lines->line_number() + 1, what, found));
  }

  /// Adds what is in no triple. REQUIRES: all triples have been read.
  absl::Status add_numbered(const std::string& folder) {
    if (!has_counts_) return absl::OkStatus();
    RETURN_IF_ERROR(add_numbered(folder, kEntityNumbers, "entities", graph_.entity_names, entities_));
    return add_numbered(folder, kRelationNumbers, "relations", graph_.relation_names, relations_);
  }

 private:
  static absl::Status add_numbered(const std::string& folder, std::string_view file, std::string_view what,
                                   const std::vector<std::string>& names, NameIds& ids) {
    std::string path = fmt::format("{}/{}", folder, file);
    std::error_code error;
    if (!std::filesystem::exists(path, error)) path += kGzip;
    if (!std::filesystem::exists(path, error)) return absl::OkStatus();
    absl::StatusOr<LineReader> lines = LineReader::open(path);
    if (!lines.ok()) return lines.status();
    const absl::StatusOr<std::uint64_t> count = read_count(*lines, path, what);
    if (!count.ok()) return count.status();
    std::vector<bool> is_named(*count);
    for (const std::string& name : names) {
      const auto number = base::parse_decimal<std::uint64_t>(name);
      if (!number || *number >= *count) {
        return absl::InvalidArgumentError(
            fmt::format("{}:1: expected a number of {} above those of the triples, found {}, and \"{}\" in a "
                        "triple",
                        path, what, *count, LineReader::printable(name)));
      }
      is_named[*number] = true;
    }
    for (std::uint64_t number = 0; number < *count; ++number) {
      if (!is_named[number] && !ids.id(fmt::format("{}", number)).has_value())
        return absl::InvalidArgumentError(fmt::format("{}:1: expected fewer than 2^32 {}", path, what));
    }
    return absl::OkStatus();
  }

  /// The order of the columns is that of the first file, unless a header says otherwise.
  absl::Status find_layout_of(const std::string& path) {
    const absl::StatusOr<std::vector<std::string>> first = first_lines(path, kTriplesLookedAt);
    if (!first.ok()) return first.status();
    if (const FoundFormat found = format_by_shape(*first);
        found.format != Format::kUnknown && found.format != Format::kUci) {
      return wrong_format(path, "head<TAB>relation<TAB>tail", found);
    }
    layout_ = find_triple_layout(*first, first_order_);
    if (!graph_.format.empty()) return absl::OkStatus();
    first_order_ = {.order = layout_.order,
                    .told_by = layout_.told_by.empty() ? "as usual" : layout_.told_by};
    graph_.format = layout_.description();
    if (!layout_.told_by.empty()) graph_.format += fmt::format(", {}", layout_.told_by);
    return absl::OkStatus();
  }

  absl::Status read_line(const LineReader& lines, std::string_view line, std::vector<Triple>& triples) {
    TripleFields fields;
    if (!layout_.split(line, fields)) return lines.error(layout_.description(), line);
    const std::string_view head = fields[layout_.order[0]];
    const std::string_view relation = fields[layout_.order[1]];
    const std::string_view tail = fields[layout_.order[2]];
    if (head.empty() || relation.empty() || tail.empty()) {
      return lines.error("a name of the head, the relation and the tail", line);
    }
    const std::optional<std::uint32_t> head_id = entities_.id(head);
    const std::optional<std::uint32_t> relation_id = relations_.id(relation);
    const std::optional<std::uint32_t> tail_id = entities_.id(tail);
    if (!head_id.has_value() || !relation_id.has_value() || !tail_id.has_value()) {
      return lines.error("fewer than 2^32 entities and relations", "more");
    }
    triples.push_back({*head_id, *relation_id, *tail_id});
    return absl::OkStatus();
  }

  KnowledgeGraph& graph_;
  NameIds entities_;
  NameIds relations_;
  TripleLayout first_order_;
  TripleLayout layout_;
  bool has_counts_ = true;  ///< the triples' files, as OpenKE's have
};

}  // namespace

std::vector<std::string> triple_files(const std::string& folder) {
  std::vector<std::string> paths;
  for (const std::string_view name : {"train", "valid", "test"}) {
    for (const std::string_view ending : kEndings)
      paths.push_back(fmt::format("{}/{}{}", folder, name, ending));
  }
  for (const std::string_view name : {kEntityNumbers, kRelationNumbers}) {
    for (const std::string_view ending : {std::string_view(), kGzip})
      paths.push_back(fmt::format("{}/{}{}", folder, name, ending));
  }
  return paths;
}

absl::StatusOr<KnowledgeGraph> read_triples(const std::string& folder, const ReadProgress& progress) {
  KnowledgeGraph graph;
  TriplesReader reader(graph);
  const std::pair<std::string_view, std::vector<Triple>*> files[] = {
      {"train", &graph.train}, {"valid", &graph.valid}, {"test", &graph.test}};
  for (const auto& [name, triples] : files) {
    RETURN_IF_ERROR(reader.read(folder, name, progress, *triples));
  }
  RETURN_IF_ERROR(reader.add_numbered(folder));
  return graph;
}

}  // namespace verbena::apps
