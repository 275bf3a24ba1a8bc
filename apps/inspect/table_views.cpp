#include "apps/inspect/table_views.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_join.h"
#include "apps/data/feature_keys.hpp"
#include "apps/data/output_file.hpp"
#include "apps/inspect/columns.hpp"
#include "apps/table_memory.hpp"
#include "base/printable.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps::inspect {
namespace {

constexpr std::uint64_t kRowsUntilProgress = 100'000;

/// As few digits as tell the value from all others of the type.
std::string number(double value, ValueType type) {
  if (type == ValueType::kFloat) return fmt::format("{}", static_cast<float>(value));
  return is_whole(type) ? fmt::format("{:.0f}", value) : fmt::format("{}", value);
}

std::string text_of(Key key, KeyText keys) {
  return keys == KeyText::kSlotAndIndex ? feature_name(key) : std::to_string(key);
}

}  // namespace

absl::StatusOr<std::vector<ObservedTable>> find_tables(Observer& observer,
                                                       const std::vector<std::string>& names) {
  absl::StatusOr<std::vector<ObservedTable>> all = observer.tables();
  if (!all.ok() || names.empty()) return all;
  std::vector<ObservedTable> found;
  for (const std::string& name : names) {
    const auto table =
        std::ranges::find(*all, name, [](const ObservedTable& one) { return one.options.name; });
    if (table == all->end()) {
      std::vector<std::string> known;
      std::ranges::transform(*all, std::back_inserter(known),
                             [](const ObservedTable& one) { return '"' + one.options.name + '"'; });
      return absl::NotFoundError(base::printable(fmt::format(
          "no table \"{}\" is open{}{}", name, known.empty() ? "" : ", but ", absl::StrJoin(known, ", "))));
    }
    found.push_back(*table);
  }
  return found;
}

absl::StatusOr<JobStats> look_at_job(Observer& observer, const std::vector<std::string>& names) {
  JobStats stats;
  absl::StatusOr<ObservedJob> job = observer.job();
  if (!job.ok()) return job.status();
  stats.job = *job;
  absl::StatusOr<std::vector<ObservedTable>> tables = find_tables(observer, names);
  if (!tables.ok()) return tables.status();
  for (ObservedTable& table : *tables) {
    std::optional<TableMemory> taken;
    if (table.options.allocation == Allocation::kStatic) {
      absl::StatusOr<TableMemory> memory = observer.memory(table);
      if (!memory.ok()) return memory.status();
      taken = *memory;
    }
    stats.tables.push_back({std::move(table), taken});
  }
  return stats;
}

absl::StatusOr<std::vector<SeenRow>> largest_rows(Observer& observer, const ObservedTable& table,
                                                  std::size_t count) {
  const absl::StatusOr<FunctionResult> largest =
      observer.call(table, fmt::format("top(count={})", count), kAllKeys);
  if (!largest.ok()) return largest.status();
  return rows_of(observer, table, largest->keys);
}

absl::StatusOr<std::vector<SeenRow>> rows_of(Observer& observer, const ObservedTable& table,
                                             std::span<const Key> keys) {
  const std::size_t width = table.options.width;
  const std::size_t at_a_time = std::max<std::size_t>(kMaxFunctionResults / width, 1);
  std::unordered_map<Key, std::vector<double>> found;
  for (std::size_t first = 0; first < keys.size(); first += at_a_time) {
    const auto some = keys.subspan(first, std::min(at_a_time, keys.size() - first));
    const absl::StatusOr<FunctionResult> result = observer.call(table, "values", some);
    if (!result.ok()) return result.status();
    if (result->numbers.size() != result->keys.size() * width)
      return absl::InvalidArgumentError("a server has sent rows of another width");
    for (std::size_t i = 0; i < result->keys.size(); ++i) {
      const auto values = std::span(result->numbers).subspan(i * width, width);
      found.try_emplace(result->keys[i], values.begin(), values.end());
    }
  }
  std::vector<SeenRow> rows;
  for (const Key key : keys) {
    const auto values = found.find(key);
    rows.push_back({key, values == found.end() ? std::nullopt : std::optional(values->second)});
  }
  return rows;
}

absl::StatusOr<std::uint64_t> export_rows(Observer& observer, const ObservedTable& table,
                                          const std::string& path, KeyText keys,
                                          const std::function<void(std::uint64_t)>& progress) {
  absl::StatusOr<OutputFile> file = OutputFile::create(path);
  if (!file.ok()) return file.status();
  std::uint64_t rows = 0;
  std::string line;
  RETURN_IF_ERROR(observer.scan(table, [&](Key key, std::span<const double> values) {
    line = text_of(key, keys);
    for (const double value : values) line += ' ' + number(value, table.type);
    file->write(line += '\n');
    if (++rows % kRowsUntilProgress == 0) progress(rows);
    return file->status();
  }));
  RETURN_IF_ERROR(file->commit());
  return rows;
}

std::string to_text(const JobStats& stats) {
  const ObservedJob& job = stats.job;
  std::string text =
      fmt::format("{} server{}, {} worker{}{}; {}\n", job.servers, job.servers == 1 ? "" : "s", job.workers,
                  job.workers == 1 ? "" : "s",
                  job.workers_left == 0 ? "" : fmt::format(", of which {} have left", job.workers_left),
                  job.clock ? fmt::format("all have finished {} clocks", *job.clock) : "the job is over");
  std::vector<std::vector<std::string>> lines = {{"table", "keys", "width", "model", "rule", "rows", "MB",
                                                  "values", "state", "books", "index", "counts"}};
  std::string refused;
  for (const auto& [table, memory] : stats.tables) {
    const TableOptions& options = table.options;
    const std::string name = base::printable(options.name);
    std::vector<std::string>& line = lines.emplace_back(
        std::vector<std::string>{name, name_of(options.key_space), std::to_string(options.width),
                                 to_string(options.consistency), base::printable(options.rule)});
    if (!memory) {
      line.insert(line.end(), {std::to_string(options.rows), "dynamic"});
      continue;
    }
    line.push_back(std::to_string(memory->rows));
    for (const std::uint64_t bytes : {memory->bytes(), memory->value_bytes, memory->state_bytes,
                                      memory->book_bytes, memory->index_bytes, memory->count_bytes})
      line.push_back(megabytes(bytes));
    if (memory->refused > 0)
      refused +=
          fmt::format("{}: {} pushes made no row, since the memory was used up\n", name, memory->refused);
  }
  if (stats.tables.empty()) return text + "no table is open on all servers yet\n";
  return text + in_columns(lines) + refused;
}

nlohmann::json to_json(const JobStats& stats) {
  nlohmann::json json = {{"servers", stats.job.servers},
                         {"workers", stats.job.workers},
                         {"workers_left", stats.job.workers_left},
                         {"clock", nullptr},
                         {"tables", nlohmann::json::array()}};
  if (stats.job.clock) json["clock"] = *stats.job.clock;
  for (const auto& [table, memory] : stats.tables) {
    const TableOptions& options = table.options;
    nlohmann::json one = {{"name", options.name},
                          {"keys", name_of(options.key_space)},
                          {"width", options.width},
                          {"type", name_of(table.type)},
                          {"allocation", name_of(options.allocation)},
                          {"consistency", to_string(options.consistency)},
                          {"rule", options.rule},
                          {"initial", options.initial},
                          {"seed", options.seed},
                          {"admission", options.admission},
                          {"eviction", options.eviction},
                          {"memory", nullptr}};
    if (options.key_space == KeySpace::kDense) one["rows"] = options.rows;
    if (memory) one["memory"] = apps::to_json(*memory);
    json["tables"].push_back(std::move(one));
  }
  return json;
}

std::string to_text(const ObservedTable& table, std::span<const SeenRow> rows, KeyText keys) {
  std::string text;
  for (const SeenRow& row : rows) {
    text += text_of(row.key, keys);
    if (!row.values) text += " no row";
    for (const double value : row.values.value_or(std::vector<double>()))
      text += ' ' + number(value, table.type);
    text += '\n';
  }
  return text;
}

nlohmann::json to_json(std::span<const SeenRow> rows, KeyText keys) {
  nlohmann::json json = nlohmann::json::array();
  for (const SeenRow& row : rows) {
    nlohmann::json one = {{"key", row.key}, {"values", nullptr}};
    if (keys == KeyText::kSlotAndIndex) one["slot_and_index"] = text_of(row.key, keys);
    if (row.values) one["values"] = *row.values;
    json.push_back(std::move(one));
  }
  return json;
}

}  // namespace verbena::apps::inspect
