#include "apps/inspect/checkpoint_export.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "apps/data/array_files.hpp"
#include "apps/data/output_file.hpp"
#include "apps/inspect/checkpoint_views.hpp"
#include "base/printable.hpp"
#include "base/return_if_error.hpp"
#include "checkpoint/newest_rows.hpp"
#include "checkpoint/reader.hpp"
#include "protocol/row_stride.hpp"
#include "protocol/saved_table.hpp"

namespace verbena::apps::inspect {
namespace {

using checkpoint::NumberRange;
using checkpoint::Reader;
using checkpoint::Rows;
using protocol::OpenTable;

/// If rows are in order, a larger window has no advantage.
constexpr std::uint64_t kMostOrderedWindowBytes = std::uint64_t{64} << 20;

ElementType element_type(ValueType type) {
  switch (type) {
    case ValueType::kFloat:
      return kFloatElement;
    case ValueType::kDouble:
      return kDoubleElement;
    case ValueType::kInt32:
      return kInt32Element;
    case ValueType::kInt64:
      break;
  }
  return kInt64Element;
}

/// A table of a checkpoint, whose rows can be found.
class ExportedTable {
 public:
  /// INVALID_ARGUMENT: the manifest does not describe the table as servers do.
  static absl::StatusOr<ExportedTable> open(const Reader& reader, const checkpoint::TableEntry& entry) {
    absl::StatusOr<OpenTable> table = protocol::table_of(entry.description, entry.number);
    if (!table.ok()) {
      return absl::InvalidArgumentError(
          fmt::format("{}: {}", reader.path(), std::string(table.status().message())));
    }
    ExportedTable opened(reader, entry.name, *std::move(table));
    for (const checkpoint::Layer& layer : reader.layers()) {
      for (const checkpoint::Part& part : layer.manifest.parts) {
        for (const checkpoint::DataFile& file : part.files) opened.count(file);
      }
    }
    if (reader.layers().size() > 1 && opened.is_sparse()) {
      // Rows of several checkpoints may be the same one's.
      const absl::StatusOr<std::vector<Key>> keys = opened.keys();
      if (!keys.ok()) return keys.status();
      opened.saved_rows_ = keys->size();
    }
    return opened;
  }

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] bool is_sparse() const { return table_.key_space == KeySpace::kSparse; }
  [[nodiscard]] bool is_in_order() const { return !has_scattered_; }
  [[nodiscard]] std::uint64_t rows() const { return is_sparse() ? saved_rows_ : table_.rows; }
  [[nodiscard]] std::uint32_t width() const { return table_.width; }
  [[nodiscard]] ElementType type() const { return element_type(table_.value_type); }
  /// Of a row's values, without what they are padded with.
  [[nodiscard]] std::size_t row_bytes() const { return type().bytes * width(); }

  /// Calls visit() with the key and the values of each row that is there and whose number is in `range`, and
  /// with some others.
  absl::Status read(NumberRange range,
                    absl::FunctionRef<absl::Status(Key key, const std::byte* values)> visit) const {
    checkpoint::NewestRows newest(*reader_);
    return reader_->read_rows(table_.table, range, [&](const Rows& rows) {
      if (rows.are_removed) {
        if (!is_sparse()) return wrong("it is dense, but rows of it were removed");
        newest.remove(rows, [](Key /*key*/) { return true; });
        return absl::OkStatus();
      }
      const protocol::SavedColumns columns = protocol::saved_columns(
          rows.are_scattered, protocol::row_stride_bytes(table_.value_type, table_.width), 0, false);
      // Others may come behind these.
      const std::vector<std::uint32_t> expected = columns.row_bytes();
      const auto end_of_equal =
          std::ranges::mismatch(rows.columns, expected, {}, &checkpoint::Column::row_bytes).in2;
      if (end_of_equal != expected.end()) return wrong("its rows have other columns than such a table's");
      const checkpoint::Column& values = rows.columns[expected.size() - 1];
      for (std::uint64_t i = 0; i < rows.count; ++i) {
        Key key = rows.numbers.first + i;
        if (rows.are_scattered) std::memcpy(&key, rows.columns[0].bytes.data() + i * sizeof key, sizeof key);
        if (!is_sparse() && key >= table_.rows)
          return wrong(fmt::format("row {} is there, of {}", key, table_.rows));
        if (newest.takes(key)) RETURN_IF_ERROR(visit(key, values.bytes.data() + i * values.row_bytes));
      }
      return absl::OkStatus();
    });
  }

  /// Of a sparse table, in ascending order.
  [[nodiscard]] absl::StatusOr<std::vector<Key>> keys() const {
    std::vector<Key> keys;
    RETURN_IF_ERROR(read(kAllNumbers, [&](Key key, const std::byte* /*values*/) {
      keys.push_back(key);
      return absl::OkStatus();
    }));
    std::ranges::sort(keys);
    if (const auto twice = std::ranges::adjacent_find(keys); twice != keys.end())
      return wrong(fmt::format("key {} is there twice", *twice));
    return keys;
  }

  static constexpr NumberRange kAllNumbers = {.first = 0, .end = UINT64_MAX};

 private:
  ExportedTable(const Reader& reader, std::string name, OpenTable table)
      : reader_(&reader), name_(std::move(name)), table_(std::move(table)) {}

  void count(const checkpoint::DataFile& file) {
    for (const checkpoint::ChunkEntry& chunk : file.chunks) {
      if (!checkpoint::is_of_table(chunk.kind) || chunk.number != table_.table) continue;
      saved_rows_ += chunk.rows;
      has_scattered_ |= chunk.kind == checkpoint::ChunkKind::kScatteredRows;
    }
  }
  [[nodiscard]] absl::Status wrong(std::string_view what) const {
    return absl::InvalidArgumentError(
        base::printable(fmt::format("{}: table \"{}\": {}", reader_->path(), name_, what)));
  }

  const Reader* reader_;
  std::string name_;
  OpenTable table_;
  std::uint64_t saved_rows_ = 0;
  bool has_scattered_ = false;
};

/// What becomes a tensor, or a file of its own.
struct Array {
  const ExportedTable* table = nullptr;
  bool are_keys = false;

  [[nodiscard]] std::string name() const {
    if (are_keys) return table->name() + ".keys";
    return table->is_sparse() ? table->name() + ".values" : table->name();
  }
  [[nodiscard]] ElementType type() const { return are_keys ? kUint64Element : table->type(); }
  [[nodiscard]] ArrayShape shape() const {
    std::vector<std::uint64_t> sizes = {table->rows()};
    if (!are_keys) sizes.push_back(table->width());
    return {.name = name(), .type = type(), .shape = std::move(sizes)};
  }
};

/// Writes arrays to files, and tells how far it is.
class ArrayWriter {
 public:
  ArrayWriter(std::uint64_t window_bytes, std::uint64_t all_bytes,
              absl::FunctionRef<void(std::uint64_t, std::uint64_t)> progress)
      : window_bytes_(window_bytes), all_bytes_(all_bytes), progress_(progress) {}

  absl::Status write(const Array& array, OutputFile& file) {
    std::vector<Key> keys;
    if (array.table->is_sparse()) {
      absl::StatusOr<std::vector<Key>> found = array.table->keys();
      if (!found.ok()) return found.status();
      keys = *std::move(found);
    }
    return array.are_keys ? put(std::as_bytes(std::span(keys)), file)
                          : write_values(*array.table, keys, file);
  }

 private:
  /// As many rows at a time as there is room for, which are brought in order there. `keys`: of a sparse
  /// table.
  absl::Status write_values(const ExportedTable& table, const std::vector<Key>& keys, OutputFile& file) {
    const std::uint64_t row_bytes = table.row_bytes();
    const std::uint64_t most_bytes =
        table.is_in_order() ? std::min(window_bytes_, kMostOrderedWindowBytes) : window_bytes_;
    const std::uint64_t most_rows = std::max<std::uint64_t>(most_bytes / row_bytes, 1);
    std::vector<std::byte> window;
    std::uint64_t end = 0;
    for (std::uint64_t first = 0; first < table.rows(); first = end) {
      end = first + std::min(most_rows, table.rows() - first);
      window.assign((end - first) * row_bytes, std::byte{0});
      // A sparse table's numbers say nothing of the order of its keys.
      const NumberRange range = table.is_sparse() ? ExportedTable::kAllNumbers : NumberRange{first, end};
      RETURN_IF_ERROR(table.read(range, [&](Key key, const std::byte* values) {
        const std::uint64_t place = table.is_sparse() ? place_of(key, keys) : key;
        if (place >= first && place < end)
          std::memcpy(window.data() + (place - first) * row_bytes, values, row_bytes);
        return absl::OkStatus();
      }));
      RETURN_IF_ERROR(put(window, file));
    }
    return absl::OkStatus();
  }
  static std::uint64_t place_of(Key key, const std::vector<Key>& keys) {
    return static_cast<std::uint64_t>(std::ranges::lower_bound(keys, key) - keys.begin());
  }
  absl::Status put(std::span<const std::byte> bytes, OutputFile& file) {
    file.write(as_text(bytes));
    written_ += bytes.size();
    progress_(written_, all_bytes_);
    return file.status();
  }

  std::uint64_t window_bytes_;
  std::uint64_t all_bytes_;
  absl::FunctionRef<void(std::uint64_t, std::uint64_t)> progress_;
  std::uint64_t written_ = 0;
};

/// The table of this name; all if there is none.
absl::StatusOr<std::vector<ExportedTable>> tables_of(const Reader& reader, const std::string& name) {
  std::vector<ExportedTable> found;
  std::vector<std::string> known;
  for (const checkpoint::TableEntry& entry : reader.manifest().tables) {
    known.push_back('"' + entry.name + '"');
    if (!name.empty() && entry.name != name) continue;
    absl::StatusOr<ExportedTable> table = ExportedTable::open(reader, entry);
    if (!table.ok()) return table.status();
    found.push_back(*std::move(table));
  }
  if (!found.empty()) return found;
  const std::string others =
      known.empty() ? "no table was saved" : fmt::format("the saved ones are {}", absl::StrJoin(known, ", "));
  return absl::NotFoundError(base::printable(
      name.empty() ? fmt::format("{}: {}", reader.path(), others)
                   : fmt::format("{}: there is no table \"{}\"; {}", reader.path(), name, others)));
}

std::vector<Array> arrays_of(const std::vector<ExportedTable>& tables) {
  std::vector<Array> arrays;
  for (const ExportedTable& table : tables) {
    if (table.is_sparse()) arrays.push_back({.table = &table, .are_keys = true});
    arrays.push_back({.table = &table, .are_keys = false});
  }
  // Those of longer elements first, so that each begins where its type may.
  std::ranges::stable_sort(arrays, std::ranges::greater(),
                           [](const Array& array) { return array.type().bytes; });
  return arrays;
}

std::uint64_t bytes_of(const std::vector<Array>& arrays) {
  std::uint64_t bytes = 0;
  for (const Array& array : arrays) bytes += array.shape().bytes();
  return bytes;
}

absl::Status write_safetensors(const std::string& path, const std::vector<Array>& arrays,
                               ArrayWriter& writer) {
  std::vector<ArrayShape> shapes;
  shapes.reserve(arrays.size());
  for (const Array& array : arrays) shapes.push_back(array.shape());
  const absl::StatusOr<std::string> header = safetensors_header(shapes);
  if (!header.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("{}; export one table with --table", std::string(header.status().message())));
  }
  absl::StatusOr<OutputFile> file = OutputFile::create(path);
  if (!file.ok()) return file.status();
  file->write(*header);
  for (const Array& array : arrays) RETURN_IF_ERROR(writer.write(array, *file));
  return file->commit();
}

/// Each into its own file. They get their names when all are written.
absl::Status write_npy(const std::vector<std::pair<std::string, Array>>& arrays, ArrayWriter& writer) {
  std::vector<OutputFile> files;
  for (const auto& [path, array] : arrays) {
    absl::StatusOr<OutputFile> file = OutputFile::create(path);
    if (!file.ok()) return file.status();
    file->write(npy_header(array.shape()));
    RETURN_IF_ERROR(writer.write(array, *file));
    files.push_back(*std::move(file));
  }
  for (OutputFile& file : files) RETURN_IF_ERROR(file.sync());
  for (OutputFile& file : files) RETURN_IF_ERROR(file.commit());
  return absl::OkStatus();
}

}  // namespace

std::string keys_path_of(const std::string& npy_path) {
  return path_beside(npy_path, kNpyEnding, ".keys.npy");
}

absl::Status check(const ExportOptions& options) {
  if (options.npy.empty() == options.safetensors.empty()) {
    return absl::InvalidArgumentError(
        "where to write is either --npy FILE or --safetensors FILE; one of them is expected");
  }
  if (!options.npy.empty() && options.table.empty())
    return absl::InvalidArgumentError("a .npy file holds one array: --table is expected with --npy");
  return absl::OkStatus();
}

absl::StatusOr<Exported> export_checkpoint(checkpoint::FileSystem& files, const std::string& path,
                                           const ExportOptions& options,
                                           absl::FunctionRef<void(std::uint64_t, std::uint64_t)> progress) {
  RETURN_IF_ERROR(check(options));
  const absl::StatusOr<std::string> found = find_checkpoint(files, path);
  if (!found.ok()) return found.status();
  const absl::StatusOr<Reader> reader = Reader::open(files, *found);
  if (!reader.ok()) return reader.status();
  const absl::StatusOr<std::vector<ExportedTable>> tables = tables_of(*reader, options.table);
  if (!tables.ok()) return tables.status();
  const std::vector<Array> arrays = arrays_of(*tables);
  const std::string& output = options.npy.empty() ? options.safetensors : options.npy;
  RETURN_IF_ERROR(OutputFile::check(output, bytes_of(arrays)));

  Exported exported{.tables = tables->size(), .rows = 0, .bytes = bytes_of(arrays), .keys_path = ""};
  for (const ExportedTable& table : *tables) exported.rows += table.rows();
  ArrayWriter writer(options.window_bytes, exported.bytes, progress);
  if (options.npy.empty()) {
    RETURN_IF_ERROR(write_safetensors(output, arrays, writer));
    return exported;
  }
  std::vector<std::pair<std::string, Array>> outputs;
  for (const Array& array : arrays) {
    if (array.are_keys) exported.keys_path = keys_path_of(output);
    outputs.emplace_back(array.are_keys ? exported.keys_path : output, array);
  }
  RETURN_IF_ERROR(write_npy(outputs, writer));
  return exported;
}

}  // namespace verbena::apps::inspect
