#include "server/sparse_part.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cassert>
#include <chrono>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/return_if_error.hpp"
#include "server/image_bytes.hpp"
#include "server/image_copier.hpp"

namespace verbena::server {

namespace {

/// Of a limited number of rows, so many wait until they are free, or are kept for those that do.
constexpr std::uint64_t kShareOfGone = 8;
/// How many rows may be gone and not free, if the number of rows is not limited: a quarter of those in use,
/// and no less than this.
constexpr std::uint64_t kLeastGone = 4096;

struct GoneRow {
  std::uint64_t row = 0;
  Key key = kNoKey;
};

/// `numbers` are all smaller than `end`.
template <class Number>
bool are_below(const std::vector<Number>& numbers, std::uint64_t end) {
  return std::all_of(numbers.begin(), numbers.end(),
                     [&](Number number) { return static_cast<std::uint64_t>(number) < end; });
}

}  // namespace

using protocol::IndexAnswer;
using protocol::KeyHash;
using protocol::RegionKind;
using protocol::Row;

SparsePart::SparsePart(const Shape& shape, RegionDesk& desk)
    : shape_(shape),
      desk_(desk),
      rows_(shape.strides, shape.rows_shift),
      admission_(shape.life.admission, shape.expected_rows),
      most_keys_(shape.most_rows - shape.most_rows / kShareOfGone) {}

SparsePart::~SparsePart() {
  for (const Spare* const spare : {&spare_rows_, &spare_segments_, &directory_}) desk_.withdraw(spare->order);
}

absl::Status SparsePart::start() {
  const auto taken = take(directory_, RegionKind::kRoot, 0);
  if (!taken.ok()) return taken.status();
  root_ = reinterpret_cast<std::uint64_t*>((*taken)->memory);
  auto index = SparseIndex::create(*this, shape_.keys_of_segment);
  if (!index.ok()) return index.status();
  index_.emplace(*std::move(index));
  // A table that nobody has pushed to has memory for its first rows, so that it is refused when it is opened.
  order(spare_rows_, RegionKind::kRows, 0);
  desk_.serve();
  is_starting_ = false;
  return spare_rows_.order.status;
}

void SparsePart::order(Spare& spare, RegionKind kind, std::uint32_t number) {
  spare.order.shard = shape_.shard;
  spare.order.lane = shape_.lane;
  spare.order.kind = kind;
  spare.order.number = number;
  spare.is_ordered = true;
  desk_.place(spare.order);
}

absl::StatusOr<RegionDesk::Order*> SparsePart::take(Spare& spare, RegionKind kind, std::uint32_t number) {
  if (!spare.is_ordered) order(spare, kind, number);
  if (is_starting_) desk_.serve();
  desk_.wait_for(spare.order);
  spare.is_ordered = false;
  if (!spare.order.status.ok()) return spare.order.status;
  return &spare.order;
}

absl::StatusOr<SparseIndex::Memory::NewSegment> SparsePart::add_segment() {
  const auto numbered = [&](std::uint32_t number) {
    return NewSegment{.number = number, .memory = segment(number)};
  };
  if (!free_segments_.empty()) {
    const NewSegment again = numbered(free_segments_.back());
    free_segments_.pop_back();
    before_change(*again.memory);
    std::ranges::fill(again.memory->buckets, protocol::IndexBucket{});
    return again;
  }
  if (next_segment_ >> shape_.segments_shift == segments_.size()) RETURN_IF_ERROR(add_segment_region());
  return numbered(next_segment_++);
}

absl::Status SparsePart::add_segment_region() {
  const auto number = static_cast<std::uint32_t>(segments_.size());
  const auto taken = take(spare_segments_, RegionKind::kSegments, number);
  if (!taken.ok()) return taken.status();
  segments_.push_back(reinterpret_cast<protocol::IndexSegment*>((*taken)->memory));
  order(spare_segments_, RegionKind::kSegments, number + 1);
  return absl::OkStatus();
}

absl::StatusOr<std::span<std::uint64_t>> SparsePart::add_directory(std::size_t entries) {
  depth_ = static_cast<std::uint32_t>(std::countr_zero(entries));
  if (depth_ <= protocol::kRootDepth) return std::span(root_ + entries, entries);
  const auto taken = take(directory_, RegionKind::kDirectory, depth_);
  if (!taken.ok()) return taken.status();
  return std::span(reinterpret_cast<std::uint64_t*>((*taken)->memory), entries);
}

void SparsePart::publish_directory() {
  // Release: who sees it sees the directory's entries.
  std::atomic_ref(*root_).store(depth_, std::memory_order_release);
}

std::optional<Row> SparsePart::find(const KeyHash& hash, Key key) const {
  const IndexAnswer answer = index_->find(hash, key);
  if (answer.kind == IndexAnswer::Kind::kFound) return answer.row;
  return std::nullopt;
}

absl::StatusOr<Row> SparsePart::add(const KeyHash& hash, Key key, std::uint32_t now) {
  if (!desk_.growth_watch()) return add_row(hash, key, now);
  using Clock = std::chrono::steady_clock;
  const auto size = [&] { return std::pair(index_->segments(), row_regions_); };
  const auto size_before = size();
  const Clock::time_point begin = Clock::now();
  absl::StatusOr<Row> row = add_row(hash, key, now);
  if (size() != size_before) desk_.growth_watch()(Clock::now() - begin);
  return row;
}

absl::StatusOr<Row> SparsePart::add_row(const KeyHash& hash, Key key, std::uint32_t now) {
  const absl::StatusOr<Row> row = take_row();
  if (!row.ok()) return row;
  const bool is_new = index_of(*row) == next_row_;
  if (!is_new) {
    before_change_of(*row);
    clear_books(*row);
  }
  // Only who scans all rows may be reading this one. Release: who sees the key sees the key's values.
  shape_.life.initial.write(key, shape_.type, shape_.width, rows_.values(*row));
  std::atomic_ref(*key_word(*row)).store(key, std::memory_order_release);
  if (eviction().evicts()) rows_.use(*row) = eviction().new_use(now);
  RETURN_IF_ERROR(index_->insert(hash, *row));
  if (!is_new) {
    free_rows_.pop_back();
    return row;
  }
  ++next_row_;
  // Release: who sees it sees the rows before it, with their keys.
  std::atomic_ref(root_[protocol::kRootRows]).store(next_row_, std::memory_order_release);
  return row;
}

/// It stays there until it is used.
absl::StatusOr<Row> SparsePart::take_row() {
  if (!free_rows_.empty()) return free_rows_.back();
  if (next_row_ == rows_.capacity()) RETURN_IF_ERROR(add_row_region());
  return Row{next_row_};
}

absl::Status SparsePart::add_row_region() {
  const auto taken = take(spare_rows_, RegionKind::kRows, row_regions_);
  if (!taken.ok()) return taken.status();
  rows_.add_chunk((*taken)->chunk);
  ++row_regions_;
  if (rows_.capacity() < shape_.most_rows) order(spare_rows_, RegionKind::kRows, row_regions_);
  return absl::OkStatus();
}

void SparsePart::clear_books(Row row) const {
  const StoredRows::Strides& strides = rows_.strides();
  if (strides.state_bytes > 0) std::memset(rows_.state(row), 0, strides.state_bytes);
  if (rows_.first_chunk().changes != nullptr) rows_.changes(row) = 0;
}

bool SparsePart::has_too_many_gone() const {
  const std::uint64_t most =
      is_limited() ? shape_.most_rows / kShareOfGone : std::max(kLeastGone, keys_in_use() / 4);
  return gone_rows_.size() >= std::max<std::uint64_t>(most, 1);
}

double SparsePart::norm(Row row) const {
  double sum = 0;
  visit_value_type(shape_.type, [&]<class Value>() {
    const auto* const values = reinterpret_cast<const Value*>(rows_.values(row));
    for (std::uint32_t i = 0; i < shape_.width; ++i)
      sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  });
  return std::sqrt(sum);
}

Key SparsePart::evict(Row row) {
  const Key key = key_of(row);
  before_change_of(row);
  // First the entry: then nobody finds the row. Then its key, for workers who remember the row.
  const bool had = index_->erase(KeyHash(key), row);
  assert(had);
  static_cast<void>(had);
  std::atomic_ref(*key_word(row)).store(kNoKey, std::memory_order_release);
  rows_.use(row).last_push = protocol::RowUse::kNoKeys;
  gone_rows_.emplace(index_of(row), key);
  const std::size_t bits_bytes = rows_.strides().bits_bytes;
  if (bits_bytes > 0) {
    // Nobody subscribes to it any more. Where it still waits to be sent, it is not.
    std::memset(rows_.subscribed(row), 0, bits_bytes);
    std::memset(rows_.dirty(row), 0, bits_bytes);
  }
  return key;
}

TableMemory SparsePart::memory() const {
  TableMemory memory{.rows = keys_in_use(),
                     .rows_waiting = gone_rows_.size(),
                     .rows_free = free_rows_.size(),
                     .count_bytes = admission_.bytes(),
                     .refused = refused_};
  rows_.count_bytes(memory, next_row_);
  // Directories of all depths so far: together nearly twice the newest.
  const std::size_t words = depth_ <= protocol::kRootDepth ? 0 : std::size_t{2} << depth_;
  memory.index_bytes =
      next_segment_ * sizeof(protocol::IndexSegment) + protocol::kRootBytes + words * sizeof(std::uint64_t);
  return memory;
}

void SparsePart::write_image(ImageWriter& out) const {
  out.put(next_row_);
  out.put(next_segment_);
  out.put(depth_);
  out.put(refused_);
  out.put_all(free_rows_);
  std::vector<GoneRow> gone;
  for (const auto& [row, key] : gone_rows_) gone.push_back({row, key});
  std::ranges::sort(gone, {}, &GoneRow::row);  // so that copies have the same images
  out.put_all(gone);
  out.put_all(free_segments_);
  out.put_all(admission_counts());
  index_->write_image(out);
}

absl::Status SparsePart::read_image(ImageReader& in) {
  const auto wrong = [] { return absl::InvalidArgumentError("an image of a server: no part of a table"); };
  next_row_ = in.get<std::uint64_t>();
  const auto segments = in.get<std::uint32_t>();
  depth_ = in.get<std::uint32_t>();
  refused_ = in.get<std::uint64_t>();
  free_rows_ = in.get_all<Row>();
  for (const GoneRow& gone : in.get_all<GoneRow>()) gone_rows_.emplace(gone.row, gone.key);
  free_segments_ = in.get_all<std::uint32_t>();
  const std::vector<std::byte> counts = in.get_all<std::byte>();
  if (!in.is_good() || next_row_ >> protocol::kRowBits != 0 || segments == 0 ||
      segments > protocol::kMaxRegionNumber || depth_ > KeyHash::kSegmentBits ||
      !are_below(free_rows_, next_row_) || !are_below(free_segments_, segments))
    return wrong();
  if (!counts.empty()) RETURN_IF_ERROR(load_admission_counts(counts));
  is_starting_ = true;  // it is the transport's thread that waits for regions
  while (rows_.capacity() < next_row_) RETURN_IF_ERROR(add_row_region());
  while (std::uint64_t{segments_.size()} << shape_.segments_shift < segments)
    RETURN_IF_ERROR(add_segment_region());
  next_segment_ = segments;
  std::span<std::uint64_t> directory;
  if (depth_ <= protocol::kRootDepth) {
    directory = std::span(root_ + (std::size_t{1} << depth_), std::size_t{1} << depth_);
  } else {
    const auto taken = take(directory_, RegionKind::kDirectory, depth_);
    if (!taken.ok()) return taken.status();
    directory = std::span(reinterpret_cast<std::uint64_t*>((*taken)->memory), std::size_t{1} << depth_);
  }
  desk_.serve();
  is_starting_ = false;
  std::vector<protocol::IndexSegment*> all(segments);
  for (std::uint32_t number = 0; number < segments; ++number) all[number] = segment(number);
  return index_->read_image(in, directory, std::move(all)) ? absl::OkStatus() : wrong();
}

void SparsePart::add_memory(std::vector<std::span<std::byte>>& extents) const {
  extents.emplace_back(reinterpret_cast<std::byte*>(root_), protocol::kRootBytes);
  if (depth_ > protocol::kRootDepth)
    extents.emplace_back(directory_.order.memory, sizeof(std::uint64_t) << depth_);
  std::uint64_t left = next_segment_;
  for (protocol::IndexSegment* const region : segments_) {
    const std::uint64_t here = std::min(left, std::uint64_t{1} << shape_.segments_shift);
    extents.emplace_back(reinterpret_cast<std::byte*>(region), here * sizeof(protocol::IndexSegment));
    left -= here;
  }
  rows_.add_memory(Row{0}, next_row_, /*before_bytes=*/sizeof(Key), extents);
}

void SparsePart::copy_before_changes(ImageCopier* copier) {
  copier_ = copier;
  // With each row that comes something changes here. It is little.
  before_change(root_, protocol::kRootBytes);
  if (depth_ > protocol::kRootDepth) before_change(directory_.order.memory, sizeof(std::uint64_t) << depth_);
}

void SparsePart::before_change(const void* at, std::size_t bytes) const {
  if (copier_ != nullptr) [[unlikely]]
    copier_->before_change(at, bytes);
}

void SparsePart::before_change_of(Row row) const {
  if (copier_ != nullptr) [[unlikely]]
    rows_.copy_before_change(row, sizeof(Key), *copier_);
}

void SparsePart::free_row(Row row) {
  gone_rows_.erase(index_of(row));
  free_rows_.push_back(row);
}

}  // namespace verbena::server
