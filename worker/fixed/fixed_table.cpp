#include "worker/fixed/fixed_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/return_if_error.hpp"
#include "base/word_copy.hpp"
#include "consistency/in_transit_bound.hpp"
#include "consistency/rules.hpp"
#include "protocol/placement.hpp"
#include "worker/fixed/pull_now.hpp"
#include "worker/fixed/sparse_table.hpp"
#include "worker/row_copy.hpp"

namespace verbena::worker {

namespace {

/// The most asynchronous pushes under way, if the table sends each push at once, or sends them before calls:
/// each takes a buffer.
constexpr std::size_t kMostAsyncPushes = 16;
/// Of how many keys of a push the memory is fetched together.
constexpr std::size_t kPushedTogether = 16;

template <class Value, class Base>
class TypedTable final : public Base {
 public:
  using Base::Base;

  absl::Status push(std::span<const Key> keys, const std::byte* updates, std::size_t values,
                    bool wait) override {
    return push_rows(KeyList{keys}, updates, values, wait);
  }
  absl::Status push(KeyRange range, const std::byte* updates, std::size_t values, bool wait) override {
    return push_rows(KeyRun{range}, updates, values, wait);
  }

 private:
  using Row = protocol::Row;

  [[nodiscard]] double in_transit(const Part& part, Row row) const override {
    double most = 0;
    for (std::size_t i = 0; i < this->options_.width; ++i) {
      double sum = 0;
      const auto add = [&](const UpdateBuffer& buffer) {
        const std::byte* const update = buffer.find(row);
        if (update != nullptr)
          sum += std::abs(static_cast<double>(reinterpret_cast<const Value*>(update)[i]));
      };
      add(*part.current);
      for (const std::unique_ptr<UpdateBuffer>& buffer : part.outstanding) {
        if (part.is_unapplied(*buffer, row)) add(*buffer);
      }
      most = std::max(most, sum);
    }
    return most;
  }

  template <class Keys>
  [[gnu::always_inline]] absl::Status push_rows(Keys keys, const std::byte* updates, std::size_t values,
                                                bool wait) {
    if (!this->session_.is_here()) [[unlikely]]
      return this->session_.elsewhere();
    this->session_.poll_sometimes(keys.size());
    if (!this->is_ready(keys, values)) [[unlikely]]
      return this->check_ready(keys.all(), values);
    this->session_.counters().rows_pushed += keys.size();
    if (this->session_.does_again()) [[unlikely]]
      return push_what_is_missing(keys.all(), updates, wait);
    return push_all(keys, updates, wait);
  }

  /// A process that was this worker has done this clock at some servers: they have its updates.
  [[gnu::noinline]] absl::Status push_what_is_missing(const Keys& keys, const std::byte* updates, bool wait) {
    const std::size_t row_bytes = this->layout_.row_bytes;
    std::vector<Key> missing;
    std::vector<std::byte> theirs;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (this->part_of(keys[i]).link->former_clock > this->session_.current_clock()) continue;
      missing.push_back(keys[i]);
      theirs.insert(theirs.end(), updates + i * row_bytes, updates + (i + 1) * row_bytes);
    }
    return missing.empty() ? absl::OkStatus() : push_all(KeyList{missing}, theirs.data(), wait);
  }

  template <class Keys>
  [[gnu::always_inline]] absl::Status push_all(const Keys& keys, const std::byte* updates, bool wait) {
    if (!add_up(keys, updates)) [[unlikely]] {
      this->session_.fail(absl::ResourceExhaustedError("no memory left for the update buffer"));
      return this->session_.status();
    }
    if (!this->ships_in_a_clock_) [[likely]]
      return absl::OkStatus();
    return this->ship_in_a_clock(keys.all(), wait);
  }

  /// Adds the updates to the update buffers, and to rows that are cached with this worker's updates. Returns
  /// false if memory is short.
  template <class Keys>
  bool add_up(const Keys& keys, const std::byte* updates) {
    for (std::size_t i = 0; i < keys.size(); i += kPushedTogether) {
      const std::size_t end = std::min(i + kPushedTogether, keys.size());
      const bool is_run = end - i > 1 && add_run(keys, i, end, updates);
      if (!is_run && !add_any(keys, i, end, updates)) return false;
    }
    return true;
  }

  /// The keys from index `begin` to `end`. False: nothing was done, since they are not all of one dense part,
  /// or its buffer has no room for them at hand.
  template <class Keys>
  [[gnu::always_inline]] bool add_run(const Keys& keys, std::size_t begin, std::size_t end,
                                      const std::byte* updates) {
    if (this->is_sparse_) return false;
    Part& part = this->part_of(keys[begin]);
    UpdateBuffer& buffer = *part.current;
    if (!buffer.can_run(end - begin)) return false;
    const protocol::RowRange range = part.range;
    for (std::size_t i = begin; i < end; ++i) {
      if (!range.has(keys[i])) return false;
    }
    if (!keys.is_range()) {
      for (std::size_t i = begin; i < end; ++i) buffer.prefetch(range.row_of(keys[i]));
    }
    const std::size_t row_bytes = this->layout_.row_bytes;
    const bool predicts = this->predicts_in_cache(part);
    UpdateBuffer::Run run(buffer);
    for (std::size_t i = begin; i < end; ++i) {
      const Key key = keys[i];
      const std::byte* const update = updates + i * row_bytes;
      const UpdateBuffer::Found found = run.find_or_add(range.row_of(key), key);
      if (found.fresh) {
        copy_row(found.values, update, row_bytes);
      } else {
        this->layout_.rule.template combine_as<Value>(found.values, update);
      }
      if (predicts) predict_in_cache(part, range.row_of(key), update);
    }
    return true;
  }

  /// The same for any keys. False: memory is short.
  template <class Keys>
  bool add_any(const Keys& keys, std::size_t begin, std::size_t end, const std::byte* updates) {
    std::array<Part*, kPushedTogether> parts;
    for (std::size_t i = begin; i < end; ++i) {
      Part& part = this->part_of(keys[i]);
      parts[i - begin] = &part;
      if (!keys.is_range() || this->is_sparse_) part.current->prefetch(part.range.row_of(keys[i]));
    }
    for (std::size_t i = begin; i < end; ++i) {
      const Key key = keys[i];
      Part& part = *parts[i - begin];
      const Row row = part.range.row_of(key);
      const std::byte* const update = updates + i * this->layout_.row_bytes;
      const UpdateBuffer::Found found = part.current->find_or_add(row, key);
      if (found.values == nullptr) return false;
      if (found.fresh) {
        copy_row(found.values, update, this->layout_.row_bytes);
      } else {
        this->layout_.rule.template combine_as<Value>(found.values, update);
      }
      if (predicts_in_cache(part)) predict_in_cache(part, row, update);
    }
    return true;
  }

  [[nodiscard]] bool predicts_in_cache(const Part& part) const {
    return part.cache != nullptr && !this->keeps_own_apart_ && this->layout_.rule.predicts();
  }
  void predict_in_cache(const Part& part, Row row, const std::byte* update) const {
    if (CachedRow* const cached = part.cache->find(row))
      this->layout_.rule.template predict_as<Value>(cached->values(), update);
  }
};

}  // namespace

std::unique_ptr<TableCore> make_fixed_table(SessionCore& session, std::uint32_t number,
                                            const TableOptions& options, ValueType type) {
  return visit_value_type(type, [&]<class Value>() -> std::unique_ptr<TableCore> {
    if (options.key_space == KeySpace::kSparse)
      return std::make_unique<TypedTable<Value, SparseTable>>(session, number, options, type);
    return std::make_unique<TypedTable<Value, FixedTable>>(session, number, options, type);
  });
}

FixedTable::FixedTable(SessionCore& session, std::uint32_t number, const TableOptions& options,
                       ValueType type)
    : TableCore(session, number, options, type),
      is_sparse_(options.key_space == KeySpace::kSparse),
      read_bound_(rules_.read_bound),
      reads_only_what_serves_(rules_.acknowledges_at_once() && session.has_copies()),
      ships_ahead_(session.options().update_budget_mb_per_s > 0 && !rules_.holds_updates_back &&
                   !rules_.acknowledges_at_once() && protocol::FilterRule::find(options.filter)->sends_all()),
      ships_in_a_clock_(ships_ahead_ || rules_.acknowledges_at_once()),
      keeps_own_apart_(rules_.holds_updates_back),
      shipping_(session, number, options_.name, layout_,
                PushFilter(protocol::FilterRule::find(options.filter).value(), session.options().rank),
                UpdatePacking(protocol::PushEncoding::find(options.encoding).value(),
                              protocol::FilterRule::find(options.filter).value(), layout_)) {}

absl::Status FixedTable::add_server(ServerLink& link, const transport::RemoteDescriptor& shard) {
  const protocol::TablePlacement placement = session_.placement().table(options_.rows);
  const KeyRange keys = placement.keys(link.server);
  const auto lane_count = static_cast<std::uint32_t>(link.lanes.size());
  first_part_.push_back(parts_.size());
  const absl::StatusOr<const std::byte*> mapped = map_shard(link, shard);
  if (!mapped.ok()) return mapped.status();
  if (*mapped == nullptr && keys.size() > 0 && session_.options().read_path == ReadPath::kInPlace) {
    return absl::FailedPreconditionError(
        fmt::format("reads in place need a server on this host; {} is not", link.connection->peer_name()));
  }
  for (std::uint32_t lane = 0; lane < lane_count; ++lane) {
    auto part = std::make_unique<Part>();
    part->link = &link;
    part->lane = lane;
    part->view = &link.lanes[lane];
    part->range = protocol::RowRange(placement.keys(link.server, lane, lane_count));
    place(*part, keys, shard, *mapped);
    RETURN_IF_ERROR(add_part(std::move(part), *mapped != nullptr));
  }
  last_part_ = parts_.front().get();
  return absl::OkStatus();
}

/// Where the part's rows are. `keys`: of the shard.
void FixedTable::place(Part& part, const KeyRange& keys, const transport::RemoteDescriptor& shard,
                       const std::byte* mapped) const {
  const std::size_t offset = (part.range.keys().first - keys.first) * layout_.stride_bytes;
  if (part.range.size() > 0) part.rows = shard.slice(offset, part.range.size() * layout_.stride_bytes);
  if (reads_in_place(mapped != nullptr)) part.mapped = mapped + offset;
}

absl::Status FixedTable::on_server_back(ServerLink& link, const transport::RemoteDescriptor& shard) {
  const KeyRange keys = session_.placement().table(options_.rows).keys(link.server);
  // What cannot be mapped is read from afar: the copy may be gone by now, too.
  const absl::StatusOr<const std::byte*> mapped = map_shard(link, shard);
  if (!mapped.ok()) return mapped.status();
  for (std::uint32_t lane = 0; lane < link.lanes.size(); ++lane) {
    Part& part = this->part(link.server, lane);
    part.mapped = nullptr;
    place(part, keys, shard, *mapped);
    RETURN_IF_ERROR(cache_anew(part));
  }
  return absl::OkStatus();
}

absl::Status FixedTable::cache_anew(Part& part) const {
  return rules_.pushes_eagerly && part.cache != nullptr ? make_cache(part) : absl::OkStatus();
}

/// nullptr: it cannot be mapped, or has no rows.
absl::StatusOr<const std::byte*> FixedTable::map_shard(const ServerLink& link,
                                                       const transport::RemoteDescriptor& shard) const {
  const KeyRange keys = session_.placement().table(options_.rows).keys(link.server);
  if (shard.length_bytes < keys.size() * layout_.stride_bytes) {
    return absl::InvalidArgumentError(fmt::format(
        "{} opened table \"{}\" with {} bytes for {} rows of {} bytes", link.connection->peer_name(),
        options_.name, shard.length_bytes, keys.size(), layout_.stride_bytes));
  }
  const std::byte* const mapped = keys.size() == 0 ? nullptr : link.connection->mapped(shard);
  return mapped;
}

bool FixedTable::caches() const {
  return rules_.cache != consistency::CacheRule::kNever;
}

/// Rows that are never cached are read over the network if the read path asks to try that on one host.
bool FixedTable::reads_in_place(bool is_mapped) const {
  return is_mapped && (caches() || session_.options().read_path != ReadPath::kCached);
}

absl::Status FixedTable::add_part(std::unique_ptr<Part> part, bool is_mapped) {
  part->updates = rules_.holds_updates_back ? &part->view->held : &part->view->at_once;
  absl::StatusOr<std::unique_ptr<UpdateBuffer>> buffer = shipping_.make_buffer(*part);
  if (!buffer.ok()) return buffer.status();
  part->current = std::move(*buffer);
  if (shipping_.filters()) {
    buffer = shipping_.make_buffer(*part);
    if (!buffer.ok()) return buffer.status();
    part->kept = std::move(*buffer);
  }
  // Where nobody can tell what becomes of an update, a read need not find it before it must find those of
  // others; but a model without clocks promises that it does.
  part->awaits_own = layout_.rule.predicts() || rules_.acknowledges_at_once();
  if (caches() && (session_.options().read_path == ReadPath::kCached || !is_mapped)) {
    RETURN_IF_ERROR(make_cache(*part));
  }
  parts_.push_back(std::move(part));
  return absl::OkStatus();
}

absl::Status FixedTable::make_cache(Part& part) const {
  // The part's share of the rows that may be cached.
  const auto below = [&](Key key) {
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(options_.cache_rows) * key /
                                      options_.rows);
  };
  std::uint64_t most = UINT64_MAX;
  if (is_sparse_ && options_.cache_rows != UINT64_MAX) {
    most = options_.cache_rows / (part.link->lanes.size() * session_.options().servers.size());
  } else if (options_.cache_rows < options_.rows) {
    most = below(part.range.keys().last) - below(part.range.keys().first);
  }
  try {
    part.cache = std::make_unique<RowCache>(part.range.size(), layout_.stride_bytes, most);
    if (rules_.pushes_eagerly) part.subscriptions.start(part.range.size(), part.cache->is_bounded());
  } catch (const std::bad_alloc&) {
    return shipping_.no_memory(part);
  }
  return absl::OkStatus();
}

Part& FixedTable::find_part(Key key) {
  const auto after =
      std::upper_bound(parts_.begin(), parts_.end(), key,
                       [](Key k, const std::unique_ptr<Part>& part) { return k < part->range.keys().last; });
  return **after;
}

Part& FixedTable::part(std::uint32_t server, std::uint32_t lane) {
  return *parts_[first_part_[server] + lane];
}

consistency::Clock FixedTable::needed_min_clock() const {
  return std::max(consistency::min_clock_needed(read_bound_, session_.current_clock()),
                  session_.barrier_clock());
}

consistency::Clock FixedTable::needed_row_clock() const {
  return rules_.cache == consistency::CacheRule::kForOneClock ? session_.current_clock() : needed_min_clock();
}

std::uint64_t& FixedTable::reads_at(consistency::Clock clock) {
  const consistency::Clock lag = -1 - consistency::clock_differential(clock, session_.current_clock());
  const std::size_t bin = std::min(static_cast<std::size_t>(std::max<consistency::Clock>(lag, 0)),
                                   staleness_.reads_by_lag.size() - 1);
  return staleness_.reads_by_lag[bin];
}

void FixedTable::refresh(Part& part) {
  // A row that is good for one clock may have been read at any time in that clock.
  const bool from_start = part.cache != nullptr && rules_.cache == consistency::CacheRule::kForOneClock;
  const consistency::Clock min_clock = from_start ? part.view->min_clock_at_start : part.view->min_clock;
  const bool readable = is_sparse_ || part.cache != nullptr || part.mapped != nullptr;
  part.reading = {.epoch = session_.epoch(),
                  .needed = needed_row_clock(),
                  .min_clock = min_clock,
                  .allowed = readable && part.view->min_clock >= needed_min_clock() && serves(part),
                  .has_outstanding = part.awaits_own && !part.outstanding.empty(),
                  .counter = &reads_at(min_clock)};
  part.at_once = at_once(part);
}

/// REQUIRES: part.reading is up to date.
Part::AtOnce FixedTable::at_once(const Part& part) const {
  const Part::Reading& reading = part.reading;
  if (!reading.allowed || !session_.status().ok() || is_sparse_ || reads_only_what_serves_) return {};
  const Key first = part.range.keys().first;
  if (part.cache == nullptr) {
    if (reading.has_outstanding) return {};
    return {.epoch = reading.epoch,
            .address = reinterpret_cast<std::uintptr_t>(part.mapped) - first * layout_.stride_bytes,
            .counter = reading.counter};
  }
  // Rows whose own updates are kept apart need a look at these.
  const RowCache::Places places = part.cache->places(part.range);
  if (places.address == 0 || keeps_own_apart_) return {};
  return {.epoch = reading.epoch,
          .address = places.address,
          .needed = std::max(reading.needed, reading.min_clock),
          .counter = reading.counter};
}

CachedRow* FixedTable::cache_row(Part& part, Row row) const {
  if (part.cache == nullptr) return nullptr;
  if (CachedRow* const cached = part.cache->find(row)) return cached;
  const RowCache::Place place = part.cache->insert(row);
  if (rules_.pushes_eagerly && place.row != nullptr) part.subscriptions.note(row);
  if (rules_.pushes_eagerly && place.evicted) part.subscriptions.note(*place.evicted);
  return place.row;
}

void FixedTable::take_fetched(Part& part, Row row, const std::byte* values, consistency::Clock min_clock,
                              std::byte* out) {
  const bool for_one_clock = rules_.cache == consistency::CacheRule::kForOneClock;
  const consistency::Clock row_clock = for_one_clock ? session_.current_clock() : min_clock;
  if (out != values) std::memcpy(out, values, layout_.row_bytes);
  if (!keeps_own_apart_) predict_own(part, row, out);
  CachedRow* const cached = cache_row(part, row);
  if (cached != nullptr && cached->clock() > row_clock) {
    // An eager push has overtaken the read.
    std::memcpy(out, cached->values(), layout_.row_bytes);
    min_clock = std::min(cached->clock(), part.view->min_clock);
  } else if (cached != nullptr) {
    std::memcpy(cached->values(), out, layout_.row_bytes);
    cached->set_clock(row_clock);
  }
  if (keeps_own_apart_) predict_own(part, row, out);
  ++reads_at(min_clock);
}

/// Reads a row that is not in the cache, or too old there, if the server's memory is mapped.
bool FixedTable::fetch_mapped(Part& part, Row row, std::byte* out) {
  if (part.mapped == nullptr || (part.reading.has_outstanding && part.has_unapplied(row))) return false;
  copy_mapped(out, part.mapped_row(row, layout_.stride_bytes), layout_.row_bytes);
  take_fetched(part, row, out, part.view->min_clock, out);
  return true;
}

absl::Status FixedTable::ship_in_a_clock(const Keys& keys, bool wait) {
  if (ships_ahead_)
    return session_.may_ship_ahead(keys.size()) ? shipping_.ship_ahead(parts_) : absl::OkStatus();
  if (rules_.pushes_at_once) return push_at_once(wait);
  const double bound = in_transit_bound();
  return wait_for_value_bound([&, next = std::size_t{0}]() mutable {
    for (; next < keys.size(); ++next) {
      const Part& part = part_of(keys[next]);
      if (in_transit(part, part.range.row_of(keys[next])) > bound) return false;
    }
    return true;
  });
}

absl::Status FixedTable::push_at_once(bool wait) {
  RETURN_IF_ERROR(shipping_.ship_updates(parts_));
  const std::size_t most = wait ? 0 : kMostAsyncPushes;
  return session_.wait_until(
      [&] { return most_outstanding() <= most; }, session_.options().timeout_ms,
      [&] { return fmt::format("the servers to apply a push to table \"{}\"", options_.name); });
}

double FixedTable::in_transit_bound() const {
  return consistency::in_transit_bound(rules_.value_bound, session_.options().workers,
                                       session_.current_clock());
}

absl::Status FixedTable::bound_in_transit() {
  if (rules_.value_bound == 0) return absl::OkStatus();
  const double bound = in_transit_bound();
  const auto is_kept = [&](const std::unique_ptr<Part>& part) {
    return std::all_of(part->outstanding.begin(), part->outstanding.end(), [&](const auto& buffer) {
      for (std::uint32_t i = 0; i < buffer->records(); ++i) {
        if (in_transit(*part, buffer->row(i)) > bound) return false;
      }
      return true;
    });
  };
  return wait_for_value_bound([&] { return std::all_of(parts_.begin(), parts_.end(), is_kept); });
}

absl::Status FixedTable::wait_for_value_bound(const std::function<bool()>& is_kept) {
  if (is_kept()) return absl::OkStatus();
  RETURN_IF_ERROR(shipping_.ship_updates(parts_));
  SessionStatistics& counters = session_.counters();
  const double waited_before = counters.waited_seconds;
  absl::Status status = session_.wait_until(is_kept, session_.options().timeout_ms, [&] {
    return fmt::format("the servers to apply updates of table \"{}\", which is bounded by value",
                       options_.name);
  });
  ++counters.value_bound_waits;
  counters.value_bound_waited_seconds += counters.waited_seconds - waited_before;
  return status;
}

// ---- pull

FixedPull::FixedPull(FixedTable& table, const Keys& from, std::size_t next, std::byte* out)
    : Operation("pull"), table_(table), out_(out), next_(next) {
  set_keys(from);
}

bool FixedPull::advance() {
  return table_.advance(*this);
}

std::string FixedPull::other_wait() const {
  return table_.session_.clocks_awaited(what);
}

std::shared_ptr<Operation> FixedTable::make_pull(const Keys& keys, std::size_t next, std::byte* out) {
  return std::make_shared<FixedPull>(*this, keys, next, out);
}

absl::Status FixedTable::pull(std::span<const Key> keys, std::byte* out, std::size_t values) {
  if (keys.size() == 1 && pull_at_once(keys.front(), out, values)) return absl::OkStatus();
  return pull_list(keys, out, values);
}

/// Not inlined, so that a pull of one row saves no registers that it does not use.
[[gnu::noinline]] absl::Status FixedTable::pull_list(std::span<const Key> keys, std::byte* out,
                                                     std::size_t values) {
  return pull_rows(KeyList{keys}, out, values, [&](const auto& all) { return pull_now(all, 0, out); });
}

absl::Status FixedTable::pull(KeyRange range, std::byte* out, std::size_t values) {
  return pull_rows(KeyRun{range}, out, values, [&](const auto& all) { return pull_now(all, 0, out); });
}

bool FixedTable::advance(FixedPull& pull) {
  if (!pull.reads.post()) return false;
  pull.awaited = nullptr;
  if (std::exchange(pull.begins_anew_, false) && !pull.runs_.empty()) {
    pull.next_ = pull.runs_.front().first;
    pull.runs_.clear();
  }
  finish_runs(pull);
  pull.next_ = pull_now(pull.keys, pull.next_, pull.out_);
  std::size_t staged_bytes = 0;
  while (pull.next_ < pull.keys.size() && add_run(pull, staged_bytes)) {
  }
  pull.reads.post();
  if (!pull.runs_.empty()) {
    pull.awaited = pull.runs_.front().part->link;
    return false;
  }
  if (pull.next_ < pull.keys.size()) {
    // Fresh enough, but not readable: the lane has not applied what this worker sent.
    const Part& part = part_of(pull.keys[pull.next_]);
    if (part.view->min_clock >= needed_min_clock()) pull.awaited = part.link;
    return false;
  }
  if (pull.staging_) session_.staging().give(*pull.staging_);
  pull.staging_.reset();
  return true;
}

bool FixedTable::add_run(FixedPull& pull, std::size_t& staged_bytes) {
  const Key first = pull.keys[pull.next_];
  Part& part = part_of(first);
  const auto fetchable = [&](Key key) {
    const Row row = part.range.row_of(key);
    if (part.mapped != nullptr || !part.link->is_up() || !serves(part) ||
        part.view->min_clock < needed_min_clock() || part.has_unapplied(row))
      return false;
    const CachedRow* const cached = part.cached(row);
    return cached == nullptr || cached->clock() < needed_row_clock();
  };
  if (!fetchable(first)) return false;
  if (!pull.staging_) {
    absl::StatusOr<LocalSpan> staging =
        session_.staging().take(std::max(kStagingBytes, layout_.stride_bytes));
    if (!staging.ok()) {
      session_.fail(staging.status());
      return false;
    }
    pull.staging_ = *staging;
  }
  const std::size_t room = (pull.staging_->bytes.size() - staged_bytes) / layout_.stride_bytes;
  std::size_t count = 0;
  while (count < room && pull.next_ + count < pull.keys.size() && part.range.has(first + count) &&
         pull.keys[pull.next_ + count] == first + count && fetchable(first + count)) {
    ++count;
  }
  if (count == 0) return false;
  const std::span<std::byte> staging =
      pull.staging_->bytes.subspan(staged_bytes, count * layout_.stride_bytes);
  staged_bytes += staging.size();
  pull.runs_.push_back({&part, pull.next_, count, staging, part.view->min_clock, part.updates->shipped});
  pull.reads.add(*part.link,
                 part.rows.slice(index_of(part.range.row_of(first)) * layout_.stride_bytes, staging.size()),
                 staging, *pull.staging_);
  pull.next_ += count;
  return true;
}

void FixedTable::finish_runs(FixedPull& pull) {
  for (const FixedPull::Run& run : pull.runs_) {
    if (run.part->awaits_own && run.part->updates->shipped != run.shipped) {
      // It is not known whether updates that were shipped meanwhile came before the read: read again.
      pull.next_ = run.first;
      break;
    }
    for (std::size_t i = 0; i < run.count; ++i) {
      const std::size_t at = run.first + i;
      take_fetched(*run.part, run.part->range.row_of(pull.keys[at]),
                   run.staging.data() + i * layout_.stride_bytes, run.clock,
                   pull.out_ + at * layout_.row_bytes);
    }
  }
  pull.runs_.clear();
}

// ---- calls of server functions

absl::Status FixedTable::check_call(const Keys& keys, std::span<const double> numbers) {
  if (keys.is_range()) {
    RETURN_IF_ERROR(enter(KeyRange{}, 0));
    const KeyRange range = keys.range();
    if (range.first > range.last) {
      return absl::InvalidArgumentError(fmt::format("table \"{}\": no range starts at {} and ends at {}",
                                                    options_.name, range.first, range.last));
    }
  } else {
    RETURN_IF_ERROR(enter(keys, keys.size() * options_.width));
  }
  const bool fit = keys.is_range() || keys.size() == 0 ? numbers.empty() : numbers.size() % keys.size() == 0;
  if (fit && numbers.size() <= keys.size() * protocol::kMaxNumbersAKey) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "table \"{}\": a call with {} numbers for {}, expected none, or equally many for each key "
      "of a list, at most {}",
      options_.name, numbers.size(), keys.is_range() ? "a range" : fmt::format("{} keys", keys.size()),
      protocol::kMaxNumbersAKey));
}

absl::StatusOr<std::shared_ptr<Operation>> FixedTable::start_call(std::string_view function, const Keys& keys,
                                                                  std::span<const double> numbers,
                                                                  bool wait) {
  RETURN_IF_ERROR(check_call(keys, numbers));
  const auto numbers_a_key = keys.size() == 0 ? 0 : static_cast<std::uint32_t>(numbers.size() / keys.size());
  const bool is_of_nothing = !keys.is_range() && keys.size() == 0;
  const auto bound = protocol::BoundFunction::find(function, layout_.rule, numbers_a_key, !is_of_nothing);
  if (!bound.ok()) return bound.status();
  if (bound->changes_rows() && session_.does_again()) {
    return absl::FailedPreconditionError(fmt::format(
        "table \"{}\": \"{}\" cannot be called again by the process that takes the place of worker {}, since "
        "some servers may have done it",
        options_.name, function, session_.options().rank));
  }
  const auto call =
      std::make_shared<FunctionCallOperation>(*this, std::string(function), *bound, keys, numbers);
  if (call->is_held_back() && wait) {
    return absl::FailedPreconditionError(fmt::format(
        "table \"{}\": under {} rows change when the clock ends, so nobody can wait for \"{}\" in "
        "it: use call_async(), and wait after clock()",
        options_.name, to_string(options_.consistency), function));
  }
  if (absl::Status status = call->check(); !status.ok()) {
    return absl::Status(status.code(),
                        fmt::format("table \"{}\": {}", options_.name, std::string(status.message())));
  }
  // The function sees what this worker has pushed. Where updates are held back, it could not.
  // There, a change comes after this clock's updates, and also after those that the filter has kept back.
  if (!rules_.holds_updates_back)
    RETURN_IF_ERROR(failing(shipping_.ship_updates(parts_, protocol::BulkKind::kUpdatesAhead)));
  ships_all_ |= bound->changes_rows();
  RETURN_IF_ERROR(session_.wait_until(
      [&] { return rules_.holds_updates_back || most_outstanding() <= kMostAsyncPushes; },
      session_.options().timeout_ms,
      [&] { return fmt::format("the servers to apply updates before a call of \"{}\"", function); }));
  session_.start(call);
  if (bound->changes_rows()) {
    RETURN_IF_ERROR(
        session_.wait_until([&] { return call->is_sent() || call->ended; }, session_.options().timeout_ms,
                            [&] { return fmt::format("the servers to take a call of \"{}\"", function); }));
  }
  return call;
}

absl::Status FixedTable::on_result(ServerLink& link, const protocol::BulkMessage& message) {
  return awaited_calls_.on_piece(link, message);
}

// ---- updates on their way

absl::Status FixedTable::ship() {
  RETURN_IF_ERROR(shipping_.ship_subscriptions(parts_));
  return failing(shipping_.ship_clock(parts_, std::exchange(ships_all_, false)));
}

/// Who cannot ship ends the session: some updates may have been sent, and others not.
absl::Status FixedTable::failing(absl::Status shipped) {
  if (!shipped.ok()) session_.fail(shipped);
  return shipped;
}

absl::Status FixedTable::on_rows(ServerLink& link, const protocol::BulkMessage& message) {
  Part& part = this->part(link.server, message.header.lane);
  RETURN_IF_ERROR(protocol::check_record_count(message, layout_.stride_bytes));
  const std::uint64_t applied =
      rules_.holds_updates_back ? message.header.applied_held : message.header.applied;
  const RowCache::Places places = part.cache == nullptr ? RowCache::Places{} : part.cache->places(part.range);
  for (std::size_t i = 0; i < message.header.count; ++i) {
    // The server can still write to this memory, so the key that is checked must be the one that is used. If
    // a key is wrong, the rows before it have been taken; that does not matter, since the session ends.
    const Key key = protocol::record_key(message.payload, layout_.stride_bytes, i);
    if (!part.has(key)) [[unlikely]]
      return part.wrong_record(key);
    if (places.address != 0 && i + base::kKeysAhead < message.header.count)
      places.prefetch(protocol::record_key(message.payload, layout_.stride_bytes, i + base::kKeysAhead));
    const Row row = part.range.row_of(key);
    CachedRow* const cached = part.cached(row);
    if (cached == nullptr || !part.subscriptions.covers(row, message.header.subscriptions)) continue;
    base::copy_words(reinterpret_cast<std::uint64_t*>(cached->values()),
                     reinterpret_cast<const std::uint64_t*>(
                         protocol::record_values(message.payload, layout_.stride_bytes, i)),
                     layout_.stride_bytes / sizeof(std::uint64_t));
    // Read-my-writes: adds those of this worker's updates that the row does not contain yet.
    if (layout_.rule.predicts()) {
      for (const std::unique_ptr<UpdateBuffer>& buffer : part.outstanding) {
        const std::byte* const own = buffer->find(row);
        if (own != nullptr && buffer->chunk_of(row).sequence >= applied)
          layout_.rule.predict(cached->values(), own);
      }
      predict_own(part, row, cached->values());
    }
    cached->set_clock(CachedRow::kLive);
  }
  session_.counters().rows_eagerly_received += message.header.count;
  return absl::OkStatus();
}

/// What the lane has applied has arrived. If the device sends it once more, the peer's device drops it. So
/// the memory can be written although the transport has not given it back.
void FixedTable::on_applied(ServerLink& link, std::uint32_t lane) {
  Part& part = this->part(link.server, lane);
  while (!part.outstanding.empty()) {
    UpdateBuffer& oldest = *part.outstanding.front();
    if (oldest.chunk(oldest.chunks() - 1).sequence >= part.updates->applied) return;
    oldest.clear();
    part.spare.push_back(std::move(part.outstanding.front()));
    part.outstanding.pop_front();
  }
}

std::size_t FixedTable::most_outstanding() const {
  std::size_t most = 0;
  for (const std::unique_ptr<Part>& part : parts_) most = std::max(most, part->outstanding.size());
  return most;
}

}  // namespace verbena::worker
