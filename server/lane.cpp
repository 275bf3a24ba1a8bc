#include "server/lane.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "base/row_additions.hpp"
#include "base/word_copy.hpp"
#include "consistency/rules.hpp"
#include "protocol/importance.hpp"
#include "server/fixed_shard.hpp"
#include "server/function_run.hpp"
#include "server/image.hpp"
#include "server/image_bytes.hpp"
#include "server/image_copier.hpp"
#include "server/loading.hpp"
#include "server/saving.hpp"
#include "server/sparse_part.hpp"

namespace verbena::server {

using protocol::Row;

namespace {

/// What a lane throws when it cannot go on; poll() catches it.
struct Stopped {
  absl::Status why;
  std::optional<std::uint32_t> culprit = {};  ///< the worker whose fault it is
};

/// A worker has sent what it must not.
[[noreturn]] void refuse(const protocol::PushOrigin& origin, absl::Status why) {
  throw Stopped{std::move(why), origin.worker};
}

/// What there is to do with the rows of some records.
template <class Step>
class Group {
 public:
  void clear() { count_ = 0; }
  void add(const Step& step) { steps_[count_++] = step; }
  [[nodiscard]] std::span<const Step> all() const { return std::span(steps_).first(count_); }

 private:
  std::array<Step, base::kKeysTogether> steps_;
  std::size_t count_ = 0;
};

/// For a row that a worker has never had: all that the row holds is new.
constexpr double kNothingYet = -std::numeric_limits<double>::infinity();

/// A worker's, in its byte of the bits for all workers.
constexpr std::uint8_t bit_of(std::uint32_t worker) {
  return static_cast<std::uint8_t>(1U << worker % 8);
}

constexpr int kTasksPerPoll = 16;
constexpr std::size_t kPrefetchRecords = 4;
/// Of how many records the rows are fetched while others are added to theirs; of long rows, of so many as
/// have so many bytes.
constexpr std::size_t kRowsTogether = 32;
constexpr std::size_t kBytesTogether = 2048;
/// For a key of a call: how many keys ahead its place in the index is fetched, and its row.
constexpr std::size_t kIndexAhead = 32;
constexpr std::size_t kRowAhead = 16;
/// How many values of rows, or how many rows, a call looks at in a poll: some tens of microseconds.
constexpr std::size_t kValuesAPiece = 16'384;
constexpr std::size_t kRowsAPiece = 2'048;
/// How many rows a sweep looks at in a poll: some microseconds, if few of them go.
constexpr std::size_t kRowsOfSweep = 4'096;

}  // namespace

Lane::Lane(std::uint32_t index, std::uint32_t workers, std::span<transport::TokenBucket* const> budgets)
    : index_(index),
      bits_bytes_(worker_bits_bytes(workers)),
      budgets_(budgets.begin(), budgets.end()),
      clocks_(workers),
      gone_(workers) {
  assert(budgets.empty() || budgets.size() == workers);
  for (std::uint32_t worker = 0; worker < workers; ++worker) workers_.emplace_back().rank = worker;
}

Lane::~Lane() = default;

bool Lane::poll() {
  if (has_failed()) return drop_tasks();
  try {
    return work();
  } catch (const std::bad_alloc&) {
    failure_ =
        absl::ResourceExhaustedError("the system has no memory left for updates that wait, or to count keys");
  } catch (Stopped& stopped) {
    failure_ = std::move(stopped.why);
    culprit_ = stopped.culprit;
  }
  has_failed_.store(true, std::memory_order_release);
  return true;
}

/// The receiver waits for these tasks' messages.
bool Lane::drop_tasks() {
  LaneTask task;
  bool dropped = false;
  for (; tasks_.try_pop(task); dropped = true) release(task);
  return dropped;
}

bool Lane::work() {
  if (load_ != nullptr) return step_load();
  const bool was_changing = changing_ != nullptr;
  bool worked = step_calls();
  // So that those that look go on if one change comes after the other.
  if (was_changing && changing_ == nullptr) step_calls();
  LaneTask task;
  const auto may_go_on = [&] { return changing_ == nullptr && load_ == nullptr; };
  for (int i = 0; i < kTasksPerPoll && may_go_on() && tasks_.try_pop(task); ++i) {
    const absl::Cleanup done = [&] { release(task); };
    run(task);
    worked = true;
  }
  if (changing_ == nullptr) worked |= step_sweeps();
  if (copier_ != nullptr) worked |= step_image();
  tell_of_gone();
  return tell_all() || worked;
}

void Lane::run(const LaneTask& task) {
  switch (task.kind) {
    case LaneTask::Kind::kOpen:
      if (task.shard != nullptr) open(*task.shard);
      if (task.shard == nullptr) tables_.emplace_back();
      break;
    case LaneTask::Kind::kUpdates:
      updates(task);
      break;
    case LaneTask::Kind::kSubscribe:
      subscribe(task);
      break;
    case LaneTask::Kind::kClock:
      finish_clock(task.worker, task.clock, task.examples);
      break;
    case LaneTask::Kind::kCall:
      call(task);
      break;
    case LaneTask::Kind::kHeard:
      if (!workers_[task.worker].is_told) gone_.told_elsewhere(task.worker, task.heard);
      gone_.hear(task.worker, task.heard);
      free_gone();
      break;
    case LaneTask::Kind::kMute:
      mute(workers_[task.worker]);
      break;
    case LaneTask::Kind::kBack:
      take_back(workers_[task.worker]);
      break;
    case LaneTask::Kind::kReplace:
      replace(workers_[task.worker]);
      break;
    case LaneTask::Kind::kTell:
      workers_[task.worker].is_told = true;
      list(workers_[task.worker]);
      break;
    case LaneTask::Kind::kResume:
      resume(task.clock);
      break;
    case LaneTask::Kind::kState:
      begin(*task.state);
      break;
  }
}

void Lane::release(const LaneTask& task) {
  // Release: the receiver may overwrite the inbox, and end the connection, once it sees this.
  if (task.inbox != nullptr) task.inbox->users.fetch_sub(1, std::memory_order_release);
}

void Lane::open(const FixedShard& shard) {
  assert(shard.table.table == tables_.size());
  Table table;
  table.shard = &shard;
  table.part = shard.part(index_);
  table.held_back = shard.rules.holds_updates_back;
  table.weighted = shard.rules.weighs_means;
  table.eager = shard.rules.pushes_eagerly;
  table.acknowledged_at_once = shard.rules.acknowledges_at_once();
  table.rule = shard.rule;
  table.measured = table.eager && !budgets_.empty();
  table.combined = table.held_back && !table.rule.is_addition();
  table.evicts = table.part.sparse != nullptr && table.part.sparse->eviction().evicts();
  if (table.evicts) evicting_.push_back(shard.table.table);
  bound_ = std::min({bound_, shard.rules.read_bound, shard.rules.clock_bound});
  tables_.push_back(table);
}

/// The job goes on from a checkpoint of this clock. Workers may have gone on from there already, if they have
/// opened tables before that are not in it.
void Lane::resume(consistency::Clock clock) {
  for (Worker& worker : workers_) {
    if (clocks_.clock(worker.rank) < clock) clocks_.advance(worker.rank, clock);
    for (consistency::Clock* const told : {&worker.told, &worker.next.clock, &worker.latest.clock})
      *told = std::max(*told, clock);
  }
}

void Lane::begin(const StateTask& task) {
  if (task.behind != nullptr) {
    task.behind->fetch_sub(1, std::memory_order_release);
    return;
  }
  if (task.image != nullptr) return begin_image(task.image);
  if (task.read != nullptr) {
    ImageReader in(*task.read);
    read_image(in);
    if (!in.ends_well()) throw Stopped{absl::InvalidArgumentError("an image of a server: no lane's")};
    return;
  }
  if (task.load != nullptr) {
    const Table& table = tables_.back();
    load_ = std::make_unique<LaneLoad>(task.load, *table.shard, table.part);
    return;
  }
  cut_ = task.cut;
  take_cut();
}

void Lane::begin_image(const std::shared_ptr<LaneImages>& image) {
  end_image();
  ImageWriter out;
  write_image(out);
  LaneImages::OfLane& own = image->of(index_);
  own.state = out.take();
  for (const Table& table : tables_) {
    ImageWriter part;
    if (table.part.sparse != nullptr) table.part.sparse->write_image(part);
    own.parts.push_back(part.take());
    table.shard->add_memory(index_, own.bulk);
  }
  try {
    copier_ = std::make_unique<ImageCopier>(index_, own.bulk, image->grain(), own.buffers);
    image_ = image;
    for (const Table& table : tables_) {
      if (table.part.sparse != nullptr) table.part.sparse->copy_before_changes(copier_.get());
    }
  } catch (const std::bad_alloc&) {
    image->give_up();  // whoever wants to join cannot, and others go on
  }
  image->lane_is_done();
}

/// Copies a piece of what is left.
bool Lane::step_image() {
  const bool worked = copier_->copy_some();
  if (copier_->has_failed()) image_->give_up();
  if (copier_->has_all() || image_->is_given_up()) end_image();
  return worked;
}

void Lane::end_image() {
  for (const Table& table : tables_) {
    if (table.part.sparse != nullptr) table.part.sparse->copy_before_changes(nullptr);
  }
  copier_.reset();
  image_.reset();
}

/// Of anything that an image has of the row.
inline void Lane::before_change(const Table& table, Row row) {
  if (copier_ == nullptr) [[likely]]
    return;
  const std::size_t before_bytes = table.part.sparse == nullptr ? 0 : sizeof(Key);
  table.part.rows->copy_before_change(row, before_bytes, *copier_);
}

bool Lane::step_load() {
  if (load_->step(now())) load_.reset();
  return true;
}

/// If the cut's clock is reached. A lane that has no memory for the copies goes on without them.
void Lane::take_cut() {
  if (cut_ == nullptr || clocks_.min() < cut_->clock()) return;
  const std::shared_ptr<Cut> cut = std::move(cut_);
  try {
    for (const Table& table : tables_) {
      if (table.shard == nullptr) continue;
      copy_rows(*table.shard, table.part, cut->of_lane(index_, table.shard->table.table));
    }
    cut->lane_is_done(index_, absl::OkStatus());
  } catch (const std::bad_alloc&) {
    cut->lane_is_done(index_, absl::ResourceExhaustedError("there is no memory for a copy of all rows"));
  }
}

void Lane::updates(const LaneTask& task) {
  Worker& worker = workers_[task.worker];
  if (!tables_[task.message.header.table].held_back) {
    if (task.message.header.kind == protocol::BulkKind::kPackedUpdates) return apply_packed(task, worker);
    return apply(task.message.header, task.message.payload, worker);
  }
  worker.held.push_back(hold(task));
}

/// Copied, so that one worker's clock may be larger than its inbox.
Lane::HeldUpdates Lane::hold(const LaneTask& task) {
  const protocol::BulkMessage& message = task.message;
  if (message.header.kind != protocol::BulkKind::kPackedUpdates)
    return {{message.payload.begin(), message.payload.end()}, message.header};
  const Table& table = tables_[message.header.table];
  HeldUpdates held{{}, message.header};
  held.header.count = 0;
  if (!begin_unpacking(task)) return held;
  held.header = unpacking_.header();
  held.bytes.reserve(held.header.count * protocol::record_bytes(table.shard->stride_bytes));
  held.header.count = 0;
  for (Unpacking::Piece piece = unpacking_.next(); piece.records > 0; piece = unpacking_.next()) {
    const std::size_t record = protocol::record_bytes(table.shard->stride_bytes);
    for (std::size_t i = 0; i < piece.records; ++i) {
      const std::span<std::byte> one = piece.bytes.subspan(i * record, record);
      if (piece.is_by_row) {
        const Key key = pushed_key(table, base::load_once<Row>(one.data()));
        if (key == kNoKey) continue;  // the row is gone, and nobody knows whose it was
        std::memcpy(one.data(), &key, sizeof key);
      }
      held.bytes.insert(held.bytes.end(), one.begin(), one.end());
      ++held.header.count;
    }
  }
  return held;
}

bool Lane::begin_unpacking(const LaneTask& task) {
  const Table& table = tables_[task.message.header.table];
  return unpacking_.begin(table.part, table.rule.type(), table.rule.width(), task.message, task.keys.get());
}

void Lane::apply(const protocol::BulkHeader& header, std::span<const std::byte> payload, Worker& worker) {
  Table& table = tables_[header.table];
  set_clock(table);
  apply_records(table, header.count, payload, {worker.rank, header.clock});
  finish_updates(header, worker);
}

void Lane::set_clock(Table& table) const {
  // When the last worker has left, no clock is told any more.
  if (clocks_.min() < consistency::VectorClock::kLeft) table.rule.set_clock(clocks_.min());
}

void Lane::apply_packed(const LaneTask& task, Worker& worker) {
  Table& table = tables_[task.message.header.table];
  set_clock(table);
  if (!begin_unpacking(task)) [[unlikely]]
    return finish_updates(task.message.header, worker);
  const protocol::BulkHeader& header = unpacking_.header();
  for (Unpacking::Piece piece = unpacking_.next(); piece.records > 0; piece = unpacking_.next()) {
    if (piece.is_by_row) {
      apply_by_row(table, piece.records, piece.bytes, {worker.rank, header.clock});
    } else {
      apply_records(table, piece.records, piece.bytes, {worker.rank, header.clock});
    }
  }
  finish_updates(header, worker);
}

void Lane::apply_records(Table& table, std::size_t records, std::span<const std::byte> payload,
                         const protocol::PushOrigin& origin) {
  apply_in_groups(table, payload, [&](const auto& note, const auto& take) {
    const RecordKeys keys{.payload = payload, .count = records, .origin = origin};
    const auto fetch = [rows = table.part.rows](Row row) { rows->prefetch(row); };
    find_rows(table, keys, fetch, note, take);
  });
}

/// REQUIRES: the table is sparse, and has these rows.
void Lane::apply_by_row(Table& table, std::size_t records, std::span<const std::byte> payload,
                        const protocol::PushOrigin& origin) {
  SparsePart& part = *table.part.sparse;
  const std::size_t stride = table.shard->stride_bytes;
  apply_in_groups(table, payload, [&](const auto& note, const auto& take) {
    Group<decltype(note(Row{}, 0))> group;
    const auto named = [&](std::size_t i) { return Row{protocol::record_key(payload, stride, i)}; };
    const auto fetch = [&](std::size_t begin) {
      const std::size_t end = std::min(begin + kRowsTogether, records);
      for (std::size_t i = begin; i < end; ++i) part.prefetch(named(i));
    };
    fetch(0);
    for (std::size_t begin = 0; begin < records; begin += kRowsTogether) {
      fetch(begin + kRowsTogether);
      group.clear();
      for (std::size_t i = begin; i < std::min(begin + kRowsTogether, records); ++i) {
        const bool is_there = !table.evicts || part.key_of(named(i)) != kNoKey;
        const std::optional<Row> row =
            is_there ? named(i) : row_to_change(table, pushed_key(table, named(i)), origin);
        if (row) group.add(note(*row, i));
      }
      take(group.all());
    }
  });
}

/// What the rule does with records whose rows `find` finds: find(note, take), as find_rows() does.
template <class Find>
void Lane::apply_in_groups(Table& table, std::span<const std::byte> payload, const Find& find) {
  const StoredRows& rows = *table.part.rows;
  const std::size_t stride = table.shard->stride_bytes;
  if (table.measured) [[unlikely]] {
    struct Change {
      Row row;
      const std::byte* update;
    };
    find(
        [&](Row row, std::size_t i) {
          begin_change(table, row);
          return Change{row, protocol::record_values(payload, stride, i)};
        },
        [&](std::span<const Change> changes) {
          for (const Change& change : changes) apply_and_measure(table, change.row, change.update);
        });
    return;
  }
  if (!table.rule.is_addition()) {
    find(
        [&](Row row, std::size_t i) {
          begin_change(table, row);
          return protocol::RuleStep{.row = rows.values(row),
                                    .state = rows.state(row),
                                    .update = protocol::record_values(payload, stride, i)};
        },
        [&](std::span<const protocol::RuleStep> steps) { table.rule.apply(steps); });
    return;
  }
  visit_value_type(table.rule.type(), [&]<class Value>() {
    using Addition = base::RowAddition<Value>;
    find(
        [&](Row row, std::size_t i) {
          begin_change(table, row);
          return Addition{
              .to = reinterpret_cast<Value*>(rows.values(row)),
              .update = reinterpret_cast<const Value*>(protocol::record_values(payload, stride, i))};
        },
        [&](std::span<const Addition> additions) { base::add_rows(additions, table.rule.width()); });
  });
}

/// Finds the rows of records, in their order and by groups, so that the rows of a group come from memory
/// together. `fetch(row)` begins that, `note(row, i)` says what there is to do with the row of record i, and
/// `take` is given what was said for a group. A record whose key has no row, and gets none, is left out; a
/// key that is not the lane's throws Stopped. Nobody looks at the keys before: the worker may write them
/// until here.
template <class Fetch, class Note, class Take>
void Lane::find_rows(Table& table, const RecordKeys& keys, const Fetch& fetch, const Note& note,
                     const Take& take) {
  if (table.part.sparse == nullptr) {
    find_dense(table, keys, fetch, note, take);
  } else {
    find_sparse(table, keys, note, take);
  }
}

/// Nothing has to be known of one record before the next one: those of a group are looked at while the rows
/// of the group before it, which have come meanwhile, are used.
template <class Fetch, class Note, class Take>
void Lane::find_dense(const Table& table, const RecordKeys& keys, const Fetch& fetch, const Note& note,
                      const Take& take) {
  const std::size_t stride = table.shard->stride_bytes;
  const std::size_t together = std::clamp<std::size_t>(kBytesTogether / stride, 1, kRowsTogether);
  const LanePart part = table.part;
  std::array<Group<decltype(note(Row{}, 0))>, 2> groups;
  const auto look_at = [&](std::size_t begin, auto& group) {
    const std::size_t end = std::min(begin + together, keys.count);
    group.clear();
    for (std::size_t i = begin; i < end; ++i) {
      const Key key = protocol::record_key(keys.payload, stride, i);
      if (!part.keys.contains(key)) [[unlikely]]
        refuse(keys.origin, protocol::wrong_record(key, part.keys));
      const Row row = part.range.row_of(key);
      fetch(row);
      group.add(note(row, i));
    }
  };
  look_at(0, groups[0]);
  for (std::size_t begin = 0, turn = 0; begin < keys.count; begin += together, turn ^= 1) {
    look_at(begin + together, groups[turn ^ 1]);
    take(groups[turn].all());
  }
}

/// A record's row is found in two steps, each of which waits for memory (base::kKeysTogether).
template <class Note, class Take>
void Lane::find_sparse(Table& table, const RecordKeys& keys, const Note& note, const Take& take) {
  struct Ahead {
    Key key = kNoKey;
    protocol::KeyHash hash{kNoKey};
    std::optional<Row> row;  ///< probably the key's
  };
  std::array<Ahead, base::kKeysTogether> ahead;
  Group<decltype(note(Row{}, 0))> group;
  const std::size_t stride = table.shard->stride_bytes;
  SparsePart& part = *table.part.sparse;
  for (std::size_t begin = 0; begin < keys.count; begin += base::kKeysTogether) {
    const std::size_t count = std::min(base::kKeysTogether, keys.count - begin);
    for (std::size_t i = 0; i < count; ++i) {
      Ahead& one = ahead[i];
      one.key = protocol::record_key(keys.payload, stride, begin + i);
      one.hash = protocol::KeyHash(one.key);
      part.prefetch(one.hash);
    }
    for (std::size_t i = 0; i < count; ++i) {
      Ahead& one = ahead[i];
      one.row = part.probable_row(one.hash);
      if (one.row) part.prefetch(*one.row);
    }
    group.clear();
    for (std::size_t i = 0; i < count; ++i) {
      const Ahead& one = ahead[i];
      if (!part.keys().has(one.key, one.hash)) [[unlikely]]
        refuse(keys.origin, protocol::wrong_record(one.key, part.keys()));
      // Meanwhile rows may have come, but none has gone, or become another key's.
      const std::optional<Row> row = one.row && part.key_of(*one.row) == one.key
                                         ? one.row
                                         : row_to_change(table, one.hash, one.key, keys.origin);
      if (row) group.add(note(*row, begin + i));
    }
    take(group.all());
  }
}

/// nullopt: the key has no row, and gets none.
inline std::optional<Row> Lane::row_to_change(Table& table, const protocol::KeyHash& hash, Key key,
                                              const Origin& origin) {
  SparsePart& part = *table.part.sparse;
  if (const std::optional<Row> row = part.find(hash, key)) [[likely]]
    return row;
  if (origin && !part.admits(key, *origin)) return std::nullopt;
  if (!part.has_room()) [[unlikely]] {
    part.count_refused();
    return std::nullopt;
  }
  const absl::StatusOr<Row> row = part.add(hash, key, now());
  if (!row.ok()) [[unlikely]]
    throw Stopped{row.status()};
  for (const std::uint32_t segment : part.take_retired())
    gone_.add({.table = table.shard->table.table, .number = segment});
  const StoredRows& rows = *table.part.rows;
  table.rule.adopt(rows.values(*row), rows.state(*row));  // the initial values
  return *row;
}

/// nullopt: the key is not one of the lane's, or it has no row and gets none.
std::optional<Row> Lane::row_to_change(Table& table, Key key, const Origin& origin) {
  SparsePart* const sparse = table.part.sparse;
  if (sparse == nullptr) return row_of(table, key);
  const protocol::KeyHash hash(key);
  if (!sparse->keys().has(key, hash)) return std::nullopt;
  return row_to_change(table, hash, key, origin);
}

/// nullopt: the key is not one of the lane's, or a sparse table has no row for it.
std::optional<Row> Lane::row_of(const Table& table, Key key) {
  const LanePart& part = table.part;
  if (part.sparse != nullptr) return part.sparse->find(protocol::KeyHash(key), key);
  if (!part.keys.contains(key)) return std::nullopt;
  return part.range.row_of(key);
}

Key Lane::key_of(const Table& table, Row row) {
  return table.part.sparse == nullptr ? table.part.range.key_of(row) : table.part.sparse->key_of(row);
}

/// The key that a worker means who names the row of a sparse table: it may not have heard yet that the row is
/// gone. kNoKey: there is none.
Key Lane::pushed_key(const Table& table, Row row) {
  const Key key = table.part.sparse->key_of(row);
  return key != kNoKey ? key : table.part.sparse->former_key(row);
}

void Lane::finish_updates(const protocol::BulkHeader& header, Worker& worker) {
  const Table& table = tables_[header.table];
  if (table.held_back && worker.held_of_former > 0) {
    --worker.held_of_former;
    return;
  }
  ++(table.held_back ? worker.applied_held : worker.applied);
  if (table.acknowledged_at_once || header.kind == protocol::BulkKind::kUpdatesAhead) tell_applied(worker);
}

/// An update is about to change the row.
inline void Lane::begin_change(Table& table, Row row) {
  before_change(table, row);
  if (table.eager) mark_dirty(table, row);
  if (table.evicts) table.part.sparse->eviction().count_push(table.part.rows->use(row), now());
}

/// Under a push budget.
template <class Change>
void Lane::change_and_measure(Table& table, Row row, const Change& change) {
  const FixedShard& shard = *table.shard;
  const std::byte* const values = table.part.rows->values(row);
  table.before.resize(shard.stride_bytes);
  std::memcpy(table.before.data(), values, shard.stride_bytes);
  change();
  table.part.rows->changes(row) +=
      protocol::relative_difference(shard.table.value_type, shard.table.width, table.before.data(), values);
}

/// Under a push budget.
void Lane::apply_and_measure(Table& table, Row row, const std::byte* update) {
  const FixedShard& shard = *table.shard;
  const StoredRows& rows = *table.part.rows;
  std::byte* const values = rows.values(row);
  if (table.rule.is_addition()) {
    rows.changes(row) += protocol::relative_change(shard.table.value_type, shard.table.width, values, update);
    table.rule.apply(values, rows.state(row), update);
    return;
  }
  change_and_measure(table, row, [&] { table.rule.apply(values, rows.state(row), update); });
}

// ---- rows that go

/// The min clock, as rows remember it.
std::uint32_t Lane::now() const {
  constexpr consistency::Clock kLast = protocol::RowUse::kNoKeys - 1;
  return static_cast<std::uint32_t>(std::clamp<consistency::Clock>(clocks_.min(), 0, kLast));
}

/// The min clock has advanced.
void Lane::begin_sweeps() {
  if (clocks_.min() >= consistency::VectorClock::kLeft) return;
  for (const std::uint32_t number : evicting_) {
    Table& table = tables_[number];
    if (table.sweep || clocks_.min() < table.next_sweep) continue;
    table.next_sweep = clocks_.min() + table.part.sparse->eviction().clocks_between_sweeps();
    table.sweep.emplace(*table.part.sparse, now());
    if (!table.held_back) continue;
    table.sweep->step(UINT64_MAX, [&](Row row) { evict(table, row); });
    table.sweep.reset();
  }
}

/// A piece of each sweep.
bool Lane::step_sweeps() {
  bool worked = false;
  for (const std::uint32_t number : evicting_) {
    Table& table = tables_[number];
    if (!table.sweep || table.part.sparse->has_too_many_gone()) continue;
    if (table.sweep->step(kRowsOfSweep, [&](Row row) { evict(table, row); })) table.sweep.reset();
    worked = true;
  }
  return worked;
}

/// Unless too many are gone: some worker does not answer, and the row has to stay. Where updates are held
/// back such a worker holds up the clock, and with it all sweeps, and which rows go must not depend on lanes.
void Lane::evict(Table& table, Row row) {
  SparsePart& part = *table.part.sparse;
  if ((!table.held_back || part.is_limited()) && part.has_too_many_gone()) return;
  const Key key = part.evict(row);
  gone_.add({.table = table.shard->table.table, .key = key, .number = index_of(row)});
}

void Lane::free_gone() {
  gone_.release([&](const GoneLog::Entry& gone) {
    SparsePart& part = *tables_[gone.table].part.sparse;
    if (gone.key == kNoKey) {
      part.free_segment(static_cast<std::uint32_t>(gone.number));
    } else {
      part.free_row(Row{gone.number});
    }
  });
}

void Lane::tell_of_gone() {
  if (gone_told_ == gone_.end()) return;
  gone_told_ = gone_.end();
  for (Worker& worker : workers_) {
    if (gone_.left_to_tell(worker.rank) > 0) list(worker);
  }
}

bool Lane::tell_gone(Worker& worker) {
  bool told = false;
  PushBuffer* buffer = nullptr;
  while (gone_.left_to_tell(worker.rank) > 0 && worker.free.try_pop(buffer)) {
    protocol::BulkHeader header = header_for(worker, protocol::BulkKind::kGone);
    header.table = gone_.next_to_tell(worker.rank).table;
    std::size_t used = sizeof header;
    for (; gone_.left_to_tell(worker.rank) > 0 && used + sizeof(Key) <= buffer->memory.size();
         gone_.told(worker.rank)) {
      const GoneLog::Entry& gone = gone_.next_to_tell(worker.rank);
      if (gone.table != header.table) break;
      std::memcpy(buffer->memory.data() + used, &gone.key, sizeof gone.key);
      used += sizeof gone.key;
      ++header.count;
    }
    std::memcpy(buffer->memory.data(), &header, sizeof header);
    buffer->used_bytes = used;
    note_applied_told(worker, header);
    if (!budgets_.empty()) budgets_[worker.rank]->take(used);
    push(worker, buffer);
    told = true;
  }
  return told;
}

// ---- calls of server functions

bool Lane::may_call(std::uint32_t worker, std::uint32_t most) {
  std::atomic<std::uint32_t>& open = workers_[worker].open_calls;
  if (open.load(std::memory_order_relaxed) >= most) return false;
  open.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void Lane::call(const LaneTask& task) {
  if (!task.call->changes_rows()) {
    (task.call->worker() == kNoWorker ? observing_ : looking_).push_back(task.call);
  } else if (tables_[task.call->table()].held_back) {
    workers_[task.worker].held_calls.push_back(task.call);
  } else {
    changing_ = task.call;
  }
}

/// A piece of one call.
bool Lane::step_calls() {
  // Workers wait for their calls; observers have time.
  std::deque<std::shared_ptr<FunctionRun>>& looking = looking_.empty() ? observing_ : looking_;
  std::shared_ptr<FunctionRun> run = changing_;
  if (run == nullptr && looking.empty()) return false;
  if (run == nullptr) run = looking.front();
  const std::size_t width = tables_[run->table()].shard->table.width;
  if (!step(*run, std::clamp<std::size_t>(kValuesAPiece / width, 1, kRowsAPiece))) {
    if (changing_ == nullptr && looking.size() > 1) {
      // Those that look take turns.
      looking.pop_front();
      looking.push_back(std::move(run));
    }
    return true;
  }
  if (changing_ != nullptr) {
    changing_.reset();
  } else {
    looking.pop_front();
  }
  end_call(std::move(run));
  return true;
}

/// True: it has seen all its rows.
bool Lane::step(FunctionRun& run, std::size_t most) {
  Table& table = tables_[run.table()];
  // What is held back belongs to its clock, though the min clock may be further.
  if (run.changes_rows()) table.rule.set_clock(table.held_back ? run.clock() : clocks_.min());
  const auto on_key = [&](Key key, std::span<const double> numbers) {
    prefetch_ahead(table, run);
    const std::optional<Row> row = run.makes_rows() ? row_to_change(table, key, {}) : row_of(table, key);
    if (row) visit(table, run, key, *row, numbers);
  };
  const auto on_row = [&](Row row) {
    const Key key = key_of(table, row);
    if (run.range().contains(key)) visit(table, run, key, row, {});
  };
  return run.step(table.part, most, on_key, on_row);
}

/// Keys of a list are all over the table.
void Lane::prefetch_ahead(const Table& table, const FunctionRun& run) {
  const SparsePart* const sparse = table.part.sparse;
  const std::optional<Key> later = run.key_ahead(kIndexAhead);
  if (later && sparse != nullptr) sparse->prefetch(protocol::KeyHash(*later));
  const std::optional<Key> soon = run.key_ahead(kRowAhead);
  if (!soon) return;
  const std::optional<Row> row =
      sparse != nullptr ? sparse->probable_row(protocol::KeyHash(*soon)) : row_of(table, *soon);
  if (row) base::prefetch_to_read(table.part.rows->values(*row));
}

void Lane::visit(Table& table, FunctionRun& run, Key key, Row row, std::span<const double> numbers) {
  const StoredRows& rows = *table.part.rows;
  std::byte* const values = rows.values(row);
  const FunctionRow seen(key, run.index(), index_of(row), values, rows.state(row), table.rule, numbers);
  const auto call = [&] { run.function().on_row(seen, values); };
  if (!run.changes_rows()) return call();
  before_change(table, row);
  if (table.eager) mark_dirty(table, row);
  table.measured ? change_and_measure(table, row, call) : call();
}

void Lane::end_call(std::shared_ptr<FunctionRun> run) {
  run->finish();
  if (run->worker() == kNoWorker) return inspected_.push(std::move(run));
  Worker& worker = workers_[run->worker()];
  if (run->is_of_nobody()) {
    worker.open_calls.fetch_sub(1, std::memory_order_relaxed);
    return;
  }
  worker.results.push_back(std::move(run));
  if (!worker.is_told && worker.results.size() > protocol::kMaxOpenCalls) {
    // Somebody else has told it: no worker waits for more than these.
    worker.results.pop_front();
    worker.open_calls.fetch_sub(1, std::memory_order_relaxed);
  }
  list(worker);
}

/// Those that change rows of tables whose updates are held back. All updates of the clock are applied.
void Lane::take_held_calls(consistency::Clock clock) {
  for (Worker& worker : workers_) {
    for (; !worker.held_calls.empty() && worker.held_calls.front()->clock() <= clock;
         worker.held_calls.pop_front()) {
      static_cast<void>(step(*worker.held_calls.front(), SIZE_MAX));
      end_call(std::move(worker.held_calls.front()));
    }
  }
}

bool Lane::tell_results(Worker& worker) {
  bool told = false;
  PushBuffer* buffer = nullptr;
  while (!worker.results.empty() && worker.free.try_pop(buffer)) {
    FunctionRun& run = *worker.results.front();
    const protocol::BulkHeader header = header_for(worker, protocol::BulkKind::kResult);
    buffer->used_bytes = run.write_piece(header, buffer->memory);
    note_applied_told(worker, header);
    if (!budgets_.empty()) budgets_[worker.rank]->take(buffer->used_bytes);
    push(worker, buffer);
    told = true;
    if (!run.is_told()) continue;
    keep_told(worker, std::move(worker.results.front()));
    worker.results.pop_front();
    worker.open_calls.fetch_sub(1, std::memory_order_relaxed);
  }
  return told;
}

/// As many as the worker may wait for.
void Lane::keep_told(Worker& worker, std::shared_ptr<FunctionRun> run) const {
  if (!keeps_what_is_told_ || !run->is_logged()) return;
  worker.told_results.push_back(std::move(run));
  if (worker.told_results.size() > protocol::kMaxOpenCalls) worker.told_results.pop_front();
}

/// The updates of each row become one, where the first of them lies.
void Lane::combine(HeldUpdates& held, Worker& worker) {
  Table& table = tables_[held.header.table];
  const StoredRows& rows = *table.part.rows;
  const std::size_t record = protocol::record_bytes(table.shard->stride_bytes);
  const RecordKeys keys{
      .payload = held.bytes, .count = held.header.count, .origin = {worker.rank, held.header.clock}};
  find_rows(
      table, keys, [&](Row row) { base::prefetch_to_write(&rows.step_of(row)); },
      [&](Row row, std::size_t i) {
        return Step{row, held.bytes.data() + i * record + sizeof(Key)};
      },
      [&](std::span<const Step> steps) {
        for (const Step& each : steps) {
          std::uint32_t& number = rows.step_of(each.row);
          if (number != 0) {
            table.rule.combine(table.steps[number - 1].update, each.update);
          } else {
            table.steps.push_back(each);
            number = static_cast<std::uint32_t>(table.steps.size());
          }
        }
      });
  finish_updates(held.header, worker);
}

/// One step of the rule for each row that has updates of the clock.
void Lane::take_steps(Table& table, consistency::Clock clock) {
  table.rule.set_clock(clock);
  const StoredRows& rows = *table.part.rows;
  for (std::size_t i = 0; i < table.steps.size(); ++i) {
    if (i + kPrefetchRecords < table.steps.size()) rows.prefetch(table.steps[i + kPrefetchRecords].row);
    const auto& [row, update] = table.steps[i];
    begin_change(table, row);
    if (table.measured) [[unlikely]] {
      apply_and_measure(table, row, update);
    } else {
      table.rule.apply(rows.values(row), rows.state(row), update);
    }
    rows.step_of(row) = 0;
  }
  table.steps.clear();
}

/// What every message to the worker says.
protocol::BulkHeader Lane::header_for(const Worker& worker, protocol::BulkKind kind) const {
  return {.kind = kind,
          .lane = index_,
          .clock = worker.told,
          .applied = worker.applied,
          .applied_held = worker.applied_held,
          .subscriptions = worker.subscriptions};
}

void Lane::note_applied_told(Worker& worker, const protocol::BulkHeader& header) {
  worker.applied_told = header.applied;
  worker.applied_held_told = header.applied_held;
}

/// The worker is to hear of `applied`, though the min clock has not advanced.
void Lane::tell_applied(Worker& worker) {
  if (worker.news) return;  // the next message says it anyhow
  // Does not tell the min clock: while held-back updates are applied, it has advanced, and their rows are
  // still to be sent.
  worker.latest = {worker.told, worker.dirty_sent};
  worker.next = worker.latest;
  worker.news = true;
  list(worker);
}

void Lane::mark_dirty(Table& table, Row row) {
  switch (bits_bytes_) {
    case sizeof(std::uint8_t):
      return mark_dirty_by<std::uint8_t>(table, row);
    case sizeof(std::uint16_t):
      return mark_dirty_by<std::uint16_t>(table, row);
    case sizeof(std::uint32_t):
      return mark_dirty_by<std::uint32_t>(table, row);
    default:
      return mark_dirty_by<std::uint64_t>(table, row);
  }
}

/// `Word`: how many workers are looked at together.
template <class Word>
void Lane::mark_dirty_by(Table& table, Row row) {
  const StoredRows& rows = *table.part.rows;
  const auto* const subscribed = reinterpret_cast<const Word*>(rows.subscribed(row));
  auto* const dirty = reinterpret_cast<Word*>(rows.dirty(row));
  for (std::size_t word = 0; word < bits_bytes_ / sizeof(Word); ++word) {
    std::uint64_t fresh = subscribed[word] & ~std::uint64_t{dirty[word]};
    dirty[word] |= static_cast<Word>(fresh);
    for (; fresh != 0; fresh &= fresh - 1) {
      const std::size_t worker = word * sizeof(Word) * 8 + static_cast<std::size_t>(std::countr_zero(fresh));
      const double before = table.measured ? rows.changes(row) : 0;
      add_dirty(workers_[worker], {table.shard->table.table, row, before});
    }
  }
}

void Lane::add_dirty(Worker& worker, const DirtyRow& row) {
  worker.dirty.push_back(row);
  if (!budgets_.empty()) list(worker);
}

void Lane::list(Worker& worker) {
  if (!std::exchange(worker.listed, true)) to_tell_.push_back(&worker);
}

void Lane::subscribe(const LaneTask& task) {
  Table& table = tables_[task.message.header.table];
  ++workers_[task.worker].subscriptions;
  if (!table.eager) return;
  const bool ends = task.message.header.kind == protocol::BulkKind::kUnsubscribe;
  const std::uint8_t bit = bit_of(task.worker);
  for (std::size_t i = 0; i < task.message.header.count; ++i) {
    const std::optional<Row> row = row_of(table, protocol::record_key(task.message.payload, 0, i));
    if (!row) [[unlikely]]
      continue;  // also if the worker has changed it since it came; it subscribes only to rows that there are
    std::uint8_t& subscribed = table.part.rows->subscribed(*row)[task.worker / 8];
    if (ends) {
      subscribed &= static_cast<std::uint8_t>(~bit);  // a push that is due still goes, and is not taken
      continue;
    }
    subscribed |= bit;
    // The worker's copy is older than the subscription: one push brings it up to date.
    std::uint8_t& dirty = table.part.rows->dirty(*row)[task.worker / 8];
    if ((dirty & bit) == 0) {
      dirty |= bit;
      add_dirty(workers_[task.worker], {table.shard->table.table, *row, kNothingYet});
    }
  }
}

/// It is on another connection, and is told nothing until it has adopted it. It may not have heard what it
/// was told last, and has forgotten what it was told of rows.
void Lane::mute(Worker& worker) {
  ++worker.times_back;
  worker.subscriptions = 0;
  if (!std::exchange(worker.is_told, false)) return;
  drop_subscriptions_of(worker);
  tell_results_again(worker);
}

/// It was told of clocks and updates by the copy that has served it before, or by this one over a connection
/// that is gone, and will be told of all that this lane knows. All copies do this at the same place of their
/// log, since it counts what it has heard of rows that are gone from here on.
void Lane::take_back(Worker& worker) {
  gone_.begin_anew(worker.rank);
  free_gone();
  // It caches nothing that could be older.
  worker.told = clocks_.min();
  worker.latest = worker.next = {worker.told, worker.dirty_sent};
  worker.news = true;
  list(worker);
}

/// Another process is the worker now, and counts its messages anew. What the one before it has said of clocks
/// that it has finished stays. Of the clock that it was in, what is held back is dropped: the new one does
/// that clock again. Calls that wait for their clock go with their updates; nobody hears what became of them.
void Lane::replace(Worker& worker) {
  ++worker.times_back;
  worker.is_told = false;
  worker.applied = worker.applied_told = 0;
  worker.applied_held = worker.applied_held_told = 0;
  worker.subscriptions = 0;
  drop_subscriptions_of(worker);
  const consistency::Clock clock = clocks_.clock(worker.rank);
  while (!worker.held.empty() && worker.held.back().header.clock >= clock) worker.held.pop_back();
  worker.held_of_former = worker.held.size();
  drop_calls_of(worker);
}

/// It caches nothing yet, and may know no table when a row is changed.
void Lane::drop_subscriptions_of(Worker& worker) {
  const std::uint8_t bit = bit_of(worker.rank);
  const auto clear = [&](std::uint8_t* bits) { bits[worker.rank / 8] &= static_cast<std::uint8_t>(~bit); };
  for (const DirtyRow& row : worker.dirty) clear(tables_[row.table].part.rows->dirty(row.row));
  worker.dirty_sent += worker.dirty.size();
  worker.dirty.clear();
  for (const Table& table : tables_) {
    if (!table.eager) continue;
    const LanePart& part = table.part;
    const bool is_sparse = part.sparse != nullptr;
    const std::uint64_t rows = is_sparse ? part.sparse->rows_made() : part.keys.size();
    const std::uint64_t first = is_sparse || rows == 0 ? 0 : index_of(part.range.row_of(part.keys.first));
    for (std::uint64_t row = first; row < first + rows; ++row) clear(part.rows->subscribed(Row{row}));
  }
}

/// Those that only look are asked again.
void Lane::tell_results_again(Worker& worker) {
  const auto looks = [&](const std::shared_ptr<FunctionRun>& run) {
    return run->worker() == worker.rank && !run->is_logged();
  };
  const std::size_t dropped = std::erase_if(looking_, looks) + std::erase_if(worker.results, looks);
  worker.results.insert(worker.results.begin(), worker.told_results.begin(), worker.told_results.end());
  worker.open_calls.fetch_add(static_cast<std::uint32_t>(worker.told_results.size()),
                              std::memory_order_relaxed);
  worker.open_calls.fetch_sub(static_cast<std::uint32_t>(dropped), std::memory_order_relaxed);
  worker.told_results.clear();
  for (const std::shared_ptr<FunctionRun>& run : worker.results) run->tell_again();
}

void Lane::drop_calls_of(Worker& worker) {
  const consistency::Clock clock = clocks_.clock(worker.rank);
  std::size_t dropped = worker.results.size();
  worker.results.clear();
  worker.told_results.clear();
  for (; !worker.held_calls.empty() && worker.held_calls.back()->clock() >= clock; ++dropped)
    worker.held_calls.pop_back();
  for (const std::shared_ptr<FunctionRun>& run : worker.held_calls) run->has_lost_its_caller();
  dropped += std::erase_if(looking_, [&](const auto& run) { return run->worker() == worker.rank; });
  worker.open_calls.fetch_sub(static_cast<std::uint32_t>(dropped), std::memory_order_relaxed);
}

/// The buffer is full.
void Lane::push(Worker& worker, PushBuffer* buffer) {
  buffer->times_back = worker.times_back;
  outgoing_.push(buffer);
}

void Lane::finish_clock(std::uint32_t worker, consistency::Clock clock,
                        const consistency::ExampleCounts& examples) {
  if (clock == consistency::VectorClock::kLeft) {
    gone_.leave(worker);
    free_gone();
  }
  if (examples.planned > 0) workers_[worker].examples.push_back({clock - 1, examples});
  if (!clocks_.advance(worker, clock)) {
    tell_applied(workers_[worker]);  // tells which of its updates the worker need not keep any more
    return;
  }
  apply_held();
  take_cut();
  begin_sweeps();
  for (Worker& reader : workers_) {
    reader.latest = {clocks_.min(), reader.dirty_sent + reader.dirty.size()};
    if (!reader.news) reader.next = reader.latest;
    reader.news = true;
    list(reader);
  }
}

void Lane::apply_held() {
  for (;;) {
    // The oldest clock first, and in it the workers by rank: the same sum of floats in every run.
    consistency::Clock oldest = clocks_.min();
    for (const Worker& worker : workers_) {
      if (!worker.held.empty()) oldest = std::min(oldest, worker.held.front().header.clock);
      if (!worker.held_calls.empty()) oldest = std::min(oldest, worker.held_calls.front()->clock());
    }
    consistency::ExampleCounts all;
    for (Worker& worker : workers_) all += examples_of(worker, oldest);
    if (oldest == clocks_.min()) return;
    for (Worker& worker : workers_) {
      while (!worker.held.empty() && worker.held.front().header.clock == oldest) {
        HeldUpdates& next = worker.held.front();
        if (tables_[next.header.table].weighted) {
          weigh(next, consistency::weight_of_means(examples_of(worker, oldest), all));
        }
        if (tables_[next.header.table].combined) {
          combining_.push_back(std::move(next));
          combine(combining_.back(), worker);
        } else {
          apply(next.header, next.bytes, worker);
        }
        worker.held.pop_front();
      }
    }
    for (Table& table : tables_) {
      if (!table.steps.empty()) take_steps(table, oldest);
    }
    combining_.clear();
    take_held_calls(oldest);
  }
}

/// Counts of older clocks are forgotten.
consistency::ExampleCounts Lane::examples_of(Worker& worker, consistency::Clock clock) {
  while (!worker.examples.empty() && worker.examples.front().clock < clock) worker.examples.pop_front();
  const bool has = !worker.examples.empty() && worker.examples.front().clock == clock;
  return has ? worker.examples.front().counts : consistency::ExampleCounts{};
}

void Lane::weigh(HeldUpdates& held, double weight) const {
  if (weight == 1) return;  // bit for bit as under BSP
  if (weight == 0) {
    held.header.count = 0;  // a mean of nothing, which may not be a number
    return;
  }
  const FixedShard& shard = *tables_[held.header.table].shard;
  visit_value_type(shard.table.value_type, [&]<class Value>() {
    for (std::size_t i = 0; i < held.header.count; ++i) {
      std::byte* const at = held.bytes.data() + i * protocol::record_bytes(shard.stride_bytes) + sizeof(Key);
      const std::span<Value> values(reinterpret_cast<Value*>(at), shard.table.width);
      for (Value& value : values) value = static_cast<Value>(static_cast<double>(value) * weight);
    }
  });
}

bool Lane::tell_all() {
  bool told = false;
  std::erase_if(to_tell_, [&](Worker* worker) {
    told |= tell(*worker);
    worker->listed = worker->news || !worker->results.empty() || gone_.left_to_tell(worker->rank) > 0 ||
                     (!budgets_.empty() && !worker->dirty.empty());
    return !worker->listed;
  });
  return told;
}

bool Lane::tell(Worker& worker) {
  if (!worker.is_told) return false;
  bool told = tell_gone(worker);
  if (gone_.left_to_tell(worker.rank) > 0) return told;
  told |= tell_results(worker);
  PushBuffer* buffer = nullptr;
  // If there is no buffer, the worker is slow: its rows stay dirty and take in later updates, too.
  for (Allowance now = allowance(worker); now.bytes > 0 && worker.free.try_pop(buffer);
       now = allowance(worker)) {
    fill(worker, *buffer, now);
    push(worker, buffer);
    told = true;
  }
  return told;
}

/// The worker's bound on staleness may make it wait for news.
bool Lane::is_due(const Worker& worker) const {
  return worker.told < consistency::min_clock_needed(bound_, clocks_.clock(worker.rank));
}

Lane::Allowance Lane::allowance(const Worker& worker) const {
  if (budgets_.empty()) {
    return worker.news ? Allowance{worker.next.position, SIZE_MAX} : Allowance{};
  }
  const transport::TokenBucket& budget = *budgets_[worker.rank];
  const bool has_rows = worker.dirty_sent < worker.next.position;
  if (worker.news && (!has_rows || is_due(worker))) return {worker.next.position, SIZE_MAX};
  if (worker.news && !budget.is_empty()) {
    return {worker.next.position,
            static_cast<std::size_t>(std::max<std::int64_t>(budget.level(), 1))};  // a row at least
  }
  // The worker need not keep its updates that are applied, whatever becomes of the rows.
  const bool has_applied =
      worker.applied > worker.applied_told || worker.applied_held > worker.applied_held_told;
  if (worker.news && has_applied) return {worker.dirty_sent, SIZE_MAX};
  if (!worker.news && !worker.dirty.empty() && budget.is_full()) {
    return {worker.dirty_sent + worker.dirty.size(), static_cast<std::size_t>(budget.burst_bytes())};
  }
  return {};
}

/// Puts the most important of the dirty rows before `position` first. If a clock waits for these rows, they
/// will all be sent, so it sorts all of them; otherwise as many as fill `bytes` bytes.
void Lane::sort_by_importance(Worker& worker, std::uint64_t position, std::size_t bytes) {
  if (worker.sorted >= position) return;
  const bool whole = worker.news;
  auto rows = static_cast<std::size_t>(position - worker.dirty_sent);
  std::size_t first = rows;
  if (!whole) {
    const FixedShard& shard = *tables_[worker.dirty.front().table].shard;
    first = std::min(rows, bytes / protocol::record_bytes(shard.stride_bytes) + 1);
    rows = std::min(rows, protocol::kImportanceCandidates * first);
  }
  std::vector<protocol::Ranked<DirtyRow>> ranked;
  ranked.reserve(rows);
  for (std::size_t i = 0; i < rows; ++i) {
    const DirtyRow& row = worker.dirty[i];
    const Table& table = tables_[row.table];
    ranked.push_back(
        {protocol::importance_class(table.part.rows->changes(row.row) - row.changes_before), row});
  }
  protocol::put_most_important_first(ranked, first);
  for (std::size_t i = 0; i < rows; ++i) worker.dirty[i] = ranked[i].item;
  if (whole) worker.sorted = position;
}

void Lane::fill(Worker& worker, PushBuffer& buffer, const Allowance& allowance) {
  protocol::BulkHeader header = header_for(worker, protocol::BulkKind::kRows);
  std::size_t used = sizeof header;
  if (!budgets_.empty() && worker.dirty_sent < allowance.position)
    sort_by_importance(worker, allowance.position, allowance.bytes);
  while (worker.dirty_sent < allowance.position && used - sizeof header < allowance.bytes) {
    const DirtyRow row = worker.dirty.front();
    Table& table = tables_[row.table];
    std::uint8_t& dirty = table.part.rows->dirty(row.row)[worker.rank / 8];
    const std::uint8_t bit = bit_of(worker.rank);
    if ((dirty & bit) == 0) [[unlikely]] {  // it is gone
      worker.dirty.pop_front();
      ++worker.dirty_sent;
      continue;
    }
    const std::size_t record = protocol::record_bytes(table.shard->stride_bytes);
    if ((header.count > 0 && row.table != header.table) || used + record > buffer.memory.size()) break;
    header.table = row.table;
    ++header.count;
    std::byte* const to = buffer.memory.data() + used;
    const Key key = key_of(table, row.row);
    std::memcpy(to, &key, sizeof key);
    std::memcpy(to + sizeof key, table.part.rows->values(row.row), table.shard->stride_bytes);
    dirty &= static_cast<std::uint8_t>(~bit);
    used += record;
    worker.dirty.pop_front();
    ++worker.dirty_sent;
  }
  if (worker.news && worker.dirty_sent >= worker.next.position) {
    worker.told = worker.next.clock;
    worker.news = worker.latest.clock != worker.next.clock || worker.latest.position > worker.next.position;
    worker.next = worker.latest;
  }
  header.clock = worker.told;
  note_applied_told(worker, header);
  std::memcpy(buffer.memory.data(), &header, sizeof header);
  buffer.used_bytes = used;
  if (!budgets_.empty()) budgets_[worker.rank]->take(used);
}

}  // namespace verbena::server
