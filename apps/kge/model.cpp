#include "apps/kge/model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <iterator>
#include <numbers>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "apps/data/fields.hpp"
#include "apps/data/line_reader.hpp"
#include "apps/data/numbers.hpp"
#include "apps/data/output_file.hpp"
#include "apps/data/random.hpp"
#include "apps/divergence.hpp"
#include "apps/enough_memory.hpp"
#include "apps/options/choice_names.hpp"
#include "base/decimal.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps::kge {
namespace {

constexpr double kInitialDeviation = 0.1;
/// Angles are uniform in [−π, π).
constexpr double kAngleDeviation = std::numbers::pi / std::numbers::sqrt3;
constexpr std::size_t kWrittenBytesAtOnce = std::size_t{1} << 20;
constexpr std::uint64_t kBytesPerNumber = 16;  // "-1.17549435e-38" and a tab
constexpr std::uint64_t kBytesPerName = 64;
constexpr std::string_view kMagic = "# verbena kge 1";

constexpr std::array<std::pair<Model, std::string_view>, 5> kModels = {{{Model::kComplEx, "complex"},
                                                                        {Model::kDistMult, "distmult"},
                                                                        {Model::kRescal, "rescal"},
                                                                        {Model::kTransE, "transe"},
                                                                        {Model::kRotatE, "rotate"}}};

/// The numbers of a row that are not padding: `lines` times `dimension`, each line padded.
struct Layout {
  std::size_t lines = 1;
  std::size_t dimension = 1;
  [[nodiscard]] std::size_t numbers() const { return lines * dimension; }
  [[nodiscard]] std::size_t place(std::size_t number) const {
    return number / dimension * padded(dimension) + number % dimension;
  }
};

Layout entity_layout(const Shape& shape) {
  return {.lines = 1, .dimension = shape.dimension};
}
Layout relation_layout(const Shape& shape) {
  if (shape.model == Model::kRescal) return {.lines = shape.dimension, .dimension = shape.dimension};
  return {.lines = 1, .dimension = shape.model == Model::kRotatE ? shape.dimension / 2 : shape.dimension};
}

RowSource random_source(const Layout& layout, std::size_t rows, std::size_t width, double deviation,
                        std::uint64_t seed) {
  return {.rows = rows, .width = width, .make = [=](std::size_t id, std::span<float> row) {
            assert(row.size() == width);
            std::fill(row.begin(), row.end(), 0.0F);
            for (std::size_t k = 0; k < layout.numbers(); ++k) {
              // A uniform distribution on [−√3, √3) has deviation 1.
              row[layout.place(k)] =
                  static_cast<float>(random_number(seed, id, k) * std::sqrt(3.0) * deviation);
            }
          }};
}

std::string header(const Shape& shape, std::string_view what, std::size_t rows) {
  return fmt::format("{}\tmodel={}\tdimension={}\t{}={}", kMagic, to_string(shape.model), shape.dimension,
                     what, rows);
}

/// One of the two files.
struct Part {
  std::string path;
  std::string_view what;  ///< what its rows are, in the plural
  const std::vector<std::string>& names;
  Layout layout;
};
Part entity_part(const std::string& prefix, const Shape& shape, const Names& names) {
  return {entities_path(prefix), "entities", names.entities, entity_layout(shape)};
}
Part relation_part(const std::string& prefix, const Shape& shape, const Names& names) {
  return {relations_path(prefix), "relations", names.relations, relation_layout(shape)};
}

template <class RowOf>
bool is_finite(const Part& part, const RowOf& row_of) {
  for (std::size_t id = 0; id < part.names.size(); ++id) {
    for (std::size_t k = 0; k < part.layout.numbers(); ++k) {
      if (!std::isfinite(row_of(id)[part.layout.place(k)])) return false;
    }
  }
  return true;
}

template <class RowOf>
void write_part(OutputFile& file, const Part& part, const Shape& shape, const RowOf& row_of) {
  fmt::memory_buffer text;
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "{}\n", header(shape, part.what, part.names.size()));
  for (std::size_t id = 0; id < part.names.size(); ++id) {
    text.append(part.names[id]);
    for (std::size_t k = 0; k < part.layout.numbers(); ++k) {
      fmt::format_to(out, "\t{}", row_of(id)[part.layout.place(k)]);
    }
    text.push_back('\n');
    if (text.size() < kWrittenBytesAtOnce) continue;
    file.write({text.data(), text.size()});
    text.clear();
  }
  file.write({text.data(), text.size()});
}

class PartReader {
 public:
  PartReader(const Part& part, const Shape& shape, LineReader lines)
      : part_(part), shape_(shape), lines_(std::move(lines)), left_(part.names.size()) {
    for (std::size_t id = 0; id < part.names.size(); ++id) ids_.emplace(part.names[id], id);
  }

  template <class RowOf>
  absl::Status read(const RowOf& row_of) {
    std::string_view line;
    const std::string expected = header(shape_, part_.what, part_.names.size());
    absl::StatusOr<bool> more = lines_.next(line);
    if (!more.ok()) return more.status();
    if (!*more || line != expected) {
      return lines_.error(fmt::format("\"{}\"", expected), *more ? line : "the end of the file");
    }
    for (; left_ > 0; --left_) {
      more = lines_.next(line);
      if (!more.ok()) return more.status();
      if (!*more) break;
      RETURN_IF_ERROR(read_row(line, row_of));
    }
    if (left_ > 0) {
      return absl::InvalidArgumentError(fmt::format("{}:{}: expected {} more {}, found the end of the file",
                                                    part_.path, lines_.line_number() + 1, left_, part_.what));
    }
    more = lines_.next(line);
    if (!more.ok()) return more.status();
    return *more ? lines_.error(
                       fmt::format("the end of the file after {} {}", part_.names.size(), part_.what), line)
                 : absl::OkStatus();
  }

 private:
  template <class RowOf>
  absl::Status read_row(std::string_view line, const RowOf& row_of) {
    const std::string_view name = take_before(line, '\t');
    key_.assign(name);
    const auto found = ids_.find(key_);
    if (found == ids_.end()) {
      return lines_.error(fmt::format("the name of one of the data's {}, each once", part_.what), name);
    }
    float* const row = row_of(found->second);
    ids_.erase(found);
    for (std::size_t k = 0; k < part_.layout.numbers(); ++k) {
      const std::string_view field = take_before(line, '\t');
      const std::optional<float> number = parse_float(field);
      if (!number) {
        return lines_.error(fmt::format("{} numbers after the name", part_.layout.numbers()), field);
      }
      row[part_.layout.place(k)] = *number;
    }
    if (line.empty()) return absl::OkStatus();
    return lines_.error(fmt::format("{} numbers after the name", part_.layout.numbers()), "more");
  }

  const Part& part_;
  Shape shape_;
  LineReader lines_;
  std::size_t left_;
  absl::flat_hash_map<std::string, std::size_t> ids_;  // of names that have not come yet
  std::string key_;
};

template <class RowOf>
absl::Status load_part(const Part& part, const Shape& shape, const RowOf& row_of) {
  absl::StatusOr<LineReader> lines = LineReader::open(part.path);
  if (!lines.ok()) return lines.status();
  return PartReader(part, shape, *std::move(lines)).read(row_of);
}

/// What the first line says of the rows that follow.
struct Header {
  Shape shape;
  std::uint64_t rows = 0;
};

/// nullopt: it is no header of `what`.
std::optional<Header> parse_header(std::string_view line, std::string_view what) {
  const auto value_of = [&](std::string_view name) -> std::string_view {
    std::string_view rest = line;
    while (!rest.empty()) {
      const std::string_view field = take_before(rest, '\t');
      if (field.starts_with(name) && field.substr(name.size()).starts_with('='))
        return field.substr(name.size() + 1);
    }
    return {};
  };
  const std::optional<Model> model = parse_model(value_of("model"));
  const auto dimension = base::parse_decimal<std::size_t>(value_of("dimension"));
  const auto rows = base::parse_decimal<std::uint64_t>(value_of(what));
  if (!model || !dimension || !rows) return std::nullopt;
  const Header found{.shape = {.model = *model, .dimension = *dimension}, .rows = *rows};
  const bool is_possible = *dimension >= 1 && *dimension <= most_dimension(*model) &&
                           (!is_complex(*model) || *dimension % 2 == 0) && *rows >= 1;
  if (!is_possible || line != header(found.shape, what, found.rows)) return std::nullopt;
  return found;
}

/// Reads the first line, and the names of the rows. Each row has as many fields as it should, so that the
/// memory for its numbers is in proportion to the file; whether they are numbers, load() sees.
absl::StatusOr<Header> read_names(const std::string& path, std::string_view what,
                                  Layout (*layout_of)(const Shape& shape), std::vector<std::string>& names) {
  absl::StatusOr<LineReader> lines = LineReader::open(path);
  if (!lines.ok()) return lines.status();
  std::string_view line;
  absl::StatusOr<bool> more = lines->next(line);
  if (!more.ok()) return more.status();
  const std::string_view first = *more ? line : "the end of the file";
  const std::optional<Header> found = parse_header(first, what);
  if (!found) {
    return lines->error(fmt::format("\"{}\", model=, dimension= and {}=, separated by tabs", kMagic, what),
                        first);
  }
  const std::size_t numbers = layout_of(found->shape).numbers();
  for (more = lines->next(line); more.ok() && *more; more = lines->next(line)) {
    if (names.size() == found->rows)
      return lines->error(fmt::format("the end of the file after {} {}", found->rows, what), line);
    const auto fields = static_cast<std::size_t>(std::count(line.begin(), line.end(), '\t'));
    if (fields != numbers) {
      return lines->error(fmt::format("{} numbers after the name, each after a tab", numbers),
                          fmt::format("{}", fields));
    }
    names.emplace_back(take_before(line, '\t'));
  }
  if (!more.ok()) return more.status();
  if (names.size() == found->rows) return *found;
  return absl::InvalidArgumentError(fmt::format("{}:{}: expected {} more {}, found the end of the file", path,
                                                lines->line_number() + 1, found->rows - names.size(), what));
}

std::uint64_t file_bytes(const Layout& layout, std::size_t rows) {
  return (rows + 1) * (kBytesPerName + layout.numbers() * kBytesPerNumber);
}

}  // namespace

Embeddings::Embeddings(const Shape& shape, std::size_t entities, std::size_t relations)
    : shape_(shape),
      entity_count_(entities),
      relation_count_(relations),
      entities_(aligned_floats(entities * shape.entity_size())),
      relations_(aligned_floats(relations * shape.relation_size())) {}

RowSources random_rows(const Shape& shape, std::size_t entities, std::size_t relations, std::uint64_t seed) {
  const double relation_deviation = shape.model == Model::kRotatE ? kAngleDeviation : kInitialDeviation;
  return {random_source(entity_layout(shape), entities, shape.entity_width(), kInitialDeviation, mix(seed)),
          random_source(relation_layout(shape), relations, shape.relation_width(), relation_deviation,
                        mix(mix(seed)))};
}

RowSources rows_from(const Embeddings& embeddings) {
  const auto source = [](std::size_t rows, std::size_t width, auto row_of) {
    return RowSource{.rows = rows, .width = width, .make = [=](std::size_t id, std::span<float> row) {
                       std::copy_n(row_of(id), width / 2, row.begin());
                       std::fill(row.begin() + static_cast<std::ptrdiff_t>(width / 2), row.end(), 0.0F);
                     }};
  };
  const Shape& shape = embeddings.shape();
  return {source(embeddings.entities(), shape.entity_width(),
                 [&embeddings](std::size_t id) { return embeddings.entity(id); }),
          source(embeddings.relations(), shape.relation_width(),
                 [&embeddings](std::size_t id) { return embeddings.relation(id); })};
}

std::size_t most_dimension(Model model) {
  constexpr std::size_t kMost = 65'535;
  constexpr std::size_t kMostRescal = 1'024;  // a relation's row is its square
  return model == Model::kRescal ? kMostRescal : kMost;
}

std::string_view to_string(Model model) {
  return name_of(kModels, model);
}

std::optional<Model> parse_model(std::string_view name) {
  return choice_of(kModels, name);
}

std::string entities_path(const std::string& prefix) {
  return prefix + ".entities.tsv";
}
std::string relations_path(const std::string& prefix) {
  return prefix + ".relations.tsv";
}
std::uint64_t entities_file_bytes(const Shape& shape, std::size_t entities) {
  return file_bytes(entity_layout(shape), entities);
}
std::uint64_t relations_file_bytes(const Shape& shape, std::size_t relations) {
  return file_bytes(relation_layout(shape), relations);
}

absl::Status save(const std::string& prefix, const Embeddings& embeddings, const Names& names) {
  const Part entities = entity_part(prefix, embeddings.shape(), names);
  const Part relations = relation_part(prefix, embeddings.shape(), names);
  absl::StatusOr<OutputFile> entity_file = OutputFile::create(entities.path);
  if (!entity_file.ok()) return entity_file.status();
  absl::StatusOr<OutputFile> relation_file = OutputFile::create(relations.path);
  if (!relation_file.ok()) return relation_file.status();
  const auto entity = [&](std::size_t id) { return embeddings.entity(id); };
  const auto relation = [&](std::size_t id) { return embeddings.relation(id); };
  for (const auto& [part, finite] :
       {std::pair(&entities, is_finite(entities, entity)), {&relations, is_finite(relations, relation)}}) {
    if (!finite) return diverged(fmt::format("{}: not written: {}", part->path, kNoNumbers));
  }
  write_part(*entity_file, entities, embeddings.shape(), entity);
  write_part(*relation_file, relations, embeddings.shape(), relation);
  RETURN_IF_ERROR(entity_file->commit());
  return relation_file->commit();
}

absl::StatusOr<Embeddings> load(const std::string& prefix, const Shape& shape, const Names& names) {
  Embeddings embeddings(shape, names.entities.size(), names.relations.size());
  absl::Status status = load_part(entity_part(prefix, shape, names), shape,
                                  [&](std::size_t id) { return embeddings.entity(id); });
  if (!status.ok()) return status;
  status = load_part(relation_part(prefix, shape, names), shape,
                     [&](std::size_t id) { return embeddings.relation(id); });
  if (!status.ok()) return status;
  return embeddings;
}

absl::StatusOr<SavedModel> load(const std::string& prefix) {
  std::vector<std::string> entities;
  std::vector<std::string> relations;
  const absl::StatusOr<Header> of_entities =
      read_names(entities_path(prefix), "entities", entity_layout, entities);
  if (!of_entities.ok()) return of_entities.status();
  const absl::StatusOr<Header> of_relations =
      read_names(relations_path(prefix), "relations", relation_layout, relations);
  if (!of_relations.ok()) return of_relations.status();
  const Shape& shape = of_entities->shape;
  const double bytes =
      sizeof(float) * (static_cast<double>(entities.size()) * static_cast<double>(shape.entity_size()) +
                       static_cast<double>(relations.size()) * static_cast<double>(shape.relation_size()));
  RETURN_IF_ERROR(check_memory(bytes, fmt::format("{}: these embeddings need", prefix), "smaller ones"));
  absl::StatusOr<Embeddings> embeddings = load(prefix, shape, {entities, relations});
  if (!embeddings.ok()) return embeddings.status();
  return SavedModel{.embeddings = *std::move(embeddings),
                    .entity_names = std::move(entities),
                    .relation_names = std::move(relations)};
}

}  // namespace verbena::apps::kge
