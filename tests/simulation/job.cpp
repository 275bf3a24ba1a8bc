#include "tests/simulation/job.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cassert>
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
#include "tests/simulation/scenario.hpp"
#include "tests/simulation/workload.hpp"
#include "worker/session.hpp"

/// Who waits for a row's lock gives others the processor. Here they are all in this thread: millions of system calls in vain.
extern "C" int sched_yield() noexcept {
  return 0;
}

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
/// In which everybody must have heard of a disaster.
constexpr auto kNewsTime = seconds(5);

#define RETURN_IF_ERROR(expression) \
  if (absl::Status status_ = (expression); !status_.ok()) return status_

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

class Job final : public World {
 public:
  Job(const Scenario& scenario, const std::function<void(const std::string&)>& trace)
      : scenario_(scenario),
        trace_(trace),
        scheduler_(scenario.scheduler),
        network_(scheduler_, scenario.network),
        history_(scenario),
        servers_(scenario.servers),
        workers_(scenario.workers) {
    assert(scenario.nodes.size() == scenario.workers);
  }

  JobResult run();

  // What a workload sees of it.
  absl::Status note(Event event) override {
    const std::optional<std::string> wrong = history_.hear(event, scheduler_.now());
    if (!wrong) return absl::OkStatus();
    fail(*wrong);
    return absl::InternalError(*wrong);
  }
  void compute(Duration time) override { scheduler_.compute(time); }
  void joined(std::uint32_t rank) override { workers_[rank].joined = true; }
  [[nodiscard]] std::optional<std::uint64_t> reads(std::uint32_t rank) const override {
    if (scenario_.network.mapped) return std::nullopt;
    return workers_[rank].transport->reads();
  }
  void lost() override { ++losses_; }
  void final_rows(std::uint64_t digest) override { final_rows_ = digest; }
  [[nodiscard]] bool traces() const override { return static_cast<bool>(trace_); }
  void trace(const std::string& line) override {
    trace([&] { return line; });
  }

 private:
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

  void run_server(std::uint32_t rank);
  void drive_with_lane_tasks(ServerNode& node);
  void run_lane(ServerNode& node, std::uint32_t lane);
  void run_worker(std::uint32_t rank);
  void run_disaster();
  void check_ends();
  [[nodiscard]] bool is_victim(std::uint32_t worker) const {
    if (scenario_.disaster == Disaster::kServerDies) return false;
    const bool with_its_node = scenario_.disaster == Disaster::kNodeDies;
    return scenario_.victim == (with_its_node ? scenario_.nodes[worker] : worker);
  }
  void check_end(const std::string& name, const absl::Status& status, bool is_victim);
  void end_all();

  const Scenario& scenario_;
  const std::function<void(const std::string&)>& trace_;
  Scheduler scheduler_;
  Network network_;
  History history_;
  std::uint64_t final_rows_ = 0;
  std::uint64_t rows_localized_ = 0;
  std::uint64_t rows_moved_by_intent_ = 0;
  std::uint64_t rows_replicated_ = 0;
  std::uint64_t replicas_used_ = 0;
  std::uint64_t losses_ = 0;
  std::deque<ServerNode> servers_;
  std::deque<WorkerNode> workers_;
  std::optional<TimePoint> struck_;
  std::optional<std::string> failure_;
};

// ---- nodes

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
                                                    .outlives_workers = scenario_.outlives_nodes,
                                                    .lanes = scenario_.lanes,
                                                    .push_budget_mb_per_s = scenario_.push_budget_mb_per_s});
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
    if (!server.poll())
      node.transport->wait(std::min<TimePoint>(scheduler_.now() + milliseconds(100), server.next_poll()));
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
                         .node = scenario_.nodes[rank],
                         .read_path = scenario_.read_path,
                         .outlives_servers = scenario_.outlives_nodes,
                         .timeout_ms = kTimeoutMs,
                         .clock_timeout_ms = kTimeoutMs,
                         .transport = transport,
                         .inbox_bytes = scenario_.inbox_bytes,
                         .push_ring_bytes = scenario_.push_ring_bytes,
                         .update_budget_mb_per_s = scenario_.update_budget_mb_per_s};
  for (std::uint32_t server = 0; server < scenario_.servers; ++server)
    options.servers.push_back(address_of(server));
  auto session = Session::connect(options);
  options.transport.reset();
  node.status = session.status();
  if (session.ok()) {
    node.status = run_workload(*this, scenario_, **session);
    if (!node.status.ok()) static_cast<void>((*session)->give_up(node.status));
    static_cast<void>(note(WorkerLeaves{rank}));
    const SessionStatistics statistics = (*session)->statistics();
    rows_localized_ += statistics.rows_localized;
    rows_moved_by_intent_ += statistics.rows_moved_by_intent;
    rows_replicated_ += statistics.rows_replicated;
    replicas_used_ += statistics.rows_pulled_from_replicas + statistics.rows_pushed_to_replicas;
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
  const bool server_dies =
      scenario_.disaster == Disaster::kServerDies || scenario_.disaster == Disaster::kNodeDies;
  SimulatedTransport* const node =
      server_dies ? servers_[scenario_.victim].transport : workers_[scenario_.victim].transport;
  if (node == nullptr) return;
  trace([&] { return fmt::format("disaster strikes"); });
  struck_ = scheduler_.now();
  if (scenario_.outlives_nodes) static_cast<void>(note(Death{scenario_.victim}));
  for (std::uint32_t rank = 0; rank < scenario_.workers && scenario_.disaster == Disaster::kNodeDies;
       ++rank) {
    if (is_victim(rank) && workers_[rank].transport != nullptr) network_.kill(*workers_[rank].transport);
  }
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
  if (scenario_.outlives_nodes)
    return fail(fmt::format("{} ended with {} in a job that goes on", name, status.ToString()));
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
  if (const std::optional<std::string> wrong = history_.check_the_end()) fail(*wrong);
  if (struck_ && !scenario_.outlives_nodes && scheduler_.now() - *struck_ > kNewsTime)
    fail(fmt::format("it took {:.3f} s until all had ended",
                     std::chrono::duration<double>(scheduler_.now() - *struck_).count()));
  for (std::uint32_t rank = 0; rank < scenario_.workers; ++rank) {
    check_end(fmt::format("worker {}", rank), workers_[rank].status, is_victim(rank));
  }
  for (std::uint32_t rank = 0; rank < scenario_.servers; ++rank) {
    check_end(fmt::format("server {}", rank), servers_[rank].status,
              (scenario_.disaster == Disaster::kServerDies || scenario_.disaster == Disaster::kNodeDies) &&
                  scenario_.victim == rank);
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
          .numbers_checked = history_.numbers_checked(),
          .steps = scheduler_.steps(),
          .digest = scheduler_.digest(),
          .time = scheduler_.now() - start,
          .final_rows = final_rows_,
          .ended_early = history_.ended_early(),
          .rows_localized = rows_localized_,
          .rows_moved_by_intent = rows_moved_by_intent_,
          .rows_replicated = rows_replicated_,
          .replicas_used = replicas_used_,
          .losses = losses_};
}

}  // namespace

JobResult run_job(const Scenario& scenario, const std::function<void(const std::string&)>& trace) {
  return Job(scenario, trace).run();
}

JobResult run_job(Model model, std::uint64_t seed, const std::function<void(const std::string&)>& trace) {
  return run_job(make_scenario(model, seed), trace);
}

}  // namespace verbena::simulation
