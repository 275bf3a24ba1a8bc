#include "apps/data/triples.hpp"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "apps/data/line_reader.hpp"
#include "apps/data/name_ids.hpp"

namespace verbena::apps {
namespace {

constexpr std::array<std::string_view, 4> kEndings = {".txt", ".txt.gz", ".tsv", ".tsv.gz"};
constexpr std::string_view kTripleFields = "head<TAB>relation<TAB>tail";

absl::StatusOr<std::string> find_file(const std::string& folder, std::string_view name) {
  for (const std::string_view ending : kEndings) {
    std::string path = fmt::format("{}/{}{}", folder, name, ending);
    std::error_code error;
    if (std::filesystem::exists(path, error)) return path;
  }
  return absl::NotFoundError(
      fmt::format("{}: expected a folder with a file {}.txt, {}.tsv or one of them with .gz, found none",
                  folder, name, name));
}

class TriplesReader {
 public:
  explicit TriplesReader(KnowledgeGraph& graph)
      : entities_(graph.entity_names), relations_(graph.relation_names) {}

  absl::Status read(const std::string& folder, std::string_view name, const ReadProgress& progress,
                    std::vector<Triple>& triples) {
    const absl::StatusOr<std::string> path = find_file(folder, name);
    if (!path.ok()) return path.status();
    absl::StatusOr<LineReader> lines = LineReader::open(*path, progress);
    if (!lines.ok()) return lines.status();
    bool ended = false;  // blank lines are at home at the end of a file only
    std::string_view line;
    for (;;) {
      const absl::StatusOr<bool> more = lines->next(line);
      if (!more.ok()) return more.status();
      if (!*more) break;
      if (line.empty() && lines->line_number() > 1) {
        ended = true;
        continue;
      }
      if (ended) return lines->error(kTripleFields, "an empty line before this");
      if (absl::Status status = read_line(*lines, line, triples); !status.ok()) return status;
    }
    if (!triples.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(fmt::format("{}:{}: expected {}, found the end of the file", *path,
                                                  lines->line_number() + 1, kTripleFields));
  }

 private:
  absl::Status read_line(const LineReader& lines, std::string_view line, std::vector<Triple>& triples) {
    const std::size_t first = line.find('\t');
    const std::size_t second = first == std::string_view::npos ? first : line.find('\t', first + 1);
    if (second == std::string_view::npos || line.find('\t', second + 1) != std::string_view::npos) {
      return lines.error(kTripleFields, line);
    }
    const std::string_view head = line.substr(0, first);
    const std::string_view relation = line.substr(first + 1, second - first - 1);
    const std::string_view tail = line.substr(second + 1);
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

  NameIds entities_;
  NameIds relations_;
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
    if (absl::Status status = reader.read(folder, name, progress, *triples); !status.ok()) return status;
  }
  return graph;
}

}  // namespace verbena::apps
