#include "apps/embedding/row_store.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <iterator>
#include <limits>

#include "apps/data/random.hpp"
#include "base/prefetch.hpp"
#include "base/return_if_error.hpp"
#include "base/word_copy.hpp"
#include "protocol/partition.hpp"

namespace verbena::apps {
namespace {

constexpr std::size_t kStoredBytesAtOnce = std::size_t{1} << 20;
/// Shorter rows, where they are held, do not have the alignment that kernels need.
constexpr std::size_t kAlignedRowBytes = 256;

hwy::AlignedFreeUniquePtr<float[]> rows_of(const RowSource& source) {
  auto rows = aligned_floats(source.rows * source.width);
  for (std::size_t id = 0; id < source.rows; ++id) {
    source.make(id, std::span(rows.get() + id * source.width, source.width));
  }
  return rows;
}

std::size_t rows_at_once(std::size_t width) {
  return std::max<std::size_t>(kStoredBytesAtOnce / (width * sizeof(float)), 1);
}

absl::Status push_first_rows(Table<float>& table, const RowSource& source, KeyRange mine) {
  std::vector<float> rows;
  for (Key first = mine.first; first < mine.last; first += rows_at_once(source.width)) {
    const KeyRange some{first, std::min<Key>(first + rows_at_once(source.width), mine.last)};
    rows.resize(some.size() * source.width);
    for (Key id = some.first; id < some.last; ++id) {
      source.make(id, std::span(rows).subspan((id - first) * source.width, source.width));
    }
    RETURN_IF_ERROR(table.push(some, rows));
  }
  return absl::OkStatus();
}

}  // namespace

void RowStore::draw(std::size_t /*table*/, std::size_t rows, std::mt19937_64& random,
                    std::span<std::uint32_t> keys) {
  for (std::uint32_t& key : keys) key = static_cast<std::uint32_t>(random_below(random, rows));
}

LocalRows::LocalRows(std::span<const RowSource> first) {
  for (const RowSource& source : first) {
    sizes_.push_back({source.rows, source.width});
    memory_.push_back(rows_of(source));
    places_.push_back(row_pointers(memory_.back().get(), source.rows, source.width));
    rows_.push_back(places_.back().data());
  }
}

absl::Status LocalRows::read(std::size_t table, std::size_t numbers, float* to) {
  const auto [rows, width] = sizes_[table];
  for (std::size_t id = 0; id < rows; ++id) std::copy_n(rows_[table][id], numbers, to + id * numbers);
  return absl::OkStatus();
}

std::vector<bool> wanted_by_others(std::span<const double> uses_by_others, std::size_t lookahead) {
  const auto mini_batches = static_cast<double>(lookahead + 1);
  std::vector<bool> wanted;
  wanted.reserve(uses_by_others.size());
  for (const double uses : uses_by_others) wanted.push_back(-std::expm1(-uses * mini_batches) > 0.5);
  return wanted;
}

FetchedRows::FetchedRows(Table<float>& table, const FetchOptions& options)
    : table_(table),
      options_(options),
      holds_(kRowsAreHeld && options.allocation != RowAllocation::kStatic &&
             table.width() * sizeof(float) >= kAlignedRowBytes),
      frames_(options.lookahead + 1) {
  for (Places& places : places_) places.by_key.resize(table.rows());
}

void FetchedRows::begin() {
  assert(begun_ < frames_.size());
  Frame& begins = frame(begun_);
  begins.keys.clear();
  begins.places_before.clear();
  ++begun_;
  newest_ = 1 - newest_;
  Places& places = places_[newest_];
  for (const Key key : places.keys) places.by_key[key] = 0;
  places.keys.clear();
}

void FetchedRows::find_places(std::span<std::uint32_t> keys) {
  Frame& newest = frame(begun_ - 1);
  Places& places = places_[newest_];
  const Places& places_before = places_[1 - newest_];
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (i + base::kKeysAhead < keys.size()) {
      const std::uint32_t ahead = keys[i + base::kKeysAhead];
      __builtin_prefetch(&places.by_key[ahead], 1);
      __builtin_prefetch(&places_before.by_key[ahead]);
    }
    const std::uint32_t key = keys[i];
    std::uint32_t& place = places.by_key[key];
    if (place == 0) {
      places.keys.push_back(key);
      const std::uint32_t before = begun_ > 1 ? places_before.by_key[key] : 0;
      newest.places_before.push_back(before == 0 ? kNone : before - 1);
      newest.keys.push_back(key);
      place = static_cast<std::uint32_t>(newest.keys.size());
    }
    keys[i] = place - 1;
  }
}

absl::Status FetchedRows::end(std::int64_t clock) {
  const Frame& newest = frame(begun_ - 1);
  switch (options_.allocation) {
    case RowAllocation::kStatic:
      return absl::OkStatus();
    case RowAllocation::kLocalize:
      return localize(newest);
    case RowAllocation::kIntent:
      return intend(newest, clock);
  }
  return absl::OkStatus();
}

absl::Status FetchedRows::intend(const Frame& frame, std::int64_t clock) {
  if (stay_.empty()) return table_.intent(frame.keys, clock, clock + 1);
  some_keys_.clear();
  std::copy_if(frame.keys.begin(), frame.keys.end(), std::back_inserter(some_keys_),
               [&](Key key) { return !stay_[key]; });
  return table_.intent(some_keys_, clock, clock + 1);
}

absl::Status FetchedRows::intend_for_ever(std::int64_t clock, bool here) {
  some_keys_.clear();
  for (Key key = 0; key < stay_.size(); ++key) {
    if (stay_[key] && table_.is_here(key) == here) some_keys_.push_back(key);
  }
  return table_.intent(some_keys_, clock, std::numeric_limits<std::int64_t>::max());
}

absl::Status FetchedRows::localize(const Frame& frame) {
  // Rows that the mini-batch before needs, too, have already been requested.
  some_keys_.clear();
  for (std::size_t place = 0; place < frame.keys.size(); ++place) {
    const Key key = frame.keys[place];
    if (frame.places_before[place] == kNone && (stay_.empty() || !stay_[key])) some_keys_.push_back(key);
  }
  if (some_keys_.empty()) return absl::OkStatus();
  // The worker does not wait: a row that does not come in time is read where it is.
  Pending localize = table_.localize(some_keys_);
  return localize.done() ? localize.wait() : absl::OkStatus();
}

float* FetchedRows::add_copy(Frame& frame, std::uint32_t place) const {
  float* const row = frame.values.get() + frame.copied.size() * table_.width();
  frame.copies[place] = static_cast<std::uint32_t>(frame.copied.size());
  frame.copied.push_back(place);
  frame.rows[place] = row;
  return row;
}

/// Skips rows that the mini-batch before changes: they are handed over by it, or waited for.
void FetchedRows::fetch() {
  assert(fetched_ < begun_);
  Frame& next = frame(fetched_++);
  const std::size_t width = table_.width();
  const std::size_t rows = next.keys.size();
  if (rows > next.capacity) {
    next.capacity = rows + rows / 4;
    next.values = aligned_floats(next.capacity * width);
  }
  next.rows.assign(rows, nullptr);
  next.copies.assign(rows, kNone);
  next.copied.clear();
  next.keys_ahead.clear();
  for (std::uint32_t place = 0; place < rows; ++place) {
    if (holds_ && place + base::kKeysAhead < rows) table_.prefetch(next.keys[place + base::kKeysAhead]);
    if (next.places_before[place] != kNone || is_here(next.keys[place])) continue;
    next.keys_ahead.push_back(next.keys[place]);
    add_copy(next, place);
  }
  next.pull =
      table_.pull_async(next.keys_ahead, std::span(next.values.get(), next.keys_ahead.size() * width));
}

absl::Status FetchedRows::gather() {
  assert(fetched_ > 0);
  Frame& opens = frame(0);
  absl::Status status = opens.pull->wait();
  opens.pull.reset();
  if (!status.ok()) return status;
  left_.clear();
  for (std::uint32_t place = 0; place < opens.keys.size(); ++place) {
    if (opens.copies[place] != kNone || (holds_ && !is_handed_over(place)) || is_here(opens.keys[place]))
      continue;
    left_.push_back(place);
  }
  return copy(left_);
}

bool FetchedRows::is_handed_over(std::uint32_t place) const {
  const std::uint32_t place_before = frame(0).places_before[place];
  return place_before != kNone && frame_before().copies[place_before] != kNone;
}

absl::Status FetchedRows::copy(std::span<const std::uint32_t> places) {
  Frame& opens = frame(0);
  const std::size_t width = table_.width();
  for (const std::uint32_t place : places) {
    if (is_handed_over(place))
      std::copy_n(frame_before().rows[opens.places_before[place]], width, add_copy(opens, place));
  }
  some_keys_.clear();
  const std::size_t first = opens.copied.size();
  for (const std::uint32_t place : places) {
    if (is_handed_over(place)) continue;
    some_keys_.push_back(opens.keys[place]);
    add_copy(opens, place);
  }
  if (some_keys_.empty()) return absl::OkStatus();
  return table_.pull(some_keys_, std::span(opens.values.get() + first * width, some_keys_.size() * width));
}

absl::StatusOr<bool> FetchedRows::take() {
  Frame& opens = frame(0);
  left_.clear();
  if (opens.copied.size() == opens.keys.size()) return true;
  some_keys_.clear();
  for (std::uint32_t place = 0; place < opens.keys.size(); ++place) {
    if (opens.copies[place] != kNone) continue;
    left_.push_back(place);
    some_keys_.push_back(opens.keys[place]);
  }
  some_rows_.resize(some_keys_.size());
  absl::StatusOr<HeldRows> held = table_.hold(some_keys_, some_rows_);
  if (!held.ok()) return held.status();
  held_ = *std::move(held);
  for (std::size_t i = 0; i < left_.size(); ++i) opens.rows[left_[i]] = some_rows_[i];
  std::erase_if(left_, [&](std::uint32_t place) { return opens.rows[place] != nullptr; });
  return left_.empty();
}

RowPointers FetchedRows::open() {
  Frame& opens = frame(0);
  const std::size_t numbers = opens.copied.size() * table_.width();
  opens.opened.assign(opens.values.get(), opens.values.get() + numbers);
  return opens.rows.data();
}

absl::Status FetchedRows::close() {
  Frame& closes = frame(0);
  const std::size_t width = table_.width();
  some_keys_.clear();
  for (std::size_t copy = 0; copy < closes.copied.size(); ++copy) {
    const Key key = closes.keys[closes.copied[copy]];
    some_keys_.push_back(key);
    const float* const trained = closes.values.get() + copy * width;
    float* const added = closes.opened.data() + copy * width;
    for (std::size_t i = 0; i < width; ++i) added[i] = trained[i] - added[i];
    if (shares_.empty()) continue;
    for (std::size_t i = 0; i < width; ++i) added[i] *= shares_[key];
  }
  first_ = (first_ + 1) % frames_.size();
  --begun_;
  --fetched_;
  if (some_keys_.empty()) return absl::OkStatus();
  if (options_.lookahead == 0) return table_.push(some_keys_, closes.opened);
  return table_.push_async(some_keys_, closes.opened).wait();
}

TableRows::TableRows(Session& session, std::span<const Table<float>> tables, TrainingWatch& watch,
                     const FetchOptions& options)
    : session_(session),
      tables_(tables.begin(), tables.end()),
      options_(options),
      open_(tables.size()),
      watch_(watch) {
  for (Table<float>& table : tables_) fetched_.emplace_back(table, options_);
}

absl::Status TableRows::initialize(std::span<const RowSource> first) {
  assert(first.size() == tables_.size());
  for (std::size_t table = 0; table < tables_.size(); ++table) {
    const RowSource& source = first[table];
    const KeyRange mine = protocol::RangePartition(source.rows, session_.workers()).range(session_.rank());
    RETURN_IF_ERROR(push_first_rows(tables_[table], source, mine));
  }
  return session_.barrier();
}

absl::StatusOr<std::vector<std::int64_t>> numbers_of_all_workers(Session& session, const char* name,
                                                                 std::int64_t own, Allocation allocation) {
  // The barrier is all that it needs, and copies of static tables' servers may be on other hosts, where
  // Sequential is refused.
  const ConsistencyModel consistency =
      allocation == Allocation::kStatic ? ConsistencyModel(Asp{}) : ConsistencyModel(Sequential{});
  const auto numbers = session.table<std::int64_t>({.name = name,
                                                    .rows = session.workers(),
                                                    .width = 1,
                                                    .consistency = consistency,
                                                    .allocation = allocation});
  if (!numbers.ok()) return numbers.status();
  // Where the session goes on from a checkpoint, the number of before is there.
  const Key rank = session.rank();
  std::int64_t change = 0;
  absl::Status status = numbers->pull(std::span(&rank, 1), {&change, 1});
  change = own - change;
  if (status.ok()) status = numbers->push(std::span(&rank, 1), {&change, 1});
  if (status.ok()) status = session.barrier();
  if (!status.ok()) return status;
  std::vector<std::int64_t> all(session.workers());
  status = numbers->pull(KeyRange{0, all.size()}, all);
  if (!status.ok()) return status;
  return all;
}

absl::Status TableRows::agree_on_clocks(std::size_t most_mini_batches) {
  const auto all = numbers_of_all_workers(session_, "mini_batches",
                                          static_cast<std::int64_t>(most_mini_batches), Allocation::kDynamic);
  if (!all.ok()) return all.status();
  session_clocks_ = static_cast<std::size_t>(*std::max_element(all->begin(), all->end()));
  return absl::OkStatus();
}

/// The rows that lie here come first: so they stay where they are, spread over the nodes, and do not move to
/// the first worker that signals an intent.
absl::Status TableRows::intend_for_ever() {
  for (const bool here : {true, false}) {
    for (FetchedRows& rows : fetched_) {
      RETURN_IF_ERROR(rows.intend_for_ever(session_.current_clock(), here));
    }
    RETURN_IF_ERROR(session_.barrier());
  }
  return absl::OkStatus();
}

void TableRows::request(std::span<const NeededRows> needed) {
  for (FetchedRows& rows : fetched_) rows.begin();
  for (const auto& [table, keys] : needed) fetched_[table].find_places(keys);
  for (FetchedRows& rows : fetched_)
    request_status_.Update(rows.end(session_.current_clock() + static_cast<std::int64_t>(requested_)));
  ++requested_;
  // Rows of later mini-batches are still to be changed by the mini-batches before them.
  const bool is_next = requested_ == (is_open_ ? 2 : 1);
  for (FetchedRows& rows : fetched_) {
    if (is_next) rows.fetch();
  }
}

void TableRows::draw(std::size_t table, std::size_t rows, std::mt19937_64& random,
                     std::span<std::uint32_t> keys) {
  if (options_.near_draws == 0) return RowStore::draw(table, rows, random, keys);
  const absl::StatusOr<Sample> sample = tables_[table].prepare_sample(
      KeyDistribution::uniform({0, rows}), keys.size(), random, {.preference = options_.near_draws});
  request_status_.Update(sample.status());
  if (!sample.ok()) return RowStore::draw(table, rows, random, keys);
  std::transform(sample->keys().begin(), sample->keys().end(), keys.begin(),
                 [](Key key) { return static_cast<std::uint32_t>(key); });
}

absl::StatusOr<std::span<const RowPointers>> TableRows::open() {
  if (!request_status_.ok()) return request_status_;
  for (FetchedRows& rows : fetched_) {
    RETURN_IF_ERROR(rows.gather());
  }
  for (bool all_taken = false; !all_taken;) {
    all_taken = true;
    for (FetchedRows& rows : fetched_) {
      const absl::StatusOr<bool> taken = rows.take();
      if (!taken.ok()) return taken.status();
      all_taken = all_taken && *taken;
    }
    if (all_taken) break;
    for (FetchedRows& rows : fetched_) rows.release();
    for (FetchedRows& rows : fetched_) {
      RETURN_IF_ERROR(rows.copy_rest());
    }
  }
  for (std::size_t table = 0; table < tables_.size(); ++table) {
    open_[table] = fetched_[table].open();
    if (requested_ > 1) fetched_[table].fetch();
  }
  is_open_ = true;
  watch_.computing_begins();
  return std::span<const RowPointers>(open_);
}

absl::Status TableRows::close(std::uint64_t items) {
  watch_.computing_ends(items);
  is_open_ = false;
  --requested_;
  for (FetchedRows& rows : fetched_) rows.release();
  for (FetchedRows& rows : fetched_) {  // which may wait
    RETURN_IF_ERROR(rows.close());
  }
  ++closed_;
  return options_.allocation == RowAllocation::kIntent ? session_.clock() : absl::OkStatus();
}

absl::Status TableRows::clock() {
  watch_.clock_ends();
  if (options_.allocation != RowAllocation::kIntent) return session_.clock();
  assert(closed_ <= session_clocks_);
  for (std::size_t n = closed_; n < session_clocks_; ++n) {
    RETURN_IF_ERROR(session_.clock());
  }
  closed_ = 0;
  return absl::OkStatus();
}

absl::Status TableRows::read(std::size_t table, std::size_t numbers, float* to) {
  Table<float>& rows_of_table = tables_[table];
  const std::size_t width = rows_of_table.width();
  std::vector<float> rows;
  for (Key first = 0; first < rows_of_table.rows(); first += rows_at_once(width)) {
    const KeyRange some{first, std::min<Key>(first + rows_at_once(width), rows_of_table.rows())};
    rows.resize(some.size() * width);
    RETURN_IF_ERROR(rows_of_table.pull(some, rows));
    for (std::size_t row = 0; row < some.size(); ++row, to += numbers) {
      std::copy_n(rows.data() + row * width, numbers, to);
    }
  }
  return absl::OkStatus();
}

}  // namespace verbena::apps
