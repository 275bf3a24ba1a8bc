#include "tests/checkpoint/sample.hpp"

#include <fmt/format.h>

#include <cstring>
#include <span>
#include <utility>

#include "base/return_if_error.hpp"
#include "checkpoint/part_description.hpp"
#include "checkpoint/part_writer.hpp"

namespace verbena::checkpoint {
namespace {

constexpr std::uint32_t kValueBytes = 4;
constexpr std::uint32_t kCounterBytes = 2;
constexpr std::uint32_t kKeyBytes = 8;
constexpr std::uint64_t kSparseKeys = 24;
constexpr std::uint64_t kNumbers = 16;

std::string bytes_of_row(unsigned seed, std::uint64_t row) {
  std::string bytes(kValueBytes + kCounterBytes, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<char>(seed * 16 + row + i % 2);  // some of it repeats, for the compression
  return bytes;
}

/// Rows, cut into values and counters.
struct ValuesAndCounters {
  std::string values;
  std::string counters;

  void add(const std::string& row) {
    values += row.substr(0, kValueBytes);
    counters += row.substr(kValueBytes);
  }
};

Column column(const std::string& bytes, std::uint32_t row_bytes) {
  return {.bytes = std::as_bytes(std::span(bytes)), .row_bytes = row_bytes};
}

absl::Status add_dense(PartWriter& writer, const Content& content, NumberRange rows) {
  // In two calls, of which neither ends with a chunk.
  const std::uint64_t middle = rows.first + 3;
  for (const auto& [first, end] : {std::pair(rows.first, middle), std::pair(middle, rows.end)}) {
    ValuesAndCounters columns;
    for (std::uint64_t row = first; row < end; ++row) columns.add(content.dense.at(row));
    const std::array<Column, 2> both = {column(columns.values, kValueBytes),
                                        column(columns.counters, kCounterBytes)};
    RETURN_IF_ERROR(writer.add_rows(kDenseTable, first, both));
  }
  return absl::OkStatus();
}

absl::Status add_sparse(PartWriter& writer, const Content& content, NumberRange numbers) {
  std::string keys;
  ValuesAndCounters columns;
  for (const auto& [key, row] : content.sparse) {
    const std::uint64_t number = number_of_key(key);
    if (number < numbers.first || number >= numbers.end) continue;
    keys.append(reinterpret_cast<const char*>(&key), sizeof key);
    columns.add(row);
  }
  const std::array<Column, 3> all = {column(keys, kKeyBytes), column(columns.values, kValueBytes),
                                     column(columns.counters, kCounterBytes)};
  return writer.add_scattered_rows(kSparseTable, numbers, all);
}

absl::StatusOr<Part> write_server(FileSystem& files, const std::string& folder, std::uint64_t clock,
                                  const Content& content, const SampleOptions& options, unsigned server) {
  auto writer = PartWriter::create(files, folder, clock,
                                   {.name = fmt::format("server-{}", server),
                                    .most_file_bytes = options.most_file_bytes,
                                    .chunk_bytes = options.chunk_bytes,
                                    .zstd_level = options.zstd_level});
  if (!writer.ok()) return writer.status();
  const std::uint64_t half = kDenseRows / 2;
  RETURN_IF_ERROR(add_dense(*writer, content, {server * half, (server + 1) * half}));
  RETURN_IF_ERROR(add_sparse(*writer, content, {server * kNumbers / 2, (server + 1) * kNumbers / 2}));
  return writer->finish();
}

absl::StatusOr<Part> write_worker(FileSystem& files, const std::string& folder, std::uint64_t clock,
                                  const Content& content, const SampleOptions& options) {
  auto writer = PartWriter::create(files, folder, clock,
                                   {.name = "worker-0",
                                    .most_file_bytes = options.most_file_bytes,
                                    .chunk_bytes = options.chunk_bytes,
                                    .zstd_level = options.zstd_level});
  if (!writer.ok()) return writer.status();
  for (const auto& [name, bytes] : content.blobs)
    RETURN_IF_ERROR(writer->add_blob(name, std::as_bytes(std::span(bytes))));
  return writer->finish();
}

/// Row i of all columns.
std::string row_of(const Rows& rows, std::uint64_t i) {
  std::string row;
  for (const Column& part : rows.columns) {
    row.append(reinterpret_cast<const char*>(part.bytes.data()) + i * part.row_bytes, part.row_bytes);
  }
  return row;
}

}  // namespace

Content content_of(unsigned seed) {
  Content content;
  for (std::uint64_t row = 0; row < kDenseRows; ++row) content.dense[row] = bytes_of_row(seed, row);
  for (std::uint64_t i = 0; i < kSparseKeys; ++i) {
    const std::uint64_t key = i * 0x9E3779B97F4A7C15U;
    content.sparse[key] = bytes_of_row(seed, i);
  }
  content.blobs["worker-0"] = std::string(100, static_cast<char>('a' + seed));
  content.blobs["worker-0/empty"] = "";
  return content;
}

absl::StatusOr<std::vector<Part>> write_parts(FileSystem& files, const std::string& folder,
                                              std::uint64_t clock, const Content& content,
                                              const SampleOptions& options) {
  std::vector<Part> parts;
  for (const unsigned server : {0U, 1U}) {
    absl::StatusOr<Part> part = write_server(files, folder, clock, content, options, server);
    if (!part.ok()) return part.status();
    parts.push_back(*std::move(part));
  }
  absl::StatusOr<Part> part = write_worker(files, folder, clock, content, options);
  if (!part.ok()) return part.status();
  parts.push_back(*std::move(part));
  return parts;
}

Manifest manifest_of(std::uint64_t clock, std::vector<Part> parts) {
  return {.clock = clock,
          .program = "1.2.3",
          .options = {{"rate", 0.5}},
          .tables = {{.number = kDenseTable, .name = "weights", .description = {{"rows", kDenseRows}}},
                     {.number = kSparseTable, .name = "features", .description = {{"keys", "sparse"}}}},
          .parts = std::move(parts)};
}

absl::Status write_checkpoint(FileSystem& files, Folder& folder, std::uint64_t clock, const Content& content,
                              const SampleOptions& options) {
  const absl::StatusOr<std::string> path = folder.begin(clock);
  if (!path.ok()) return path.status();
  const absl::StatusOr<std::vector<Part>> parts = write_parts(files, *path, clock, content, options);
  if (!parts.ok()) return parts.status();
  std::vector<std::string> names;
  for (const Part& part : *parts) {
    RETURN_IF_ERROR(describe_part(files, *path, part));
    names.push_back(part.name);
  }
  return folder.commit(manifest_of(clock, {}), names);
}

absl::StatusOr<Content> load(const Reader& reader, NumberRange rows, NumberRange numbers) {
  Content content;
  RETURN_IF_ERROR(reader.read_rows(kDenseTable, rows, [&](const Rows& found) {
    if (found.are_scattered || found.count != found.numbers.end - found.numbers.first)
      return absl::InternalError("not each row of the range");
    for (std::uint64_t i = 0; i < found.count; ++i) {
      if (!content.dense.emplace(found.numbers.first + i, row_of(found, i)).second)
        return absl::InternalError("a row comes twice");
    }
    return absl::OkStatus();
  }));
  RETURN_IF_ERROR(reader.read_rows(kSparseTable, numbers, [&](const Rows& found) {
    if (!found.are_scattered) return absl::InternalError("rows of a sparse table");
    for (std::uint64_t i = 0; i < found.count; ++i) {
      const std::string row = row_of(found, i);
      std::uint64_t key = 0;
      std::memcpy(&key, row.data(), sizeof key);
      if (number_of_key(key) < numbers.first || number_of_key(key) >= numbers.end) continue;
      if (!content.sparse.emplace(key, row.substr(sizeof key)).second)
        return absl::InternalError("a key comes twice");
    }
    return absl::OkStatus();
  }));
  for (const Part& part : reader.manifest().parts) {
    for (const Blob& blob : part.blobs) {
      const absl::StatusOr<std::vector<std::byte>> bytes = reader.read_blob(blob.name);
      if (!bytes.ok()) return bytes.status();
      content.blobs[blob.name] = std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    }
  }
  return content;
}

absl::StatusOr<Content> load(const Reader& reader) {
  return load(reader, {0, UINT64_MAX}, {0, UINT64_MAX});
}

}  // namespace verbena::checkpoint
