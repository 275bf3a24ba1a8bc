#include "apps/kge/exports.hpp"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numbers>
#include <span>
#include <utility>

#include "apps/data/array_files.hpp"
#include "apps/data/output_file.hpp"
#include "apps/divergence.hpp"
#include "apps/options/choice_names.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps::kge {
namespace {

constexpr std::array<std::pair<EmbeddingFormat, std::string_view>, 5> kFormats = {
    {{EmbeddingFormat::kText, "text"},
     {EmbeddingFormat::kNpy, "npy"},
     {EmbeddingFormat::kSafetensors, "safetensors"},
     {EmbeddingFormat::kOpenKe, "openke"},
     {EmbeddingFormat::kDglKe, "dgl-ke"}}};

constexpr std::uint64_t kBytesPerJsonNumber = 17;  // "-1.17549435e-38, "
constexpr std::uint64_t kBytesPerRow = 64;         // its name, and what stands around it
constexpr std::uint64_t kBytesOfHeaders = 4096;

/// What DGL-KE adds to gamma, which is 0 in the configuration that is written.
constexpr double kDglKeEpsilon = 2;

/// DGL-KE's names of the models.
std::string_view dgl_ke_name(Model model) {
  switch (model) {
    case Model::kComplEx:
      return "ComplEx";
    case Model::kDistMult:
      return "DistMult";
    case Model::kRescal:
      return "RESCAL";
    case Model::kTransE:
      return "TransE_l1";
    case Model::kRotatE:
      break;
  }
  return "RotatE";
}

/// A file in the folder of the prefix.
std::string beside(const std::string& prefix, std::string_view name) {
  return (std::filesystem::path(prefix).parent_path() / name).string();
}

/// Of an entity or a relation, in a file.
std::size_t numbers_of(const Shape& shape, bool is_entity) {
  if (is_entity) return shape.dimension;
  if (shape.model == Model::kRescal) return shape.dimension * shape.dimension;
  return shape.model == Model::kRotatE ? shape.dimension / 2 : shape.dimension;
}

/// How the numbers of a row are arranged.
enum class Arrangement : std::uint8_t {
  kPlain,      ///< as in memory, without padding
  kRealFirst,  ///< all real parts, then all imaginary ones
};

/// The entities or the relations.
class ExportedRows {
 public:
  ExportedRows(const Embeddings& embeddings, bool are_entities)
      : embeddings_(embeddings), are_entities_(are_entities) {}

  [[nodiscard]] std::size_t size() const {
    return are_entities_ ? embeddings_.entities() : embeddings_.relations();
  }
  [[nodiscard]] bool is_matrix() const { return !are_entities_ && model() == Model::kRescal; }
  [[nodiscard]] bool is_complex() const {
    return kge::is_complex(model()) && (are_entities_ || model() == Model::kComplEx);
  }
  /// Of a row, in the file.
  [[nodiscard]] std::size_t numbers() const { return numbers_of(embeddings_.shape(), are_entities_); }
  /// With a row for each, or a matrix.
  [[nodiscard]] ArrayShape shape(std::string name) const {
    ArrayShape shape{.name = std::move(name), .type = kFloatElement, .shape = {size(), numbers()}};
    if (is_matrix()) shape.shape = {size(), dimension(), dimension()};
    return shape;
  }
  /// With a row for each, also of matrices.
  [[nodiscard]] ArrayShape flat_shape() const {
    return {.name = {}, .type = kFloatElement, .shape = {size(), numbers()}};
  }
  /// The numbers of a row.
  void read(std::size_t id, Arrangement arrangement, float factor, std::vector<float>& row) const {
    const float* const from = are_entities_ ? embeddings_.entity(id) : embeddings_.relation(id);
    const std::size_t count = numbers();
    row.clear();
    for (std::size_t k = 0; k < count; ++k) {
      std::size_t number = k;
      if (arrangement == Arrangement::kRealFirst && is_complex())
        number = k < count / 2 ? 2 * k : 2 * (k - count / 2) + 1;
      if (is_matrix()) number = k / dimension() * padded(dimension()) + k % dimension();
      row.push_back(factor * from[number]);
    }
  }

 private:
  [[nodiscard]] Model model() const { return embeddings_.shape().model; }
  [[nodiscard]] std::size_t dimension() const { return embeddings_.shape().dimension; }

  const Embeddings& embeddings_;
  bool are_entities_;
};

void write_rows(OutputFile& file, const ExportedRows& part, Arrangement arrangement, float factor = 1) {
  std::vector<float> row;
  for (std::size_t id = 0; id < part.size(); ++id) {
    part.read(id, arrangement, factor, row);
    file.write(as_text(std::span<const float>(row)));
  }
}

void write_names(OutputFile& file, const std::vector<std::string>& names) {
  for (const std::string& name : names) file.write(name + '\n');
}

/// As Python's csv.reader() reads it: a quote at the beginning of a field would be none of the name, and text
/// up to the next one would belong to it; a line's end would end it.
std::string quoted(const std::string& name) {
  if (name.find_first_of("\"\r\n") == std::string::npos) return name;
  std::string text = "\"";
  for (const char c : name) {
    if (c == '"') text += '"';
    text += c;
  }
  return text + '"';
}

/// A number, a tab and a name a line, for csv.reader(), which is how DGL-KE reads them.
void write_numbered_names(OutputFile& file, const std::vector<std::string>& names) {
  for (std::size_t id = 0; id < names.size(); ++id)
    file.write(fmt::format("{}\t{}\n", id, quoted(names[id])));
}

/// How many there are; then a name, a tab and a number a line.
void write_names_for_openke(OutputFile& file, const std::vector<std::string>& names) {
  file.write(fmt::format("{}\n", names.size()));
  for (std::size_t id = 0; id < names.size(); ++id) file.write(fmt::format("{}\t{}\n", names[id], id));
}

/// A parameter of a module of OpenKE: numbers [first, last) of each row.
void write_parameter(OutputFile& file, std::string_view name, const ExportedRows& part, std::size_t first,
                     std::size_t last) {
  file.write(fmt::format("\"{}\": [", name));
  std::vector<float> row;
  fmt::memory_buffer text;
  for (std::size_t id = 0; id < part.size(); ++id) {
    part.read(id, Arrangement::kRealFirst, 1, row);
    text.clear();
    const auto out = std::back_inserter(text);
    text.append(std::string_view(id == 0 ? "[" : ", ["));
    for (std::size_t k = first; k < last; ++k) fmt::format_to(out, "{}{}", k == first ? "" : ", ", row[k]);
    text.push_back(']');
    file.write({text.data(), text.size()});
  }
  file.write("]");
}

void write_for_openke(OutputFile& file, Model model, const ExportedRows& entities,
                      const ExportedRows& relations) {
  file.write("{");
  const std::size_t half = entities.numbers() / 2;
  if (model == Model::kComplEx) {
    write_parameter(file, "ent_re_embeddings.weight", entities, 0, half);
    file.write(", ");
    write_parameter(file, "ent_im_embeddings.weight", entities, half, 2 * half);
    file.write(", ");
    write_parameter(file, "rel_re_embeddings.weight", relations, 0, half);
    file.write(", ");
    write_parameter(file, "rel_im_embeddings.weight", relations, half, 2 * half);
  } else {
    write_parameter(file, "ent_embeddings.weight", entities, 0, entities.numbers());
    file.write(", ");
    write_parameter(file, model == Model::kRescal ? "rel_matrices.weight" : "rel_embeddings.weight",
                    relations, 0, relations.numbers());
  }
  // What OpenKE takes for half a turn.
  if (model == Model::kRotatE)
    file.write(fmt::format(", \"rel_embedding_range\": [{}]", std::numbers::pi_v<float>));
  file.write("}\n");
}

/// What DGL-KE's tools want to know of a model.
std::string configuration_for_dgl_ke(const std::string& prefix, const Shape& shape) {
  const bool has_angles = shape.model == Model::kRotatE;
  return nlohmann::json{{"model", dgl_ke_name(shape.model)},
                        {"dataset", std::filesystem::path(prefix).filename().string()},
                        {"emb_size", has_angles ? shape.dimension / 2 : shape.dimension},
                        {"double_ent", has_angles},
                        {"double_rel", false},
                        {"gamma", 0.0},
                        {"emap_file", "entities.tsv"},
                        {"rmap_file", "relations.tsv"}}
             .dump(4, ' ', false, nlohmann::json::error_handler_t::replace) +
         "\n";
}

/// DGL-KE keeps angles in a unit that follows from gamma and the number of angles.
float dgl_ke_factor(const Shape& shape) {
  if (shape.model != Model::kRotatE) return 1;
  return static_cast<float>(kDglKeEpsilon / (static_cast<double>(shape.dimension) / 2) / std::numbers::pi);
}

absl::Status check_finite(const std::string& prefix, const ExportedRows& part) {
  std::vector<float> row;
  for (std::size_t id = 0; id < part.size(); ++id) {
    part.read(id, Arrangement::kPlain, 1, row);
    if (!all_finite(row)) return diverged(fmt::format("{}: not written: {}", prefix, kNoNumbers));
  }
  return absl::OkStatus();
}

}  // namespace

std::string_view to_string(EmbeddingFormat format) {
  return name_of(kFormats, format);
}

std::optional<EmbeddingFormat> parse_embedding_format(std::string_view name) {
  return choice_of(kFormats, name);
}

std::vector<std::string> files_of(const std::string& prefix, EmbeddingFormat format, Model model) {
  switch (format) {
    case EmbeddingFormat::kText:
      break;
    case EmbeddingFormat::kNpy:
      return {prefix + ".entities.npy", prefix + ".relations.npy", prefix + ".entities.txt",
              prefix + ".relations.txt"};
    case EmbeddingFormat::kSafetensors:
      return {prefix + ".safetensors", prefix + ".entities.txt", prefix + ".relations.txt"};
    case EmbeddingFormat::kOpenKe:
      return {prefix + ".json", beside(prefix, "entity2id.txt"), beside(prefix, "relation2id.txt")};
    case EmbeddingFormat::kDglKe:
      return {fmt::format("{}_{}_entity.npy", prefix, dgl_ke_name(model)),
              fmt::format("{}_{}_relation.npy", prefix, dgl_ke_name(model)), beside(prefix, "entities.tsv"),
              beside(prefix, "relations.tsv"), beside(prefix, "config.json")};
  }
  return {entities_path(prefix), relations_path(prefix)};
}

std::uint64_t files_bytes(EmbeddingFormat format, const Shape& shape, std::size_t entities,
                          std::size_t relations) {
  if (format == EmbeddingFormat::kText)
    return entities_file_bytes(shape, entities) + relations_file_bytes(shape, relations);
  const std::uint64_t bytes_per_number =
      format == EmbeddingFormat::kOpenKe ? kBytesPerJsonNumber : sizeof(float);
  return kBytesOfHeaders + kBytesPerRow * (entities + relations) +
         bytes_per_number * (entities * numbers_of(shape, true) + relations * numbers_of(shape, false));
}

bool has_fixed_names(EmbeddingFormat format) {
  return format == EmbeddingFormat::kOpenKe || format == EmbeddingFormat::kDglKe;
}

absl::Status save_as(EmbeddingFormat format, const std::string& prefix, const Embeddings& embeddings,
                     const Names& names) {
  if (format == EmbeddingFormat::kText) return save(prefix, embeddings, names);
  const Shape& shape = embeddings.shape();
  const ExportedRows entities(embeddings, true);
  const ExportedRows relations(embeddings, false);
  for (const ExportedRows* part : {&entities, &relations}) RETURN_IF_ERROR(check_finite(prefix, *part));
  std::vector<OutputFile> files;
  for (const std::string& path : files_of(prefix, format, shape.model)) {
    absl::StatusOr<OutputFile> file = OutputFile::create(path);
    if (!file.ok()) return file.status();
    files.push_back(*std::move(file));
  }
  switch (format) {
    case EmbeddingFormat::kText:
      break;
    case EmbeddingFormat::kNpy:
      files[0].write(npy_header(entities.shape({})));
      write_rows(files[0], entities, Arrangement::kPlain);
      files[1].write(npy_header(relations.shape({})));
      write_rows(files[1], relations, Arrangement::kPlain);
      write_names(files[2], names.entities);
      write_names(files[3], names.relations);
      break;
    case EmbeddingFormat::kSafetensors: {
      const std::array<ArrayShape, 2> arrays = {entities.shape("entities"), relations.shape("relations")};
      const absl::StatusOr<std::string> header = safetensors_header(arrays);
      if (!header.ok()) return header.status();
      files[0].write(*header);
      write_rows(files[0], entities, Arrangement::kPlain);
      write_rows(files[0], relations, Arrangement::kPlain);
      write_names(files[1], names.entities);
      write_names(files[2], names.relations);
      break;
    }
    case EmbeddingFormat::kOpenKe:
      write_for_openke(files[0], shape.model, entities, relations);
      write_names_for_openke(files[1], names.entities);
      write_names_for_openke(files[2], names.relations);
      break;
    case EmbeddingFormat::kDglKe:
      files[0].write(npy_header(entities.flat_shape()));
      write_rows(files[0], entities, Arrangement::kRealFirst);
      files[1].write(npy_header(relations.flat_shape()));
      write_rows(files[1], relations, Arrangement::kRealFirst, dgl_ke_factor(shape));
      write_numbered_names(files[2], names.entities);
      write_numbered_names(files[3], names.relations);
      files[4].write(configuration_for_dgl_ke(prefix, shape));
      break;
  }
  for (OutputFile& file : files) RETURN_IF_ERROR(file.commit());
  return absl::OkStatus();
}

}  // namespace verbena::apps::kge
