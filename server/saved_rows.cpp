#include "server/saved_rows.hpp"

#include <sys/mman.h>

#include <cassert>
#include <cstdlib>
#include <cstring>
#include <new>

#include "protocol/eviction.hpp"
#include "server/sparse_part.hpp"

namespace verbena::server {

void SavedColumn::begin(std::size_t row_bytes, std::uint64_t most_rows) {
  row_bytes_ = row_bytes;
  used_bytes_ = 0;
  const std::size_t needed = row_bytes * most_rows;
  if (needed <= capacity_bytes_) return;
  memory_.reset();  // before there is more of it
  capacity_bytes_ = 0;
  memory_.reset(static_cast<std::byte*>(std::malloc(needed)));
  if (memory_ == nullptr) throw std::bad_alloc();
  capacity_bytes_ = needed;
  // Training waits for the copy. With large pages the first one has five hundred times fewer to get. Where
  // the system has none, nothing changes.
  constexpr std::size_t kLargePageBytes = std::size_t{2} << 20;
  const auto address = reinterpret_cast<std::uintptr_t>(memory_.get());
  const std::uintptr_t first = (address + kLargePageBytes - 1) / kLargePageBytes * kLargePageBytes;
  const std::uintptr_t end = (address + needed) / kLargePageBytes * kLargePageBytes;
  if (first < end)
    static_cast<void>(::madvise(memory_.get() + (first - address), end - first, MADV_HUGEPAGE));
}

void SavedColumn::append(const void* rows, std::uint64_t count) {
  const std::size_t bytes = count * row_bytes_;
  assert(used_bytes_ + bytes <= capacity_bytes_);
  if (bytes == 0) return;
  std::memcpy(memory_.get() + used_bytes_, rows, bytes);
  used_bytes_ += bytes;
}

Key SavedRows::key(std::uint64_t row) const {
  Key key = kNoKey;
  std::memcpy(&key, keys.column(row, 1).bytes.data(), sizeof key);
  return key;
}

std::vector<checkpoint::Column> SavedRows::columns(std::uint64_t first, std::uint64_t count) const {
  std::vector<checkpoint::Column> all;
  for (const SavedColumn* const column : {&keys, &values, &states, &uses}) {
    if (column->row_bytes() > 0) all.push_back(column->column(first, count));
  }
  return all;
}

namespace {

void copy_dense(const FixedShard& shard, const LanePart& part, SavedRows& to) {
  to.are_scattered = false;
  to.has_removed = false;
  to.numbers = {part.keys.first, part.keys.last};
  to.rows = part.keys.size();
  to.keys.begin(0, 0);
  to.values.begin(shard.stride_bytes, to.rows);
  to.states.begin(shard.rule.state_bytes(), to.rows);
  to.uses.begin(0, 0);
  if (to.rows == 0) return;
  const protocol::Row first = part.range.row_of(part.keys.first);
  to.values.append(part.rows->values(first), to.rows);
  to.states.append(part.rows->state(first), to.states.row_bytes() == 0 ? 0 : to.rows);
}

void copy_sparse(const FixedShard& shard, const LanePart& part, SavedRows& to) {
  const SparsePart& sparse = *part.sparse;
  const KeyRange parts = sparse.keys().parts();
  const std::uint64_t most = sparse.keys_in_use();
  const bool has_uses = sparse.eviction().evicts();
  to.are_scattered = true;
  to.has_removed = true;
  to.numbers = {parts.first, parts.last};
  to.rows = 0;
  to.keys.begin(sizeof(Key), most);
  to.values.begin(shard.stride_bytes, most);
  to.states.begin(shard.rule.state_bytes(), most);
  to.uses.begin(has_uses ? sizeof(protocol::RowUse) : 0, most);
  to.counts = sparse.admission_counts();
  for (std::uint64_t number = 0; number < sparse.rows_made(); ++number) {
    const protocol::Row row{number};
    const Key key = sparse.key_of(row);
    if (key == kNoKey) continue;
    to.keys.append(&key, 1);
    to.values.append(part.rows->values(row), 1);
    if (to.states.row_bytes() > 0) to.states.append(part.rows->state(row), 1);
    if (has_uses) to.uses.append(&part.rows->use(row), 1);
    ++to.rows;
  }
}

}  // namespace

void copy_rows(const FixedShard& shard, const LanePart& part, SavedRows& to) {
  if (part.sparse == nullptr) {
    copy_dense(shard, part, to);
  } else {
    copy_sparse(shard, part, to);
  }
}

}  // namespace verbena::server
