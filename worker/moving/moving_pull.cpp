#include "worker/moving/moving_pull.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "worker/moving/moving_rows.hpp"

// What is read is the row's at some time between the pull's beginning and its end, both in place
// (own_slots.hpp) and by a one-sided read. The cache lines of a one-sided read arrive in any order, each read
// at a time of its own between posting and completion; the header's line may be the last. That the slot owned
// the row then says nothing about a line that was read before: the row may have arrived in between, and the
// line may be a leftover of an earlier stay. But this worker has heard from the home, before it posted the
// read, that the slot owned the row at epoch e; and a slot owns a row at e only once. So if the header that
// is read says "owned at e", the slot owned the row at e from before the read was posted until the header's
// line was read. Each line was then read either in that time, or later, as in own_slots.hpp. Therefore the
// header is compared with the epoch that was known *before posting*, and not with one that is learned
// meanwhile.

namespace verbena::worker {

namespace {

constexpr std::size_t kReadStagingBytes = std::size_t{256} << 10;

}  // namespace

MovingPull::MovingPull(MovingRows& rows, const Keys& all, std::size_t next, std::byte* out)
    : MovingOperation(rows, "pull"), out_(out) {
  set_keys(all);
  for (std::size_t index = next; index < keys.size(); ++index) todo_.push_back(index);
}

MovingPull::MovingPull(MovingRows& rows, std::vector<Key> replicas)
    : MovingOperation(rows, "refresh of replicas"),
      is_refresh_(true),
      refreshed_(rows.layout.row_bytes),
      begun_at_(rows.session.current_clock()),
      begun_after_barrier_(rows.session.barrier_clock()) {
  set_keys(std::move(replicas));
  for (std::size_t index = 0; index < keys.size(); ++index) todo_.push_back(index);
}

bool MovingPull::do_own() {
  if (!readings_.empty()) {
    awaited = rows_.nodes[readings_.front().node].link;
    if (!reads.post()) return false;
    end_reads();
  } else if (seen_generation_ == rows_.generation) {
    return false;
  }
  seen_generation_ = rows_.generation;
  awaited = nullptr;
  std::erase_if(coming_, [&](std::size_t index) {
    if (rows_.is_coming(keys[index])) return false;
    todo_.push_back(index);
    return true;
  });
  begin_reads();
  if (!readings_.empty()) awaited = rows_.nodes[readings_.front().node].link;
  if (!readings_.empty() || !todo_.empty() || !coming_.empty()) return false;
  if (staging_) rows_.session.staging().give(*staging_);
  staging_.reset();
  return true;
}

void MovingPull::begin_reads() {
  std::vector<std::size_t> left;
  std::size_t next = 0;
  staged_bytes_ = 0;
  while (next < todo_.size() && begin_read(todo_[next], left)) ++next;
  left.insert(left.end(), todo_.begin() + static_cast<std::ptrdiff_t>(next), todo_.end());
  todo_ = std::move(left);
  reads.post();
}

bool MovingPull::begin_read(std::size_t index, std::vector<std::size_t>& left) {
  SessionStatistics& counters = rows_.session.counters();
  const Key key = keys[index];
  std::byte* const out = out_of(index);
  if (Replica* const replica = is_refresh_ ? nullptr : rows_.replication.find(key)) {
    if (rows_.replication.is_usable(*replica)) {
      rows_.replication.pull(*replica, out);
    } else {
      rows_.replication.ask_for_refresh(key, *replica);
      left.push_back(index);
    }
    return true;
  }
  // Read-my-writes: some of this worker's pushes to the row are not applied.
  if (rows_.pushed.contains(key)) {
    left.push_back(index);
    return true;
  }
  if (note_if_lost(key)) {
    if (is_refresh_) rows_.replication.drop_lost(key);
    return true;
  }
  if (rows_.own.is_mapped() && rows_.own.pull(key, out)) {
    on_read(index, out, counters.rows_pulled_locally);
    return true;
  }
  const Location at = rows_.directory.location(key);
  const NodeView& node = rows_.nodes[at.node];
  if (node.mapped != nullptr &&
      pull_in_place(protocol::slot_at(node.mapped, rows_.layout.slot_bytes, key, node.home_keys),
                    rows_.layout, out)) {
    on_read(index, out, counters.rows_pulled_remotely);
    return true;
  }
  if (node.is_dead || node.mapped != nullptr || (at.node == rows_.node && rows_.own.is_mapped())) {
    if (rows_.is_coming(key)) {
      coming_.push_back(index);
      return true;
    }
    rows_.ask_where(key, /*is_sure=*/!node.is_dead);  // if the node is dead, the home may know better
  }
  if (node.is_dead || rows_.waits_for_home(key) || rows_.lost(key) != nullptr) {
    left.push_back(index);
    return true;
  }
  return begin_network_read(index);
}

bool MovingPull::begin_network_read(std::size_t index) {
  const std::size_t slot_bytes = rows_.layout.slot_bytes;
  if (!staging_) staging_ = rows_.take_staging(std::max(kReadStagingBytes, slot_bytes));
  if (!staging_ || staging_->bytes.size() - staged_bytes_ < slot_bytes) return false;
  const Key key = keys[index];
  const Location at = rows_.directory.location(key);
  const std::span<std::byte> slot = staging_->bytes.subspan(staged_bytes_, slot_bytes);
  staged_bytes_ += slot_bytes;
  readings_.push_back({.index = index, .node = at.node, .epoch = at.epoch, .slot = slot.data()});
  rows_.add_slot_read(*this, at.node, key, slot, *staging_);
  return true;
}

void MovingPull::end_reads() {
  for (const Reading& read : readings_) {
    const Key key = keys[read.index];
    if (rows_.nodes[read.node].is_dead) {
      todo_.push_back(read.index);
      continue;
    }
    if (!is_refresh_ && rows_.marked.contains(key) && rows_.replication.find(key) != nullptr) {
      // The row has got a replica meanwhile, and the replica may be older than this read: reads must not go
      // back.
      todo_.push_back(read.index);
      continue;
    }
    std::uint64_t bits = 0;
    std::memcpy(&bits, read.slot, sizeof bits);
    bits ^= protocol::first_header_bits(key, rows_.nodes[read.node].home_keys);
    if (protocol::SlotHeader(bits).is_owned_at(read.epoch)) {
      const std::byte* const row = protocol::slot_values(read.slot);
      const std::size_t row_bytes = rows_.layout.row_bytes;
      if (!is_refresh_) std::memcpy(out_ + read.index * row_bytes, row, row_bytes);
      on_read(read.index, row, rows_.session.counters().rows_pulled_remotely);
      continue;
    }
    // Not if something newer has been heard meanwhile.
    const bool is_newest = rows_.directory.location(key) == Location{.node = read.node, .epoch = read.epoch};
    const bool waits = is_newest && rows_.is_coming(key);
    (waits ? coming_ : todo_).push_back(read.index);
    if (is_newest && !waits) rows_.ask_where(key, /*is_sure=*/true);
  }
  readings_.clear();
}

std::byte* MovingPull::out_of(std::size_t index) {
  return is_refresh_ ? refreshed_.data() : out_ + index * rows_.layout.row_bytes;
}

void MovingPull::on_read(std::size_t index, const std::byte* row, std::uint64_t& counter) {
  const Key key = keys[index];
  rows_.reached(key);
  if (is_refresh_) {
    rows_.replication.put(key, row, begun_at_, begun_after_barrier_);
  } else {
    ++counter;
  }
}

}  // namespace verbena::worker
