// What an observer has seen of tables, for people and for programs.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include <verbena/observer.hpp>

namespace verbena::apps::inspect {

struct TableStats {
  ObservedTable table;
  /// nullopt: the table is dynamic, and only workers know what its nodes have.
  std::optional<TableMemory> memory;
};

struct JobStats {
  ObservedJob job;
  std::vector<TableStats> tables;
};

/// The values of a row; nullopt: there is no such row.
struct SeenRow {
  Key key = 0;
  std::optional<std::vector<double>> values;
};

/// How keys are written: as numbers, or as "slot:index" (apps/data/feature_keys.hpp), as tables of ctr have
/// them.
enum class KeyText : std::uint8_t { kNumber, kSlotAndIndex };

/// The open tables with these names; all if there are none. NOT_FOUND: the message names those there are.
absl::StatusOr<std::vector<ObservedTable>> find_tables(Observer& observer,
                                                       const std::vector<std::string>& names);
absl::StatusOr<JobStats> look_at_job(Observer& observer, const std::vector<std::string>& names);
/// Those with the largest norms, the largest first.
absl::StatusOr<std::vector<SeenRow>> largest_rows(Observer& observer, const ObservedTable& table,
                                                  std::size_t count);
/// In the order of `keys`.
absl::StatusOr<std::vector<SeenRow>> rows_of(Observer& observer, const ObservedTable& table,
                                             std::span<const Key> keys);
/// Writes a line for each row: the key, as `keys` says, and its values. `progress` is told how many rows are
/// written. Returns their number. Errors: those of Observer and OutputFile.
absl::StatusOr<std::uint64_t> export_rows(Observer& observer, const ObservedTable& table,
                                          const std::string& path, KeyText keys,
                                          const std::function<void(std::uint64_t)>& progress);

[[nodiscard]] std::string to_text(const JobStats& stats);
[[nodiscard]] nlohmann::json to_json(const JobStats& stats);
/// A line for each row: its key and its values.
[[nodiscard]] std::string to_text(const ObservedTable& table, std::span<const SeenRow> rows,
                                  KeyText keys = KeyText::kNumber);
/// The key is a number; with slots, the text is beside it.
[[nodiscard]] nlohmann::json to_json(std::span<const SeenRow> rows, KeyText keys = KeyText::kNumber);

}  // namespace verbena::apps::inspect
