#include "apps/scale/cell.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <random>
#include <string>

#include "apps/simulation/network_cards.hpp"
#include "apps/simulation/scheduler.hpp"
#include "apps/simulation/simulated_transport.hpp"
#include "base/return_if_error.hpp"
#include "consistency/model.hpp"
#include "consistency/vector_clock.hpp"
#include "protocol/messages.hpp"
#include "protocol/row_stride.hpp"
#include "server/server.hpp"
#include <verbena/session.hpp>
#include <verbena/table.hpp>

namespace verbena::apps::scale {
namespace {

using simulation::Duration;
using simulation::NetworkCards;
using simulation::Scheduler;
using simulation::TimePoint;
using std::chrono::milliseconds;

constexpr std::size_t kSmallestRing = 16384;
/// The virtual time after which a job counts as stuck.
constexpr auto kPatience = std::chrono::hours(24);
constexpr std::uint64_t kMaxSteps = std::uint64_t{1} << 62;
constexpr std::uint32_t kStraggler = 1;

double seconds_of(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

/// The ring of one worker for one server. One message holds the updates of a clock.
std::size_t ring_bytes(const CellOptions& options) {
  const std::size_t stride = protocol::row_stride_bytes(ValueType::kFloat, options.width);
  const std::uint64_t rows = (options.rows + options.servers - 1) / options.servers;
  const std::size_t message = sizeof(protocol::BulkHeader) + rows * protocol::record_bytes(stride);
  constexpr std::size_t kPage = 4096;
  const std::size_t ring = (8 * (message + 8) + kPage - 1) / kPage * kPage;
  return std::clamp(ring, kSmallestRing, protocol::kMaxRingBytes);
}

/// A node's only processor: the work that the meter hears of takes its time.
class Processor final : public simulation::Meter {
 public:
  struct RowCosts {
    double sent = 0;
    double received = 0;
  };
  Processor(Scheduler& scheduler, const CellOptions& options, const RowCosts& rows)
      : scheduler_(scheduler),
        message_(options.costs.message),
        rows_(rows),
        record_bytes_(protocol::record_bytes(protocol::row_stride_bytes(ValueType::kFloat, options.width))) {}

  void posts(const transport::WorkRequest& request) override {
    const bool has_rows = request.opcode == transport::Opcode::kWriteNotify;
    spend({.messages = message_,
           .rows = has_rows ? rows_.sent * static_cast<double>(rows_in(request.notification)) : 0});
  }
  void polled(std::span<const transport::Event> events) override {
    Work cost;
    for (const transport::Event& event : events) {
      if (event.kind != transport::Event::Kind::kNotification) continue;
      const std::uint64_t rows = rows_in(event.notification);
      received_rows_ += rows;
      cost.messages += message_;
      cost.rows += rows_.received * static_cast<double>(rows);
    }
    spend(cost);
  }
  /// `work` is in nanoseconds.
  void spend(const Work& work) {
    work_.messages += work.messages;
    work_.rows += work.rows;
    work_.advances += work.advances;
    work_.turns += work.turns;
    spend(work.messages + work.rows + work.advances + work.turns);
  }
  void spend(double nanoseconds) {
    owed_ += nanoseconds;
    const Duration whole(static_cast<std::int64_t>(owed_));
    if (whole <= Duration::zero()) return;
    owed_ -= static_cast<double>(whole.count());
    busy_ += whole;
    scheduler_.compute(whole);
  }

  [[nodiscard]] Duration busy() const { return busy_; }
  [[nodiscard]] const Work& work() const { return work_; }
  [[nodiscard]] std::uint64_t received_rows() const { return received_rows_; }

 private:
  /// A message's header is smaller than a record.
  [[nodiscard]] std::uint64_t rows_in(std::uint32_t message_bytes) const {
    if (message_bytes < sizeof(protocol::BulkHeader)) return 0;
    return (message_bytes - sizeof(protocol::BulkHeader)) / record_bytes_;
  }

  Scheduler& scheduler_;
  const double message_;
  const RowCosts rows_;
  const std::size_t record_bytes_;
  double owed_ = 0;  ///< less than a nanosecond
  Duration busy_{0};
  Work work_;
  std::uint64_t received_rows_ = 0;
};

/// What a node had done until a time.
struct Done {
  TimePoint at;
  NetworkCards::Traffic traffic;
  Duration processor{0};
  Work work;  ///< in nanoseconds
};

struct Node {
  simulation::SimulatedTransport* transport = nullptr;  ///< while the transport exists
  std::uint32_t card = 0;
  std::unique_ptr<Processor> processor;
  absl::Status status;
  Done before, after;
};

struct WorkerNode : Node {
  TimePoint start, end;
  double waited = 0;
  Duration computed{0};
  std::vector<std::uint64_t> reads_by_lag;
};

class Cell {
 public:
  explicit Cell(const CellOptions& options)
      : options_(options),
        rules_(consistency::rules_of(options.model)),
        scheduler_({.seed = options.seed, .min_step = Duration(0), .max_step = Duration(0)}),
        cards_({.latency = options.network.latency,
                .bits_per_second = options.network.bits_per_second,
                .header_bytes = options.header_bytes}),
        network_(scheduler_, {.seed = options.seed, .mapped = false, .cards = &cards_}),
        servers_(options.servers),
        workers_(options.workers),
        slowest_(static_cast<std::size_t>(options.clocks), Duration(0)),
        values_(options.rows * options.width, 0) {}

  absl::StatusOr<CellFigures> run();

 private:
  void run_server(std::uint32_t rank);
  void run_worker(std::uint32_t rank);
  absl::Status work(WorkerNode& node, Session& session);
  [[nodiscard]] SessionOptions session_options(std::uint32_t rank) const;
  void end_all();
  void note(Done Node::*when);
  [[nodiscard]] CellFigures figures() const;
  template <class Nodes>
  [[nodiscard]] static Busy busiest(const Nodes& nodes);

  const CellOptions& options_;
  const consistency::Rules rules_;
  Scheduler scheduler_;
  NetworkCards cards_;
  simulation::Network network_;
  std::deque<Node> servers_;
  std::deque<WorkerNode> workers_;
  std::vector<Duration> slowest_;  ///< longest computing time of each measured clock
  std::vector<float> values_;      ///< shared by all workers: nobody looks at them
};

std::string address_of(std::uint32_t server) {
  return fmt::format("sim:{}", server);
}

void Cell::run_server(std::uint32_t rank) {
  Node& node = servers_[rank];
  const Costs& costs = options_.costs;
  const double workers = options_.workers;
  const auto transport = network_.make_transport(scheduler_.running(), fmt::format("server {}", rank));
  node.transport = transport.get();
  node.card = transport->card();
  node.processor = std::make_unique<Processor>(
      scheduler_, options_,
      Processor::RowCosts{.sent = costs.pushed_row,
                          .received = rules_.holds_updates_back ? costs.held_row : costs.applied_row});
  auto server = server::Server::create(
      *transport,
      {.address = address_of(rank), .rank = rank, .servers = options_.servers, .workers = options_.workers});
  node.status = server.status();
  if (server.ok()) {
    transport->set_meter(node.processor.get());
    server::Lane& lane = *(*server)->lanes().front();
    consistency::Clock min_clock = 0;
    std::uint64_t applied_rows = 0;
    TimePoint give_up = TimePoint::max();
    while (!(*server)->finished() && scheduler_.now() < give_up) {
      if (!(*server)->status().ok() && give_up == TimePoint::max())
        give_up = scheduler_.now() + std::chrono::seconds(2);
      bool worked = (*server)->poll();
      worked |= lane.poll();
      if (worked) node.processor->spend({.turns = workers * costs.turn_per_worker});
      if (lane.min_clock() > min_clock) {
        const double advances = static_cast<double>(
            lane.min_clock() == consistency::VectorClock::kLeft ? 1 : lane.min_clock() - min_clock);
        min_clock = lane.min_clock();
        // Under BSP, the updates of the clock that has ended; none of the next clock can have arrived.
        const std::uint64_t held =
            rules_.holds_updates_back ? node.processor->received_rows() - applied_rows : 0;
        applied_rows += held;
        node.processor->spend({.rows = static_cast<double>(held) * costs.applied_row,
                               .advances = advances * workers * costs.advance_per_worker});
      }
      if (!worked) transport->wait(scheduler_.now() + milliseconds(100));
    }
    node.status = (*server)->status();
  }
  node.transport = nullptr;
}

SessionOptions Cell::session_options(std::uint32_t rank) const {
  SessionOptions session{.rank = rank,
                         .workers = options_.workers,
                         .read_path = ReadPath::kCached,
                         .inbox_bytes = ring_bytes(options_),
                         .push_ring_bytes = ring_bytes(options_)};
  for (std::uint32_t server = 0; server < options_.servers; ++server)
    session.servers.push_back(address_of(server));
  return session;
}

void Cell::run_worker(std::uint32_t rank) {
  WorkerNode& node = workers_[rank];
  std::shared_ptr<simulation::SimulatedTransport> transport =
      network_.make_transport(scheduler_.running(), fmt::format("worker {}", rank));
  node.transport = transport.get();
  node.card = transport->card();
  node.processor = std::make_unique<Processor>(scheduler_, options_,
                                               Processor::RowCosts{.received = options_.costs.received_row});
  transport->set_meter(node.processor.get());
  SessionOptions session_options = this->session_options(rank);
  session_options.transport = std::move(transport);
  auto session = Session::connect(session_options);
  session_options.transport.reset();
  node.status = session.status();
  if (session.ok()) {
    node.status = work(node, **session);
    if (!node.status.ok()) static_cast<void>((*session)->give_up(node.status));
    session->reset();
  }
  node.transport = nullptr;
}

absl::Status Cell::work(WorkerNode& node, Session& session) {
  const auto table = session.table<float>(
      {.name = "rows", .rows = options_.rows, .width = options_.width, .consistency = options_.model});
  if (!table.ok()) return table.status();
  RETURN_IF_ERROR(session.barrier());
  // Computing times with mean 1 and the given deviation; they are the same under each model.
  std::seed_seq seeds{options_.seed, std::uint64_t{session.rank()}};
  std::mt19937_64 random(seeds);
  const double variance = std::log1p(options_.spread * options_.spread);
  std::lognormal_distribution<double> times(-variance / 2, std::sqrt(variance));
  const double mean = options_.costs.example * static_cast<double>(options_.examples) *
                      (session.rank() == kStraggler ? options_.straggler : 1);
  const KeyRange all{0, options_.rows};
  StalenessHistogram before;
  for (std::int64_t clock = -options_.warm_up_clocks; clock < options_.clocks; ++clock) {
    if (clock == 0) {
      node.start = scheduler_.now();
      node.waited = session.statistics().waited_seconds;
      before = table->staleness();
      if (session.rank() == 0) note(&Node::before);
    }
    RETURN_IF_ERROR(table->pull(all, values_));
    const Duration computing(std::llround(mean * times(random)));
    if (clock >= 0) {
      node.computed += computing;
      Duration& slowest = slowest_[static_cast<std::size_t>(clock)];
      slowest = std::max(slowest, computing);
    }
    node.processor->spend(static_cast<double>(computing.count()) +
                          options_.costs.worker_row * static_cast<double>(options_.rows));
    RETURN_IF_ERROR(table->push(all, values_));
    RETURN_IF_ERROR(session.clock());
  }
  node.end = scheduler_.now();
  node.waited = session.statistics().waited_seconds - node.waited;
  node.reads_by_lag = table->staleness().reads_by_lag;
  for (std::size_t lag = 0; lag < before.reads_by_lag.size(); ++lag)
    node.reads_by_lag[lag] -= before.reads_by_lag[lag];
  if (session.rank() == 0) note(&Node::after);
  return absl::OkStatus();
}

void Cell::note(Done Node::*when) {
  const auto note_one = [&](Node& node) {
    node.*
        when = {scheduler_.now(), cards_.traffic(node.card), node.processor->busy(), node.processor->work()};
  };
  for (Node& node : servers_) note_one(node);
  for (WorkerNode& node : workers_) note_one(node);
}

/// Nodes that wait for something that does not come get errors.
void Cell::end_all() {
  for (Node& node : servers_) {
    if (node.transport != nullptr) network_.kill(*node.transport);
  }
  for (WorkerNode& node : workers_) {
    if (node.transport != nullptr) network_.kill(*node.transport);
  }
}

absl::StatusOr<CellFigures> Cell::run() {
  for (std::uint32_t rank = 0; rank < options_.servers; ++rank)
    scheduler_.spawn([this, rank] { run_server(rank); });
  for (std::uint32_t rank = 0; rank < options_.workers; ++rank)
    scheduler_.spawn([this, rank] { run_worker(rank); });
  const auto run = [&] { return scheduler_.run(network_, scheduler_.now() + kPatience, kMaxSteps); };
  if (run() != Scheduler::Outcome::kAllEnded) {
    end_all();
    if (run() != Scheduler::Outcome::kAllEnded) {
      // The tasks' stacks cannot be unwound.
      fmt::print(stderr, "a simulated job hangs for good, even with all connections broken\n");
      std::abort();
    }
    return absl::InternalError("the simulated job does not end");
  }
  const auto check = [](std::string_view kind, std::size_t rank, const absl::Status& status) {
    return absl::InternalError(fmt::format("simulated {} {}: {}", kind, rank, std::string(status.message())));
  };
  for (std::size_t rank = 0; rank < servers_.size(); ++rank) {
    if (!servers_[rank].status.ok()) return check("server", rank, servers_[rank].status);
  }
  for (std::size_t rank = 0; rank < workers_.size(); ++rank) {
    if (!workers_[rank].status.ok()) return check("worker", rank, workers_[rank].status);
  }
  return figures();
}

template <class Nodes>
Busy Cell::busiest(const Nodes& nodes) {
  Busy busy;
  for (const Node& node : nodes) {
    const Done& before = node.before;
    const Done& after = node.after;
    const double time = seconds_of(after.at - before.at);
    const auto raise = [&](double& share, Duration spent) {
      share = std::max(share, seconds_of(spent) / time);
    };
    raise(busy.card_in, after.traffic.receiving - before.traffic.receiving);
    raise(busy.card_out, after.traffic.sending - before.traffic.sending);
    raise(busy.processor, after.processor - before.processor);
  }
  return busy;
}

CellFigures Cell::figures() const {
  CellFigures figures{.server = busiest(servers_), .worker = busiest(workers_), .steps = scheduler_.steps()};
  for (const WorkerNode& node : workers_) {
    figures.seconds += seconds_of(node.end - node.start);
    figures.waited += node.waited;
    figures.computed += seconds_of(node.computed);
    figures.reads_by_lag.resize(std::max(figures.reads_by_lag.size(), node.reads_by_lag.size()));
    for (std::size_t lag = 0; lag < node.reads_by_lag.size(); ++lag)
      figures.reads_by_lag[lag] += node.reads_by_lag[lag];
  }
  figures.waited /= figures.seconds;
  figures.computed /= figures.seconds;
  figures.seconds /= static_cast<double>(workers_.size());
  for (const Duration slowest : slowest_) figures.slowest += seconds_of(slowest) / figures.seconds;
  const double server_clocks = static_cast<double>(servers_.size()) * static_cast<double>(options_.clocks);
  for (const Node& node : servers_) {
    figures.bytes_in +=
        static_cast<double>(node.after.traffic.bytes_in - node.before.traffic.bytes_in) / server_clocks;
    figures.bytes_out +=
        static_cast<double>(node.after.traffic.bytes_out - node.before.traffic.bytes_out) / server_clocks;
    const double time =
        seconds_of(node.after.at - node.before.at) * 1e9 * static_cast<double>(servers_.size());
    for (double Work::*part : {&Work::messages, &Work::rows, &Work::advances, &Work::turns})
      figures.server_work.*part += (node.after.work.*part - node.before.work.*part) / time;
  }
  return figures;
}

}  // namespace

absl::StatusOr<CellFigures> simulate(const CellOptions& options) {
  if (!all_known(options.costs)) return absl::InvalidArgumentError("a cost is not known");
  return Cell(options).run();
}

}  // namespace verbena::apps::scale
