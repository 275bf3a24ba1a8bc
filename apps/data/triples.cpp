#include "apps/data/triples.hpp"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "apps/data/known_formats.hpp"
#include "apps/data/line_reader.hpp"
#include "apps/data/name_ids.hpp"
#include "apps/data/triple_layout.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps {
namespace {

constexpr std::array<std::string_view, 6> kEndings = {".txt",    ".txt.gz", ".tsv",
                                                      ".tsv.gz", "2id.txt", "2id.txt.gz"};

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

 private:
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
};

}  // namespace

std::vector<std::string> triple_files(const std::string& folder) {
  std::vector<std::string> paths;
  for (const std::string_view name : {"train", "valid", "test"}) {
    for (const std::string_view ending : kEndings)
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
  return graph;
}

}  // namespace verbena::apps
