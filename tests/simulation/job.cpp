#include "tests/simulation/job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <iterator>
#include <memory>
#include <set>
#include <variant>
#include <vector>

#include "server/driver.hpp"
#include "server/server.hpp"
#include "tests/simulation/iterations.hpp"
#include "tests/simulation/scenario.hpp"
#include "worker/data_cursor.hpp"
#include "worker/session.hpp"
#include "worker/table.hpp"

namespace verbena::simulation {

using consistency::Clock;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr std::uint64_t kMaxSteps = 3'000'000;
constexpr auto kMaxTime = seconds(120);  // of the virtual kind
/// A wait that takes longer than this has no reason: all pauses of a job are shorter together.
constexpr std::uint32_t kTimeoutMs = 20'000;
/// In which everybody has heard of the end of an iteration, if nobody pauses.
constexpr auto kEndOfIterationTime = milliseconds(20);
/// In which everybody must have heard of a disaster.
constexpr auto kNewsTime = seconds(5);

#define RETURN_IF_ERROR(expression) \
  if (absl::Status status_ = (expression); !status_.ok()) return status_

using AnyTable = std::variant<Table<float>*, Table<double>*, Table<std::int32_t>*, Table<std::int64_t>*>;

template <class Values>
std::string list(const Values& values) {
  std::string text;
  for (const auto& value : values)
    fmt::format_to(std::back_inserter(text), "{}{}", text.empty() ? "" : " ", value);
  return text;
}

struct WorkerNode {
  SimulatedTransport* transport = nullptr;  ///< as long as it is there
  bool joined = false;                      ///< has opened its tables
  bool ended = false;
  absl::Status status;
};

struct ServerNode {
  SimulatedTransport* transport = nullptr;
  server::Server* server = nullptr;
  bool ended = false;
  absl::Status status;
  std::vector<TaskId> lanes;  ///< of tasks of their own
};

class Job {
 public:
  Job(const Scenario& scenario, const std::function<void(const std::string&)>& trace)
      : scenario_(scenario),
        trace_(trace),
        scheduler_(scenario.scheduler),
        network_(scheduler_, scenario.network),
        ledger_(scenario.tables, scenario.workers),
        iterations_(scenario.examples, iteration_options(scenario)),
        servers_(scenario.servers),
        workers_(scenario.workers) {}

  JobResult run();

  [[nodiscard]] const Scenario& scenario() const { return scenario_; }
  Scheduler& scheduler() { return scheduler_; }
  Ledger& ledger() { return ledger_; }
  Iterations& iterations() { return iterations_; }
  void set_final_rows(std::uint64_t digest) { final_rows_ = digest; }
  WorkerNode& worker(std::uint32_t rank) { return workers_[rank]; }
  /// Tells `line()`, if anybody listens.
  template <class Line>
  void trace(Line line) {
    if (!trace_) return;
    const auto now = scheduler_.now().time_since_epoch();
    trace_(fmt::format("{:>12} ns  {}", now.count(), line()));
  }
  void fail(const std::string& what) {
    if (!failure_) trace([&] { return fmt::format("WRONG: {}", what); });
    if (!failure_) failure_ = what;
  }

 private:
  static Iterations::Options iteration_options(const Scenario& scenario) {
    const bool end_early =
        std::any_of(scenario.tables.begin(), scenario.tables.end(),
                    [](const TableShape& table) { return consistency::rules_of(table.model).ends_early; });
    Iterations::Options options{.mini_batch = scenario.mini_batch, .end_early = end_early, .news_time = {}};
    if (scenario.scheduler.pause_probability == 0) options.news_time = kEndOfIterationTime;
    return options;
  }
  void run_server(std::uint32_t rank);
  void drive_with_lane_tasks(ServerNode& node);
  void run_lane(ServerNode& node, std::uint32_t lane);
  void run_worker(std::uint32_t rank);
  void run_disaster();
  void check_ends();
  void check_end(const std::string& name, const absl::Status& status, bool is_victim);
  void end_all();

  const Scenario& scenario_;
  const std::function<void(const std::string&)>& trace_;
  Scheduler scheduler_;
  Network network_;
  Ledger ledger_;
  Iterations iterations_;
  std::uint64_t final_rows_ = 0;
  std::deque<ServerNode> servers_;
  std::deque<WorkerNode> workers_;
  std::optional<TimePoint> struck_;
  std::optional<std::string> failure_;
};

/// What a worker does: random pulls, pushes and pauses between its clocks.
class Workload {
 public:
  Workload(Job& job, Session& session)
      : job_(job),
        session_(session),
        rank_(session.rank()),
        random_(job.scenario().seed * 1009 + rank_ + 1),
        pulled_(job.scenario().tables.size()) {
    const Scenario& scenario = job.scenario();
    if (!scenario.examples.empty())
      cursor_.emplace(session, DataCursor::Options{scenario.examples[rank_], scenario.mini_batch});
  }

  absl::Status run();

 private:
  struct AsyncPull {
    std::uint32_t table = 0;
    std::vector<Key> keys;
    std::vector<Floor> floors;
    std::vector<std::byte> values;
    Pending pending;
  };

  absl::Status open_tables();
  absl::Status do_something();
  absl::Status iterate(std::uint64_t most_mini_batches);
  absl::StatusOr<ExampleRange> next_mini_batch();
  absl::Status push();
  absl::Status pull();
  absl::Status start_pull();
  absl::Status end_pulls();
  absl::Status clock(bool barrier);
  absl::Status pull_what_was_pushed_to_it();
  absl::Status pull_what_came_back();
  absl::Status check_the_end();
  absl::Status check(const Read& read, Key key, std::span<const double> row);
  template <class Keys>
  absl::Status pull_and_check(std::uint32_t table, const Keys& asked, std::span<const Key> keys);
  [[nodiscard]] std::vector<Key> some_keys(std::uint32_t table);
  [[nodiscard]] KeyRange some_range(std::uint32_t table);
  [[nodiscard]] std::size_t width(std::uint32_t table) const {
    return shape(table).width(session_.workers());
  }
  [[nodiscard]] const TableShape& shape(std::uint32_t table) const { return job_.scenario().tables[table]; }
  /// An eager push on its way may be older than a row that was read meanwhile, and replaces it.
  [[nodiscard]] bool reads_are_monotone(std::uint32_t table) const {
    return !job_.scenario().async_pulls && !rules(table).pushes_eagerly;
  }
  [[nodiscard]] std::uint32_t some_table() {
    return static_cast<std::uint32_t>(below(random_, tables_.size()));
  }
  [[nodiscard]] consistency::Rules rules(std::uint32_t table) const {
    return consistency::rules_of(shape(table).model);
  }
  [[nodiscard]] std::vector<Floor> floors(std::uint32_t table, std::span<const Key> keys) {
    std::vector<Floor> floors;
    for (const Key key : keys) floors.push_back(job_.ledger().floor(rank_, table, key));
    return floors;
  }

  Job& job_;
  Session& session_;
  const std::uint32_t rank_;
  std::mt19937_64 random_;
  std::vector<AnyTable> tables_;
  std::optional<DataCursor> cursor_;
  std::deque<AsyncPull> pulls_;
  std::vector<std::set<Key>> pulled_;  ///< by table
  Clock barrier_clock_ = 0;
};

std::vector<Key> keys_of(KeyRange range) {
  std::vector<Key> keys;
  for (Key key = range.first; key < range.last; ++key) keys.push_back(key);
  return keys;
}

absl::Status Workload::open_tables() {
  for (std::uint32_t table = 0; table < pulled_.size(); ++table) {
    const TableOptions options{.name = fmt::format("table {}", table),
                               .rows = shape(table).rows,
                               .width = static_cast<std::uint32_t>(width(table)),
                               .consistency = shape(table).model,
                               .cache_rows = shape(table).cache_rows};
    absl::Status status;
    protocol::visit_value_type(shape(table).type, [&]<class Value>() {
      auto opened = session_.table<Value>(options);
      status = opened.status();
      if (opened.ok()) tables_.push_back(*opened);
    });
    RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

absl::Status Workload::run() {
  RETURN_IF_ERROR(open_tables());
  job_.worker(rank_).joined = true;
  const Scenario& scenario = job_.scenario();
  for (Clock clock = 0; clock < scenario.clocks; ++clock) {
    const bool leaves = clock == scenario.leaves_at[rank_];
    if (cursor_) {
      RETURN_IF_ERROR(iterate(leaves ? below(random_, 4) : UINT64_MAX));
    } else {
      for (std::uint64_t more = below(random_, 8); more > 0; --more) RETURN_IF_ERROR(do_something());
    }
    if (leaves) {
      RETURN_IF_ERROR(end_pulls());
      job_.trace([&] { return fmt::format("worker {} leaves at clock {}", rank_, clock); });
      return absl::OkStatus();
    }
    const bool barrier = scenario.barrier_every > 0 && (clock + 1) % scenario.barrier_every == 0;
    RETURN_IF_ERROR(this->clock(barrier));
  }
  RETURN_IF_ERROR(clock(/*barrier=*/true));
  RETURN_IF_ERROR(pull_what_came_back());
  return check_the_end();
}

absl::Status Workload::do_something() {
  switch (below(random_, job_.scenario().async_pulls ? 6 : 5)) {
    case 0:
    case 1:
      return push();
    case 2:
    case 3:
      return pull();
    case 4:
      job_.scheduler().compute(microseconds(below(random_, 200)));
      return absl::OkStatus();
    default:
      return chance(random_, 0.7) ? start_pull() : end_pulls();
  }
}

absl::Status Workload::iterate(std::uint64_t most_mini_batches) {
  for (std::uint64_t i = 0; i < most_mini_batches; ++i) {
    const absl::StatusOr<ExampleRange> batch = next_mini_batch();
    RETURN_IF_ERROR(batch.status());
    if (batch->empty()) break;
    job_.scheduler().compute(job_.scenario().mini_batch_time);
    for (std::uint64_t more = below(random_, 3); more > 0; --more) RETURN_IF_ERROR(do_something());
  }
  return absl::OkStatus();
}

absl::StatusOr<ExampleRange> Workload::next_mini_batch() {
  Iterations& iterations = job_.iterations();
  const Clock clock = session_.current_clock();
  iterations.ask(rank_, clock, job_.scheduler().now());
  absl::StatusOr<ExampleRange> batch = cursor_->next();
  RETURN_IF_ERROR(batch.status());
  job_.trace([&] {
    return batch->empty() ? fmt::format("worker {} at clock {}: the iteration is over, {} examples are left",
                                        rank_, clock, cursor_->left())
                          : fmt::format("worker {} at clock {} takes examples {} to below {}", rank_, clock,
                                        batch->first, batch->last);
  });
  if (const auto wrong = iterations.check(rank_, *batch, job_.scheduler().now())) {
    job_.fail(*wrong);
    return absl::InternalError(*wrong);
  }
  job_.ledger().set_examples(rank_, clock, iterations.counts(rank_, clock));
  return batch;
}

std::vector<Key> Workload::some_keys(std::uint32_t table) {
  std::vector<Key> keys(1 + below(random_, chance(random_, 0.4) ? 1 : 20));
  for (Key& key : keys) key = below(random_, shape(table).rows);
  return keys;
}

KeyRange Workload::some_range(std::uint32_t table) {
  const Key first = below(random_, shape(table).rows);
  return {first, first + 1 + below(random_, shape(table).rows - first)};
}

absl::Status Workload::push() {
  const std::uint32_t table = some_table();
  const bool as_range = chance(random_, 0.5);
  const KeyRange range = some_range(table);
  const std::vector<Key> keys = as_range ? keys_of(range) : some_keys(table);
  job_.trace([&] {
    return fmt::format("worker {} at clock {} pushes to keys {} of table {}", rank_, session_.current_clock(),
                       list(keys), table);
  });
  const std::uint32_t copies = shape(table).copies;
  return std::visit(
      [&]<class Value>(Table<Value>* to) -> absl::Status {
        std::vector<Value> updates(keys.size() * width(table), 0);
        for (std::size_t i = 0; i < keys.size(); ++i) {
          Value* const row = &updates[i * width(table)];
          const auto delta = static_cast<std::int64_t>(1 + below(random_, 9));
          for (std::uint32_t copy = 0; copy < copies; ++copy)
            row[rank_ * copies + copy] = static_cast<Value>(delta * (copy + 1));
          // Of such different size that sums in different orders differ.
          const float ordered = std::ldexp(static_cast<float>(1 + below(random_, 100003)),
                                           static_cast<int>(below(random_, 60)) - 30);
          if (shape(table).ordered) row[width(table) - 1] = static_cast<Value>(ordered);
          job_.ledger().push(rank_, table, keys[i], delta, static_cast<double>(ordered));
        }
        if (job_.scenario().async_pulls && chance(random_, 0.3)) {
          // After all pulls so far, or side by side with them.
          OperationOptions options;
          if (chance(random_, 0.5)) {
            for (const AsyncPull& pull : pulls_) options.after.push_back(pull.pending);
          }
          return (as_range ? to->push_async(range, updates, options) : to->push_async(keys, updates, options))
              .wait();
        }
        RETURN_IF_ERROR(as_range ? to->push(range, updates) : to->push(keys, updates));
        for (const Key key : keys) job_.ledger().end_push(rank_, table, key);
        return absl::OkStatus();
      },
      tables_[table]);
}

absl::Status Workload::check(const Read& read, Key key, std::span<const double> row) {
  const auto wrong = job_.ledger().check(read, key, row);
  if (!wrong) return absl::OkStatus();
  job_.fail(*wrong);
  return absl::InternalError(*wrong);
}

template <class Keys>
absl::Status Workload::pull_and_check(std::uint32_t table, const Keys& asked, std::span<const Key> keys) {
  const std::vector<Floor> floors = this->floors(table, keys);
  const Clock clock = session_.current_clock();
  return std::visit(
      [&]<class Value>(Table<Value>* from) -> absl::Status {
        std::vector<Value> values(keys.size() * width(table));
        const std::vector<std::uint64_t> lags = from->staleness().reads_by_lag;
        RETURN_IF_ERROR(from->pull(asked, values));
        job_.trace([&] {
          return fmt::format("worker {} at clock {} has pulled keys {} of table {}: {}", rank_, clock,
                             list(keys), table, list(values));
        });
        Read read{.reader = rank_,
                  .table = table,
                  .clock = clock,
                  .barrier_clock = barrier_clock_,
                  .monotone = reads_are_monotone(table)};
        // Pulls under way count in the same histogram.
        if (keys.size() == 1 && pulls_.empty()) {
          const std::vector<std::uint64_t>& now = from->staleness().reads_by_lag;
          const auto differs = std::mismatch(lags.begin(), lags.end(), now.begin()).first;
          const auto lag = static_cast<Clock>(differs - lags.begin());
          if (lag + 1 < static_cast<Clock>(lags.size())) read.claimed = clock - lag;
        }
        for (std::size_t i = 0; i < keys.size(); ++i) {
          read.floor = floors[i];
          const std::vector<double> row(values.begin() + static_cast<std::ptrdiff_t>(i * width(table)),
                                        values.begin() + static_cast<std::ptrdiff_t>((i + 1) * width(table)));
          RETURN_IF_ERROR(check(read, keys[i], row));
          pulled_[table].insert(keys[i]);
        }
        return absl::OkStatus();
      },
      tables_[table]);
}

absl::Status Workload::pull() {
  const std::uint32_t table = some_table();
  if (chance(random_, 0.5)) {
    const KeyRange range = some_range(table);
    return pull_and_check(table, range, keys_of(range));
  }
  const std::vector<Key> keys = some_keys(table);
  return pull_and_check(table, std::span<const Key>(keys), keys);
}

absl::Status Workload::start_pull() {
  const std::uint32_t table = some_table();
  std::vector<Key> keys = some_keys(table);
  job_.trace([&] {
    return fmt::format("worker {} at clock {} begins to pull keys {} of table {}", rank_,
                       session_.current_clock(), list(keys), table);
  });
  std::visit(
      [&]<class Value>(Table<Value>* from) {
        std::vector<std::byte> bytes(keys.size() * width(table) * sizeof(Value));
        const std::span<Value> values(reinterpret_cast<Value*>(bytes.data()), keys.size() * width(table));
        std::vector<Floor> floors = this->floors(table, keys);
        OperationOptions options;
        if (!pulls_.empty() && chance(random_, 0.3)) options.after = {pulls_.back().pending};
        Pending pending = from->pull_async(keys, values, options);
        pulls_.push_back({table, std::move(keys), std::move(floors), std::move(bytes), std::move(pending)});
      },
      tables_[table]);
  return absl::OkStatus();
}

absl::Status Workload::end_pulls() {
  for (; !pulls_.empty(); pulls_.pop_front()) {
    AsyncPull& pull = pulls_.front();
    RETURN_IF_ERROR(pull.pending.wait());
    Read read{.reader = rank_,
              .table = pull.table,
              .clock = session_.current_clock(),
              .barrier_clock = barrier_clock_,
              .monotone = false};
    const absl::Status status = std::visit(
        [&]<class Value>(Table<Value>*) -> absl::Status {
          const auto* const values = reinterpret_cast<const Value*>(pull.values.data());
          for (std::size_t i = 0; i < pull.keys.size(); ++i) {
            const std::vector<double> row(values + i * width(pull.table),
                                          values + (i + 1) * width(pull.table));
            read.floor = pull.floors[i];
            RETURN_IF_ERROR(check(read, pull.keys[i], row));
            pulled_[pull.table].insert(pull.keys[i]);
          }
          return absl::OkStatus();
        },
        tables_[pull.table]);
    RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

absl::Status Workload::clock(bool barrier) {
  RETURN_IF_ERROR(end_pulls());
  job_.ledger().finish_clock(rank_);
  job_.trace([&] {
    return fmt::format("worker {} at clock {}: {}", rank_, session_.current_clock(),
                       barrier ? "barrier" : "clock");
  });
  RETURN_IF_ERROR(barrier ? session_.barrier() : session_.clock());
  if (const auto wrong = job_.ledger().end_clock(rank_, session_.current_clock())) {
    job_.fail(*wrong);
    return absl::InternalError(*wrong);
  }
  if (!barrier) return absl::OkStatus();
  barrier_clock_ = session_.current_clock();
  return pull_what_was_pushed_to_it();
}

/// ESSP: what a worker has read is pushed to it, so that after a barrier it reads it without asking.
absl::Status Workload::pull_what_was_pushed_to_it() {
  const Scenario& scenario = job_.scenario();
  if (scenario.network.mapped) return absl::OkStatus();
  for (std::uint32_t table = 0; table < tables_.size(); ++table) {
    if (!rules(table).pushes_eagerly || shape(table).cache_rows < shape(table).rows ||
        pulled_[table].empty()) {
      continue;
    }
    const std::vector<Key> keys(pulled_[table].begin(), pulled_[table].end());
    const std::uint64_t before = job_.worker(rank_).transport->reads();
    RETURN_IF_ERROR(pull_and_check(table, std::span<const Key>(keys), keys));
    if (const std::uint64_t reads = job_.worker(rank_).transport->reads() - before; reads > 0) {
      job_.fail(fmt::format(
          "worker {} needed {} reads at clock {} for rows of table {} ({}) to which it has subscribed", rank_,
          reads, session_.current_clock(), table, consistency::to_string(shape(table).model)));
      return absl::InternalError("subscription lost");
    }
  }
  return absl::OkStatus();
}

/// ESSP with less cache than rows: a row that is cached now is pushed from the next clocks on, also if it was
/// cached and evicted before.
absl::Status Workload::pull_what_came_back() {
  const Scenario& scenario = job_.scenario();
  const auto is_meant = [&](std::uint32_t table) {
    const std::uint64_t room_in_each_part = 2ULL * scenario.servers * scenario.lanes;
    return rules(table).pushes_eagerly && shape(table).cache_rows < shape(table).rows &&
           shape(table).cache_rows >= room_in_each_part && !scenario.network.mapped;
  };
  for (std::uint32_t table = 0; table < tables_.size(); ++table) {
    if (!is_meant(table)) continue;
    const KeyRange one = {shape(table).rows / 2, shape(table).rows / 2 + 1};
    RETURN_IF_ERROR(pull_and_check(table, one, keys_of(one)));
    RETURN_IF_ERROR(clock(/*barrier=*/true));  // subscribes
    RETURN_IF_ERROR(clock(/*barrier=*/true));
    const std::uint64_t before = job_.worker(rank_).transport->reads();
    RETURN_IF_ERROR(pull_and_check(table, one, keys_of(one)));
    if (job_.worker(rank_).transport->reads() == before) continue;
    job_.fail(fmt::format("worker {} had to read key {} of table {} ({}), which it caches, at clock {}",
                          rank_, one.first, table, consistency::to_string(shape(table).model),
                          session_.current_clock()));
    return absl::InternalError("subscription lost on eviction");
  }
  return absl::OkStatus();
}

absl::Status Workload::check_the_end() {
  std::uint64_t digest = 0;
  for (std::uint32_t table = 0; table < tables_.size(); ++table) {
    const absl::Status status = std::visit(
        [&]<class Value>(Table<Value>* from) -> absl::Status {
          std::vector<Value> values(shape(table).rows * width(table));
          RETURN_IF_ERROR(from->pull(KeyRange{0, shape(table).rows}, values));
          const std::string_view bytes(reinterpret_cast<const char*>(values.data()),
                                       values.size() * sizeof(Value));
          digest = digest * 31 + std::hash<std::string_view>()(bytes);
          for (Key key = 0; key < shape(table).rows; ++key) {
            const auto first = values.begin() + static_cast<std::ptrdiff_t>(key * width(table));
            const std::vector<double> row(first, first + static_cast<std::ptrdiff_t>(width(table)));
            const auto wrong = job_.ledger().check_final(table, key, row);
            if (!wrong) continue;
            job_.fail(*wrong);
            return absl::InternalError(*wrong);
          }
          return absl::OkStatus();
        },
        tables_[table]);
    RETURN_IF_ERROR(status);
  }
  job_.set_final_rows(digest);
  return absl::OkStatus();
}

// ---- nodes
// ---------------------------------------------------------------------------------------------

std::string address_of(std::uint32_t server) {
  return fmt::format("sim:{}", server);
}

void Job::run_server(std::uint32_t rank) {
  ServerNode& node = servers_[rank];
  const auto transport = network_.make_transport(scheduler_.running(), fmt::format("server {}", rank));
  node.transport = transport.get();
  auto server = server::Server::create(*transport, {.address = address_of(rank),
                                                    .rank = rank,
                                                    .servers = scenario_.servers,
                                                    .workers = scenario_.workers,
                                                    .lanes = scenario_.lanes});
  node.status = server.status();
  if (server.ok()) {
    node.server = server->get();
    if (node.lanes.empty()) {
      const std::atomic<bool> stop = false;
      node.status = server::drive(**server, *transport, {.threads = 1}, stop);
    } else {
      drive_with_lane_tasks(node);
      node.status = (*server)->status();
    }
  }
  trace([&] { return fmt::format("server {} ends: {}", rank, node.status.ToString()); });
  node.server = nullptr;
  node.transport = nullptr;
  node.ended = true;
  for (const TaskId lane : node.lanes) scheduler_.wake(lane);
}

/// As the driver's receiver thread does.
void Job::drive_with_lane_tasks(ServerNode& node) {
  server::Server& server = *node.server;
  server.set_lane_waker([&](std::uint32_t lane) { scheduler_.wake(node.lanes[lane]); });
  TimePoint give_up = TimePoint::max();
  while (!server.finished() && scheduler_.now() < give_up) {
    if (!server.status().ok() && give_up == TimePoint::max()) give_up = scheduler_.now() + seconds(2);
    if (!server.poll()) node.transport->wait(scheduler_.now() + milliseconds(100));
  }
}

/// As the driver's lane threads do.
void Job::run_lane(ServerNode& node, std::uint32_t lane) {
  while (!node.ended) {
    if (node.server != nullptr && node.server->lanes()[lane]->poll()) {
      node.transport->interrupt();
      scheduler_.step(scheduler_.running());
    } else {
      scheduler_.sleep(scheduler_.now() + milliseconds(500));
    }
  }
}

void Job::run_worker(std::uint32_t rank) {
  WorkerNode& node = workers_[rank];
  std::shared_ptr<SimulatedTransport> transport =
      network_.make_transport(scheduler_.running(), fmt::format("worker {}", rank));
  node.transport = transport.get();
  SessionOptions options{.rank = rank,
                         .workers = scenario_.workers,
                         .read_path = scenario_.read_path,
                         .timeout_ms = kTimeoutMs,
                         .clock_timeout_ms = kTimeoutMs,
                         .transport = transport,
                         .inbox_bytes = scenario_.inbox_bytes,
                         .push_ring_bytes = scenario_.push_ring_bytes};
  for (std::uint32_t server = 0; server < scenario_.servers; ++server)
    options.servers.push_back(address_of(server));
  auto session = Session::connect(options);
  options.transport.reset();
  node.status = session.status();
  if (session.ok()) {
    node.status = Workload(*this, **session).run();
    if (!node.status.ok()) (*session)->give_up(node.status);
    ledger_.leave(rank);
    const TimePoint left = scheduler_.now();
    session->reset();
    if (!struck_ && scheduler_.now() - left >= milliseconds(kTimeoutMs))
      fail(fmt::format("worker {} waited in vain for the servers' goodbyes", rank));
  }
  trace([&] { return fmt::format("worker {} ends: {}", rank, node.status.ToString()); });
  node.transport = nullptr;
  node.ended = true;
}

void Job::run_disaster() {
  const auto all = [&](bool WorkerNode::*what) {
    return std::all_of(workers_.begin(), workers_.end(), [&](const WorkerNode& node) { return node.*what; });
  };
  while (!all(&WorkerNode::joined) && !failure_) {
    if (all(&WorkerNode::ended)) return;
    scheduler_.sleep(scheduler_.now() + microseconds(20));
  }
  scheduler_.sleep(scheduler_.now() + scenario_.disaster_delay);
  SimulatedTransport* const node = scenario_.disaster == Disaster::kServerDies
                                       ? servers_[scenario_.victim].transport
                                       : workers_[scenario_.victim].transport;
  if (node == nullptr) return;
  trace([&] { return fmt::format("disaster strikes"); });
  struck_ = scheduler_.now();
  if (scenario_.disaster == Disaster::kLinkBreaks) {
    network_.cut_a_link(*node);
  } else {
    network_.kill(*node);
  }
}

/// All connections break: what is stuck gets errors, and ends.
void Job::end_all() {
  for (ServerNode& node : servers_) {
    if (node.transport != nullptr) network_.kill(*node.transport);
  }
  for (WorkerNode& node : workers_) {
    if (node.transport != nullptr) network_.kill(*node.transport);
  }
}

void Job::check_end(const std::string& name, const absl::Status& status, bool is_victim) {
  if (status.ok() || failure_) return;
  const std::string message(status.message());
  if (!struck_) return fail(fmt::format("{} ended with {}", name, status.ToString()));
  if (is_victim) return;
  const bool link = scenario_.disaster == Disaster::kLinkBreaks;
  const std::string victim = fmt::format(
      "{} {}", scenario_.disaster == Disaster::kServerDies ? "server" : "worker", scenario_.victim);
  const bool named =
      message.find(victim) != std::string::npos || (link && message.find("server ") != std::string::npos);
  const bool code =
      status.code() == absl::StatusCode::kUnavailable || status.code() == absl::StatusCode::kAborted;
  if (!named || !code)
    fail(fmt::format("{} ended with {}, expected news of {}", name, status.ToString(), victim));
}

void Job::check_ends() {
  if (struck_ && scheduler_.now() - *struck_ > kNewsTime)
    fail(fmt::format("it took {:.3f} s until all had ended",
                     std::chrono::duration<double>(scheduler_.now() - *struck_).count()));
  for (std::uint32_t rank = 0; rank < scenario_.workers; ++rank) {
    check_end(fmt::format("worker {}", rank), workers_[rank].status,
              scenario_.disaster != Disaster::kServerDies && scenario_.victim == rank);
  }
  for (std::uint32_t rank = 0; rank < scenario_.servers; ++rank) {
    check_end(fmt::format("server {}", rank), servers_[rank].status,
              scenario_.disaster == Disaster::kServerDies && scenario_.victim == rank);
  }
}

JobResult Job::run() {
  const TimePoint start = scheduler_.now();
  trace([&] { return fmt::format("{}", to_string(scenario_)); });
  for (std::uint32_t rank = 0; rank < scenario_.servers; ++rank) {
    for (std::uint32_t lane = 0; scenario_.lane_tasks && lane < scenario_.lanes; ++lane) {
      servers_[rank].lanes.push_back(
          scheduler_.spawn([this, rank, lane] { run_lane(servers_[rank], lane); }));
    }
    scheduler_.spawn([this, rank] { run_server(rank); });
  }
  for (std::uint32_t rank = 0; rank < scenario_.workers; ++rank)
    scheduler_.spawn([this, rank] { run_worker(rank); }, scenario_.slowness[rank]);
  if (scenario_.disaster != Disaster::kNone) scheduler_.spawn([this] { run_disaster(); });

  const auto outcome = scheduler_.run(network_, scheduler_.now() + kMaxTime, kMaxSteps);
  if (outcome == Scheduler::Outcome::kAllEnded) {
    check_ends();
  } else {
    fail(outcome == Scheduler::Outcome::kOutOfTime ? "the job does not end: somebody waits in vain"
                                                   : "the job does not end: somebody is busy in vain");
    end_all();
    if (scheduler_.run(network_, scheduler_.now() + kMaxTime, kMaxSteps) != Scheduler::Outcome::kAllEnded) {
      // Nothing can be unwound.
      fmt::print(stderr, "seed {}: a task hangs for good, even with all connections broken\n",
                 scenario_.seed);
      std::abort();
    }
  }
  return {.failure = failure_,
          .numbers_checked = ledger_.numbers_checked(),
          .steps = scheduler_.steps(),
          .digest = scheduler_.digest(),
          .time = scheduler_.now() - start,
          .final_rows = final_rows_,
          .ended_early = iterations_.ended_early()};
}

}  // namespace

JobResult run_job(const Scenario& scenario, const std::function<void(const std::string&)>& trace) {
  return Job(scenario, trace).run();
}

JobResult run_job(Model model, std::uint64_t seed, const std::function<void(const std::string&)>& trace) {
  return run_job(make_scenario(model, seed), trace);
}

}  // namespace verbena::simulation
