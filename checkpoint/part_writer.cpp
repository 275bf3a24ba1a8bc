#include "checkpoint/part_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/return_if_error.hpp"

namespace verbena::checkpoint {
namespace {

std::uint64_t row_bytes(const ChunkHeader& header) {
  std::uint64_t bytes = 0;
  for (const std::uint32_t column : header.column_bytes) bytes += column;
  return bytes;
}

/// How many rows the columns are of.
absl::StatusOr<std::uint64_t> count_rows(std::span<const Column> columns) {
  if (columns.empty() || columns.size() > kMostColumns) {
    return absl::InvalidArgumentError(
        fmt::format("expected 1 to {} columns, found {}", kMostColumns, columns.size()));
  }
  std::uint64_t row_bytes = 0;
  for (const Column& column : columns) {
    row_bytes += column.row_bytes;
    if (column.row_bytes == 0 || column.bytes.size() % column.row_bytes != 0 ||
        column.bytes.size() / column.row_bytes != columns[0].bytes.size() / columns[0].row_bytes) {
      return absl::InvalidArgumentError(
          fmt::format("a column of {} bytes, {} a row, beside one of {}, {} a row", column.bytes.size(),
                      column.row_bytes, columns[0].bytes.size(), columns[0].row_bytes));
    }
  }
  if (row_bytes > kMostPayloadBytes) {
    return absl::InvalidArgumentError(
        fmt::format("expected at most {} bytes a row, found {}", kMostPayloadBytes, row_bytes));
  }
  return columns[0].bytes.size() / columns[0].row_bytes;
}

ChunkHeader header_of_rows(ChunkKind kind, std::uint32_t table, std::uint64_t first, std::uint64_t last,
                           std::span<const Column> columns) {
  ChunkHeader header{.kind = kind,
                     .number = table,
                     .columns = static_cast<std::uint32_t>(columns.size()),
                     .first = first,
                     .last = last};
  std::ranges::transform(columns, header.column_bytes.begin(), &Column::row_bytes);
  return header;
}

}  // namespace

absl::StatusOr<PartWriter> PartWriter::create(FileSystem& files, std::string folder, std::uint64_t clock,
                                              PartOptions options) {
  if (!is_part_name(options.name)) {
    return absl::InvalidArgumentError(
        fmt::format("expected a part's name of letters, digits, '-' and '_', found \"{}\"", options.name));
  }
  if (options.chunk_bytes == 0 || options.chunk_bytes > kMostCompressedBytes || options.zstd_level < 0 ||
      options.zstd_level > base::kMaxCompressionLevel) {
    return absl::InvalidArgumentError(fmt::format(
        "expected chunks of 1 to {} bytes and zstd 0 to {}, found {} and {}", kMostCompressedBytes,
        base::kMaxCompressionLevel, options.chunk_bytes, options.zstd_level));
  }
  PartWriter writer(files, std::move(folder), clock, std::move(options));
  if (writer.options_.zstd_level > 0) writer.compressor_.emplace(writer.options_.zstd_level);
  writer.part_.name = writer.options_.name;
  RETURN_IF_ERROR(writer.begin_file());
  return writer;
}

absl::Status PartWriter::add_rows(std::uint32_t table, std::uint64_t first, std::span<const Column> columns) {
  const absl::StatusOr<std::uint64_t> rows = count_rows(columns);
  if (!rows.ok()) return rows.status();
  if (*rows > UINT64_MAX - first) {
    return absl::InvalidArgumentError(fmt::format("{} rows from {} on: no such numbers", *rows, first));
  }
  return add(header_of_rows(ChunkKind::kRows, table, first, first, columns), *rows, columns);
}

absl::Status PartWriter::add_scattered_rows(std::uint32_t table, NumberRange numbers,
                                            std::span<const Column> columns) {
  return add_in_any_order(ChunkKind::kScatteredRows, table, numbers, columns);
}

absl::Status PartWriter::add_removed_rows(std::uint32_t table, NumberRange numbers,
                                          std::span<const std::uint64_t> keys) {
  const Column column{.bytes = std::as_bytes(keys), .row_bytes = sizeof(std::uint64_t)};
  return add_in_any_order(ChunkKind::kRemovedRows, table, numbers, std::span(&column, 1));
}

absl::Status PartWriter::add_in_any_order(ChunkKind kind, std::uint32_t table, NumberRange numbers,
                                          std::span<const Column> columns) {
  const absl::StatusOr<std::uint64_t> rows = count_rows(columns);
  if (!rows.ok()) return rows.status();
  if (numbers.end <= numbers.first) {
    return absl::InvalidArgumentError(
        fmt::format("rows with numbers from {} up to {}, without it", numbers.first, numbers.end));
  }
  return add(header_of_rows(kind, table, numbers.first, numbers.end - 1, columns), *rows, columns);
}

absl::Status PartWriter::add_blob(std::string_view name, std::span<const std::byte> bytes) {
  if (!is_shown_name(name)) {
    return absl::InvalidArgumentError("expected a blob's name of 1 to 200 bytes that can be shown");
  }
  auto blob = std::ranges::find(part_.blobs, name, &Blob::name);
  if (blob == part_.blobs.end()) blob = part_.blobs.insert(blob, {.name = std::string(name)});
  const Column column{.bytes = bytes, .row_bytes = 1};
  ChunkHeader kind = header_of_rows(ChunkKind::kBlob, static_cast<std::uint32_t>(blob - part_.blobs.begin()),
                                    blob->bytes, blob->bytes, std::span(&column, 1));
  blob->bytes += bytes.size();
  return add(kind, bytes.size(), std::span(&column, 1));
}

absl::StatusOr<Part> PartWriter::finish() {
  RETURN_IF_ERROR(flush());
  RETURN_IF_ERROR(end_file());
  if (absl::Status synced = files_->sync_folder(folder_); !synced.ok())
    return fail(synced, fmt::format("the names of {}'s files", part_.name));
  return std::move(part_);
}

absl::Status PartWriter::add(const ChunkHeader& kind, std::uint64_t rows, std::span<const Column> columns) {
  RETURN_IF_ERROR(status_);
  ChunkHeader next = kind;
  for (std::uint64_t done = 0; done < rows;) {
    if (!is_in_any_order(next.kind)) next.first = kind.first + done;
    if (waiting_ && !goes_on(next)) RETURN_IF_ERROR(flush());
    if (!waiting_) begin_chunk(next);
    ChunkHeader& header = waiting_->header;
    const std::uint64_t count = std::min(rows - done, waiting_->capacity - header.rows);
    std::byte* to = payload_.data();
    for (const Column& column : columns) {
      std::memcpy(to + header.rows * column.row_bytes, column.bytes.data() + done * column.row_bytes,
                  count * column.row_bytes);
      to += waiting_->capacity * column.row_bytes;
    }
    header.first = std::min(header.first, next.first);
    header.last = std::max(header.last, next.last);
    header.rows += count;
    done += count;
    if (header.rows == waiting_->capacity) RETURN_IF_ERROR(flush());
  }
  return absl::OkStatus();
}

/// Whether such rows can come into the chunk that waits.
bool PartWriter::goes_on(const ChunkHeader& kind) const {
  const ChunkHeader& header = waiting_->header;
  return header.kind == kind.kind && header.number == kind.number &&
         header.column_bytes == kind.column_bytes &&
         (is_in_any_order(kind.kind) || kind.first == header.first + header.rows);
}

void PartWriter::begin_chunk(const ChunkHeader& kind) {
  const std::uint64_t bytes = row_bytes(kind);
  waiting_ = Waiting{.header = kind, .capacity = std::max<std::uint64_t>(1, options_.chunk_bytes / bytes)};
  payload_.resize(std::max<std::size_t>(payload_.size(), waiting_->capacity * bytes));
}

absl::Status PartWriter::flush() {
  RETURN_IF_ERROR(status_);
  if (!waiting_) return absl::OkStatus();
  const Waiting waiting = *std::exchange(waiting_, std::nullopt);
  ChunkHeader header = waiting.header;
  // The columns of a chunk that is not full move together.
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  for (const std::uint32_t column : header.column_bytes) {
    if (from != to) std::memmove(payload_.data() + to, payload_.data() + from, header.rows * column);
    from += waiting.capacity * column;
    to += header.rows * column;
  }
  if (!is_in_any_order(header.kind)) header.last = header.first + (header.rows - 1);
  if (header.kind == ChunkKind::kBlob) {
    header.columns = 0;
    header.column_bytes = {};
    header.rows = 0;
  }
  return write_chunk(header, std::span(payload_).first(to));
}

absl::Status PartWriter::write_chunk(const ChunkHeader& chunk, std::span<const std::byte> payload) {
  ChunkHeader header = chunk;
  header.raw_bytes = payload.size();
  if (compressor_ && payload.size() <= kMostCompressedBytes) {
    const std::span<const std::byte> frame = compressor_->compress(payload, payload.size() - 1);
    if (!frame.empty()) {
      payload = frame;
      header.compression = ChunkCompression::kZstd;
    }
  }
  header.stored_bytes = payload.size();
  Checksum checksum;
  checksum.add(bytes_before_checksum(header));
  checksum.add(payload);
  header.checksum = checksum.value();

  const std::uint64_t bytes = sizeof header + payload.size();
  if (!part_.files.back().chunks.empty() && part_.files.back().bytes + bytes > options_.most_file_bytes) {
    RETURN_IF_ERROR(end_file());
    RETURN_IF_ERROR(begin_file());
  }
  DataFile& file = part_.files.back();
  const ChunkEntry entry{.kind = header.kind,
                         .number = header.number,
                         .first = header.first,
                         .last = header.last,
                         .rows = header.rows,
                         .offset = file.bytes,
                         .bytes = bytes,
                         .checksum = header.checksum};
  absl::Status written = write(std::as_bytes(std::span(&header, 1)));
  if (written.ok()) written = write(payload);
  if (!written.ok()) {
    const std::string what =
        header.kind == ChunkKind::kBlob
            ? fmt::format("bytes {} to {} of {}", header.first, header.last, part_.blobs[header.number].name)
            : description_of(header.kind, header.number, header.first, header.last);
    return fail(written, fmt::format("{}, at offset {}", what, entry.offset));
  }
  file.chunks.push_back(entry);
  return absl::OkStatus();
}

absl::Status PartWriter::begin_file() {
  const std::string name = data_file_name(part_.name, part_.files.size());
  auto created = files_->create(fmt::format("{}/{}", folder_, name));
  if (!created.ok()) return fail(created.status(), "a data file");
  file_ = *std::move(created);
  file_checksum_ = Checksum();
  part_.files.push_back({.name = name});
  FileHeader header{.clock = clock_};
  header.checksum = checksum_of(bytes_before_checksum(header));
  absl::Status written = write(std::as_bytes(std::span(&header, 1)));
  return written.ok() ? written : fail(written, "its header");
}

absl::Status PartWriter::end_file() {
  RETURN_IF_ERROR(status_);
  DataFile& file = part_.files.back();
  file.checksum = file_checksum_.value();
  if (absl::Status synced = file_->sync(); !synced.ok())
    return fail(synced, fmt::format("{} bytes", file.bytes));
  file_.reset();
  return absl::OkStatus();
}

absl::Status PartWriter::write(std::span<const std::byte> bytes) {
  RETURN_IF_ERROR(file_->append(bytes));
  file_checksum_.add(bytes);
  part_.files.back().bytes += bytes.size();
  return absl::OkStatus();
}

/// Keeps the error, with what was to be written.
absl::Status PartWriter::fail(const absl::Status& status, std::string_view what) {
  status_ = absl::Status(status.code(), fmt::format("{} (it was {})", std::string(status.message()), what));
  return status_;
}

}  // namespace verbena::checkpoint
