#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <thread>

#include "apps/bench/job.hpp"
#include "apps/bench/operations.hpp"
#include "apps/bench/output_places.hpp"
#include "apps/bench/row_keys.hpp"
#include "apps/bench/yardsticks.hpp"
#include "base/return_if_error.hpp"
#include <verbena/session.hpp>
#include <verbena/table.hpp>

namespace verbena::apps::bench {

namespace {

constexpr std::uint32_t kRowWidth = 100;  // a row as in the design
constexpr std::size_t kRowBytes = kRowWidth * sizeof(float);
constexpr std::uint64_t kRows = 2048;
constexpr std::uint64_t kManyRows = 1 << 16;  // 26 MB: more than a core's own caches
constexpr std::size_t kBatchKeys = 1000;
constexpr std::uint32_t kSmallWidth = 16;
constexpr std::uint64_t kSmallRows = 1 << 14;
constexpr std::uint64_t kMillionRows = 1'000'000;
constexpr std::uint32_t kSmallestRow = 2;  // floats: 8 bytes
constexpr std::string_view kTwoNotifications = "two notifications and an addition by hand";

/// Keys for accesses of one row each.
std::vector<Key> one_row_keys() {
  return shuffled_keys(kRows, std::size_t{1} << 16);
}

struct PullCase {
  std::string_view name;
  std::string_view what;
  ReadPath path;
  std::uint64_t rows;
  std::uint32_t width;
  std::size_t keys_each;
  double budget;
};

constexpr PullCase kPulls[] = {
    {"pull", "pull of one row of 100 floats from the row cache, ESSP", ReadPath::kCached, kRows, kRowWidth, 1,
     1.6},
    {"pull-large", "the same in a table of 26 MB, which no core's own cache holds", ReadPath::kCached,
     kManyRows, kRowWidth, 1, 1.8},
    {"pull-in-place", "pull of one row from the server's mapped memory, ESSP (one host only)",
     ReadPath::kInPlace, kRows, kRowWidth, 1, 2},
    {"pull-batch", "pull of 1000 rows of 16 floats by keys from the row cache", ReadPath::kCached, kSmallRows,
     kSmallWidth, kBatchKeys, 1.3},
    {"pull-batch-in-place",
     "pull of 1000 of a million rows of 16 floats by keys from the server's mapped memory (one host only)",
     ReadPath::kInPlace, kMillionRows, kSmallWidth, kBatchKeys, 2}};

/// Pushes all over a table that no cache holds.
struct RuleCase {
  std::string_view name;
  std::string_view what;
  std::string_view rule;
  std::uint32_t width;
  KeySpace key_space = KeySpace::kDense;
};

constexpr RuleCase kRules[] = {
    {"push-add", "push of 1000 of a million rows of 16 floats, and clock(): as push-batch", "add", 16},
    {"push-adagrad", "the same with gradients, for which the lane takes steps of Adagrad", "adagrad", 16},
    {"push-ftrl", "the same with rows of one float and FTRL", "ftrl(l1=1)", 1},
    {"push-sparse-add", "as push-add, in a sparse table", "add", 16, KeySpace::kSparse},
    {"push-sparse-adagrad", "as push-adagrad, in a sparse table", "adagrad", 16, KeySpace::kSparse},
    {"push-sparse-ftrl", "as push-ftrl, in a sparse table", "ftrl(l1=1)", 1, KeySpace::kSparse}};

/// Pulls all over a sparse table that no cache holds.
struct SparsePullCase {
  std::string_view name;
  std::string_view what;
  std::uint32_t width = kSmallWidth;
  ReadPath path;
  ConsistencyModel consistency;
  bool by_handles = false;
  bool gathers = false;
  std::optional<double> map_budget = std::nullopt;     ///< of the time of absl::flat_hash_map
  std::optional<double> memcpy_budget = std::nullopt;  ///< of the time of copying
};

const SparsePullCase kSparsePulls[] = {
    {.name = "pull-sparse",
     .what = "pull of 1000 of a million rows of 16 floats of a sparse table, in place (one host only)",
     .path = ReadPath::kInPlace,
     .consistency = Asp{},
     .map_budget = 0.4},
    {.name = "pull-located",
     .what = "the same by handles, after the rows have been found once (one host only)",
     .path = ReadPath::kInPlace,
     .consistency = Asp{},
     .by_handles = true,
     .memcpy_budget = 1 / 0.7},
    {.name = "pull-sparse-read",
     .what = "the same by one-sided reads, as from another host, under sequential consistency",
     .path = ReadPath::kCached,
     .consistency = Sequential{}},
    {.name = "pull-sparse-gather",
     .what = "the same in one message for each lane of the server",
     .path = ReadPath::kCached,
     .consistency = Sequential{},
     .gathers = true},
    {.name = "pull-narrow-read",
     .what = "pull-sparse-read of rows of one float",
     .width = 1,
     .path = ReadPath::kCached,
     .consistency = Sequential{}},
    {.name = "pull-narrow-gather",
     .what = "pull-sparse-gather of rows of one float",
     .width = 1,
     .path = ReadPath::kCached,
     .consistency = Sequential{},
     .gathers = true}};

/// What the measurements of tables have in common.
class TableMeasurements {
 public:
  TableMeasurements(const BenchOptions& options, const Backend& backend, Client& client, Report& report)
      : options_(options), backend_(backend), client_(client), report_(report) {
    single_.batch_nanoseconds = 0;  // each operation is timed by itself
  }

  absl::Status pull(const PullCase& pull);
  absl::Status push();
  absl::Status push_batch();
  absl::Status push_by(const RuleCase& by);
  absl::Status pull_sparse(const SparsePullCase& pull);
  absl::Status push_applied();
  absl::Status push_visible();
  absl::Status clock();
  absl::Status subscribe();
  absl::Status pull_local();
  absl::Status push_local();
  absl::Status localize();
  absl::Status idle_server();

 private:
  absl::StatusOr<std::unique_ptr<Job>> start(ReadPath path, std::uint32_t workers = 1,
                                             std::uint32_t servers = 1) {
    return Job::start(backend_, client_, path, workers, servers);
  }
  template <class Access>
  absl::StatusOr<Samples> time_accesses(const Access& access);
  /// Times `operation` and notes what it asks of the sessions' transports.
  static absl::Status time_posting(const TimingOptions& timing, std::span<Session* const> sessions,
                                   const std::function<absl::Status()>& operation, Result& result);
  absl::StatusOr<Samples> time_pulls(Table<float>& table);
  absl::StatusOr<Samples> time_cached_pulls();
  absl::Status measure_local(std::string_view name, std::string_view what, Yardstick by_hand,
                             const std::function<absl::StatusOr<Samples>(Table<float>&)>& time);
  /// A round trip of this transport, measured once.
  absl::StatusOr<Yardstick> round_trip() {
    if (!round_trip_) {
      auto measured = time_round_trip(options_, backend_, client_);
      if (!measured.ok()) return measured.status();
      round_trip_ = *std::move(measured);
    }
    return *round_trip_;
  }
  absl::Status finish(Result result, std::optional<double> round_trips_budget);
  /// What a push of one row is compared with.
  [[nodiscard]] Yardstick plain_additions() const {
    return {.name = "the same rows added in a plain loop",
            .value = time_row_additions(options_.timing, one_row_keys(), kRowWidth).percentile(0.5)};
  }
  /// What another core's part in an operation over shared memory comes to, written by hand; nothing between
  /// hosts.
  void compare_by_hand(Result& result, std::string_view what, std::size_t asked, std::size_t answered) const {
    if (!backend_.on_one_host) return;
    result.yardsticks.push_back(
        {.name = std::string(what), .value = time_answers(options_.timing, asked, answered).percentile(0.5)});
  }

  const BenchOptions& options_;
  const Backend& backend_;
  Client& client_;
  Report& report_;
  TimingOptions single_ = options_.timing;
  std::optional<Yardstick> round_trip_;
  std::map<std::uint32_t, double> read_times_;  ///< medians of pulls by reads, by the rows' width
};

/// Counts what sessions ask of their transports from now on.
class PostingCount {
 public:
  explicit PostingCount(std::span<Session* const> sessions)
      : sessions_(sessions.begin(), sessions.end()), before_(now()) {}
  [[nodiscard]] Posted each(std::uint64_t operations) const {
    const Posted after = now();
    const auto count = static_cast<double>(std::max<std::uint64_t>(operations, 1));
    return {.requests = (after.requests - before_.requests) / count,
            .bytes = (after.bytes - before_.bytes) / count,
            .doorbells = (after.doorbells - before_.doorbells) / count};
  }

 private:
  [[nodiscard]] Posted now() const {
    Posted sum;
    for (const Session* const session : sessions_) {
      const SessionStatistics statistics = session->statistics();
      sum.requests += static_cast<double>(statistics.requests_posted);
      sum.bytes += static_cast<double>(statistics.bytes_posted);
      sum.doorbells += static_cast<double>(statistics.doorbells_rung);
    }
    return sum;
  }
  std::vector<Session*> sessions_;
  Posted before_;
};

absl::Status TableMeasurements::time_posting(const TimingOptions& timing, std::span<Session* const> sessions,
                                             const std::function<absl::Status()>& operation, Result& result) {
  const PostingCount count(sessions);
  std::uint64_t operations = 0;
  absl::Status status = time_operation(
      timing,
      [&] {
        ++operations;
        return operation();
      },
      result.samples);
  result.posted = count.each(operations);
  return status;
}

/// Adds the result, beside a round trip.
absl::Status TableMeasurements::finish(Result result, std::optional<double> round_trips_budget) {
  auto yardstick = round_trip();
  if (!yardstick.ok()) return yardstick.status();
  // This budget is for shared memory; transfers over a device have their own budgets, in the transport's
  // lines.
  if (backend_.on_one_host) yardstick->budget = round_trips_budget;
  result.yardsticks.push_back(*std::move(yardstick));
  report_.results.push_back(std::move(result));
  return absl::OkStatus();
}

absl::Status TableMeasurements::pull(const PullCase& pull) {
  auto job = start(pull.path);
  if (!job.ok()) return job.status();
  Session& session = (*job)->session();
  auto table =
      session.table<float>({.name = "rows", .rows = pull.rows, .width = pull.width, .consistency = Essp{1}});
  if (!table.ok()) return table.status();
  std::vector<float> all(pull.rows * pull.width);
  // The first pull reads from the server; then the pushes make every cached row live.
  for (int round = 0; round < 3; ++round) {
    RETURN_IF_ERROR(table->pull(KeyRange{0, pull.rows}, all));
    RETURN_IF_ERROR(session.barrier());
  }
  const std::vector<Key> keys = shuffled_keys(pull.rows, std::size_t{1} << 16);
  const std::size_t row_bytes = pull.width * sizeof(float);
  OutputPlaces places(pull.keys_each * row_bytes);
  Result result{.operation = std::string(pull.name),
                .what = std::string(pull.what),
                .bytes = pull.keys_each * row_bytes,
                .keys = pull.keys_each,
                .samples = {}};
  absl::Status status;
  std::size_t next = 0;
  result.samples = time_while(options_.timing, [&] {
    const std::span<float> values(reinterpret_cast<float*>(places.next()), pull.keys_each * pull.width);
    status = table->pull(std::span(keys).subspan(next, pull.keys_each), values);
    next += pull.keys_each;
    if (next + pull.keys_each > keys.size()) next = 0;
    return status.ok();
  });
  if (!status.ok()) return status;
  const double copy_ns = time_row_copies(options_.timing, keys, pull.keys_each, row_bytes).percentile(0.5);
  // For a batch the design asks for 100 M keys a second, 10 ns each, if the machine can copy that many.
  const double budget = pull.keys_each == 1
                            ? pull.budget
                            : std::max(pull.budget, 10.0 * static_cast<double>(pull.keys_each) / copy_ns);
  result.yardsticks.push_back({.name = "memcpy of the same rows", .value = copy_ns, .budget = budget});
  report_.results.push_back(std::move(result));
  return absl::OkStatus();
}

absl::Status TableMeasurements::push() {
  auto job = start(ReadPath::kAuto);
  if (!job.ok()) return job.status();
  Session& session = (*job)->session();
  auto table =
      session.table<float>({.name = "rows", .rows = kRows, .width = kRowWidth, .consistency = Ssp{4}});
  if (!table.ok()) return table.status();
  const std::vector<float> update(kRowWidth, 1);
  auto samples = time_accesses([&](std::span<const Key> key) { return table->push(key, update); });
  if (!samples.ok()) return samples.status();
  Result result{.operation = "push",
                .what = "push of one row of 100 floats: added up in the update buffer, nothing sent",
                .bytes = kRowBytes,
                .keys = 1,
                .samples = *std::move(samples)};
  result.yardsticks.push_back(plain_additions());
  report_.results.push_back(std::move(result));
  return session.barrier();
}

absl::Status TableMeasurements::push_batch() {
  auto job = start(ReadPath::kAuto);
  if (!job.ok()) return job.status();
  Session& session = (*job)->session();
  auto table =
      session.table<float>({.name = "rows", .rows = kRows, .width = kRowWidth, .consistency = Ssp{4}});
  if (!table.ok()) return table.status();
  std::vector<Key> keys = shuffled_keys(kRows, kBatchKeys);
  keys.resize(kBatchKeys);
  std::sort(keys.begin(), keys.end());
  const std::vector<float> updates(kBatchKeys * kRowWidth, 1);
  Result result{
      .operation = "push-batch",
      .what =
          "push of 1000 rows of 100 floats, and clock(): buffered, sent and applied by one lane, in a "
          "pipeline of up to 6 clocks",
      .bytes = kBatchKeys * kRowBytes,
      .keys = kBatchKeys,
      .samples = {}};
  absl::Status status = time_posting(
      options_.timing, std::array{&session},
      [&] {
        absl::Status pushed = table->push(keys, updates);
        pushed.Update(session.clock());
        return pushed;
      },
      result);
  if (!status.ok()) return status;
  // The budgets of tables are for shared memory.
  const auto budget = backend_.on_one_host ? std::optional(2.0) : std::nullopt;
  result.yardsticks.push_back(
      {.name = "the same rows handed to another core and added there",
       .value = time_hand_over(options_.timing, kBatchKeys, kRowWidth).percentile(0.5),
       .budget = budget});
  report_.results.push_back(std::move(result));
  return session.barrier();
}

absl::Status TableMeasurements::push_by(const RuleCase& by) {
  auto job = start(ReadPath::kAuto);
  if (!job.ok()) return job.status();
  Session& session = (*job)->session();
  const bool is_sparse = by.key_space == KeySpace::kSparse;
  auto table = session.table<float>({.name = "rows",
                                     .key_space = by.key_space,
                                     .rows = is_sparse ? 0 : kMillionRows,
                                     .width = by.width,
                                     .consistency = Ssp{4},
                                     .rule = std::string(by.rule),
                                     .expected_rows = is_sparse ? kMillionRows : 0});
  if (!table.ok()) return table.status();
  const std::vector<Key> rows = shuffled_keys(kMillionRows, kMillionRows);
  const std::vector<Key> keys = is_sparse ? spread(rows) : rows;
  if (is_sparse) RETURN_IF_ERROR(make_rows(session, *table, kMillionRows));
  const std::vector<float> updates(kBatchKeys * by.width, 0.5F);
  Result result{.operation = std::string(by.name),
                .what = std::string(by.what),
                .bytes = kBatchKeys * by.width * sizeof(float),
                .keys = kBatchKeys,
                .samples = {}};
  std::size_t next = 0;
  const absl::Status status = time_posting(
      options_.timing, std::array{&session},
      [&] {
        absl::Status pushed = table->push(std::span(keys).subspan(next, kBatchKeys), updates);
        pushed.Update(session.clock());
        next = (next + kBatchKeys) % keys.size();
        return pushed;
      },
      result);
  if (!status.ok()) return status;
  const auto steps = time_steps(options_.timing, by.rule, by.width, rows, kBatchKeys);
  if (!steps.ok()) return steps.status();
  // The worker's calls return before their updates are applied, so that only the whole stream can be
  // compared.
  result.yardsticks.push_back({.name = "the same steps in a plain loop",
                               .figure = Yardstick::Figure::kBandwidth,
                               .value = steps->operations_per_second() * static_cast<double>(result.bytes)});
  report_.results.push_back(std::move(result));
  return session.barrier();
}

absl::Status TableMeasurements::pull_sparse(const SparsePullCase& pull) {
  auto job = Job::start(backend_, client_, pull.path, 1, 1, pull.gathers);
  if (!job.ok()) return job.status();
  Session& session = (*job)->session();
  auto table = session.table<float>({.name = "rows",
                                     .key_space = KeySpace::kSparse,
                                     .width = pull.width,
                                     .consistency = pull.consistency,
                                     .expected_rows = kMillionRows});
  if (!table.ok()) return table.status();
  const std::vector<Key> rows = shuffled_keys(kMillionRows, kMillionRows);
  const std::vector<Key> keys = spread(rows);
  RETURN_IF_ERROR(make_rows(session, *table, kMillionRows));
  const std::size_t row_bytes = pull.width * sizeof(float);
  OutputPlaces places(kBatchKeys * row_bytes);
  Result result{.operation = std::string(pull.name),
                .what = std::string(pull.what),
                .bytes = kBatchKeys * row_bytes,
                .keys = kBatchKeys,
                .samples = {}};
  std::vector<RowHandles> handles;
  for (std::size_t first = 0; pull.by_handles && first < keys.size(); first += kBatchKeys) {
    auto located = table->locate(std::span(keys).subspan(first, kBatchKeys));
    if (!located.ok()) return located.status();
    handles.push_back(*std::move(located));
  }
  std::size_t next = 0;
  const absl::Status status = time_posting(
      options_.timing, std::array{&session},
      [&] {
        const std::span<float> values(reinterpret_cast<float*>(places.next()), kBatchKeys * pull.width);
        const std::size_t first = std::exchange(next, (next + kBatchKeys) % keys.size());
        if (pull.by_handles) return table->pull(handles[first / kBatchKeys], values);
        return table->pull(std::span(keys).subspan(first, kBatchKeys), values);
      },
      result);
  if (!status.ok()) return status;
  result.yardsticks.push_back(
      {.name = "absl::flat_hash_map and memcpy of the same rows",
       .value = time_map_reads(options_.timing, keys, kBatchKeys, row_bytes).percentile(0.5),
       .budget = pull.map_budget});
  result.yardsticks.push_back(
      {.name = "memcpy of the same rows",
       .value = time_row_copies(options_.timing, rows, kBatchKeys, row_bytes).percentile(0.5),
       .budget = pull.memcpy_budget});
  // Where the one takes as long as the other, is the width from which on rows are better read.
  const double seconds = result.samples.percentile(0.5);
  if (const auto read = read_times_.find(pull.width); pull.gathers && read != read_times_.end())
    result.yardsticks.push_back({.name = "the same rows by one-sided reads", .value = read->second});
  if (pull.path == ReadPath::kCached && !pull.gathers) read_times_[pull.width] = seconds;
  report_.results.push_back(std::move(result));
  return absl::OkStatus();
}

absl::Status TableMeasurements::clock() {
  auto job = start(ReadPath::kAuto);
  if (!job.ok()) return job.status();
  Session& session = (*job)->session();
  auto table = session.table<float>({.name = "rows", .rows = 1, .width = 1, .consistency = Bsp{}});
  if (!table.ok()) return table.status();
  Result result{.operation = "clock",
                .what = "clock() of a single worker under BSP, with nothing to send: to the server and back",
                .samples = {}};
  absl::Status status = time_posting(
      single_, std::array{&session}, [&] { return session.clock(); }, result);
  if (!status.ok()) return status;
  return finish(std::move(result), std::nullopt);
}

absl::Status TableMeasurements::push_applied() {
  auto job = start(ReadPath::kAuto);
  if (!job.ok()) return job.status();
  Session& session = (*job)->session();
  auto table =
      session.table<float>({.name = "rows", .rows = 16, .width = kSmallestRow, .consistency = Ssp{0}});
  if (!table.ok()) return table.status();
  Result result{
      .operation = "push-applied",
      .what =
          "push of one row of 8 bytes, clock(), until the server has applied it and the same worker's pull "
          "has read it there",
      .bytes = 8,
      .keys = 1,
      .samples = {}};
  const std::vector<float> update(kSmallestRow, 1);
  std::vector<float> values(kSmallestRow);
  const Key key = 3;
  absl::Status status = time_posting(
      single_, std::array{&session},
      [&] {
        absl::Status applied = table->push(std::span(&key, 1), update);
        applied.Update(session.clock());
        applied.Update(table->pull(std::span(&key, 1), values));
        return applied;
      },
      result);
  if (!status.ok()) return status;
  compare_by_hand(result, kTwoNotifications, kSmallestRow, kSmallestRow);
  return finish(std::move(result), 2.5);
}

absl::Status TableMeasurements::push_visible() {
  auto job = start(ReadPath::kCached, 2);
  if (!job.ok()) return job.status();
  Session& pusher = (*job)->session(0);
  Session& reader = (*job)->session(1);
  const TableOptions options{.name = "rows", .rows = 16, .width = kSmallestRow, .consistency = Essp{4}};
  auto pushed = pusher.table<float>(options);
  if (!pushed.ok()) return pushed.status();
  auto read = reader.table<float>(options);
  if (!read.ok()) return read.status();
  const Key key = 3;
  const std::vector<float> update(kSmallestRow, 1);
  std::vector<float> values(kSmallestRow);
  absl::Status status = read->pull(std::span(&key, 1), values);  // subscribes
  Result result{
      .operation = "push-visible",
      .what =
          "push of one row of 8 bytes by one worker, clock(), until the server has applied it, pushed "
          "it eagerly and another worker's pull finds it in its row cache, ESSP",
      .bytes = 8,
      .keys = 1,
      .samples = {}};
  const PostingCount posted_by_both(std::array{&pusher, &reader});
  std::uint64_t operations = 0;
  const Stopwatch all;
  // The first ones find everything cold and are not counted as samples. A float counts to 2^24 exactly.
  const double warm_up_ns = options_.timing.seconds * 1e8;
  while (status.ok() && all.nanoseconds() < options_.timing.seconds * 1.1e9 && values[0] < 1e7F) {
    // The reader is one clock ahead, so that the other's clock() makes the min clock advance.
    status.Update(reader.clock());
    ++operations;
    const float expected = values[0] + 1;
    const Stopwatch watch;
    status.Update(pushed->push(std::span(&key, 1), update));
    status.Update(pusher.clock());
    while (status.ok() && values[0] < expected) {
      status.Update(read->pull(std::span(&key, 1), values));
      if (watch.nanoseconds() > Job::kTimeoutMs * 1e6) {
        status.Update(absl::DeadlineExceededError(
            fmt::format("a push was not seen by the other worker for {} s", Job::kTimeoutMs / 1000)));
      }
    }
    if (all.nanoseconds() >= warm_up_ns || result.samples.empty()) result.samples.add(watch.nanoseconds());
  }
  if (!status.ok()) return status;
  result.posted = posted_by_both.each(operations);
  compare_by_hand(result, kTwoNotifications, kSmallestRow, kSmallestRow);
  return finish(std::move(result), 4);
}

absl::Status TableMeasurements::subscribe() {
  auto job = start(ReadPath::kCached);
  if (!job.ok()) return job.status();
  Session& session = (*job)->session();
  auto table =
      session.table<float>({.name = "rows", .rows = kManyRows, .width = kRowWidth, .consistency = Essp{1}});
  if (!table.ok()) return table.status();
  const std::vector<Key> keys = shuffled_keys(kManyRows, kManyRows);
  std::vector<float> values(kRowWidth);
  Result result{
      .operation = "subscribe",
      .what = "pull of a row of 100 floats never pulled before, ESSP: subscribed to and read from the server",
      .bytes = kRowBytes,
      .keys = 1,
      .samples = {}};
  absl::Status status;
  const PostingCount count(std::array{&session});
  const Stopwatch all;
  for (const Key& key : keys) {
    if (!status.ok() || all.nanoseconds() >= options_.timing.seconds * 1e9) break;
    const Stopwatch watch;
    status.Update(table->pull(std::span(&key, 1), values));
    result.samples.add(watch.nanoseconds());
  }
  if (!status.ok()) return status;
  result.posted = count.each(result.samples.operations());
  Samples reads;
  status = time_operation(
      single_, [&] { return client_.complete(transport::Opcode::kRead, kRowBytes); }, reads);
  if (!status.ok()) return status;
  result.yardsticks.push_back({.name = "one-sided read of a row", .value = reads.percentile(0.5)});
  report_.results.push_back(std::move(result));
  return absl::OkStatus();
}

TableOptions moving_table(std::uint64_t rows) {
  return {.name = "moving",
          .rows = rows,
          .width = kRowWidth,
          .consistency = Sequential{},
          .allocation = Allocation::kDynamic};
}

/// Times accesses of one row at a time, in random order.
template <class Access>
absl::StatusOr<Samples> TableMeasurements::time_accesses(const Access& access) {
  const std::vector<Key> keys = one_row_keys();
  absl::Status status;
  std::size_t next = 0;
  Samples samples = time_while(options_.timing, [&] {
    status = access(std::span(keys).subspan(next, 1));
    if (++next == keys.size()) next = 0;
    return status.ok();
  });
  if (!status.ok()) return status;
  return samples;
}

absl::StatusOr<Samples> TableMeasurements::time_pulls(Table<float>& table) {
  OutputPlaces places(kRowBytes);
  return time_accesses([&](std::span<const Key> key) {
    return table.pull(key, std::span(reinterpret_cast<float*>(places.next()), kRowWidth));
  });
}

/// What a local access of a dynamic table is compared with.
absl::StatusOr<Samples> TableMeasurements::time_cached_pulls() {
  auto job = start(ReadPath::kCached);
  if (!job.ok()) return job.status();
  auto table = (*job)->session().table<float>(
      {.name = "rows", .rows = kRows, .width = kRowWidth, .consistency = Essp{1}});
  if (!table.ok()) return table.status();
  std::vector<float> all(kRows * kRowWidth);
  for (int round = 0; round < 3; ++round) {
    absl::Status status = table->pull(KeyRange{0, kRows}, all);
    status.Update((*job)->session().barrier());
    if (!status.ok()) return status;
  }
  return time_pulls(*table);
}

/// An access of one row that the worker's node owns, beside a read of the row cache.
absl::Status TableMeasurements::measure_local(
    std::string_view name, std::string_view what, Yardstick by_hand,
    const std::function<absl::StatusOr<Samples>(Table<float>&)>& time) {
  auto cached = time_cached_pulls();
  if (!cached.ok()) return cached.status();
  auto job = start(ReadPath::kAuto);
  if (!job.ok()) return job.status();
  auto table = (*job)->session().table<float>(moving_table(kRows));
  if (!table.ok()) return table.status();
  auto samples = time(*table);
  if (!samples.ok()) return samples.status();
  report_.results.push_back(
      {.operation = std::string(name),
       .what = std::string(what),
       .bytes = kRowBytes,
       .keys = 1,
       .samples = *std::move(samples),
       .yardsticks = {
           {.name = "pull of the row from the cache", .value = cached->percentile(0.5), .budget = 1.5},
           std::move(by_hand)}});
  return absl::OkStatus();
}

absl::Status TableMeasurements::pull_local() {
  return measure_local(
      "pull-local", "pull of one row of 100 floats of a dynamic table, which the worker's node owns",
      {.name = "memcpy of the same rows",
       .value = time_row_copies(options_.timing, one_row_keys(), 1, kRowBytes).percentile(0.5)},
      [&](Table<float>& table) { return time_pulls(table); });
}

absl::Status TableMeasurements::push_local() {
  const std::vector<float> update(kRowWidth, 1);
  return measure_local(
      "push-local",
      "push of one row of 100 floats of a dynamic table, which the worker's node owns: added in place, under "
      "the row's lock",
      plain_additions(), [&](Table<float>& table) {
        return time_accesses([&](std::span<const Key> key) { return table.push(key, update); });
      });
}

/// Two nodes take a row from each other in turn.
absl::Status TableMeasurements::localize() {
  auto job = start(ReadPath::kCached, 2, 2);
  if (!job.ok()) return job.status();
  std::array<Table<float>, 2> tables{};
  for (std::uint32_t worker = 0; worker < 2; ++worker) {
    auto table = (*job)->session(worker).table<float>(moving_table(16));
    if (!table.ok()) return table.status();
    tables[worker] = *table;
  }
  Result result{.operation = "localize",
                .what =
                    "localize of one row of 100 floats, which another node owns; the home is by turns the "
                    "worker's own server and the other one",
                .bytes = kRowBytes,
                .keys = 1,
                .samples = {}};
  const Key key = 3;
  std::size_t turn = 0;
  absl::Status status = time_posting(
      single_, std::array{&(*job)->session(0), &(*job)->session(1)},
      [&] { return tables[turn++ % 2].localize(std::span(&key, 1)).wait(); }, result);
  if (!status.ok()) return status;
  compare_by_hand(result, "a row asked for and handed over by hand", 0, kRowWidth);
  return finish(std::move(result), std::nullopt);
}

/// A server with a connected worker and nothing to do: its share of a core, as nanoseconds a second.
absl::Status TableMeasurements::idle_server() {
  auto job = start(ReadPath::kAuto);
  if (!job.ok()) return job.status();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // for whatever the server still spins on
  constexpr int kSeconds = 2;
  const auto before = client_.processor_nanoseconds();
  if (!before.ok()) return before.status();
  std::this_thread::sleep_for(std::chrono::seconds(kSeconds));
  const auto after = client_.processor_nanoseconds();
  if (!after.ok()) return after.status();
  Result result{
      .operation = "idle-server",
      .what = "processor time that the other side, a server with one silent worker in it, uses in a second",
      .samples = {}};
  result.samples.add((*after - *before) / kSeconds);
  result.yardsticks.push_back({.name = "one core for a second", .value = 1e9, .budget = 0.01});
  report_.results.push_back(std::move(result));
  return absl::OkStatus();
}

}  // namespace

absl::Status measure_tables(const BenchOptions& options, const Backend& backend, Client& client,
                            Report& report) {
  TableMeasurements measurements(options, backend, client, report);
  for (const PullCase& pull : kPulls) {
    if (!options.wants(pull.name)) continue;
    if (pull.path == ReadPath::kInPlace && !backend.on_one_host) continue;
    options.progress(pull.name);
    RETURN_IF_ERROR(measurements.pull(pull));
  }
  for (const RuleCase& by : kRules) {
    if (!options.wants(by.name)) continue;
    options.progress(by.name);
    RETURN_IF_ERROR(measurements.push_by(by));
  }
  for (const SparsePullCase& pull : kSparsePulls) {
    if (!options.wants(pull.name)) continue;
    if (pull.path == ReadPath::kInPlace && !backend.on_one_host) continue;
    options.progress(pull.name);
    RETURN_IF_ERROR(measurements.pull_sparse(pull));
  }
  using Measurement = absl::Status (TableMeasurements::*)();
  constexpr std::pair<std::string_view, Measurement> kOthers[] = {
      {"push", &TableMeasurements::push},
      {"push-batch", &TableMeasurements::push_batch},
      {"push-applied", &TableMeasurements::push_applied},
      {"push-visible", &TableMeasurements::push_visible},
      {"clock", &TableMeasurements::clock},
      {"subscribe", &TableMeasurements::subscribe},
      {"pull-local", &TableMeasurements::pull_local},
      {"push-local", &TableMeasurements::push_local},
      {"localize", &TableMeasurements::localize},
      {"idle-server", &TableMeasurements::idle_server}};
  for (const auto& [name, measurement] : kOthers) {
    if (!options.wants(name)) continue;
    if (name.ends_with("-local") && !backend.on_one_host) continue;  // the server may be on another host
    options.progress(name);
    RETURN_IF_ERROR((measurements.*measurement)());
  }
  return absl::OkStatus();
}

}  // namespace verbena::apps::bench
