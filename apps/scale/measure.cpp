#include "apps/scale/measure.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "apps/embedding/row_source.hpp"
#include "apps/mf/kernel.hpp"
#include "base/return_if_error.hpp"
#include "consistency/rules.hpp"
#include "server/server.hpp"
#include "transport/backends.hpp"
#include <verbena/session.hpp>
#include <verbena/table.hpp>

namespace verbena::apps::scale {
namespace {

using Stopwatch = std::chrono::steady_clock;

/// Many short attempts: one of them will have the processor for itself.
constexpr int kAttempts = 25;
constexpr int kClocks = 20;
constexpr auto kPause = std::chrono::milliseconds(5);  ///< between attempts: other load comes and goes
constexpr std::uint32_t kManyWorkers = 32;             ///< as connections
constexpr std::uint32_t kManyClocks = 1024;            ///< as entries of a vector clock

double nanoseconds_since(Stopwatch::time_point start) {
  return std::chrono::duration<double, std::nano>(Stopwatch::now() - start).count();
}

/// The nanoseconds that `what()` takes when called `times` times in a row: the mean of the quickest attempt.
template <class What>
double quickest(int times, What what) {
  double best = std::numeric_limits<double>::max();
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const auto start = Stopwatch::now();
    for (int i = 0; i < times; ++i) what();
    best = std::min(best, nanoseconds_since(start) / times);
    std::this_thread::sleep_for(kPause);
  }
  return best;
}

/// Matrix factorization with the table's rank, on the worker's own users.
double example_cost(const MeasureOptions& options) {
  constexpr std::uint32_t kUsers = 4096;
  constexpr std::size_t kRatings = 50'000;
  const std::size_t rank = padded(options.width);
  std::mt19937_64 random(1);
  std::vector<Rating> ratings(kRatings);
  for (Rating& rating : ratings) {
    rating = {.user = static_cast<std::uint32_t>(random() % kUsers),
              .item = static_cast<std::uint32_t>(random() % options.rows),
              .value = static_cast<float>(random() % 5)};
  }
  struct Side {
    Side(std::size_t rows, std::size_t width) : factors(aligned_floats(rows * width)), biases(rows) {
      std::fill_n(factors.get(), rows * width, 0.1F);
    }
    [[nodiscard]] mf::Rows rows() { return {.factors = factors.get(), .biases = biases.data()}; }
    hwy::AlignedFreeUniquePtr<float[]> factors;
    std::vector<float> biases;
  };
  Side users(kUsers, rank);
  Side items(options.rows, rank);
  return quickest(1,
                  [&] {
                    mf::train(ratings, users.rows(), items.rows(), {.padded_rank = rank},
                              {.learning_rate = 1e-4F, .regularization = 0.01F});
                  }) /
         static_cast<double>(kRatings);
}

/// A server in this process over shared memory, and its thread. While a caller waits in idle_turn(), the
/// thread measures the time of a turn without work, less the transport's own.
class MeasuredServer {
 public:
  static absl::StatusOr<std::unique_ptr<MeasuredServer>> start(std::uint32_t workers) {
    static std::atomic<int> count = 0;
    std::unique_ptr<MeasuredServer> self(new MeasuredServer);
    const transport::Backend& backend = transport::default_backend(transport::Reach::kHost);
    self->address_ = backend.fresh_address(fmt::format("scale-{}/{}", ::getpid(), ++count));
    auto transport = backend.make({});
    if (!transport.ok()) return transport.status();
    self->transport_ = std::move(*transport);
    auto server = server::Server::create(*self->transport_, {.address = self->address_, .workers = workers});
    if (!server.ok()) return server.status();
    self->server_ = std::move(*server);
    self->thread_ = std::thread([&server = *self] { server.run(); });
    return self;
  }
  ~MeasuredServer() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  MeasuredServer(const MeasuredServer&) = delete;
  MeasuredServer& operator=(const MeasuredServer&) = delete;

  [[nodiscard]] const std::string& address() const { return address_; }
  /// Nanoseconds of all turns with work so far.
  [[nodiscard]] double busy() const { return busy_; }
  /// Waits until the server has done all that was asked of it.
  void settle() const {
    // The first of these turns may have begun before this call.
    const std::uint64_t turns = idle_turns_ + 2;
    while (idle_turns_ < turns) std::this_thread::yield();
  }
  /// Nanoseconds of a turn without work.
  double idle_turn() {
    idle_turn_ = -1;
    while (idle_turn_ < 0) std::this_thread::yield();
    return idle_turn_;
  }

 private:
  MeasuredServer() = default;

  void run() {
    while (!stop_ && !server_->finished()) {
      const auto start = Stopwatch::now();
      bool worked = server_->receive();
      for (const auto& lane : server_->lanes()) worked |= lane->poll();
      worked |= server_->send();
      if (worked) {
        busy_ = busy_ + nanoseconds_since(start);
      } else {
        ++idle_turns_;
        std::this_thread::yield();
      }
      if (idle_turn_ < 0) measure_idle();
    }
  }
  void measure_idle() {
    constexpr int kTurns = 500;
    std::array<transport::Event, 1> none;
    const double transport = quickest(kTurns, [&] { (void)transport_->poll(std::span(none).first(0)); });
    idle_turn_ = std::max(0.0, quickest(kTurns, [&] { server_->poll(); }) - transport);
  }

  std::string address_;
  std::unique_ptr<transport::Transport> transport_;
  std::unique_ptr<server::Server> server_;
  std::thread thread_;
  std::atomic<bool> stop_ = false;
  std::atomic<double> busy_ = 0;
  std::atomic<std::uint64_t> idle_turns_ = 0;
  std::atomic<double> idle_turn_ = 0;
};

SessionOptions session_options(const MeasuredServer& server, std::uint32_t rank, std::uint32_t workers) {
  return {.servers = {server.address()}, .rank = rank, .workers = workers, .read_path = ReadPath::kCached};
}

/// The cost of a clock in which one worker pulls and pushes some rows.
struct Clock {
  double server = 0;  ///< nanoseconds
  double worker = 0;
};

/// The quickest times of the server and of the worker.
absl::StatusOr<Clock> clock_cost(const ConsistencyModel& model, const MeasureOptions& options,
                                 std::uint64_t rows) {
  auto server = MeasuredServer::start(1);
  if (!server.ok()) return server.status();
  auto session = Session::connect(session_options(**server, 0, 1));
  if (!session.ok()) return session.status();
  const auto table = (*session)->table<float>(
      {.name = "rows", .rows = options.rows, .width = options.width, .consistency = model});
  if (!table.ok()) return table.status();
  std::vector<float> values(rows * options.width, 0);
  const KeyRange keys{0, rows};
  Clock best{1e18, 1e18};
  for (int attempt = 0; attempt <= kAttempts; ++attempt) {
    const double server_before = (*server)->busy();
    double worker = 0;
    for (int clock = 0; clock < kClocks; ++clock) {
      const double waited = (*session)->statistics().waited_seconds;
      const auto start = Stopwatch::now();
      if (rows > 0) {
        RETURN_IF_ERROR(table->pull(keys, values));
        RETURN_IF_ERROR(table->push(keys, values));
      }
      RETURN_IF_ERROR((*session)->clock());
      worker += nanoseconds_since(start) - ((*session)->statistics().waited_seconds - waited) * 1e9;
      // What the server sends for this clock comes in with the next pull.
      (*server)->settle();
    }
    std::this_thread::sleep_for(kPause);
    if (attempt == 0) continue;  // this one fetches the rows and uses new memory
    best.server = std::min(best.server, ((*server)->busy() - server_before) / kClocks);
    best.worker = std::min(best.worker, worker / kClocks);
  }
  return best;
}

/// Nanoseconds of a turn without work of a server with `workers` workers, all of them silent.
absl::StatusOr<double> idle_turn(std::uint32_t workers) {
  auto server = MeasuredServer::start(workers);
  if (!server.ok()) return server.status();
  std::vector<std::unique_ptr<Session>> sessions;
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    SessionOptions options = session_options(**server, rank, workers);
    options.inbox_bytes = options.push_ring_bytes = std::size_t{64} << 10;
    auto session = Session::connect(options);
    if (!session.ok()) return session.status();
    sessions.push_back(std::move(*session));
  }
  return (*server)->idle_turn();
}

/// Nanoseconds that a lane needs when the last worker ends a clock, divided by the number of workers.
double advance_cost() {
  server::Lane lane(0, kManyClocks);
  const auto end_clock = [&](std::uint32_t worker, consistency::Clock clock) {
    lane.enqueue({.kind = server::LaneTask::Kind::kClock, .worker = worker, .clock = clock});
  };
  constexpr consistency::Clock kAdvances = 500;
  double best = std::numeric_limits<double>::max();
  for (consistency::Clock clock = 1; clock <= kAdvances; ++clock) {
    for (std::uint32_t worker = 1; worker < kManyClocks; ++worker) end_clock(worker, clock);
    while (lane.poll()) {
    }
    const auto start = Stopwatch::now();
    end_clock(0, clock);
    lane.poll();
    best = std::min(best, nanoseconds_since(start));
  }
  return best / kManyClocks;
}

/// Rounds to hundredths, so that the printed costs give the same job again.
void fill_in(double& cost, double measured) {
  if (cost < 0) cost = std::round(100 * std::max(0.0, measured)) / 100;
}

}  // namespace

absl::StatusOr<Costs> measure(Costs known, const MeasureOptions& options) {
  if (all_known(known)) return known;
  fill_in(known.example, example_cost(options));
  // With only one worker, no worker waits for another, whatever the bound.
  const Ssp lazy{.staleness = 100};
  const Essp eager{.staleness = 100};
  const auto bare = clock_cost(lazy, options, 0);
  const auto pushed = clock_cost(lazy, options, options.rows);
  const auto eagerly = clock_cost(eager, options, options.rows);
  const auto held = clock_cost(Bsp{}, options, options.rows);
  for (const auto* each : {&bare, &pushed, &eagerly, &held}) {
    if (!each->ok()) return each->status();
  }
  const auto rows = static_cast<double>(options.rows);
  // A clock's message, and the answer that says what has been applied.
  fill_in(known.message, bare->server / 2);
  fill_in(known.applied_row, (pushed->server - bare->server) / rows);
  fill_in(known.held_row, (held->server - pushed->server) / rows);
  fill_in(known.pushed_row, (eagerly->server - pushed->server) / rows);
  fill_in(known.worker_row, (pushed->worker - bare->worker) / rows);
  fill_in(known.received_row, (eagerly->worker - pushed->worker) / rows);
  const auto alone = idle_turn(1);
  if (!alone.ok()) return alone.status();
  const auto many = idle_turn(kManyWorkers);
  if (!many.ok()) return many.status();
  fill_in(known.turn_per_worker, (*many - *alone) / (kManyWorkers - 1));
  fill_in(known.advance_per_worker, advance_cost());
  return known;
}

}  // namespace verbena::apps::scale
