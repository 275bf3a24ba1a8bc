#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <random>
#include <thread>

#include "apps/bench/operations.hpp"
#include "apps/bench/yardsticks.hpp"
#include "server/driver.hpp"
#include "server/server.hpp"
#include "worker/session.hpp"
#include "worker/table.hpp"

namespace verbena::apps::bench {

namespace {

constexpr std::uint32_t kRowWidth = 100;  // the design's row
constexpr std::size_t kRowBytes = kRowWidth * sizeof(float);
constexpr std::uint64_t kRows = 2048;
constexpr std::uint64_t kManyRows = 1 << 16;  // 26 MB: more than a core's own caches
constexpr std::size_t kBatchKeys = 1000;
constexpr std::uint32_t kSmallWidth = 16;
constexpr std::uint64_t kSmallRows = 1 << 14;

/// One server in a thread, and one worker connected to it.
class Job {
 public:
  static absl::StatusOr<std::unique_ptr<Job>> start(const BenchOptions& options, ReadPath path) {
    auto job = std::unique_ptr<Job>(new Job());
    auto transport = options.make_transport();
    if (!transport.ok()) return transport.status();
    job->transport_ = std::move(*transport);
    static int jobs = 0;
    const std::string address = fmt::format("shm:bench-{}-{}", ::getpid(), ++jobs);
    auto server = server::Server::create(*job->transport_, {.address = address});
    if (!server.ok()) return server.status();
    job->server_ = std::move(*server);
    job->thread_ = std::thread(
        [&job = *job] { std::ignore = server::drive(*job.server_, *job.transport_, {}, job.stop_); });
    auto own = options.make_transport();
    if (!own.ok()) return own.status();
    SessionOptions session{.servers = {address}, .read_path = path};
    session.transport = std::move(*own);
    auto connected = Session::connect(session);
    if (!connected.ok()) return connected.status();
    job->session_ = std::move(*connected);
    return job;
  }
  ~Job() {
    session_.reset();
    stop_ = true;
    transport_->interrupt();
    if (thread_.joinable()) thread_.join();
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  [[nodiscard]] Session& session() { return *session_; }

 private:
  Job() = default;
  std::unique_ptr<transport::Transport> transport_;
  std::unique_ptr<server::Server> server_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
  std::unique_ptr<Session> session_;
};

std::vector<Key> shuffled_keys(std::uint64_t rows, std::size_t count) {
  std::vector<Key> keys;
  std::mt19937_64 random(1);
  while (keys.size() < count) {
    std::vector<Key> all(rows);
    std::iota(all.begin(), all.end(), Key{0});
    std::shuffle(all.begin(), all.end(), random);
    keys.insert(keys.end(), all.begin(), all.end());
  }
  return keys;
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
    {"pull", "pull of one row from the row cache, ESSP", ReadPath::kCached, kRows, kRowWidth, 1, 1.3},
    {"pull-large", "the same in a table of 26 MB, which no core's own cache holds", ReadPath::kCached,
     kManyRows, kRowWidth, 1, 1.3},
    {"pull-in-place", "pull of one row from the server's mapped memory, ESSP", ReadPath::kInPlace, kRows,
     kRowWidth, 1, 2},
    {"pull-batch", "pull of 1000 rows of 16 floats by keys from the row cache", ReadPath::kCached, kSmallRows,
     kSmallWidth, kBatchKeys, 1.3}};

absl::Status measure_pull(const BenchOptions& options, const PullCase& pull, std::vector<Result>& results) {
  auto job = Job::start(options, pull.path);
  if (!job.ok()) return job.status();
  Session& session = (*job)->session();
  auto table =
      session.table<float>({.name = "rows", .rows = pull.rows, .width = pull.width, .consistency = Essp{1}});
  if (!table.ok()) return table.status();
  std::vector<float> all(pull.rows * pull.width);
  // Once from the server, then the pushes make every cached row live.
  for (int round = 0; round < 3; ++round) {
    if (absl::Status status = (*table)->pull(KeyRange{0, pull.rows}, all); !status.ok()) return status;
    if (absl::Status status = session.barrier(); !status.ok()) return status;
  }
  const std::vector<Key> keys = shuffled_keys(pull.rows, std::size_t{1} << 16);
  std::vector<float> values(pull.keys_each * pull.width);
  const std::size_t row_bytes = pull.width * sizeof(float);
  Result result{.operation = std::string(pull.name),
                .what = std::string(pull.what),
                .bytes = pull.keys_each * row_bytes,
                .keys = pull.keys_each};
  absl::Status status;
  std::size_t next = 0;
  result.samples = time_plain(options.timing, [&] {
    status.Update((*table)->pull(std::span(keys).subspan(next, pull.keys_each), values));
    next += pull.keys_each;
    if (next + pull.keys_each > keys.size()) next = 0;
  });
  if (!status.ok()) return status;
  result.yardstick = Yardstick{
      .name = "memcpy of the same rows",
      .nanoseconds = time_row_copies(options.timing, keys, pull.keys_each, row_bytes).percentile(0.5),
      .budget = pull.budget};
  results.push_back(std::move(result));
  return absl::OkStatus();
}

absl::Status measure_push(const BenchOptions& options, std::vector<Result>& results) {
  auto job = Job::start(options, ReadPath::kAuto);
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
      .keys = kBatchKeys};
  absl::Status status = time_operation(
      options.timing,
      [&] {
        absl::Status pushed = (*table)->push(keys, updates);
        pushed.Update(session.clock());
        return pushed;
      },
      result.samples);
  if (!status.ok()) return status;
  result.yardstick = Yardstick{
      .name = "memcpy of the same bytes through a ring as large as the inbox",
      .nanoseconds =
          time_ring_copy(options.timing, result.bytes, SessionOptions{}.inbox_bytes).percentile(0.5),
      .budget = 2.5};
  results.push_back(std::move(result));
  return session.barrier();
}

absl::Status measure_round_trips(const BenchOptions& options, std::vector<Result>& results) {
  const double round_trip_ns = time_core_round_trip(options.timing).percentile(0.5);
  TimingOptions single = options.timing;
  single.batch_nanoseconds = 0;
  if (options.wants("clock")) {
    options.progress("clock");
    auto job = Job::start(options, ReadPath::kAuto);
    if (!job.ok()) return job.status();
    Session& session = (*job)->session();
    auto table = session.table<float>({.name = "rows", .rows = 1, .width = 1, .consistency = Bsp{}});
    if (!table.ok()) return table.status();
    Result result{
        .operation = "clock",
        .what = "clock() of a single worker under BSP, with nothing to send: to the server and back"};
    absl::Status status = time_operation(
        single, [&] { return session.clock(); }, result.samples);
    if (!status.ok()) return status;
    result.yardstick = Yardstick{.name = "core round trip", .nanoseconds = round_trip_ns};
    results.push_back(std::move(result));
  }
  if (!options.wants("push-visible")) return absl::OkStatus();
  options.progress("push-visible");
  auto job = Job::start(options, ReadPath::kInPlace);
  if (!job.ok()) return job.status();
  Session& session = (*job)->session();
  auto table = session.table<float>({.name = "rows", .rows = 16, .width = 2, .consistency = Ssp{0}});
  if (!table.ok()) return table.status();
  Result result{
      .operation = "push-visible",
      .what = "push of one row of 8 bytes, clock(), until the server has applied it and a pull reads it",
      .bytes = 8,
      .keys = 1};
  const std::vector<float> update{1, 1};
  std::vector<float> values(2);
  const Key key = 3;
  absl::Status status = time_operation(
      single,
      [&] {
        absl::Status visible = (*table)->push(std::span(&key, 1), update);
        visible.Update(session.clock());
        visible.Update((*table)->pull(std::span(&key, 1), values));
        return visible;
      },
      result.samples);
  if (!status.ok()) return status;
  result.yardstick = Yardstick{.name = "core round trip", .nanoseconds = round_trip_ns, .budget = 4};
  results.push_back(std::move(result));
  return absl::OkStatus();
}

double process_cpu_ns() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto ns = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_usec) * 1e3;
  };
  return ns(usage.ru_utime) + ns(usage.ru_stime);
}

/// A server with a connected worker and nothing to do: its share of a core, as nanoseconds a second.
absl::Status measure_idle_server(const BenchOptions& options, std::vector<Result>& results) {
  options.progress("idle-server");
  auto job = Job::start(options, ReadPath::kAuto);
  if (!job.ok()) return job.status();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // whatever it was still spinning for
  constexpr int kSeconds = 2;
  const double before = process_cpu_ns();
  std::this_thread::sleep_for(std::chrono::seconds(kSeconds));
  Result result{.operation = "idle-server",
                .what = "processor time that a server with one silent worker uses in a second"};
  result.samples.add((process_cpu_ns() - before) / kSeconds);
  result.yardstick = Yardstick{.name = "one core for a second", .nanoseconds = 1e9, .budget = 0.01};
  results.push_back(std::move(result));
  return absl::OkStatus();
}

}  // namespace

absl::Status measure_tables(const BenchOptions& options, std::vector<Result>& results) {
  for (const PullCase& pull : kPulls) {
    if (!options.wants(pull.name)) continue;
    options.progress(pull.name);
    if (absl::Status status = measure_pull(options, pull, results); !status.ok()) return status;
  }
  if (options.wants("push-batch")) {
    options.progress("push-batch");
    if (absl::Status status = measure_push(options, results); !status.ok()) return status;
  }
  if (absl::Status status = measure_round_trips(options, results); !status.ok()) return status;
  return options.wants("idle-server") ? measure_idle_server(options, results) : absl::OkStatus();
}

}  // namespace verbena::apps::bench
