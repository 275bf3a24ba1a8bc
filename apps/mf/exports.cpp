#include "apps/mf/exports.hpp"

#include <array>
#include <span>
#include <utility>

#include "apps/data/array_files.hpp"
#include "apps/data/output_file.hpp"
#include "apps/options/choice_names.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps::mf {
namespace {

constexpr std::array<std::pair<FactorFormat, std::string_view>, 3> kFormats = {
    {{FactorFormat::kText, "text"},
     {FactorFormat::kNpy, "npy"},
     {FactorFormat::kSafetensors, "safetensors"}}};

constexpr std::uint64_t kBytesPerNameLine = 64;
constexpr std::uint64_t kBytesOfHeaders = 4096;

/// The arrays of a model, in the order in which they are written.
std::vector<ArrayShape> arrays_of(const RowFormat& rows, std::size_t users, std::size_t items) {
  std::vector<ArrayShape> arrays = {{.name = "users", .type = kFloatElement, .shape = {users, rows.rank}},
                                    {.name = "items", .type = kFloatElement, .shape = {items, rows.rank}},
                                    {.name = "mean", .type = kFloatElement, .shape = {1}}};
  if (rows.biases) {
    arrays.push_back({.name = "user_biases", .type = kFloatElement, .shape = {users}});
    arrays.push_back({.name = "item_biases", .type = kFloatElement, .shape = {items}});
  }
  return arrays;
}

/// Writes the factors; the biases come into their own array later.
absl::Status write_factors(OutputFile& file, const RowFormat& rows, const Scale& scale, std::size_t count,
                           const RowReader& read, std::vector<float>& biases) {
  return for_saved_rows(rows, scale, count, read, [&](std::size_t /*first*/, std::span<const float> packed) {
    for (std::size_t at = 0; at < packed.size(); at += rows.width()) {
      file.write(as_text(packed.subspan(at, rows.rank)));
      if (rows.biases) biases.push_back(packed[at + rows.rank]);
    }
    return file.status();
  });
}

void write_names(OutputFile& file, const std::vector<std::string>& names) {
  for (const std::string& name : names) file.write(name + '\n');
}

}  // namespace

std::string_view to_string(FactorFormat format) {
  return name_of(kFormats, format);
}

std::optional<FactorFormat> parse_factor_format(std::string_view name) {
  return choice_of(kFormats, name);
}

std::vector<std::string> files_of(const std::string& prefix, FactorFormat format, bool has_biases) {
  if (format == FactorFormat::kText) return {users_path(prefix), items_path(prefix)};
  std::vector<std::string> files = {prefix + ".users.txt", prefix + ".items.txt"};
  if (format == FactorFormat::kSafetensors) {
    files.push_back(prefix + std::string(kSafetensorsEnding));
    return files;
  }
  for (const ArrayShape& array : arrays_of({.rank = 1, .biases = has_biases}, 0, 0))
    files.push_back(prefix + "." + array.name + std::string(kNpyEnding));
  return files;
}

std::uint64_t files_bytes(FactorFormat format, const RowFormat& rows, std::size_t users, std::size_t items) {
  if (format == FactorFormat::kText) return model_file_bytes(users + items, rows);
  std::uint64_t bytes = kBytesOfHeaders + kBytesPerNameLine * (users + items);
  for (const ArrayShape& array : arrays_of(rows, users, items)) bytes += array.bytes();
  return bytes;
}

absl::Status save_as(FactorFormat format, const std::string& prefix, const RowFormat& rows,
                     const Scale& scale, const Names& names, const RowReader& users, const RowReader& items) {
  if (format == FactorFormat::kText) return save_model(prefix, rows, scale, names, users, items);
  std::vector<OutputFile> files;
  for (const std::string& path : files_of(prefix, format, rows.biases)) {
    absl::StatusOr<OutputFile> file = OutputFile::create(path);
    if (!file.ok()) return file.status();
    files.push_back(*std::move(file));
  }
  write_names(files[0], names.users);
  write_names(files[1], names.items);

  const std::vector<ArrayShape> arrays = arrays_of(rows, names.users.size(), names.items.size());
  constexpr std::size_t kFirstArray = 2;  // of the files
  const auto file_of = [&](std::size_t array) -> OutputFile& {
    return files[format == FactorFormat::kNpy ? kFirstArray + array : kFirstArray];
  };
  if (format == FactorFormat::kNpy) {
    for (std::size_t array = 0; array < arrays.size(); ++array)
      file_of(array).write(npy_header(arrays[array]));
  } else {
    const absl::StatusOr<std::string> header = safetensors_header(arrays);
    if (!header.ok()) return header.status();
    file_of(0).write(*header);
  }
  std::vector<float> user_biases;
  std::vector<float> item_biases;
  RETURN_IF_ERROR(write_factors(file_of(0), rows, scale, names.users.size(), users, user_biases));
  RETURN_IF_ERROR(write_factors(file_of(1), rows, scale, names.items.size(), items, item_biases));
  const std::array mean = {static_cast<float>(scale.mean)};
  file_of(2).write(as_text(std::span<const float>(mean)));
  if (rows.biases) {
    file_of(3).write(as_text(std::span<const float>(user_biases)));
    file_of(4).write(as_text(std::span<const float>(item_biases)));
  }
  for (OutputFile& file : files) RETURN_IF_ERROR(file.commit());
  return absl::OkStatus();
}

}  // namespace verbena::apps::mf
