#include "tests/checkpoint/sample.hpp"

#include <fmt/format.h>

#include <cstring>
#include <span>
#include <utility>

#include "base/return_if_error.hpp"
#include "checkpoint/newest_rows.hpp"
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

/// With their keys.
absl::Status add_by_key(PartWriter& writer, std::uint32_t table,
                        const std::map<std::uint64_t, std::string>& rows, NumberRange numbers) {
  std::string keys;
  ValuesAndCounters columns;
  for (const auto& [key, row] : rows) {
    keys.append(reinterpret_cast<const char*>(&key), sizeof key);
    columns.add(row);
  }
  const std::array<Column, 3> all = {column(keys, kKeyBytes), column(columns.values, kValueBytes),
                                     column(columns.counters, kCounterBytes)};
  return writer.add_scattered_rows(table, numbers, all);
}

/// Those whose numbers, number_of(key), are in the range.
std::map<std::uint64_t, std::string> rows_in(const std::map<std::uint64_t, std::string>& rows,
                                             std::uint64_t (*number_of)(std::uint64_t), NumberRange numbers) {
  std::map<std::uint64_t, std::string> some = rows;
  std::erase_if(some, [&](const auto& row) {
    return number_of(row.first) < numbers.first || number_of(row.first) >= numbers.end;
  });
  return some;
}

/// What is in `content` and not in `before`.
std::map<std::uint64_t, std::string> difference(const std::map<std::uint64_t, std::string>& before,
                                                std::map<std::uint64_t, std::string> content) {
  std::erase_if(content, [&](const auto& row) {
    const auto found = before.find(row.first);
    return found != before.end() && found->second == row.second;
  });
  return content;
}

std::uint64_t itself(std::uint64_t key) {
  return key;
}

PartOptions part_options(std::string name, const SampleOptions& options) {
  return {.name = std::move(name),
          .most_file_bytes = options.most_file_bytes,
          .chunk_bytes = options.chunk_bytes,
          .zstd_level = options.zstd_level};
}

/// What one of two servers has of an increment.
absl::StatusOr<Part> write_changes(FileSystem& files, const std::string& folder, std::uint64_t clock,
                                   const Content& before, const Content& content,
                                   const SampleOptions& options, unsigned server) {
  auto writer =
      PartWriter::create(files, folder, clock, part_options(fmt::format("server-{}", server), options));
  if (!writer.ok()) return writer.status();
  const NumberRange dense = {server * kDenseRows / 2, (server + 1) * kDenseRows / 2};
  const NumberRange sparse = {server * kNumbers / 2, (server + 1) * kNumbers / 2};
  RETURN_IF_ERROR(add_by_key(*writer, kDenseTable,
                             rows_in(difference(before.dense, content.dense), itself, dense), dense));
  RETURN_IF_ERROR(add_by_key(*writer, kSparseTable,
                             rows_in(difference(before.sparse, content.sparse), number_of_key, sparse),
                             sparse));
  std::vector<std::uint64_t> removed;
  for (const auto& [key, row] : rows_in(before.sparse, number_of_key, sparse)) {
    if (!content.sparse.contains(key)) removed.push_back(key);
  }
  if (!removed.empty()) RETURN_IF_ERROR(writer->add_removed_rows(kSparseTable, sparse, removed));
  return writer->finish();
}

absl::StatusOr<Part> write_server(FileSystem& files, const std::string& folder, std::uint64_t clock,
                                  const Content& content, const SampleOptions& options, unsigned server) {
  auto writer =
      PartWriter::create(files, folder, clock, part_options(fmt::format("server-{}", server), options));
  if (!writer.ok()) return writer.status();
  const std::uint64_t half = kDenseRows / 2;
  RETURN_IF_ERROR(add_dense(*writer, content, {server * half, (server + 1) * half}));
  const NumberRange numbers = {server * kNumbers / 2, (server + 1) * kNumbers / 2};
  RETURN_IF_ERROR(
      add_by_key(*writer, kSparseTable, rows_in(content.sparse, number_of_key, numbers), numbers));
  return writer->finish();
}

absl::StatusOr<Part> write_worker(FileSystem& files, const std::string& folder, std::uint64_t clock,
                                  const Content& content, const SampleOptions& options) {
  auto writer = PartWriter::create(files, folder, clock, part_options("worker-0", options));
  if (!writer.ok()) return writer.status();
  for (const auto& [name, bytes] : content.blobs)
    RETURN_IF_ERROR(writer->add_blob(name, std::as_bytes(std::span(bytes))));
  return writer->finish();
}

/// Parts travel as descriptions.
absl::Status commit_described(FileSystem& files, Folder& folder, const std::string& path, Manifest manifest,
                              const std::vector<Part>& parts) {
  std::vector<std::string> names;
  for (const Part& part : parts) {
    RETURN_IF_ERROR(describe_part(files, path, part));
    names.push_back(part.name);
  }
  return folder.commit(std::move(manifest), names);
}

/// Row i of all columns.
std::string row_of(const Rows& rows, std::uint64_t i) {
  std::string row;
  for (const Column& part : rows.columns) {
    row.append(reinterpret_cast<const char*>(part.bytes.data()) + i * part.row_bytes, part.row_bytes);
  }
  return row;
}

/// The key that a row begins with.
std::uint64_t take_key(std::string& row) {
  std::uint64_t key = 0;
  std::memcpy(&key, row.data(), sizeof key);
  row.erase(0, sizeof key);
  return key;
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
          .run = kSampleRun,
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
  return commit_described(files, folder, *path, manifest_of(clock, {}), *parts);
}

absl::Status write_increment(FileSystem& files, Folder& folder, std::uint64_t clock, std::uint64_t since,
                             const Content& before, const Content& content, const SampleOptions& options) {
  const absl::StatusOr<std::string> path = folder.begin(clock);
  if (!path.ok()) return path.status();
  std::vector<Part> parts;
  for (const unsigned server : {0U, 1U}) {
    absl::StatusOr<Part> part = write_changes(files, *path, clock, before, content, options, server);
    if (!part.ok()) return part.status();
    parts.push_back(*std::move(part));
  }
  absl::StatusOr<Part> worker = write_worker(files, *path, clock, content, options);
  if (!worker.ok()) return worker.status();
  parts.push_back(*std::move(worker));
  Manifest manifest = manifest_of(clock, {});
  manifest.since = since;
  return commit_described(files, folder, *path, std::move(manifest), parts);
}

absl::StatusOr<Content> load(const Reader& reader, NumberRange rows, NumberRange numbers) {
  Content content;
  NewestRows newest_dense(reader);
  RETURN_IF_ERROR(reader.read_rows(kDenseTable, rows, [&](const Rows& found) {
    const bool is_increment = found.are_scattered && reader.layers().size() > 1;
    if (!is_increment && (found.are_scattered || found.count != found.numbers.end - found.numbers.first))
      return absl::InternalError("not each row of the range");
    for (std::uint64_t i = 0; i < found.count; ++i) {
      std::string row = row_of(found, i);
      const std::uint64_t key = is_increment ? take_key(row) : found.numbers.first + i;
      if (key < rows.first || key >= rows.end || !newest_dense.takes(key)) continue;
      if (!content.dense.emplace(key, row).second) return absl::InternalError("a row comes twice");
    }
    return absl::OkStatus();
  }));
  NewestRows newest_sparse(reader);
  RETURN_IF_ERROR(reader.read_rows(kSparseTable, numbers, [&](const Rows& found) {
    const auto is_wanted = [&](std::uint64_t key) {
      return number_of_key(key) >= numbers.first && number_of_key(key) < numbers.end;
    };
    if (found.are_removed) {
      newest_sparse.remove(found, is_wanted);
      return absl::OkStatus();
    }
    if (!found.are_scattered) return absl::InternalError("rows of a sparse table");
    for (std::uint64_t i = 0; i < found.count; ++i) {
      std::string row = row_of(found, i);
      const std::uint64_t key = take_key(row);
      if (!is_wanted(key) || !newest_sparse.takes(key)) continue;
      if (!content.sparse.emplace(key, row).second) return absl::InternalError("a key comes twice");
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
