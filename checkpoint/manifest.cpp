#include "checkpoint/manifest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "base/decimal.hpp"
#include "base/printable.hpp"
#include "base/return_if_error.hpp"

namespace verbena::checkpoint {
namespace {

constexpr std::size_t kMostPartNameBytes = 100;
constexpr std::size_t kMostShownNameBytes = 256;

template <class... Arguments>
absl::Status unsound(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  return absl::InvalidArgumentError(fmt::format(format, std::forward<Arguments>(arguments)...));
}

/// Whether each of the numbers first to last is one row's.
bool is_one_row_each(const ChunkEntry& chunk) {
  return chunk.last >= chunk.first && chunk.last - chunk.first == chunk.rows - 1;
}

absl::Status check_chunk(const std::string& file, const ChunkEntry& chunk) {
  const bool is_rows = is_of_table(chunk.kind);
  if (is_rows != (chunk.rows > 0) || chunk.last < chunk.first || chunk.last == UINT64_MAX ||
      (chunk.kind == ChunkKind::kRows && !is_one_row_each(chunk))) {
    return unsound("{}: the chunk at offset {} has {} rows with the numbers {} to {}", file, chunk.offset,
                   chunk.rows, chunk.first, chunk.last);
  }
  return absl::OkStatus();
}

absl::Status check_file(const DataFile& file) {
  std::uint64_t end = sizeof(FileHeader);
  for (const ChunkEntry& chunk : file.chunks) {
    if (chunk.offset != end)
      return unsound("{}: expected a chunk at offset {}, found it at {}", file.name, end, chunk.offset);
    if (chunk.bytes <= sizeof(ChunkHeader) || chunk.bytes > sizeof(ChunkHeader) + kMostPayloadBytes ||
        end > file.bytes || chunk.bytes > file.bytes - end) {
      return unsound("{}: a chunk of {} bytes at offset {} of {}", file.name, chunk.bytes, end, file.bytes);
    }
    RETURN_IF_ERROR(check_chunk(file.name, chunk));
    end += chunk.bytes;
  }
  if (end != file.bytes)
    return unsound("{}: expected {} bytes, the ends of header and chunks, found {}", file.name, end,
                   file.bytes);
  return absl::OkStatus();
}

absl::Status check_blobs(const Part& part) {
  std::vector<std::uint64_t> found(part.blobs.size(), 0);
  for (const DataFile& file : part.files) {
    for (const ChunkEntry& chunk : file.chunks) {
      if (chunk.kind != ChunkKind::kBlob) continue;
      if (chunk.number >= found.size())
        return unsound("{}: a piece of blob {} of {}", file.name, chunk.number, found.size());
      std::uint64_t& end = found[chunk.number];
      if (chunk.first != end)
        return unsound("{}: expected blob {} from byte {} on, found it from byte {} on", file.name,
                       chunk.number, end, chunk.first);
      end = chunk.last + 1;
    }
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Blob& blob = part.blobs[i];
    if (!is_shown_name(blob.name)) return unsound("{}: blob {} has no name that can be shown", part.name, i);
    if (found[i] != blob.bytes)
      return unsound("{}: expected {} bytes of {}, found {}", part.name, blob.bytes, blob.name, found[i]);
  }
  return absl::OkStatus();
}

/// Consecutive rows.
struct RowsOfFile {
  std::uint32_t table = 0;
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  const DataFile* file = nullptr;
};

absl::Status check_rows(const Manifest& manifest) {
  std::set<std::uint32_t> tables;
  for (const TableEntry& table : manifest.tables) {
    if (!is_shown_name(table.name)) return unsound("table {} has no name that can be shown", table.number);
    if (!tables.insert(table.number).second) return unsound("table {} is listed twice", table.number);
  }
  std::vector<RowsOfFile> all;
  for (const Part& part : manifest.parts) {
    for (const DataFile& file : part.files) {
      for (const ChunkEntry& chunk : file.chunks) {
        if (!is_of_table(chunk.kind)) continue;
        if (chunk.kind == ChunkKind::kRemovedRows && !manifest.since)
          return unsound("{}: rows that are there no more, but no checkpoint that had them", file.name);
        if (!tables.contains(chunk.number))
          return unsound("{}: rows of table {}, which is not listed", file.name, chunk.number);
        if (chunk.kind == ChunkKind::kRows) all.push_back({chunk.number, chunk.first, chunk.last, &file});
      }
    }
  }
  std::ranges::sort(all, {}, [](const RowsOfFile& rows) { return std::tuple(rows.table, rows.first); });
  for (std::size_t i = 1; i < all.size(); ++i) {
    const RowsOfFile& before = all[i - 1];
    const RowsOfFile& rows = all[i];
    if (rows.table == before.table && rows.first <= before.last)
      return unsound("row {} of table {} is twice there, in {} and {}", rows.first, rows.table,
                     before.file->name, rows.file->name);
  }
  return absl::OkStatus();
}

}  // namespace

bool is_part_name(std::string_view name) {
  return !name.empty() && name.size() <= kMostPartNameBytes && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

bool is_shown_name(std::string_view name) {
  return !name.empty() && name.size() <= kMostShownNameBytes && base::printable(name) == name;
}

std::string data_file_name(std::string_view part, std::size_t index) {
  return index == 0 ? std::string(part) : fmt::format("{}.{}", part, index);
}

bool is_data_file_name(std::string_view name) {
  const std::string_view part = name.substr(0, name.find('.'));
  if (!is_part_name(part)) return false;
  if (part.size() == name.size()) return true;
  const auto index = base::parse_decimal<std::size_t>(name.substr(part.size() + 1));
  return index && data_file_name(part, *index) == name;
}

std::string description_of(ChunkKind kind, std::uint32_t number, std::uint64_t first, std::uint64_t last) {
  switch (kind) {
    case ChunkKind::kRows:
      return fmt::format("rows {} to {} of table {}", first, last, number);
    case ChunkKind::kScatteredRows:
      return fmt::format("rows with numbers from {} to {} of table {}", first, last, number);
    case ChunkKind::kRemovedRows:
      return fmt::format("keys without rows, with numbers from {} to {}, of table {}", first, last, number);
    case ChunkKind::kBlob:
      break;
  }
  return fmt::format("bytes {} to {} of blob {}", first, last, number);
}

absl::Status check(const Part& part) {
  if (!is_part_name(part.name)) return unsound("\"{}\" is no name of a part", base::printable(part.name));
  if (part.files.empty()) return unsound("{} has no files", part.name);
  for (std::size_t i = 0; i < part.files.size(); ++i) {
    const DataFile& file = part.files[i];
    if (file.name != data_file_name(part.name, i))
      return unsound("expected the file {}, found {}", data_file_name(part.name, i),
                     base::printable(file.name));
    RETURN_IF_ERROR(check_file(file));
  }
  return check_blobs(part);
}

absl::Status check(const Manifest& manifest) {
  std::set<std::string> parts;
  std::set<std::string> blobs;
  for (const Part& part : manifest.parts) {
    RETURN_IF_ERROR(check(part));
    if (!parts.insert(part.name).second) return unsound("part {} is there twice", part.name);
    for (const Blob& blob : part.blobs) {
      if (!blobs.insert(blob.name).second) return unsound("blob {} is there twice", blob.name);
    }
  }
  if (manifest.since && *manifest.since >= manifest.clock)
    return unsound("of clock {}, it builds upon clock {}", manifest.clock, *manifest.since);
  if (!manifest.options.is_object()) return unsound("the options are no JSON object");
  return check_rows(manifest);
}

}  // namespace verbena::checkpoint
