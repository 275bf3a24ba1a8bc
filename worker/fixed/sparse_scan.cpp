#include "worker/fixed/sparse_scan.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "worker/fixed/sparse_table.hpp"

namespace verbena::worker {

SparseScan::SparseScan(SparseTable& table, Part& part, std::uint64_t first, std::optional<std::uint64_t> end)
    : Operation("scan"),
      table_(table),
      part_(part),
      first_(first),
      is_end_given_(end.has_value()),
      end_(end) {}

SparseScan::~SparseScan() {
  // Reads may be under way if it has not ended, or has ended with its session; then the memory stays the
  // session's.
  if (ended && status.ok() && staging_) table_.session_.staging().give(*staging_);
}

std::string SparseScan::other_wait() const {
  return table_.session_.clocks_awaited(what);
}

bool SparseScan::advance() {
  awaited = part_.link;
  if (!reads.post()) return false;
  if (std::exchange(begins_anew_, false)) {
    // The copy has the same rows under the same numbers.
    has_begun_ = is_end_read_ = false;
    if (!is_end_given_) end_.reset();
    count_ = 0;
    rows_ = nullptr;
    again_ = nullptr;
    if (ticket_) part_.view->lookups.end(*std::exchange(ticket_, std::nullopt));
  }
  if (!has_begun_) table_.heed_decisions();
  if (!has_begun_ && !may_begin()) {
    if (part_.view->min_clock < table_.needed_min_clock()) awaited = nullptr;
    return false;
  }
  has_begun_ = true;
  if (!part_.sparse->is_mapped() && !staging_ && !take_staging()) return false;
  if (!end_ && !find_end()) return false;
  if (*end_ <= first_) return true;
  if ((rows_ == nullptr && !find_rows()) || !reads.post()) return false;
  return !table_.loses_rows_ || part_.sparse->is_mapped() || read_again();
}

/// A row that is free may become another key's while it is read, and the words of a read are read in any
/// order: so its key may be read with what it held before. A key that is read twice had its values before
/// the second time, and no other key has got the row since, as this worker has not said that it has heard.
bool SparseScan::read_again() {
  if (again_ == nullptr) {
    const auto from = part_.sparse->rows_from(protocol::Row{first_}, count_);
    again_ = staging_->bytes.data() + from->length_bytes;
    reads.add(*part_.link, *from, staging_->bytes.subspan(from->length_bytes, from->length_bytes), *staging_);
    if (!reads.post()) return false;
  }
  for (std::uint64_t i = 0; i < count_; ++i) {
    std::byte* const row = again_ + i * part_.sparse->row_bytes();
    if (SparseView::key_of(row) != SparseView::key_of(this->row(i))) std::memcpy(row, &kNoKey, sizeof kNoKey);
  }
  rows_ = again_;
  part_.view->lookups.end(*std::exchange(ticket_, std::nullopt));
  return true;
}

/// The server's rows are as fresh as a pull must find them, and have all that a pull must find of what this
/// worker has sent.
bool SparseScan::may_begin() const {
  return part_.link->is_up() && table_.serves(part_) && part_.view->min_clock >= table_.needed_min_clock() &&
         (!part_.awaits_own || part_.outstanding.empty());
}

bool SparseScan::take_staging() {
  const std::size_t bytes = std::max(FixedTable::kStagingBytes, 2 * part_.sparse->row_bytes());
  absl::StatusOr<LocalSpan> staging = table_.session_.staging().take(bytes);
  if (!staging.ok()) {
    table_.session_.fail(staging.status());
    return false;
  }
  staging_ = *staging;
  return true;
}

/// False: it is not known yet.
bool SparseScan::find_end() {
  const SparseView& view = *part_.sparse;
  if (view.is_mapped()) {
    end_ = view.rows_end();
    return true;
  }
  const std::span<std::byte> word = staging_->bytes.first(sizeof(std::uint64_t));
  if (!std::exchange(is_end_read_, true)) reads.add(*part_.link, view.rows_end_word(), word, *staging_);
  if (!reads.post()) return false;
  std::uint64_t end = 0;
  std::memcpy(&end, word.data(), sizeof end);
  end_ = end;
  return true;
}

/// False: they are in a region that has not been heard of.
bool SparseScan::find_rows() {
  const SparseView& view = *part_.sparse;
  const protocol::Row first{first_};
  const bool reads_twice = table_.loses_rows_ && !view.is_mapped();
  const std::uint64_t most =
      std::max<std::uint64_t>(1, FixedTable::kStagingBytes / (reads_twice ? 2 : 1) / view.row_bytes());
  count_ = std::min({*end_ - first_, most, view.rows_left_in_region(first)});
  if (view.is_mapped()) {
    rows_ = view.row(first);
    return rows_ != nullptr;
  }
  const auto from = view.rows_from(first, count_);
  if (!from) return false;
  if (table_.loses_rows_) ticket_ = part_.view->lookups.begin();
  rows_ = staging_->bytes.data();
  reads.add(*part_.link, *from, staging_->bytes.first(from->length_bytes), *staging_);
  return true;
}

}  // namespace verbena::worker
