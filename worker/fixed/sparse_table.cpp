#include "worker/fixed/sparse_table.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <exception>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "base/prefetch.hpp"
#include "base/return_if_error.hpp"
#include "protocol/placement.hpp"
#include "worker/fixed/gather_pull.hpp"
#include "worker/fixed/sparse_scan.hpp"
#include "worker/row_copy.hpp"

namespace verbena::worker {

using protocol::DirectoryEntry;
using protocol::IndexAnswer;
using protocol::IndexBucket;
using protocol::IndexEntry;
using protocol::IndexSegment;
using protocol::KeyHash;

namespace {

constexpr std::size_t kBucketsAnItem = 3;  // its own, the next one, and the overflow bucket
/// Each time that a segment is retired, the directory has been changed before. A server that says so again
/// and again, and never changes it, is waited for as one that does not answer.
constexpr int kMostRetired = 1000;
/// Of a table, whose places a worker remembers: some 200 MB.
constexpr std::size_t kMostKnownRows = std::size_t{1} << 23;
/// Rows of up to so many bytes are gathered as long as nothing has been measured.
constexpr std::size_t kNarrowRowBytes = 32;
/// Of a row that has not been found (RowHandles). Others say the part, by its place in parts_, and the row.
constexpr std::uint64_t kNoPlace = UINT64_MAX;

/// Tables of a process have different ones. Not 0.
std::uint64_t next_number_of_handles() {
  static std::atomic<std::uint64_t> last = 0;
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

std::uint64_t word_of(std::span<const std::byte> bytes, std::size_t index) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes.data() + index * sizeof word, sizeof word);
  return word;
}

}  // namespace

SparsePull::SparsePull(SparseTable& table, const Keys& from, std::size_t next, std::byte* out,
                       const std::optional<PullWays::Trip>& trip)
    : Operation("pull"), table_(table), out_(out), next_(next), trip_(trip) {
  set_keys(from);
}

bool SparsePull::advance() {
  if (!table_.advance(*this)) return false;
  table_.note_end(trip_);
  return true;
}

std::string SparsePull::other_wait() const {
  return table_.session_.clocks_awaited(what);
}

SparseTable::SparseTable(SessionCore& session, std::uint32_t number, const TableOptions& options,
                         ValueType type)
    : FixedTable(session, number, options, type),
      initial_(protocol::InitialValues::find(options.initial, options.seed, type).value()),
      loses_rows_(options.eviction != protocol::kEvictNever),
      item_bytes_(kBucketsAnItem * sizeof(IndexBucket) + protocol::sparse_row_bytes(layout_.stride_bytes)),
      ways_(layout_.row_bytes <= kNarrowRowBytes ? PullWays::Way::kGather : PullWays::Way::kReads),
      number_of_handles_(next_number_of_handles()) {}

absl::Status SparseTable::add_server(ServerLink& link, const transport::RemoteDescriptor& /*shard*/) {
  const auto lane_count = static_cast<std::uint32_t>(link.lanes.size());
  first_part_.push_back(parts_.size());
  part_of_hash_.resize(protocol::SparsePlacement::kParts);
  for (std::uint32_t lane = 0; lane < lane_count; ++lane) {
    auto part = std::make_unique<Part>();
    part->link = &link;
    part->lane = lane;
    part->view = &link.lanes[lane];
    part->range = protocol::RowRange(KeyRange{0, kNoKey});
    RETURN_IF_ERROR(see_regions(*part));
    const bool is_mapped = part->sparse->is_mapped();
    if (!is_mapped && session_.options().read_path == ReadPath::kInPlace) {
      return absl::FailedPreconditionError(
          fmt::format("reads in place need a server on this host; {} is not", link.connection->peer_name()));
    }
    if (!reads_in_place(is_mapped)) part->sparse->read_from_afar();
    all_mapped_ &= part->sparse->is_mapped();
    const KeyRange hashes = part->sparse->keys().parts();
    for (std::uint64_t hash = hashes.first; hash < hashes.last; ++hash)
      part_of_hash_[hash] = static_cast<std::uint16_t>(parts_.size());
    RETURN_IF_ERROR(add_part(std::move(part), is_mapped));
  }
  return absl::OkStatus();
}

absl::Status SparseTable::see_regions(Part& part) const {
  const ServerLink& link = *part.link;
  const auto lane_count = static_cast<std::uint32_t>(link.lanes.size());
  part.sparse = std::make_unique<SparseView>(
      session_.placement().sparse().keys(link.server, part.lane, lane_count), layout_.stride_bytes,
      kMostKnownRows / (session_.options().servers.size() * lane_count));
  for (const protocol::RegionAdded& added : link.regions) {
    if (added.lane == part.lane) RETURN_IF_ERROR(part.sparse->add(added, *link.connection));
  }
  if (part.sparse->has_root()) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("{} opened table \"{}\" without a root of lane {}",
                                                link.connection->peer_name(), options_.name, part.lane));
}

absl::Status SparseTable::on_server_back(ServerLink& link, const transport::RemoteDescriptor& /*shard*/) {
  for (std::uint32_t lane = 0; lane < link.lanes.size(); ++lane) {
    Part& part = this->part(link.server, lane);
    RETURN_IF_ERROR(see_regions(part));
    part.in_place.call = 0;
    if (!reads_in_place(part.sparse->is_mapped())) part.sparse->read_from_afar();
    all_mapped_ &= part.sparse->is_mapped();
    RETURN_IF_ERROR(cache_anew(part));
  }
  return absl::OkStatus();
}

bool SparseTable::has_keys_of(std::uint32_t server) const {
  return session_.placement().sparse().keys(server, 0, 1).parts().size() > 0;
}

absl::Status SparseTable::on_region(ServerLink& link, const protocol::RegionAdded& added) {
  return part(link.server, added.lane).sparse->add(added, *link.connection);
}

/// What is known of these rows is forgotten, so that they are looked for again.
absl::Status SparseTable::on_gone(ServerLink& link, const protocol::BulkMessage& message) {
  Part& part = this->part(link.server, message.header.lane);
  for (std::size_t i = 0; i < message.header.count; ++i) {
    const Key key = protocol::record_key(message.payload, 0, i);
    if (key == kNoKey) {
      part.sparse->forget_segment();
      continue;
    }
    if (!part.sparse->keys().has(key)) return part.wrong_record(key);
    part.sparse->forget_row(key);
    if (part.cache == nullptr) continue;
    part.cache->erase(part.range.row_of(key));
    part.subscriptions.forget(part.range.row_of(key));
  }
  return absl::OkStatus();
}

absl::Status SparseTable::scan(KeyRange range, absl::FunctionRef<absl::Status(Key, const std::byte*)> use) {
  RETURN_IF_ERROR(enter(KeyRange{}, 0));
  if (range.last < range.first) {
    return absl::InvalidArgumentError(
        fmt::format("table {}: the range of keys {} to {} ends before it begins", options_.name, range.first,
                    range.last));
  }
  // Aligned for any value type.
  std::vector<std::uint64_t> values((layout_.row_bytes + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t));
  auto* const out = reinterpret_cast<std::byte*>(values.data());
  ++session_.scans();
  const absl::Cleanup is_over = [&] { --session_.scans(); };
  for (const std::unique_ptr<Part>& part : parts_) {
    std::uint64_t first = 0;
    std::optional<std::uint64_t> end;  // rows that are added later would make it endless
    for (;;) {
      const auto piece = std::make_shared<SparseScan>(*this, *part, first, end);
      session_.start(piece);
      RETURN_IF_ERROR(session_.wait_for(*piece));
      if (piece->count() == 0) break;
      end = piece->end();
      for (std::uint64_t i = 0; i < piece->count(); ++i) {
        const std::byte* const row = piece->row(i);
        const Key key = SparseView::key_of(row);
        if (key == kNoKey && loses_rows_) continue;  // nobody's
        if (!part->sparse->keys().has(key)) {
          const absl::Status wrong = part->wrong_record(key);
          session_.fail(absl::Status(wrong.code(), fmt::format("{}: {}", part->link->connection->peer_name(),
                                                               std::string(wrong.message()))));
          return session_.status();
        }
        if (!range.contains(key)) continue;
        copy_shared_row(layout_.type, out, row + sizeof(Key), layout_.row_bytes);
        predict_own(*part, part->range.row_of(key), out);
        RETURN_IF_ERROR(use(key, out));
      }
      first += piece->count();
    }
  }
  return absl::OkStatus();
}

// ---- reads in place

absl::Status SparseTable::pull(std::span<const Key> keys, std::byte* out, std::size_t values) {
  return pull_rows(KeyList{keys}, out, values, [&](const auto& all) { return pull_now(all, 0, out); });
}

absl::Status SparseTable::pull(KeyRange range, std::byte* out, std::size_t values) {
  return pull_rows(KeyRun{range}, out, values, [&](const auto& all) { return pull_now(all, 0, out); });
}

void SparseTable::prepare(Part& part) {
  if (part.reading.epoch != session_.epoch()) refresh(part);
  Part::InPlace& in_place = part.in_place;
  in_place.call = calls_;
  in_place.is_allowed = part.cache == nullptr && part.reading.allowed && part.sparse->is_mapped();
  if (in_place.is_allowed) in_place.view = part.sparse->snapshot();
}

/// Rows that are cached nowhere are found in two steps, each of which waits for memory (base::kKeysTogether).
template <class Keys, class Use>
[[gnu::always_inline]] inline std::size_t SparseTable::look_up(const Keys& keys, std::size_t from,
                                                               const Use& use) {
  std::array<Ahead, base::kKeysTogether> ahead;
  const std::size_t row_bytes = layout_.row_bytes;
  heed_decisions();
  ++calls_;
  while (from < keys.size()) {
    const std::size_t count = std::min(base::kKeysTogether, keys.size() - from);
    for (std::size_t i = 0; i < count; ++i) {
      Ahead& one = ahead[i];
      one.hash = KeyHash(keys[from + i]);
      Part& part = part_of(one.hash);
      one.part = &part;
      if (part.in_place.call != calls_) [[unlikely]]
        prepare(part);
      const bool in_place = part.in_place.is_allowed && !misses_own(part, keys[from + i]);
      one.segment = in_place ? part.in_place.view.segment(one.hash) : nullptr;
      if (one.segment != nullptr) base::prefetch_to_read(&one.segment->buckets[one.hash.bucket()]);
    }
    for (std::size_t i = 0; i < count; ++i) {
      Ahead& one = ahead[i];
      one.row = nullptr;
      one.answer.kind = IndexAnswer::Kind::kRetired;
      if (one.segment == nullptr) continue;
      one.answer = protocol::look_up_probably(*one.segment, one.hash);
      if (one.answer.kind != IndexAnswer::Kind::kFound) continue;
      one.row = one.part->in_place.view.row(one.answer.row);
      if (one.row == nullptr) continue;
      base::prefetch_to_read(one.row);
      base::prefetch_to_read(one.row + row_bytes);
    }
    for (std::size_t i = 0; i < count; ++i, ++from) {
      if (!use(from, keys[from], ahead[i])) return from;
    }
  }
  return from;
}

template <class Keys>
std::size_t SparseTable::pull_now(const Keys& keys, std::size_t from, std::byte* out) {
  return look_up(keys, from, [&](std::size_t i, Key key, const Ahead& found) {
    std::byte* const to = out + i * layout_.row_bytes;
    if (found.row != nullptr && SparseView::key_of(found.row) == key) [[likely]] {
      take_row(*found.part, key, found.row, to);
      return true;
    }
    if (found.answer.kind != IndexAnswer::Kind::kAbsent) return pull_now(*found.part, found.hash, key, to);
    take_absent(*found.part, key, found.part->view->min_clock, to);
    return true;
  });
}

// ---- by handles

std::uint64_t SparseTable::place(const Part& part, Row row) const {
  return std::uint64_t{place_of(part)} << protocol::kRowBits | index_of(row);
}

absl::StatusOr<RowHandles> SparseTable::locate(const Keys& keys) {
  RETURN_IF_ERROR(enter(keys, keys.size() * options_.width));
  RowHandles rows;
  rows.table_ = number_of_handles_;
  try {
    rows.keys_.resize(keys.size());
    rows.places_.assign(keys.size(), kNoPlace);
  } catch (const std::exception&) {  // also if they are more than any memory
    return absl::ResourceExhaustedError(
        fmt::format("no memory for handles of {} rows of table \"{}\"", keys.size(), options_.name));
  }
  for (std::size_t i = 0; i < keys.size(); ++i) rows.keys_[i] = keys[i];
  look_up(KeyList{rows.keys_}, 0, [&](std::size_t i, Key key, const Ahead& found) {
    if (found.row != nullptr && SparseView::key_of(found.row) == key)
      rows.places_[i] = place(*found.part, found.answer.row);
    return true;
  });
  return rows;
}

absl::Status SparseTable::pull_located(RowHandles& rows, std::byte* out, std::size_t values) {
  if (rows.table_ != number_of_handles_ && rows.size() > 0) {
    RETURN_IF_ERROR(enter(KeyRange{}, 0));
    return absl::InvalidArgumentError(
        fmt::format("table \"{}\": the handles are another table's", options_.name));
  }
  return pull_rows(KeyList{rows.keys_}, out, values,
                   [&](const KeyList& keys) { return pull_at(keys, rows.places_, out); });
}

/// As pull_now(), but looks first where each row was found before. The row there is the key's if its key says
/// so: a row that goes loses its key before anything else happens to it, and while this call lasts, none that
/// has the key when the call looks is given another one, since this worker says in no pull what it has heard
/// of rows that are gone (worker/lookups.hpp). The values are read after the key, and are written before it.
std::size_t SparseTable::pull_at(const KeyList& keys, std::span<std::uint64_t> places, std::byte* out) {
  std::array<const std::byte*, base::kKeysTogether> ahead;
  const std::size_t row_bytes = layout_.row_bytes;
  ++calls_;
  heed_decisions();
  for (std::size_t begin = 0; begin < keys.size(); begin += base::kKeysTogether) {
    const std::size_t count = std::min(base::kKeysTogether, keys.size() - begin);
    for (std::size_t i = 0; i < count; ++i) {
      ahead[i] = nullptr;
      const std::uint64_t place = places[begin + i];
      if (place == kNoPlace) continue;
      Part& part = *parts_[place >> protocol::kRowBits];
      if (part.in_place.call != calls_) [[unlikely]]
        prepare(part);
      if (!part.in_place.is_allowed) continue;
      ahead[i] = part.in_place.view.row(Row{place & ((std::uint64_t{1} << protocol::kRowBits) - 1)});
      if (ahead[i] == nullptr) continue;
      base::prefetch_to_read(ahead[i]);
      base::prefetch_to_read(ahead[i] + row_bytes);
    }
    for (std::size_t i = begin; i < begin + count; ++i) {
      const Key key = keys[i];
      std::byte* const to = out + i * row_bytes;
      if (const std::byte* const row = ahead[i - begin]; row != nullptr) {
        Part& part = *parts_[places[i] >> protocol::kRowBits];
        if (!misses_own(part, key) && SparseView::key_of(row) == key) [[likely]] {
          take_row(part, key, row, to);
          continue;
        }
      }
      const KeyHash hash(key);
      Part& part = part_of(hash);
      if (!pull_now(part, hash, key, to)) return i;
      if (part.cache != nullptr) continue;
      const std::optional<Row> row = part.sparse->find(hash, key);
      places[i] = row ? place(part, *row) : kNoPlace;
    }
  }
  return keys.size();
}

/// This worker's updates that a read must find may be missing in the server's row. REQUIRES: what the part
/// knows about reading is up to date.
inline bool SparseTable::misses_own(const Part& part, Key key) {
  return part.reading.has_outstanding && part.has_unapplied(part.range.row_of(key));
}

/// Reads the row from the cache, or in place. False: neither is possible now.
bool SparseTable::pull_now(Part& part, const KeyHash& hash, Key key, std::byte* out) {
  if (part.reading.epoch != session_.epoch()) refresh(part);
  if (!part.reading.allowed) return false;
  const Row row = part.range.row_of(key);
  if (part.cache != nullptr) {
    const CachedRow& cached = part.cache->read(row);
    if (cached.clock() >= part.reading.needed) {
      std::memcpy(out, cached.values(), layout_.row_bytes);
      if (keeps_own_apart_) predict_own(part, row, out);
      ++reads_at(std::min(cached.clock(), part.reading.min_clock));
      return true;
    }
  }
  return part.sparse->is_mapped() && !misses_own(part, key) && read_in_place(part, hash, key, out);
}

/// REQUIRES: the part may be read, is mapped, and has all that is needed of the key. False: the server has
/// not told of a region yet.
bool SparseTable::read_in_place(Part& part, const KeyHash& hash, Key key, std::byte* out) {
  for (int retired = 0; retired < kMostRetired; ++retired) {
    const SparseView::Snapshot view = part.sparse->snapshot();
    const IndexSegment* const segment = view.segment(hash);
    if (segment == nullptr) return false;
    bool is_unknown = false;
    const std::byte* row = nullptr;
    const IndexAnswer answer = protocol::look_up(*segment, hash, [&](Row one) {
      row = view.row(one);
      is_unknown |= row == nullptr;
      return row != nullptr && SparseView::key_of(row) == key;
    });
    if (answer.kind == IndexAnswer::Kind::kRetired) continue;
    if (answer.kind == IndexAnswer::Kind::kFound) {
      take_row(part, key, row, out);
      return true;
    }
    if (is_unknown) return false;
    take_absent(part, key, part.view->min_clock, out);
    return true;
  }
  return false;
}

/// `row`: the key's, on the server, where its lane may be changing it.
inline void SparseTable::take_row(Part& part, Key key, const std::byte* row, std::byte* out) {
  copy_shared_row(layout_.type, out, row + sizeof(Key), layout_.row_bytes);
  if (part.cache != nullptr) {
    take_fetched(part, part.range.row_of(key), out, part.view->min_clock, out);
    return;
  }
  predict_own(part, part.range.row_of(key), out);
  ++*part.reading.counter;
}

/// A row that there is not is not cached: nobody would push it, and when it is there, it is to be subscribed
/// to.
void SparseTable::take_absent(Part& part, Key key, consistency::Clock min_clock, std::byte* out) {
  initial_.write(key, layout_.type, layout_.width, out);
  predict_own(part, part.range.row_of(key), out);
  ++reads_at(min_clock);
}

void SparseTable::take_uncached(Part& part, Row row, const std::byte* values, consistency::Clock min_clock,
                                std::byte* out) {
  std::memcpy(out, values, layout_.row_bytes);
  predict_own(part, row, out);
  ++reads_at(min_clock);
}

// ---- reads from afar

std::shared_ptr<Operation> SparseTable::make_pull(const Keys& keys, std::size_t next, std::byte* out) {
  const SessionOptions& options = session_.options();
  const std::size_t rest = keys.size() - next;
  bool gathers =
      !all_mapped_ && rest >= options.gather_keys &&
      layout_.row_bytes <= std::min(options.gather_row_bytes.value_or(SIZE_MAX), GatherPull::kMostRowBytes);
  std::optional<PullWays::Trip> trip;
  if (gathers && !options.gather_row_bytes) {
    trip = ways_.begin(rest, session_.now());
    gathers = trip->way == PullWays::Way::kGather;
  }
  if (gathers) return std::make_shared<GatherPull>(*this, keys, next, out, trip);
  return std::make_shared<SparsePull>(*this, keys, next, out, trip);
}

void SparseTable::note_end(const std::optional<PullWays::Trip>& trip) {
  if (!trip || !ways_.ended(*trip, session_.now())) return;
  const bool gathers = ways_.chosen(trip->keys) == PullWays::Way::kGather;
  spdlog::info("table '{}': pulls of about {} keys take less time here if {}", options().name, trip->keys,
               gathers ? "their server gathers the rows" : "each row is read by itself");
}

bool SparseTable::advance(SparsePull& pull) {
  heed_decisions();
  for (;;) {
    if (!pull.reads.post()) return false;
    pull.awaited = nullptr;
    if (std::exchange(pull.begins_anew_, false)) begin_anew(pull);
    copy_directories(pull);
    if (!session_.status().ok()) return false;
    bool goes_on = false;
    for (Item& item : pull.items_) goes_on |= step(pull, item);
    std::erase_if(pull.items_, [](const Item& item) { return item.stage == SparsePull::Stage::kDone; });
    if (pull.items_.empty() && pull.next_ < pull.keys.size()) goes_on |= begin_items(pull);
    if (pull.items_.empty() && pull.next_ == pull.keys.size()) break;
    if (goes_on) continue;
    // It waits for other workers' clocks, or for word of the server.
    const Part& first = *pull.items_.front().part;
    if (first.view->min_clock >= needed_min_clock()) pull.awaited = first.link;
    return false;
  }
  if (pull.staging_) session_.staging().give(*pull.staging_);
  pull.staging_.reset();
  return true;
}

void SparseTable::begin_anew(SparsePull& pull) {
  for (Item& item : pull.items_) {
    end_lookup(item);
    item.stage = SparsePull::Stage::kStart;
  }
  for (const SparsePull::DirectoryCopy& copy : pull.directories_) session_.staging().give(copy.memory);
  pull.directories_.clear();
}

/// Takes the next keys: those that are not at hand become items. True if any key was taken.
bool SparseTable::begin_items(SparsePull& pull) {
  if (!pull.staging_) {
    absl::StatusOr<LocalSpan> staging = session_.staging().take(std::max(kStagingBytes, item_bytes_));
    if (!staging.ok()) {
      session_.fail(staging.status());
      return false;
    }
    pull.staging_ = *staging;
  }
  const std::size_t room = pull.staging_->bytes.size() / item_bytes_;
  pull.next_ = pull_now(pull.keys, pull.next_, pull.out_);
  bool is_next_in_place = false;  // those after a key that cannot be read in place yet are, together, later
  for (; pull.next_ < pull.keys.size() && pull.items_.size() < room && !is_next_in_place; ++pull.next_) {
    const Key key = pull.keys[pull.next_];
    const KeyHash hash(key);
    Part& part = part_of(hash);
    if (pull_now(part, hash, key, pull.out_ + pull.next_ * layout_.row_bytes)) continue;
    pull.items_.push_back(
        {.index = pull.next_,
         .hash = hash,
         .part = &part,
         .staging = pull.staging_->bytes.subspan(pull.items_.size() * item_bytes_, item_bytes_)});
    is_next_in_place = part.sparse->is_mapped();
  }
  return true;
}

/// Goes on with copies of directories: first how deep the newest one is, then its words.
void SparseTable::copy_directories(SparsePull& pull) {
  std::erase_if(pull.directories_, [&](SparsePull::DirectoryCopy& copy) {
    SparseView& view = *copy.part->sparse;
    if (copy.is_read && copy.segments_gone != view.segments_gone()) {
      // It may name segments that will be used for others. Items that wait for it begin another one.
      session_.staging().give(copy.memory);
      return true;
    }
    if (copy.is_read) {
      view.directory_copy.resize(std::size_t{1} << *copy.depth);
      std::memcpy(view.directory_copy.data(), copy.memory.bytes.data(),
                  view.directory_copy.size() * sizeof(std::uint64_t));
      session_.staging().give(copy.memory);
      return true;
    }
    if (!copy.depth) {
      copy.depth = word_of(copy.memory.bytes, 0);
      session_.staging().give(copy.memory);
      copy.memory = {};
      if (*copy.depth > KeyHash::kSegmentBits) {
        session_.fail(absl::InvalidArgumentError(fmt::format(
            "{} has a directory of {} bits", copy.part->link->connection->peer_name(), *copy.depth)));
        return true;
      }
    }
    const auto words = view.directory_of(*copy.depth);
    if (!words) return false;  // not heard of yet
    absl::StatusOr<LocalSpan> memory = session_.staging().take(words->length_bytes);
    if (!memory.ok()) {
      session_.fail(memory.status());
      return true;
    }
    copy.memory = *memory;
    copy.is_read = true;
    pull.reads.add(*copy.part->link, *words, copy.memory.bytes.first(words->length_bytes), copy.memory);
    return false;
  });
}

bool SparseTable::step(SparsePull& pull, Item& item) {
  using Stage = SparsePull::Stage;
  switch (item.stage) {
    case Stage::kStart:
    case Stage::kDirectory:
      return begin(pull, item);
    case Stage::kBuckets: {
      if ((word_of(item.staging, 0) & IndexBucket::kRetired) != 0) {
        item.part->sparse->directory_copy.clear();
        item.stage = Stage::kStart;
        return begin(pull, item);
      }
      item.entries = 2 * IndexBucket::kEntries;
      return look_at_entries(pull, item);
    }
    case Stage::kOverflow:
      item.entries = kBucketsAnItem * IndexBucket::kEntries;
      return look_at_entries(pull, item);
    case Stage::kRow:
    case Stage::kKnownRow: {
      const std::span<std::byte> row = item.staging.subspan(kBucketsAnItem * sizeof(IndexBucket));
      const Key key = pull.keys[item.index];
      if (word_of(row, 0) == key) {
        if (item.stage == Stage::kRow && item.part->view->lookups.is_newest(*item.ticket))
          item.part->sparse->know_row(key, item.row);
        return finish(pull, item, row.data());
      }
      if (item.stage == Stage::kRow) return look_at_entries(pull, item);
      item.part->sparse->forget_row(key);
      return begin(pull, item);
    }
    case Stage::kDone:
      break;
  }
  return false;
}

bool SparseTable::begin(SparsePull& pull, Item& item) {
  using Stage = SparsePull::Stage;
  Part& part = *item.part;
  const Key key = pull.keys[item.index];
  end_lookup(item);
  if (pull_now(part, item.hash, key, pull.out_ + item.index * layout_.row_bytes)) {
    item.stage = Stage::kDone;
    return true;
  }
  if (part.sparse->is_mapped() || !part.link->is_up() || !serves(part) ||
      part.view->min_clock < needed_min_clock() || part.has_unapplied(part.range.row_of(key)))
    return false;
  SparseView& view = *part.sparse;
  item.clock = part.view->min_clock;
  item.shipped = part.updates->shipped;
  if (const std::optional<Row> row = view.known_row(key); row && read_row(pull, item, *row)) {
    begin_lookup(item);
    item.stage = Stage::kKnownRow;
    return true;
  }
  if (view.directory_copy.empty()) {
    item.stage = Stage::kDirectory;
    const bool is_copied = std::any_of(pull.directories_.begin(), pull.directories_.end(),
                                       [&](const auto& copy) { return copy.part == &part; });
    if (is_copied) return false;
    absl::StatusOr<LocalSpan> memory = session_.staging().take(sizeof(std::uint64_t));
    if (!memory.ok()) {
      session_.fail(memory.status());
      return false;
    }
    pull.directories_.push_back({.part = &part, .segments_gone = view.segments_gone(), .memory = *memory});
    pull.reads.add(*part.link, view.root(), memory->bytes.first(sizeof(std::uint64_t)), *memory);
    return true;
  }
  const auto depth = static_cast<std::uint32_t>(std::countr_zero(view.directory_copy.size()));
  item.segment = DirectoryEntry::segment(view.directory_copy[item.hash.segment_bits(depth)]);
  const auto buckets = view.buckets_of(item.segment, item.hash.bucket(), 2);
  if (!buckets) return false;  // not heard of yet
  begin_lookup(item);
  item.stage = Stage::kBuckets;
  item.next_entry = 0;
  pull.reads.add(*part.link, *buckets, item.staging.first(buckets->length_bytes), *pull.staging_);
  return true;
}

/// Asks for the next row that may be the key's. If there is none, the key has no row.
bool SparseTable::look_at_entries(SparsePull& pull, Item& item) {
  using Stage = SparsePull::Stage;
  const SparseView& view = *item.part->sparse;
  const std::uint64_t tag = item.hash.tag();
  for (; item.next_entry < item.entries; ++item.next_entry) {
    constexpr std::size_t kWords = sizeof(IndexBucket) / sizeof(std::uint64_t);
    const std::size_t bucket = item.next_entry / IndexBucket::kEntries;
    const std::uint64_t entry =
        word_of(item.staging, bucket * kWords + 1 + item.next_entry % IndexBucket::kEntries);
    if (IndexEntry::tag(entry) != tag) continue;
    if (!read_row(pull, item, IndexEntry::row(entry))) return false;
    ++item.next_entry;
    item.stage = Stage::kRow;
    return true;
  }
  const bool has_overflow = (word_of(item.staging, 0) & IndexBucket::kHasOverflow) != 0;
  if (!has_overflow || item.entries > 2 * IndexBucket::kEntries) return finish(pull, item, nullptr);
  const auto overflow = view.buckets_of(item.segment, IndexSegment::overflow_of(item.hash.bucket()), 1);
  if (!overflow) return false;
  item.stage = Stage::kOverflow;
  pull.reads.add(*item.part->link, *overflow,
                 item.staging.subspan(2 * sizeof(IndexBucket), sizeof(IndexBucket)), *pull.staging_);
  return true;
}

bool SparseTable::read_row(SparsePull& pull, Item& item, Row row) {
  const auto place = item.part->sparse->row_of(row);
  if (!place) return false;
  item.row = row;
  pull.reads.add(*item.part->link, *place, item.staging.subspan(kBucketsAnItem * sizeof(IndexBucket)),
                 *pull.staging_);
  return true;
}

/// `row`: what was read; nullptr: the key has no row.
bool SparseTable::finish(SparsePull& pull, Item& item, const std::byte* row) {
  using Stage = SparsePull::Stage;
  Part& part = *item.part;
  if (part.awaits_own && part.updates->shipped != item.shipped) {
    // It is not known whether updates that were shipped meanwhile came before the read: read again.
    item.stage = Stage::kStart;
    return begin(pull, item);
  }
  const Key key = pull.keys[item.index];
  std::byte* const out = pull.out_ + item.index * layout_.row_bytes;
  if (row != nullptr) {
    take_fetched(part, part.range.row_of(key), row + sizeof(Key), item.clock, out);
  } else {
    take_absent(part, key, item.clock, out);
  }
  end_lookup(item);
  item.stage = Stage::kDone;
  return true;
}

/// From now on it goes by what it reads of the index, or has remembered.
void SparseTable::begin_lookup(Item& item) {
  item.ticket = item.part->view->lookups.begin();
}

void SparseTable::end_lookup(Item& item) {
  if (item.ticket) item.part->view->lookups.end(*item.ticket);
  item.ticket.reset();
}

}  // namespace verbena::worker
