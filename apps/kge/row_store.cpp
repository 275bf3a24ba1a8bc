#include "apps/kge/row_store.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "protocol/partition.hpp"

namespace verbena::apps::kge {
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

/// The parameters of all rows, without the sums; one after the other in `to`.
absl::Status pull_parameters(Table<float>& table, float* to) {
  const std::size_t width = table.width();
  std::vector<float> rows;
  for (Key first = 0; first < table.rows(); first += rows_at_once(width)) {
    const KeyRange some{first, std::min<Key>(first + rows_at_once(width), table.rows())};
    rows.resize(some.size() * width);
    if (absl::Status status = table.pull(some, rows); !status.ok()) return status;
    for (std::size_t row = 0; row < some.size(); ++row, to += width / 2) {
      std::copy_n(rows.data() + row * width, width / 2, to);
    }
  }
  return absl::OkStatus();
}

}  // namespace

LocalRows::LocalRows(const Shape& shape, const RowSource& entities, const RowSource& relations)
    : shape_(shape), entities_(rows_of(entities)), relations_(rows_of(relations)) {}

absl::Status LocalRows::read(Embeddings& embeddings) {
  for (std::size_t id = 0; id < embeddings.entities(); ++id) {
    std::copy_n(entities_.get() + id * shape_.entity_width(), shape_.entity_size(), embeddings.entity(id));
  }
  for (std::size_t id = 0; id < embeddings.relations(); ++id) {
    std::copy_n(relations_.get() + id * shape_.relation_width(), shape_.relation_size(),
                embeddings.relation(id));
  }
  return absl::OkStatus();
}

FetchedRows::FetchedRows(Table<float>& table) : table_(table) {
  for (Frame& frame : frames_) frame.places.resize(table.rows());
}

void FetchedRows::begin() {
  assert(begun_ < frames_.size());
  Frame& frame = frames_[(first_ + begun_) % frames_.size()];
  for (const Key key : frame.keys) frame.places[key] = 0;
  frame.keys.clear();
  frame.handed_over.clear();
  ++begun_;
}

std::uint32_t FetchedRows::place_of(std::uint32_t key) {
  Frame& frame = frames_[(first_ + begun_ - 1) % frames_.size()];
  std::uint32_t& place = frame.places[key];
  if (place == 0) {
    frame.keys.push_back(key);
    place = static_cast<std::uint32_t>(frame.keys.size());
    if (begun_ == 2 && frames_[first_].places[key] != 0) {
      frame.handed_over.push_back({place - 1, frames_[first_].places[key] - 1});
    }
  }
  return place - 1;
}

void FetchedRows::fetch() {
  Frame& frame = frames_[(first_ + begun_ - 1) % frames_.size()];
  if (frame.keys.size() > frame.capacity) {
    frame.capacity = frame.keys.size() + frame.keys.size() / 4;
    frame.values = aligned_floats(frame.capacity * table_.width());
  }
  frame.pull =
      table_.pull_async(frame.keys, std::span(frame.values.get(), frame.keys.size() * table_.width()));
}

absl::StatusOr<float*> FetchedRows::open() {
  assert(begun_ > 0);
  Frame& frame = frames_[first_];
  const std::size_t width = table_.width();
  absl::Status status = frame.pull->wait();
  frame.pull.reset();
  if (!status.ok()) return status;
  const Frame& before = frames_[(first_ + 1) % frames_.size()];
  for (const HandedOver& row : frame.handed_over) {
    std::copy_n(before.values.get() + row.place_before * width, width,
                frame.values.get() + row.place * width);
  }
  frame.pulled.assign(frame.values.get(), frame.values.get() + frame.keys.size() * width);
  return frame.values.get();
}

absl::Status FetchedRows::close() {
  Frame& frame = frames_[first_];
  const float* const values = frame.values.get();
  for (std::size_t i = 0; i < frame.pulled.size(); ++i) frame.pulled[i] = values[i] - frame.pulled[i];
  first_ = (first_ + 1) % frames_.size();
  --begun_;
  return table_.push(frame.keys, frame.pulled);
}

absl::Status TableRows::initialize(const RowSource& entities, const RowSource& relations) {
  const auto share = [&](const RowSource& source) {
    return protocol::RangePartition(source.rows, session_.workers()).range(session_.rank());
  };
  if (absl::Status status = push_first_rows(entity_table_, entities, share(entities)); !status.ok()) {
    return status;
  }
  if (absl::Status status = push_first_rows(relation_table_, relations, share(relations)); !status.ok()) {
    return status;
  }
  return session_.barrier();
}

void TableRows::request(MiniBatch& batch) {
  entities_.begin();
  relations_.begin();
  for (Triple& triple : batch.triples) {
    triple.head = entities_.place_of(triple.head);
    triple.tail = entities_.place_of(triple.tail);
    triple.relation = relations_.place_of(triple.relation);
  }
  for (std::uint32_t& entity : batch.negatives) entity = entities_.place_of(entity);
  entities_.fetch();
  relations_.fetch();
}

absl::StatusOr<Rows> TableRows::open() {
  const absl::StatusOr<float*> entities = entities_.open();
  if (!entities.ok()) return entities.status();
  const absl::StatusOr<float*> relations = relations_.open();
  if (!relations.ok()) return relations.status();
  slowdown_.computing_begins();
  return Rows{*entities, *relations};
}

absl::Status TableRows::close() {
  slowdown_.computing_ends();
  if (absl::Status status = entities_.close(); !status.ok()) return status;
  return relations_.close();
}

absl::Status TableRows::clock() {
  slowdown_.clock_ends();
  return session_.clock();
}

absl::Status TableRows::read(Embeddings& embeddings) {
  if (absl::Status status = pull_parameters(entity_table_, embeddings.entity(0)); !status.ok()) return status;
  return pull_parameters(relation_table_, embeddings.relation(0));
}

}  // namespace verbena::apps::kge
