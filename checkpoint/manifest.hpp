// What is in a checkpoint: its manifest, which is written last and without which there is no checkpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "checkpoint/format.hpp"

namespace verbena::checkpoint {

/// A chunk of a data file. Kind, number, first, last and rows are those of its header.
struct ChunkEntry {
  ChunkKind kind = ChunkKind::kRows;
  std::uint32_t number = 0;
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::uint64_t rows = 0;
  std::uint64_t offset = 0;    ///< of the header in the file
  std::uint64_t bytes = 0;     ///< with the header
  std::uint64_t checksum = 0;  ///< the header's
};

struct DataFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint64_t checksum = 0;  ///< XXH3-64 of all of its bytes
  std::vector<ChunkEntry> chunks;
};

/// A named string of bytes. In chunks its number is its place in its part's list.
struct Blob {
  std::string name;
  std::uint64_t bytes = 0;
};

/// What one process has written: the files NAME, NAME.1, NAME.2, …
struct Part {
  std::string name;
  std::vector<DataFile> files;
  std::vector<Blob> blobs;
};

struct TableEntry {
  std::uint32_t number = 0;
  std::string name;
  nlohmann::json description;  ///< the caller's: what it needs to know to open the table again
};

struct Manifest {
  std::uint64_t clock = 0;
  std::uint64_t run = 0;  ///< of the job that has written it: a number that no other job has
  /// An increment: the clock of its base, an older checkpoint of the same run (checkpoint/layers.hpp).
  std::optional<std::uint64_t> since = std::nullopt;
  std::string written;  ///< in UTC, as 2026-11-25T09:30:00Z; Folder::commit() sets it
  std::string program;  ///< the version of the program that has written it
  /// The caller's, an object: to refuse to go on with others.
  nlohmann::json options = nlohmann::json::object();
  std::vector<TableEntry> tables;
  std::vector<Part> parts;
};

/// 1 to 100 letters, digits, '-' and '_'.
[[nodiscard]] bool is_part_name(std::string_view name);
/// Of a table or blob: 1 to 256 bytes, as a table's name may have, that can be shown as they are.
[[nodiscard]] bool is_shown_name(std::string_view name);
/// "server-0", "server-0.1", "server-0.2", …
[[nodiscard]] std::string data_file_name(std::string_view part, std::size_t index);
/// Whether it is such a name, of whatever part.
[[nodiscard]] bool is_data_file_name(std::string_view name);
/// Whether such a chunk holds something of a table.
[[nodiscard]] constexpr bool is_of_table(ChunkKind kind) {
  return kind != ChunkKind::kBlob;
}
/// Whether its rows stand in any order, with numbers anywhere from the first to the last.
[[nodiscard]] constexpr bool is_in_any_order(ChunkKind kind) {
  return kind == ChunkKind::kScatteredRows || kind == ChunkKind::kRemovedRows;
}
/// "rows 5 to 9 of table 3": what a chunk holds, for messages.
[[nodiscard]] std::string description_of(ChunkKind kind, std::uint32_t number, std::uint64_t first,
                                         std::uint64_t last);

/// Whether the chunks of each file follow each other from its header to its end, and the pieces of each blob
/// likewise. INVALID_ARGUMENT names what is wrong.
absl::Status check(const Part& part);
/// The same for all parts, and: no name twice; rows only of tables that are listed; no number of kRows in two
/// chunks; a base that is older, and removed rows only if there is one.
absl::Status check(const Manifest& manifest);

}  // namespace verbena::checkpoint
