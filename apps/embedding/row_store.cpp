#include "apps/embedding/row_store.hpp"

#include <algorithm>
#include <cassert>

#include "protocol/partition.hpp"

namespace verbena::apps {
namespace {

constexpr std::size_t kBytesAtOnce = std::size_t{1} << 20;

hwy::AlignedFreeUniquePtr<float[]> rows_of(const RowSource& source) {
  auto rows = aligned_floats(source.rows * source.width);
  for (std::size_t id = 0; id < source.rows; ++id) {
    source.make(id, std::span(rows.get() + id * source.width, source.width));
  }
  return rows;
}

std::size_t rows_at_once(std::size_t width) {
  return std::max<std::size_t>(kBytesAtOnce / (width * sizeof(float)), 1);
}

absl::Status push_first_rows(Table<float>& table, const RowSource& source, KeyRange mine) {
  std::vector<float> rows;
  for (Key first = mine.first; first < mine.last; first += rows_at_once(source.width)) {
    const KeyRange some{first, std::min<Key>(first + rows_at_once(source.width), mine.last)};
    rows.resize(some.size() * source.width);
    for (Key id = some.first; id < some.last; ++id) {
      source.make(id, std::span(rows).subspan((id - first) * source.width, source.width));
    }
    if (absl::Status status = table.push(some, rows); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

LocalRows::LocalRows(std::span<const RowSource> first) {
  for (const RowSource& source : first) {
    sizes_.push_back({source.rows, source.width});
    memory_.push_back(rows_of(source));
    rows_.push_back(memory_.back().get());
  }
}

absl::Status LocalRows::read(std::size_t table, std::size_t numbers, float* to) {
  const auto [rows, width] = sizes_[table];
  for (std::size_t id = 0; id < rows; ++id)
    std::copy_n(rows_[table] + id * width, numbers, to + id * numbers);
  return absl::OkStatus();
}

FetchedRows::FetchedRows(Table<float>& table) : table_(table) {
  for (Frame& frame : frames_) frame.places.resize(table.rows());
}

void FetchedRows::begin() {
  assert(begun_ < frames_.size());
  Frame& frame = frames_[(first_ + begun_) % frames_.size()];
  for (const std::vector<Key>* const keys : {&frame.handed_over, &frame.pulled}) {
    for (const Key key : *keys) frame.places[key] = 0;
  }
  frame.handed_over.clear();
  frame.places_before.clear();
  frame.pulled.clear();
  frame.first_pulled = begun_ == 0 ? 0 : frames_[first_].keys();
  ++begun_;
}

std::uint32_t FetchedRows::place_of(std::uint32_t key) {
  Frame& frame = frames_[(first_ + begun_ - 1) % frames_.size()];
  std::uint32_t& place = frame.places[key];
  if (place == 0) {
    const std::uint32_t before = begun_ == 2 ? frames_[first_].places[key] : 0;
    if (before != 0) {
      frame.handed_over.push_back(key);
      frame.places_before.push_back(before - 1);
      place = static_cast<std::uint32_t>(frame.handed_over.size());
    } else {
      frame.pulled.push_back(key);
      place = static_cast<std::uint32_t>(frame.end());
    }
  }
  return place - 1;
}

void FetchedRows::fetch() {
  Frame& frame = frames_[(first_ + begun_ - 1) % frames_.size()];
  const std::size_t width = table_.width();
  if (frame.end() > frame.capacity) {
    frame.capacity = frame.end() + frame.end() / 4;
    frame.values = aligned_floats(frame.capacity * width);
  }
  frame.pull = table_.pull_async(
      frame.pulled, std::span(frame.values.get() + frame.first_pulled * width, frame.pulled.size() * width));
}

absl::StatusOr<float*> FetchedRows::open() {
  assert(begun_ > 0);
  Frame& frame = frames_[first_];
  const std::size_t width = table_.width();
  absl::Status status = frame.pull->wait();
  frame.pull.reset();
  if (!status.ok()) return status;
  float* const values = frame.values.get();
  const Frame& before = frames_[(first_ + 1) % frames_.size()];
  for (std::size_t i = 0; i < frame.handed_over.size(); ++i) {
    std::copy_n(before.values.get() + frame.places_before[i] * width, width, values + i * width);
  }
  frame.opened.resize(frame.keys() * width);
  const auto rest = std::copy_n(values, frame.handed_over.size() * width, frame.opened.begin());
  std::copy_n(values + frame.first_pulled * width, frame.pulled.size() * width, rest);
  return values;
}

absl::Status FetchedRows::close() {
  Frame& frame = frames_[first_];
  const std::size_t width = table_.width();
  const auto push = [&](std::span<const Key> keys, const float* values, std::span<float> opened) {
    for (std::size_t i = 0; i < opened.size(); ++i) opened[i] = values[i] - opened[i];
    for (std::size_t row = 0; !shares_.empty() && row < keys.size(); ++row) {
      for (float& number : opened.subspan(row * width, width)) number *= shares_[keys[row]];
    }
    return table_.push(keys, opened);
  };
  first_ = (first_ + 1) % frames_.size();
  --begun_;
  const std::span opened(frame.opened);
  const std::size_t numbers = frame.handed_over.size() * width;
  absl::Status status = push(frame.handed_over, frame.values.get(), opened.first(numbers));
  if (!status.ok()) return status;
  return push(frame.pulled, frame.values.get() + frame.first_pulled * width, opened.subspan(numbers));
}

TableRows::TableRows(Session& session, std::span<Table<float>* const> tables, Slowdown& slowdown)
    : session_(session), tables_(tables.begin(), tables.end()), open_(tables.size()), slowdown_(slowdown) {
  for (Table<float>* const table : tables_) fetched_.emplace_back(*table);
}

absl::Status TableRows::initialize(std::span<const RowSource> first) {
  assert(first.size() == tables_.size());
  for (std::size_t table = 0; table < tables_.size(); ++table) {
    const RowSource& source = first[table];
    const KeyRange mine = protocol::RangePartition(source.rows, session_.workers()).range(session_.rank());
    if (absl::Status status = push_first_rows(*tables_[table], source, mine); !status.ok()) return status;
  }
  return session_.barrier();
}

void TableRows::request(std::span<const NeededRows> needed) {
  for (FetchedRows& rows : fetched_) rows.begin();
  for (const auto& [table, keys] : needed) {
    FetchedRows& rows = fetched_[table];
    for (std::uint32_t& key : keys) key = rows.place_of(key);
  }
  for (FetchedRows& rows : fetched_) rows.fetch();
}

absl::StatusOr<std::span<float* const>> TableRows::open() {
  for (std::size_t table = 0; table < tables_.size(); ++table) {
    const absl::StatusOr<float*> rows = fetched_[table].open();
    if (!rows.ok()) return rows.status();
    open_[table] = *rows;
  }
  slowdown_.computing_begins();
  return std::span<float* const>(open_);
}

absl::Status TableRows::close(std::uint64_t items) {
  slowdown_.computing_ends(items);
  for (FetchedRows& rows : fetched_) {
    if (absl::Status status = rows.close(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status TableRows::clock() {
  slowdown_.clock_ends();
  return session_.clock();
}

absl::Status TableRows::read(std::size_t table, std::size_t numbers, float* to) {
  Table<float>& rows_of_table = *tables_[table];
  const std::size_t width = rows_of_table.width();
  std::vector<float> rows;
  for (Key first = 0; first < rows_of_table.rows(); first += rows_at_once(width)) {
    const KeyRange some{first, std::min<Key>(first + rows_at_once(width), rows_of_table.rows())};
    rows.resize(some.size() * width);
    if (absl::Status status = rows_of_table.pull(some, rows); !status.ok()) return status;
    for (std::size_t row = 0; row < some.size(); ++row, to += numbers) {
      std::copy_n(rows.data() + row * width, numbers, to);
    }
  }
  return absl::OkStatus();
}

}  // namespace verbena::apps
