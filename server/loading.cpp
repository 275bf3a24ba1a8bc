#include "server/loading.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/return_if_error.hpp"
#include "server/saving.hpp"
#include "server/sparse_part.hpp"

namespace verbena::server {

namespace {

using checkpoint::NumberRange;
using checkpoint::Rows;

/// The columns of rows, each present or empty, in the order of protocol::SavedColumns.
struct Columns {
  std::span<const std::byte> keys;
  std::span<const std::byte> values;
  std::span<const std::byte> states;
  std::span<const std::byte> uses;
};

/// `expected`: what this table's rows have.
absl::StatusOr<Columns> columns_of(const Rows& rows, const protocol::SavedColumns& expected,
                                   const TableLoad& load) {
  std::vector<std::uint32_t> widths;
  for (const checkpoint::Column& column : rows.columns) widths.push_back(column.row_bytes);
  if (widths != expected.row_bytes()) {
    return absl::DataLossError(fmt::format(
        "{}: table \"{}\": expected rows with columns of {} bytes, found {}", load.reader().path(),
        load.saved().name, absl::StrJoin(expected.row_bytes(), ", "), absl::StrJoin(widths, ", ")));
  }
  Columns columns;
  std::size_t next = 0;
  const auto take = [&](std::uint32_t row_bytes) {
    return row_bytes == 0 ? std::span<const std::byte>() : rows.columns[next++].bytes;
  };
  columns.keys = take(expected.key_bytes);
  columns.values = take(expected.values_bytes);
  columns.states = take(expected.state_bytes);
  columns.uses = take(expected.use_bytes);
  return columns;
}

/// The part of a column that is one row's; empty if the column is.
std::span<const std::byte> row_of(std::span<const std::byte> column, std::uint32_t row_bytes,
                                  std::uint64_t row) {
  return column.empty() ? column : column.subspan(row * row_bytes, row_bytes);
}

Key key_of(std::span<const std::byte> keys, std::uint64_t row) {
  Key key = kNoKey;
  std::memcpy(&key, keys.data() + row * sizeof key, sizeof key);
  return key;
}

void copy(std::byte* to, std::span<const std::byte> from) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size());
}

/// Of a table that is saved: whether rows have uses beside them.
bool has_uses(const protocol::OpenTable& saved) {
  const auto eviction = protocol::EvictionRule::find(saved.eviction);
  return saved.key_space == KeySpace::kSparse && eviction.ok() && eviction->evicts();
}

/// Rows of dense tables are always there.
std::string no_removed_rows(const TableLoad& load) {
  return fmt::format("{}: table \"{}\" is dense, but some of its rows were removed", load.reader().path(),
                     load.saved().name);
}

NumberRange numbers_of(const LanePart& part) {
  const KeyRange range = part.sparse == nullptr ? part.keys : part.sparse->keys().parts();
  return {range.first, range.last};
}

}  // namespace

// ---- what all parts share

absl::StatusOr<std::shared_ptr<TableLoad>> TableLoad::create(std::shared_ptr<const checkpoint::Reader> reader,
                                                             const protocol::OpenTable& open,
                                                             std::uint32_t parts) {
  const std::vector<checkpoint::TableEntry>& tables = reader->manifest().tables;
  const auto entry =
      std::find_if(tables.begin(), tables.end(), [&](const auto& table) { return table.name == open.name; });
  if (entry == tables.end()) {
    return absl::InvalidArgumentError(fmt::format("{} has no table \"{}\"", reader->path(), open.name));
  }
  absl::StatusOr<protocol::OpenTable> saved = protocol::table_of(entry->description, entry->number);
  if (!saved.ok()) {
    return absl::Status(saved.status().code(),
                        fmt::format("{}: {}", reader->path(), std::string(saved.status().message())));
  }
  RETURN_IF_ERROR(protocol::check_resumable(*saved, open));
  return std::shared_ptr<TableLoad>(
      new TableLoad(std::move(reader), entry->number, *std::move(saved), parts));
}

void TableLoad::part_is_done(const absl::Status& status) {
  if (!status.ok()) {
    const std::lock_guard lock(mutex_);
    if (status_.ok()) status_ = status;
  }
  // Release, and acquire for the others' status: who sees 0 sees the first error, and all rows.
  left_.fetch_sub(1, std::memory_order_acq_rel);
}

// ---- lanes

LaneLoad::LaneLoad(std::shared_ptr<TableLoad> load, const FixedShard& shard, const LanePart& part)
    : load_(std::move(load)),
      shard_(shard),
      part_(part),
      rows_(load_->reader().rows(load_->number(), numbers_of(part))),
      newest_(load_->reader()) {}

bool LaneLoad::step(std::uint32_t now) {
  const absl::StatusOr<bool> is_last = take_chunk(now);
  if (is_last.ok() && !*is_last) return false;
  load_->part_is_done(is_last.status());
  return true;
}

absl::StatusOr<bool> LaneLoad::take_chunk(std::uint32_t now) {
  const absl::StatusOr<std::optional<Rows>> rows = rows_.next();
  if (!rows.ok()) return rows.status();
  if (rows->has_value()) {
    RETURN_IF_ERROR(take(**rows, now));
    return false;
  }
  RETURN_IF_ERROR(take_counts());
  return true;
}

bool LaneLoad::is_ours(Key key) const {
  return part_.sparse == nullptr ? part_.keys.contains(key)
                                 : part_.sparse->keys().has(key, protocol::KeyHash(key));
}

/// Keys of other lanes come in the same chunks.
absl::Status LaneLoad::take(const Rows& rows, std::uint32_t now) {
  if (rows.are_removed && part_.sparse == nullptr) return absl::DataLossError(no_removed_rows(*load_));
  if (rows.are_removed) {
    newest_.remove(rows, [&](Key key) { return is_ours(key); });
    return absl::OkStatus();
  }
  const protocol::SavedColumns widths = protocol::saved_columns(
      rows.are_scattered, shard_.stride_bytes, shard_.rule.state_bytes(), has_uses(load_->saved()));
  const absl::StatusOr<Columns> columns = columns_of(rows, widths, *load_);
  if (!columns.ok()) return columns.status();
  for (std::uint64_t i = 0; i < rows.count; ++i) {
    const Key key = rows.are_scattered ? key_of(columns->keys, i) : rows.numbers.first + i;
    if (!is_ours(key) || !newest_.takes(key)) continue;
    const std::span<const std::byte> values = row_of(columns->values, widths.values_bytes, i);
    const std::span<const std::byte> state = row_of(columns->states, widths.state_bytes, i);
    if (part_.sparse != nullptr) {
      RETURN_IF_ERROR(take_sparse(key, values, state, row_of(columns->uses, widths.use_bytes, i), now));
    } else {
      const protocol::Row row = part_.range.row_of(key);
      copy(part_.rows->values(row), values);
      copy(part_.rows->state(row), state);
    }
  }
  return absl::OkStatus();
}

absl::Status LaneLoad::take_sparse(Key key, std::span<const std::byte> values,
                                   std::span<const std::byte> state, std::span<const std::byte> use,
                                   std::uint32_t now) {
  SparsePart& part = *part_.sparse;
  const protocol::KeyHash hash(key);
  if (part.find(hash, key)) return absl::OkStatus();
  if (!part.has_room()) {
    return absl::ResourceExhaustedError(fmt::format(
        "table \"{}\" has more rows in {} than its most_mb allows: the eviction is {}, and was {}",
        shard_.table.name, load_->reader().path(), shard_.table.eviction, load_->saved().eviction));
  }
  const absl::StatusOr<protocol::Row> row = part.add(hash, key, now);
  if (!row.ok()) return row.status();
  // No worker has the table open, so none can be reading a segment that was divided.
  for (const std::uint32_t segment : part.take_retired()) part.free_segment(segment);
  copy(part_.rows->values(*row), values);
  copy(part_.rows->state(*row), state);
  if (!use.empty() && part.eviction().evicts()) std::memcpy(&part_.rows->use(*row), use.data(), use.size());
  return absl::OkStatus();
}

absl::Status LaneLoad::take_counts() {
  if (part_.sparse == nullptr) return absl::OkStatus();
  for (const checkpoint::Part& part : load_->reader().manifest().parts) {
    for (const checkpoint::Blob& blob : part.blobs) {
      if (table_of_counts(blob.name) != load_->number()) continue;
      const absl::StatusOr<std::vector<std::byte>> counts = load_->reader().read_blob(blob.name);
      if (!counts.ok()) return counts.status();
      RETURN_IF_ERROR(part_.sparse->load_admission_counts(*counts));
    }
  }
  return absl::OkStatus();
}

// ---- dynamic tables

MovingLoad::MovingLoad(std::shared_ptr<TableLoad> load, MovingShard& shard)
    : load_(std::move(load)),
      shard_(shard),
      rows_(load_->reader().rows(load_->number(), {shard.home_keys().first, shard.home_keys().last})),
      newest_(load_->reader()) {}

bool MovingLoad::step() {
  const absl::StatusOr<bool> is_last = take_chunk();
  if (is_last.ok() && !*is_last) return false;
  load_->part_is_done(is_last.status());
  return true;
}

absl::StatusOr<bool> MovingLoad::take_chunk() {
  const absl::StatusOr<std::optional<Rows>> rows = rows_.next();
  if (!rows.ok()) return rows.status();
  if (!rows->has_value()) return true;
  if ((*rows)->are_removed) return absl::DataLossError(no_removed_rows(*load_));
  const protocol::SavedColumns widths =
      protocol::saved_columns((*rows)->are_scattered, shard_.stride_bytes(), 0, false);
  const absl::StatusOr<Columns> columns = columns_of(**rows, widths, *load_);
  if (!columns.ok()) return columns.status();
  for (std::uint64_t i = 0; i < (*rows)->count; ++i) {
    const Key key = (*rows)->are_scattered ? key_of(columns->keys, i) : (*rows)->numbers.first + i;
    if (shard_.home_keys().contains(key) && newest_.takes(key))
      copy(shard_.values_of(key), row_of(columns->values, widths.values_bytes, i));
  }
  return false;
}

}  // namespace verbena::server
