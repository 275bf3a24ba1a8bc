#include "checkpoint/reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/printable.hpp"
#include "base/return_if_error.hpp"
#include "checkpoint/chunk_reader.hpp"

namespace verbena::checkpoint {
namespace {

absl::Status with_place(const absl::Status& status, const std::string& place) {
  return absl::Status(status.code(), fmt::format("{}: {}", place, std::string(status.message())));
}

absl::Status check_data_file(FileSystem& files, const std::string& path, const DataFile& entry,
                             std::uint64_t clock) {
  const auto file = files.open(path);
  if (!file.ok()) return file.status();
  if (absl::Status header = check_file_header(**file, clock); !header.ok()) return with_place(header, path);
  if ((*file)->bytes() != entry.bytes) {
    return absl::DataLossError(
        fmt::format("{}: expected {} bytes, found {}", path, entry.bytes, (*file)->bytes()));
  }
  return absl::OkStatus();
}

bool has_any_of(const ChunkEntry& chunk, NumberRange range) {
  return range.first < range.end && chunk.first < range.end && chunk.last >= range.first;
}

/// The chunk's rows; without those that are not in `range`, if it says which these are.
Rows rows_of(const ChunkReader::Chunk& chunk, NumberRange range) {
  const ChunkHeader& header = chunk.header;
  const bool are_scattered = header.kind == ChunkKind::kScatteredRows;
  std::uint64_t skipped = 0;
  Rows rows{.are_scattered = are_scattered,
            .are_removed = header.kind == ChunkKind::kRemovedRows,
            .numbers = {header.first, header.last + 1},
            .count = header.rows};
  if (!is_in_any_order(header.kind)) {
    rows.numbers.first = std::max(header.first, range.first);
    rows.numbers.end = std::min(header.last, range.end - 1) + 1;
    rows.count = rows.numbers.end - rows.numbers.first;
    skipped = rows.numbers.first - header.first;
  }
  std::span<const std::byte> left = chunk.payload;
  for (std::uint32_t i = 0; i < header.columns; ++i) {
    const std::uint64_t row_bytes = header.column_bytes[i];
    rows.columns.push_back({.bytes = left.subspan(skipped * row_bytes, rows.count * row_bytes),
                            .row_bytes = header.column_bytes[i]});
    left = left.subspan(header.rows * row_bytes);
  }
  return rows;
}

/// Adds the chunks of the part for which is_wanted() holds, in the order of its files.
void add_chunks(const Layer& layer, const Part& part, absl::FunctionRef<bool(const ChunkEntry&)> is_wanted,
                std::vector<ChunkSequence::Place>& places) {
  for (const DataFile& file : part.files) {
    for (const ChunkEntry& chunk : file.chunks) {
      if (is_wanted(chunk)) places.push_back({.folder = &layer.path, .file = &file, .chunk = &chunk});
    }
  }
}

}  // namespace

absl::StatusOr<Reader> Reader::open(FileSystem& files, const std::string& path) {
  std::vector<Layer> layers;
  RETURN_IF_ERROR(read_layers(files, path, layers));
  for (const Layer& layer : layers) {
    for (const Part& part : layer.manifest.parts) {
      for (const DataFile& file : part.files) {
        RETURN_IF_ERROR(
            check_data_file(files, fmt::format("{}/{}", layer.path, file.name), file, layer.manifest.clock));
      }
    }
  }
  return Reader(files, std::move(layers));
}

absl::StatusOr<std::optional<Rows>> RowReader::next() {
  const absl::StatusOr<std::optional<ChunkReader::Chunk>> chunk = chunks_.next();
  if (!chunk.ok()) return chunk.status();
  if (!chunk->has_value()) return std::nullopt;
  return rows_of(**chunk, range_);
}

RowReader Reader::rows(std::uint32_t table, NumberRange range) const {
  const auto is_wanted = [&](const ChunkEntry& chunk) {
    return is_of_table(chunk.kind) && chunk.number == table && has_any_of(chunk, range);
  };
  std::vector<ChunkSequence::Place> places;
  for (const Layer& layer : layers_) {
    for (const Part& part : layer.manifest.parts) add_chunks(layer, part, is_wanted, places);
  }
  return {ChunkSequence(*files_, std::move(places)), range};
}

absl::Status Reader::read_rows(std::uint32_t table, NumberRange range,
                               absl::FunctionRef<absl::Status(const Rows&)> visit) const {
  RowReader reader = rows(table, range);
  for (;;) {
    const absl::StatusOr<std::optional<Rows>> found = reader.next();
    if (!found.ok()) return found.status();
    if (!found->has_value()) return absl::OkStatus();
    RETURN_IF_ERROR(visit(**found));
  }
}

absl::Status Reader::read_blob(std::string_view name,
                               absl::FunctionRef<absl::Status(std::span<const std::byte>)> visit) const {
  // An increment has all blobs, too.
  const Layer& layer = layers_.front();
  for (const Part& part : layer.manifest.parts) {
    const auto blob = std::ranges::find(part.blobs, name, &Blob::name);
    if (blob == part.blobs.end()) continue;
    const auto number = static_cast<std::uint32_t>(blob - part.blobs.begin());
    // In the order of the files, which is that of the bytes: check() has seen to that.
    const auto is_wanted = [&](const ChunkEntry& chunk) {
      return chunk.kind == ChunkKind::kBlob && chunk.number == number;
    };
    std::vector<ChunkSequence::Place> places;
    add_chunks(layer, part, is_wanted, places);
    ChunkSequence chunks(*files_, std::move(places));
    for (;;) {
      const absl::StatusOr<std::optional<ChunkReader::Chunk>> chunk = chunks.next();
      if (!chunk.ok()) return chunk.status();
      if (!chunk->has_value()) return absl::OkStatus();
      RETURN_IF_ERROR(visit((*chunk)->payload));
    }
  }
  return absl::NotFoundError(fmt::format("{}: there is no blob {}", path(), base::printable(name)));
}

absl::StatusOr<std::vector<std::byte>> Reader::read_blob(std::string_view name) const {
  // It grows with what is there, not with what the manifest says.
  std::vector<std::byte> bytes;
  RETURN_IF_ERROR(read_blob(name, [&](std::span<const std::byte> piece) {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
    return absl::OkStatus();
  }));
  return bytes;
}

}  // namespace verbena::checkpoint
