#include "tests/simulation/job.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <variant>
#include <vector>

#include "base/return_if_error.hpp"
#include "consistency/rules.hpp"
#include "consistency/vector_clock.hpp"
#include "protocol/placement.hpp"
#include "protocol/slot.hpp"
#include "server/driver.hpp"
#include "server/moving_shard.hpp"
#include "server/server.hpp"
#include "tests/simulation/configurations.hpp"
#include "tests/simulation/hostile.hpp"
#include "tests/simulation/hosts.hpp"
#include "tests/simulation/lives.hpp"
#include "tests/simulation/scenario.hpp"
#include "tests/simulation/workload.hpp"
#include <verbena/session.hpp>

/// Whoever waits for a row's lock yields the processor. Here all tasks are in one thread, and that would be
/// millions of useless system calls.
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
constexpr auto kMaxTime = seconds(300);  // virtual time
/// No wait may take longer than this: all pauses of a job together are shorter.
constexpr std::uint32_t kTimeoutMs = 20'000;
/// Within this time everybody must have heard of a disaster.
constexpr auto kNewsTime = seconds(5);
/// The same for a victim that falls silent: others look at its heartbeat only now and then.
constexpr auto kNewsTimeOfSilence = seconds(11);
constexpr auto kStartOfProcess = microseconds(300);
constexpr auto kStopOfUnknown = seconds(12);
constexpr auto kServersPatience = seconds(5);
/// More than three times the usual silence timeout, after which who is to serve is suspected.
constexpr auto kLongCompute = seconds(16);
/// Who waits for the disk goes on when that is ready, not when it looks again: every 100 ms.
constexpr auto kLongestWake = milliseconds(50);
/// Copies of a server that join, one after the other, at most.
constexpr std::uint32_t kMostNewcomers = 6;
/// The same for a victim that not all had met yet: they wait for it.
constexpr auto kNewsTimeOfStrangers = 2 * milliseconds(kTimeoutMs) + kNewsTimeOfSilence;

struct WorkerNode {
  SimulatedTransport* transport = nullptr;  ///< nullptr before it begins and after it has ended
  TaskId task = 0;
  bool connected = false;  ///< all servers know it
  TimePoint connected_at;
  TimePoint waits_for_disk_since;  ///< the last time that it has begun to
  bool joined = false;             ///< has opened its tables
  bool was_stopped = false;
  bool leaves = false;     ///< it has done its work
  bool is_silent = false;  ///< stopped for longer than anybody waits
  bool is_to_step_aside = false;
  std::uint32_t incarnation = 0;
  World::Identity identity;
  bool ended = false;
  TimePoint ended_at;
  absl::Status status;
};

struct ServerNode {
  std::uint32_t rank = 0;
  std::uint32_t copy = 0;
  bool joins = false;  ///< began when the job was running
  std::atomic<bool> is_stopped = false;
  bool is_dead = false;        ///< in a job that goes on without it
  bool is_called_off = false;  ///< killed, or not needed: how it ends does not matter
  SimulatedTransport* transport = nullptr;
  server::Server* server = nullptr;
  TaskId task = 0;
  bool was_stopped = false;
  bool is_cut_off = false;    ///< hears of no configuration
  bool may_not_know = false;  ///< that it has no place any more
  bool ended = false;
  TimePoint ended_at;
  absl::Status status;
  std::vector<TaskId> lanes;  ///< the lanes' own tasks, if they have any
  int lanes_at_work = 0;
  std::set<std::uint32_t> lanes_with_work;  ///< or that have not looked yet
};

class Job final : public World {
 public:
  /// `before`: what is known of the job that this one goes on from; nullptr: it goes on from none.
  Job(const Scenario& scenario, const Archive::Cut* before,
      const std::function<void(const std::string&)>& trace)
      : scenario_(scenario),
        trace_(trace),
        scheduler_(scenario.scheduler),
        network_(scheduler_, scenario.network),
        lags_(scenario.network.seed + 0x1a6),
        history_(before == nullptr ? History(scenario) : before->history),
        configurations_(
            scenario.network.seed + 7, scenario.slowest_news, [this] { return scheduler_.now(); },
            [this](Duration time) { scheduler_.sleep(scheduler_.now() + time); }),
        disasters_(scenario.disasters.begin(), scenario.disasters.end()),
        servers_(std::size_t{scenario.servers} * scenario.copies),
        workers_(scenario.workers),
        newcomers_(scenario.servers),
        images_(scenario.servers) {
    assert(scenario.nodes.size() == scenario.workers);
    for (std::uint32_t rank = 0; rank < scenario.workers; ++rank) {
      const std::uint32_t number = before == nullptr ? rank : before->numbers[rank];
      workers_[rank].identity.number = number;
      next_number_ = std::max({next_number_, scenario.workers, number + 1});
    }
  }
  /// It makes checkpoints on the archive's disk. To be called before run(); both must outlive the job.
  void keep(const Life& life, Archive& archive);

  JobResult run();

  // What a workload sees of the job.
  absl::Status note(Event event) override {
    if (power_has_failed_) return absl::UnavailableError("there is no power");
    if (is_of_the_dead(event)) return absl::UnavailableError("it is dead");
    if (const auto* replacement = std::get_if<Replacement>(&event)) {
      replaced_at_ = scheduler_.now();
      have_come_.insert(replacement->worker);
      check_where_it_begins(*replacement);
      dead_.insert(replacement->former);  // it may have been alive until now
    }
    const std::optional<std::string> wrong = history_.hear(event, scheduler_.now());
    if (!wrong) return absl::OkStatus();
    fail(*wrong);
    return absl::InternalError(*wrong);
  }
  void compute(Duration time) override {
    if (scenario_.computes_long && left_behind_ > 0 && !std::exchange(has_computed_long_, true)) {
      trace([&] { return "a worker computes for long"; });
      scheduler_.stop(scheduler_.running(), scheduler_.now() + kLongCompute);  // its heart beats
    }
    scheduler_.compute(time);
  }
  [[nodiscard]] Identity identity(std::uint32_t /*rank*/) const override {
    return identities_.at(scheduler_.running());  // the rank may be another one's by now
  }
  [[nodiscard]] bool has_place(std::uint32_t number) const override { return !is_dismissed_.at(number); }
  [[nodiscard]] bool is_to_step_aside(std::uint32_t number) const override {
    const bool is_another_left = next_number_ < scenario_.workers + scenario_.spares;
    return is_another_left && std::ranges::any_of(workers_, [&](const WorkerNode& node) {
             return node.is_to_step_aside && node.identity.number == number;
           });
  }
  void stepped_aside(std::uint32_t number, std::int64_t clock) override {
    if (is_to_step_aside(number)) stepped_aside_[number] = clock;  // else it was killed meanwhile
  }
  void joined(std::uint32_t rank) override { workers_[rank].joined = true; }
  void pushes_at(Clock clock) override {
    most_behind_ = std::max(most_behind_, clock - ends_of_min_clocks().first);
  }
  [[nodiscard]] MinClocks min_clocks() const override {
    return {.newest = ends_of_min_clocks().second, .most_behind = most_behind_};
  }
  [[nodiscard]] std::optional<std::uint64_t> reads(std::uint32_t rank) const override {
    if (scenario_.network.mapped || scenario_.has_configurations() || links_cut_ > 0 ||
        has_replaced_who_goes_on_)
      return std::nullopt;
    return workers_[rank].transport->reads();
  }
  [[nodiscard]] bool knows_functions() const override { return true; }
  void lost() override { ++losses_; }
  [[nodiscard]] std::optional<std::uint32_t> owners(std::uint32_t table, Key key) const override;
  void is_there(std::uint32_t table, Key key) override;
  void checked(std::uint64_t numbers) override { checked_ += numbers; }
  void cut(std::uint32_t rank, Clock clock) override;
  void waits_for_disk(std::uint32_t rank) override { workers_[rank].waits_for_disk_since = scheduler_.now(); }
  void written(std::uint32_t rank, Clock clock, const absl::Status& status) override;
  void final_rows(std::uint64_t digest) override { final_rows_ = digest; }
  [[nodiscard]] bool traces() const override { return static_cast<bool>(trace_); }
  void trace(const std::string& line) override {
    trace([&] { return line; });
  }

 private:
  /// Passes `line()` to the trace, if there is one.
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

  /// The place of a server's copy in servers_: all first copies come first.
  [[nodiscard]] std::size_t place_of(std::uint32_t rank, std::uint32_t copy) const {
    return std::size_t{copy} * scenario_.servers + rank;
  }
  /// Nobody but its victim may notice the death of a server.
  [[nodiscard]] bool goes_on() const { return scenario_.outlives_nodes || scenario_.has_configurations(); }
  [[nodiscard]] bool is_harmless(const Strike& strike) const {
    return strike.is_harmless() || (strike.breaks_a_link() && scenario_.network.connections_may_break);
  }
  void break_a_link(const Strike& strike);
  void miss_node(const Strike& strike);
  [[nodiscard]] std::shared_ptr<cluster::ConfigurationSource> configuration_source(
      const bool* is_cut_off = nullptr) {
    return scenario_.has_configurations() ? configurations_.source(is_cut_off) : nullptr;
  }
  void begin(ServerNode& node);
  void run_server(ServerNode& node);
  void drive_with_lane_tasks(ServerNode& node);
  void run_lane(ServerNode& node, std::uint32_t lane);
  [[nodiscard]] Duration lag_of(const ServerNode& node) const {
    return node.copy > 0 ? scenario_.lag_of_copies : Duration(0);
  }
  void lag(const ServerNode& node);
  [[nodiscard]] static Process process_of(const ServerNode& node) {
    return {.is_server = true, .rank = node.rank, .number = node.copy};
  }
  [[nodiscard]] Process process_of_worker(std::uint32_t rank) const {
    return {.is_server = false, .rank = rank, .number = workers_[rank].identity.number};
  }
  void run_worker(std::uint32_t rank);
  void strike_worker(const Strike& strike);
  void replace_worker(std::uint32_t rank, Fate fate);
  void hear_of_silence(std::uint32_t rank);
  void end_former(std::uint32_t number);
  /// A worker that was killed goes on for a while, and nothing that it does has happened.
  [[nodiscard]] bool is_of_the_dead(const Event& event) const {
    return std::visit(
        [&](const auto& one) {
          // One that is dismissed, and still reads at a server that has been replaced: nobody waits for
          // either.
          if constexpr (requires { one.worker; })
            return dead_.contains(one.worker) || (is_dismissed_.at(one.worker) && has_left_server_behind_);
          return false;
        },
        event);
  }
  void check_where_it_begins(const Replacement& replacement);
  void run_traitor(std::uint32_t rank, const Strike& strike);
  void run_disaster(const Strike& strike);
  void run_stop(const Strike& strike);
  void run_stranger(const Strike& strike);
  void kill(const Strike& strike);
  void kill_a_copy(const Strike& strike);
  void leave_behind(ServerNode& node, const Strike& strike);
  void hear_suspicion(const std::string& address);
  void end_who_was_left_behind(ServerNode& node, const Strike& strike);
  [[nodiscard]] ServerNode* choose_copy(std::uint32_t server);
  ServerNode* replace(std::uint32_t server);
  void move(const Strike& strike);
  void end_the_rest();
  void compare_image(ServerNode& node, server::Server& server);
  [[nodiscard]] bool is_in_chain(const ServerNode& node);
  void strike_disk(const DiskFault& fault, Process user);
  void fail_power();
  [[nodiscard]] bool is_disturbed(Clock clock) const;
  void end_the_waiting();
  void check_ends();
  /// Notes that the disaster has happened.
  void note_struck(const Strike& strike);
  [[nodiscard]] std::pair<Clock, Clock> ends_of_min_clocks() const;
  /// The disaster of this kind and victim; nullptr: there is none.
  [[nodiscard]] const Strike* find_strike(Disaster what, std::uint32_t victim) const;
  [[nodiscard]] bool is_victim(std::uint32_t worker) const;
  [[nodiscard]] bool is_server_victim(std::uint32_t server, std::uint32_t copy) const;
  [[nodiscard]] bool has_honest_workers() const;
  /// How a node has ended, and when.
  struct Ending {
    std::string name;
    absl::Status status;
    TimePoint at;
    bool is_victim = false;
    /// Nobody may have been there for this node: it came late, or one that all wait for has never come.
    bool finds_nobody = false;
  };
  void check_end(const Ending& end);
  [[nodiscard]] bool comes_late(const WorkerNode& node) const;
  [[nodiscard]] bool is_news(const absl::Status& status, bool finds_nobody) const;
  void end_all();
  [[nodiscard]] HostileJob hostile_job() const;
  void stop_servers() {
    for (ServerNode& node : servers_) node.is_stopped = true;
  }
  [[nodiscard]] bool any_worker_has_ended() const {
    return std::any_of(workers_.begin(), workers_.end(), [](const WorkerNode& node) { return node.ended; });
  }
  [[nodiscard]] bool all_workers(bool WorkerNode::*what) const {
    return std::all_of(workers_.begin(), workers_.end(), [&](const WorkerNode& node) { return node.*what; });
  }

  const Scenario& scenario_;
  const std::function<void(const std::string&)>& trace_;
  Scheduler scheduler_;
  Network network_;
  std::mt19937_64 lags_;
  History history_;
  Configurations configurations_;
  Archive* archive_ = nullptr;  ///< nullptr: it makes no checkpoints
  const Life* life_ = nullptr;
  std::optional<Hosts> hosts_;
  /// Who is about to make the checkpoint of a clock, and since when somebody is.
  struct Cutting {
    TimePoint since;
    std::map<std::uint32_t, std::uint32_t> numbers;  ///< of processes, by worker
  };
  std::map<Clock, Cutting> cutting_;
  bool disk_has_failed_ = false;
  bool power_has_failed_ = false;
  std::optional<checkpoint::SimulatedDisk> disk_after_that_;
  std::uint64_t checkpoints_ = 0;
  std::uint64_t final_rows_ = 0;
  std::uint64_t rows_localized_ = 0;
  std::uint64_t restored_ = 0;
  std::uint64_t rows_moved_by_intent_ = 0;
  std::uint64_t rows_replicated_ = 0;
  std::uint64_t replicas_used_ = 0;
  std::uint64_t failovers_ = 0;
  std::uint64_t losses_ = 0;
  std::uint64_t inherited_ = 0;
  std::uint32_t replacements_ = 0;
  std::uint32_t next_number_ = 0;         ///< in the history, of a process that takes a worker's place
  std::optional<TimePoint> replaced_at_;  ///< a worker was lost, or another one has come, for the last time
  std::uint64_t faults_ = 0;
  std::uint64_t links_cut_ = 0;
  std::uint64_t left_behind_ = 0;
  std::uint64_t moves_ = 0;
  bool has_computed_long_ = false;
  std::map<TaskId, Identity> identities_;       ///< of workers' processes
  std::map<std::uint32_t, bool> is_dismissed_;  ///< workers, by their numbers in the history
  /// Of workers that go on though they are replaced, by their numbers in the history.
  struct Former {
    SimulatedTransport* transport = nullptr;
    Process process;
  };
  std::map<std::uint32_t, Former> former_;
  std::map<std::uint32_t, std::int64_t> stepped_aside_;  ///< after which clocks, by number
  bool has_replaced_who_goes_on_ = false;
  bool has_left_server_behind_ = false;
  std::set<std::uint32_t> have_come_;  ///< of those that take others' places
  std::set<std::uint32_t> dead_;       ///< whose places others have taken, by their numbers in the history
  Clock most_behind_ = 0;              ///< see MinClocks
  std::uint64_t checked_ = 0;          ///< by workloads themselves
  std::deque<Strike> disasters_;       ///< the scenario's, and those that come of the disk's
  std::deque<ServerNode> servers_;
  std::deque<WorkerNode> workers_;
  std::vector<std::uint32_t> newcomers_;            ///< by server: copies that have begun later
  std::vector<std::optional<std::string>> images_;  ///< by server: what a copy had at the end
  std::optional<TimePoint> first_struck_;
  std::optional<TimePoint> struck_;  ///< when the last disaster so far happened, of those that end a job
  Duration news_time_ = kNewsTime;
  Duration all_stopped_{0};                ///< length of all harmless stops, in which news do not travel
  bool strangers_are_waited_for_ = false;  ///< a disaster's victim was not known to all yet
  std::optional<std::string> failure_;
};

// ---- nodes

std::string address_of(std::uint32_t server, std::uint32_t copy = 0) {
  return copy == 0 ? fmt::format("sim:{}", server) : fmt::format("sim:{}.{}", server, copy);
}

void Job::begin(ServerNode& node) {
  const bool has_lane_tasks = scenario_.lane_tasks || lag_of(node) > Duration(0);
  for (std::uint32_t lane = 0; has_lane_tasks && lane < scenario_.lanes; ++lane)
    node.lanes.push_back(scheduler_.spawn([this, &node, lane] { run_lane(node, lane); }));
  node.task =
      scheduler_.spawn([this, &node] { run_server(node); }, node.joins ? scenario_.slowness_of_who_joins : 1);
}

void Job::run_server(ServerNode& node) {
  const std::uint32_t rank = node.rank;
  const std::uint32_t copy = node.copy;
  if (node.joins) scheduler_.sleep(scheduler_.now() + kStartOfProcess);
  if (node.is_called_off) {
    node.ended = true;
    for (const TaskId lane : node.lanes) scheduler_.wake(lane);
    return;
  }
  if (hosts_) hosts_->belongs_to(process_of(node));
  const auto transport = network_.make_transport(scheduler_.running(), address_of(rank, copy));
  node.transport = transport.get();
  if (const Strike* const strike = find_strike(Disaster::kServerLacksMemory, rank))
    transport->refuse_regions_after(strike->regions, [this, strike] { note_struck(*strike); });
  auto server = server::Server::create(*transport,
                                       {.address = address_of(rank, copy),
                                        .rank = rank,
                                        .servers = scenario_.servers,
                                        .workers = scenario_.workers,
                                        .outlives_workers = scenario_.outlives_nodes,
                                        .backup_every_ms = scenario_.backup_every_ms,
                                        .replaces_workers = scenario_.spares > 0,
                                        .configuration = configuration_source(&node.is_cut_off),
                                        .joins = node.joins,
                                        .lanes = scenario_.lanes,
                                        .push_budget_mb_per_s = scenario_.push_budget_mb_per_s},
                                       scenario_.keys_of_segment, scenario_.image_grain);
  node.status = server.status();
  if (server.ok()) {
    node.server = server->get();
    if (scenario_.spares > 0) {
      node.server->set_suspect(
          [this](std::uint32_t worker, const absl::Status& /*why*/) { hear_of_silence(worker); });
    }
    if (node.joins) configurations_.join({.server = rank, .copy = copy}, address_of(rank, copy));
    if (node.lanes.empty()) {
      node.status = server::drive(**server, *transport, node.is_stopped);
    } else {
      drive_with_lane_tasks(node);
      node.status = (*server)->status();
    }
    // One that is stopped, as when the power fails, is where it is in the log: a record counts on the last
    // copy of a chain first.
    const bool has_all =
        scenario_.has_configurations() && is_in_chain(node) && !node.is_called_off && !node.is_stopped;
    if (has_all && node.status.ok()) compare_image(node, **server);
  }
  trace([&] { return fmt::format("{} ends: {}", address_of(rank, copy), node.status.ToString()); });
  node.server = nullptr;
  node.transport = nullptr;
  node.ended = true;
  node.ended_at = scheduler_.now();
  for (const TaskId lane : node.lanes) scheduler_.wake(lane);
  if (!node.joins || node.is_called_off || node.status.ok() || is_in_chain(node)) return;
  // The copy that it has joined by is gone.
  node.is_called_off = absl::IsAborted(node.status);
  if (!node.is_called_off) return;
  configurations_.remove({.server = rank, .copy = copy});
  replace(rank);
}

bool Job::is_in_chain(const ServerNode& node) {
  const cluster::Configuration::Chain& chain = configurations_.newest().servers[node.rank];
  return std::find(chain.begin(), chain.end(), address_of(node.rank, node.copy)) != chain.end();
}

/// All copies that are there at the end have the same.
void Job::compare_image(ServerNode& node, server::Server& server) {
  if (!server.begin_image(/*must=*/true))
    return fail(fmt::format("{} ends while it loads rows", address_of(node.rank, node.copy)));
  std::optional<server::Image> image = server.take_image();
  while (!image) {
    for (const std::unique_ptr<server::Lane>& lane : server.lanes()) lane->poll();
    image = server.take_image();
  }
  std::string all = std::move(image->head);
  for (const server::LaneImages::OfLane& lane : image->lanes->lanes()) {
    for (const std::span<const std::byte> bulk : lane.bulk)  // nobody changes it any more
      all.append(reinterpret_cast<const char*>(bulk.data()), bulk.size());
  }
  std::optional<std::string>& others = images_[node.rank];
  if (!others) others = all;
  if (*others != all) {
    const auto [here, there] = std::mismatch(all.begin(), all.end(), others->begin(), others->end());
    fail(fmt::format("{} ends with other rows or clocks than another copy, from byte {} of {} ({} of {})",
                     address_of(node.rank, node.copy), here - all.begin(), all.size(),
                     there - others->begin(), others->size()));
  }
}

/// As the driver's receiver thread does.
void Job::drive_with_lane_tasks(ServerNode& node) {
  server::Server& server = *node.server;
  server.set_lane_waker([&](std::uint32_t lane) {
    node.lanes_with_work.insert(lane);
    scheduler_.wake(node.lanes[lane]);
  });
  server.start_lane_threads([&] { scheduler_.sleep(scheduler_.now() + microseconds(20)); });
  TimePoint give_up = TimePoint::max();
  while (!server.finished() && scheduler_.now() < give_up && !node.is_stopped) {
    if (!server.status().ok() && give_up == TimePoint::max()) give_up = scheduler_.now() + seconds(2);
    if (!server.poll())
      node.transport->wait(std::min<TimePoint>(scheduler_.now() + milliseconds(100), server.next_poll()));
  }
  // A copy that ends may not have used all that it has; its image is compared with those of others.
  while (server.status().ok() && !node.is_stopped && !node.lanes_with_work.empty()) {
    server.send();
    scheduler_.sleep(scheduler_.now() + microseconds(20));
  }
  server.end_lane_threads();
  node.server = nullptr;
  while (node.lanes_at_work > 0) scheduler_.sleep(scheduler_.now() + microseconds(20));  // as a join
}

/// Whatever the lane gets meanwhile wakes it in vain.
void Job::lag(const ServerNode& node) {
  if (lag_of(node) == Duration(0)) return;
  const Duration length(std::uniform_int_distribution<Duration::rep>(0, lag_of(node).count())(lags_));
  for (const TimePoint end = scheduler_.now() + length; scheduler_.now() < end && !node.ended;)
    scheduler_.sleep(end);
}

/// As the driver's lane threads do.
void Job::run_lane(ServerNode& node, std::uint32_t lane) {
  if (hosts_) hosts_->belongs_to(process_of(node));
  while (!node.ended) {
    ++node.lanes_at_work;
    const bool worked = node.server != nullptr && node.server->lanes()[lane]->poll();
    --node.lanes_at_work;
    if (worked) {
      if (node.transport != nullptr) node.transport->interrupt();
      scheduler_.step(scheduler_.running());
    } else {
      node.lanes_with_work.erase(lane);
      scheduler_.sleep(scheduler_.now() + milliseconds(500));
      lag(node);
    }
  }
}

void Job::run_worker(std::uint32_t rank) {
  if (const Strike* const strike = find_strike(Disaster::kTraitor, rank)) return run_traitor(rank, *strike);
  WorkerNode& node = workers_[rank];
  const std::uint32_t incarnation = node.incarnation;
  const std::uint32_t number = node.identity.number;
  identities_[scheduler_.running()] = node.identity;
  if (power_has_failed_) {
    node.ended = true;
    return;
  }
  if (hosts_) hosts_->belongs_to(process_of_worker(rank));
  std::shared_ptr<SimulatedTransport> transport =
      network_.make_transport(scheduler_.running(), fmt::format("worker {}", rank));
  node.transport = transport.get();
  if (const Strike* const strike = find_strike(Disaster::kWorkerLacksMemory, rank))
    transport->refuse_regions_after(strike->regions, [this, strike] { note_struck(*strike); });
  std::optional<std::size_t> gather_row_bytes;
  if (scenario_.gathers) gather_row_bytes = *scenario_.gathers ? SIZE_MAX : 0;
  SessionOptions options{.rank = rank,
                         .workers = scenario_.workers,
                         .node = scenario_.nodes[rank],
                         .read_path = scenario_.read_path,
                         .outlives_servers = scenario_.outlives_nodes,
                         .incarnation = incarnation,
                         .timeout_ms = kTimeoutMs,
                         .clock_timeout_ms = kTimeoutMs,
                         .transport = transport,
                         .configuration = configuration_source(&is_dismissed_[number]),
                         .inbox_bytes = scenario_.inbox_bytes,
                         .push_ring_bytes = scenario_.push_ring_bytes,
                         .gather_row_bytes = gather_row_bytes,
                         .gather_keys = 1,
                         .update_budget_mb_per_s = scenario_.update_budget_mb_per_s};
  options.resume = scenario_.resume;
  for (std::uint32_t server = 0; server < scenario_.servers; ++server)
    options.servers.push_back(address_of(server));
  auto session = Session::connect(options);
  options.transport.reset();
  absl::Status status = session.status();
  const auto is_dead = [&] { return node.incarnation != incarnation; };
  if (session.ok()) {
    node.connected = true;
    node.connected_at = scheduler_.now();
    status = run_workload(*this, scenario_, **session);
    const bool steps_aside = stepped_aside_.contains(number);
    node.leaves |= status.ok() && !is_dead() && !steps_aside;
    // It hears that it has no place any more before it can say goodbye.
    if (status.ok() && is_dead() && former_.contains(number)) network_.kill(*transport);
    if (!status.ok()) static_cast<void>((*session)->give_up(status));
    if (!is_dead() && !steps_aside) static_cast<void>(note(WorkerLeaves{number}));
    const SessionStatistics statistics = (*session)->statistics();
    rows_localized_ += statistics.rows_localized;
    restored_ += statistics.rows_restored;
    rows_moved_by_intent_ += statistics.rows_moved_by_intent;
    rows_replicated_ += statistics.rows_replicated;
    replicas_used_ += statistics.rows_pulled_from_replicas + statistics.rows_pushed_to_replicas;
    if (steps_aside) network_.kill(*transport);  // nothing is on its way any more
    const TimePoint left = scheduler_.now() - all_stopped_;
    session->reset();
    if (steps_aside && !is_dead()) return replace_worker(rank, Fate::kStepsAside);
    // A server that has all goodbyes ends; who lost the way to it before its answer cannot know that.
    const bool may_have_missed_it =
        links_cut_ > 0 && std::ranges::any_of(servers_, [](const ServerNode& server) {
          return server.ended && server.status.ok();
        });
    if (!struck_ && !power_has_failed_ && !is_dead() && !may_have_missed_it &&
        scheduler_.now() - all_stopped_ - left >= milliseconds(kTimeoutMs))
      fail(fmt::format("worker {} waited in vain for the servers' goodbyes", rank));
  }
  trace([&] { return fmt::format("worker {} ends: {}", number, status.ToString()); });
  former_.erase(number);
  if (is_dead()) return;
  node.status = status;
  node.transport = nullptr;
  node.ended = true;
  node.ended_at = scheduler_.now();
}

// ---- disasters

void Job::strike_worker(const Strike& strike) {
  WorkerNode& node = workers_[strike.victim];
  const bool is_there = node.transport != nullptr && !node.leaves && !node.is_silent;
  if (!is_there || next_number_ == scenario_.workers + scenario_.spares) return;
  const std::uint32_t number = node.identity.number;
  if (strike.fate == Fate::kStepsAside) {
    node.is_to_step_aside = true;
    return;
  }
  if (strike.fate == Fate::kStops) {
    trace([&] { return fmt::format("worker {} is stopped", number); });
    // That one is stopped before any server knows it is noticed by nobody. So the others wait for it, and no
    // longer than for a clock.
    const bool may_be_unknown = node.identity.former && !have_come_.contains(number);
    const TimePoint until =
        scheduler_.now() +
        (may_be_unknown ? std::min<Duration>(strike.length, kStopOfUnknown) : strike.length);
    node.is_silent = true;
    scheduler_.stop(node.task, until);
    network_.stop(*node.transport, until);
    scheduler_.sleep(until + milliseconds(1));
    if (node.identity.number == number) node.is_silent = false;  // no server had known it yet
    return end_former(number);
  }
  replace_worker(strike.victim, strike.fate);
  if (strike.fate == Fate::kDies) return;
  scheduler_.sleep(scheduler_.now() + strike.length);
  end_former(number);
}

/// A server has found out. Nobody may take one for dead to which nothing has happened.
void Job::hear_of_silence(std::uint32_t rank) {
  if (!workers_[rank].is_silent && !workers_[rank].identity.former)
    fail(fmt::format("worker {} is suspected, though nothing has happened to it", rank));
  if (std::exchange(workers_[rank].is_silent, false)) replace_worker(rank, Fate::kStops);
}

/// It hears that it has no place any more, and ends without a word.
void Job::end_former(std::uint32_t number) {
  const auto found = former_.find(number);
  if (found == former_.end()) return;
  network_.kill(*found->second.transport);
  if (hosts_) hosts_->kill(found->second.process);
  former_.erase(found);
}

/// As the launcher does, or who leads a job on several hosts.
void Job::replace_worker(std::uint32_t rank, Fate fate) {
  WorkerNode& node = workers_[rank];
  const std::uint32_t number = node.identity.number;
  trace([&] {
    return fmt::format("worker {} {}", number,
                       fate == Fate::kDies         ? "is killed"
                       : fate == Fate::kStepsAside ? "has stepped aside"
                                                   : "is lost");
  });
  node.is_to_step_aside = false;
  ++faults_;
  replaced_at_ = scheduler_.now();
  const Process former = process_of_worker(rank);
  if (hosts_ && fate == Fate::kDies) hosts_->kill(former);
  SimulatedTransport* const transport = std::exchange(node.transport, nullptr);
  is_dismissed_[number] = true;
  // One that has died before it was where the one before it had been does not count.
  const bool was_there = !node.identity.former || have_come_.contains(number);
  if (fate == Fate::kDies) {
    network_.kill(*transport);
  } else if (fate != Fate::kStepsAside) {
    former_[number] = {transport, former};
    ++left_behind_;
    has_replaced_who_goes_on_ = true;
  }
  if (fate == Fate::kDies || fate == Fate::kStepsAside || !was_there) dead_.insert(number);
  ++replacements_;
  node.identity = {.number = next_number_++,
                   .former = was_there ? node.identity.number : *node.identity.former};
  ++node.incarnation;
  node.task = scheduler_.spawn(
      [this, rank] {
        scheduler_.sleep(scheduler_.now() + kStartOfProcess);
        run_worker(rank);
      },
      scenario_.slowness[rank]);
}

/// Nothing is done again if the one before it has stepped aside, and no server and no connection was lost
/// just then.
void Job::check_where_it_begins(const Replacement& replacement) {
  const auto before = stepped_aside_.find(replacement.former);
  const bool is_known = links_cut_ == 0 && std::ranges::none_of(disasters_, [](const Strike& strike) {
                          return strike.is_of_a_server();
                        });
  if (!is_known || before == stepped_aside_.end() || before->second == replacement.clock) return;
  fail(fmt::format("worker {} begins with clock {}, the one before it has stepped aside at {}",
                   replacement.worker, replacement.clock, before->second));
}

const Strike* Job::find_strike(Disaster what, std::uint32_t victim) const {
  const auto found = std::find_if(disasters_.begin(), disasters_.end(), [&](const Strike& strike) {
    return strike.what == what && strike.victim == victim;
  });
  return found == disasters_.end() ? nullptr : &*found;
}

bool Job::is_victim(std::uint32_t worker) const {
  return std::any_of(disasters_.begin(), disasters_.end(), [&](const Strike& strike) {
    if (strike.what == Disaster::kNodeDies || strike.what == Disaster::kNodeIsMissed)
      return strike.victim == scenario_.nodes[worker];
    return !strike.is_of_a_server() && !is_harmless(strike) && strike.victim == worker;
  });
}

bool Job::has_honest_workers() const {
  for (std::uint32_t rank = 0; rank < scenario_.workers; ++rank) {
    if (!workers_[rank].ended && !is_victim(rank)) return true;
  }
  return false;
}

bool Job::is_server_victim(std::uint32_t server, std::uint32_t copy) const {
  return std::any_of(disasters_.begin(), disasters_.end(), [&](const Strike& strike) {
    return strike.is_of_a_server() && strike.what != Disaster::kCopyDies && !is_harmless(strike) &&
           strike.victim == server && strike.copy == copy;
  });
}

/// The oldest and the newest of the lanes' min clocks.
std::pair<Clock, Clock> Job::ends_of_min_clocks() const {
  Clock oldest = consistency::VectorClock::kLeft;
  Clock newest = 0;
  for (const ServerNode& node : servers_) {
    if (node.server == nullptr) continue;
    for (const std::unique_ptr<server::Lane>& lane : node.server->lanes()) {
      // What one that follows has not used yet is used as if it were not behind.
      if (node.server->serves()) oldest = std::min(oldest, lane->min_clock());
      // Who is dismissed may read when all have left.
      if (lane->min_clock() < consistency::VectorClock::kLeft) newest = std::max(newest, lane->min_clock());
    }
  }
  return {oldest, newest};
}

void Job::note_struck(const Strike& strike) {
  if (strike.what != Disaster::kServerMoves) ++faults_;
  trace([&] { return fmt::format("disaster strikes: {}", to_string(strike)); });
  if (strike.is_stop() && strike.is_harmless()) all_stopped_ += strike.length;
  if (is_harmless(strike)) return;
  struck_ = scheduler_.now();
  if (!first_struck_) first_struck_ = struck_;
  // That a connection is gone is noticed late, and then who has died might only come back soon.
  if (scenario_.network.connections_may_break) news_time_ = 2 * kNewsTimeOfSilence;
  if (strike.is_stop()) news_time_ = std::max<Duration>(news_time_, kNewsTimeOfSilence);
  // A server that lacks memory refuses workers that come. If all have come, it has no memory for a table, and
  // all know the server.
  const bool is_known = strike.is_of_a_server()
                            ? !strike.lacks_memory() || all_workers(&WorkerNode::connected)
                            : workers_[strike.victim].connected;
  if (!is_known) strangers_are_waited_for_ = true;
}

HostileJob Job::hostile_job() const {
  HostileJob job{
      .servers = {}, .workers = scenario_.workers, .ranks_are_taken = all_workers(&WorkerNode::joined)};
  for (std::uint32_t server = 0; server < scenario_.servers; ++server)
    job.servers.push_back(address_of(server));
  return job;
}

void Job::run_traitor(std::uint32_t rank, const Strike& strike) {
  WorkerNode& node = workers_[rank];
  const auto transport = network_.make_transport(scheduler_.running(), fmt::format("traitor {}", rank));
  node.transport = transport.get();
  bool has_witnesses = true;
  betray(*transport, hostile_job(), rank, scenario_.nodes[rank], scenario_.seed, [&] {
    node.connected = node.joined = true;
    note_struck(strike);
    has_witnesses = has_honest_workers();
  });
  trace([&] { return fmt::format("traitor {} ends", rank); });
  // Servers have no connections to one another. Without a worker that tells them, the other servers see only
  // a worker that idles, until it leaves.
  if (!has_witnesses) struck_ = scheduler_.now();
  if (!struck_) note_struck(strike);  // it could not join, because of others
  node.transport = nullptr;
  node.joined = node.ended = true;
  node.ended_at = scheduler_.now();
}

void Job::run_stranger(const Strike& strike) {
  const auto transport = network_.make_transport(scheduler_.running(), "stranger");
  if (absl::Status status = visit(*transport, hostile_job(), strike.victim, scenario_.seed); !status.ok())
    fail(std::string(status.message()));
}

void Job::run_disaster(const Strike& strike) {
  const TimePoint start = scheduler_.now();
  while (!strike.early && !all_workers(&WorkerNode::joined) && !failure_) {
    if (all_workers(&WorkerNode::ended)) return;
    const bool is_late = scheduler_.now() - start > milliseconds(50);  // a worker may never come
    scheduler_.sleep(scheduler_.now() + (is_late ? microseconds(5000) : microseconds(20)));
  }
  while (strike.late && !any_worker_has_ended() && !failure_)
    scheduler_.sleep(scheduler_.now() + microseconds(100));
  scheduler_.sleep(scheduler_.now() + strike.delay);
  if (strike.is_stop()) return run_stop(strike);
  if (strike.what != Disaster::kStranger) return kill(strike);
  note_struck(strike);
  run_stranger(strike);
}

void Job::run_stop(const Strike& strike) {
  const TimePoint until = scheduler_.now() + strike.length;
  bool any = false;
  const auto stop = [&](auto& node) {
    if (node.ended) return;
    any = node.was_stopped = true;
    scheduler_.stop(node.task, until);
    if (node.transport != nullptr) network_.stop(*node.transport, until);
  };
  const auto stop_errands = [&](Process process) {
    if (!hosts_) return;
    for (const TaskId task : hosts_->tasks_of(process)) scheduler_.stop(task, until);
  };
  for (std::uint32_t rank = 0; rank < scenario_.workers; ++rank) {
    if (strike.what != Disaster::kAllStop && (strike.what != Disaster::kWorkerStops || strike.victim != rank))
      continue;
    stop(workers_[rank]);
    stop_errands(process_of_worker(rank));
  }
  for (std::uint32_t rank = 0; rank < scenario_.servers; ++rank) {
    if (strike.what == Disaster::kWorkerStops ||
        (strike.what == Disaster::kServerStops && strike.victim != rank))
      continue;
    stop(servers_[rank]);
    stop_errands(process_of(servers_[rank]));
    for (const TaskId lane : servers_[rank].lanes) scheduler_.stop(lane, until);
  }
  if (any) note_struck(strike);
}

void Job::kill_a_copy(const Strike& strike) {
  ServerNode* const node = strike.what == Disaster::kCopyDies
                               ? choose_copy(strike.victim)
                               : &servers_[place_of(strike.victim, strike.copy)];
  if (node == nullptr || node->transport == nullptr) return;
  note_struck(strike);
  node->is_called_off = true;
  const std::string address = address_of(strike.victim, node->copy);
  if (strike.fate == Fate::kDies) {
    trace([&] { return fmt::format("{} is killed", address); });
    network_.kill(*node->transport);
    if (hosts_) hosts_->kill(process_of(*node));
  } else {
    leave_behind(*node, strike);
  }
  scheduler_.sleep(scheduler_.now() + scenario_.slowest_news / 4);
  if (configurations_.newest().servers[strike.victim].front() == address) ++failovers_;
  // One that joins may have heard of no configuration that names it, and then waits for one.
  node->may_not_know = !is_in_chain(*node);
  configurations_.remove({.server = strike.victim, .copy = node->copy});
  if (scenario_.repairs) replace(strike.victim);
  if (strike.fate != Fate::kDies) end_who_was_left_behind(*node, strike);
}

/// It is taken for dead.
void Job::leave_behind(ServerNode& node, const Strike& strike) {
  ++left_behind_;
  has_left_server_behind_ = true;
  node.is_cut_off = strike.fate == Fate::kIsCutOff;
  if (strike.fate != Fate::kStops) return;
  const TimePoint until = scheduler_.now() + strike.length;
  scheduler_.stop(node.task, until);
  for (const TaskId lane : node.lanes) scheduler_.stop(lane, until);
  network_.stop(*node.transport, until);
}

/// Nobody may take one for dead to which nothing has happened: it may be the last copy. One that has ended
/// has heard the worker's goodbye, and its answer may be lost.
void Job::hear_suspicion(const std::string& address) {
  for (const ServerNode& node : servers_) {
    const bool is_well = !node.is_called_off && !node.was_stopped && !node.ended;
    if (is_well && address_of(node.rank, node.copy) == address)
      fail(fmt::format("{} is suspected, though nothing has happened to it", address));
  }
}

/// One that hears of it must end by itself.
void Job::end_who_was_left_behind(ServerNode& node, const Strike& strike) {
  scheduler_.sleep(scheduler_.now() + strike.length);
  if (strike.fate == Fate::kIsCutOff || node.may_not_know) {  // as the rendezvous does
    node.is_stopped = true;
    return;
  }
  scheduler_.sleep(scheduler_.now() + scenario_.slowest_news + seconds(1));
  if (!node.ended)
    fail(fmt::format("{} goes on, though it has no place any more", address_of(node.rank, node.copy)));
}

/// One that joins, or one of the chain if another one of it is left.
ServerNode* Job::choose_copy(std::uint32_t server) {
  std::vector<ServerNode*> chain;
  std::vector<ServerNode*> others;
  for (ServerNode& node : servers_) {
    if (node.rank == server && !node.is_called_off && node.transport != nullptr)
      (is_in_chain(node) ? chain : others).push_back(&node);
  }
  if (chain.size() > 1) {
    // Most happens when the one that serves dies.
    const std::string& serving = configurations_.newest().servers[server].front();
    const auto found = std::find_if(chain.begin(), chain.end(), [&](const ServerNode* node) {
      return address_of(server, node->copy) == serving;
    });
    if (found != chain.end() && scheduler_.steps() % 2 == 0) return *found;
    others.insert(others.end(), chain.begin(), chain.end());
  }
  return others.empty() ? nullptr : others[scheduler_.steps() % others.size()];
}

/// As the launcher does. nullptr: it does not.
ServerNode* Job::replace(std::uint32_t server) {
  if (all_workers(&WorkerNode::ended) || newcomers_[server] == kMostNewcomers) return nullptr;
  ServerNode& node = servers_.emplace_back();
  node.rank = server;
  node.copy = scenario_.copies + newcomers_[server]++;
  node.joins = true;
  begin(node);
  return &node;
}

/// As rank 0 does when a host joins or leaves: nobody steps aside before another one has all.
void Job::move(const Strike& strike) {
  ServerNode* const newcomer = replace(strike.victim);
  if (newcomer == nullptr) return;
  note_struck(strike);
  const auto is_well = [&](const ServerNode& node) {
    return is_in_chain(node) && !node.is_called_off && !node.ended && node.transport != nullptr;
  };
  while (!is_well(*newcomer)) {
    if (newcomer->ended || newcomer->is_called_off || all_workers(&WorkerNode::ended)) return;
    scheduler_.sleep(scheduler_.now() + microseconds(50));
  }
  std::vector<ServerNode*> others;
  for (ServerNode& node : servers_) {
    if (node.rank == strike.victim && &node != newcomer && is_well(node)) others.push_back(&node);
  }
  if (others.empty()) return;
  ServerNode& replaced = *others[strike.copy % others.size()];
  const std::string address = address_of(strike.victim, replaced.copy);
  trace([&] { return fmt::format("{} steps aside", address); });
  replaced.is_called_off = true;
  leave_behind(replaced, strike);
  if (configurations_.newest().servers[strike.victim].front() == address) ++failovers_;
  ++moves_;
  configurations_.remove({.server = strike.victim, .copy = replaced.copy});
  end_who_was_left_behind(replaced, strike);
}

/// As the launcher does when all workers have ended.
void Job::end_the_rest() {
  while (!all_workers(&WorkerNode::ended)) scheduler_.sleep(scheduler_.now() + milliseconds(1));
  const auto end_if = [&](const auto& is_one) {
    for (ServerNode& node : servers_) {
      if (node.ended || !is_one(node)) continue;
      node.is_called_off = node.is_stopped = true;
      if (node.transport != nullptr) network_.kill(*node.transport);
    }
  };
  end_if([&](const ServerNode& node) { return !is_in_chain(node); });
  scheduler_.sleep(scheduler_.now() + kServersPatience);
  // The copy before it may have died before it could dismiss this one.
  end_if([&](const ServerNode& node) {
    return std::any_of(servers_.begin(), servers_.end(), [&](const ServerNode& other) {
      return other.rank == node.rank && other.ended && other.status.ok();
    });
  });
}

std::optional<std::uint32_t> Job::owners(std::uint32_t table, Key key) const {
  const bool only_nodes_die = std::ranges::all_of(disasters_, [](const Strike& strike) {
    return strike.what == Disaster::kNodeDies || strike.what == Disaster::kNodeIsMissed;
  });
  if (!scenario_.outlives_nodes || !only_nodes_die) return std::nullopt;
  std::uint32_t owners = 0;
  for (const ServerNode& node : servers_) {
    if (node.is_dead || node.server == nullptr) continue;
    server::MovingShard& shard = *node.server->shards()[table].moving();
    const protocol::Slot slot =
        protocol::slot_at(shard.region().bytes().data(), shard.slot_bytes(), key, shard.home_keys());
    if (protocol::load_header(slot).is_owned()) ++owners;
  }
  return owners;
}

void Job::is_there(std::uint32_t table, Key key) {
  const protocol::TablePlacement homes =
      protocol::Placement(scenario_.servers).table(scenario_.tables[table].rows);
  if (servers_[homes.server_of(key)].is_dead) ++inherited_;
}

void Job::break_a_link(const Strike& strike) {
  SimulatedTransport* const node = strike.is_of_a_server()
                                       ? servers_[place_of(strike.victim, strike.copy)].transport
                                       : workers_[strike.victim].transport;
  if (node == nullptr) return;
  note_struck(strike);
  if (network_.cut_a_link(*node)) ++links_cut_;
}

/// A worker that lives takes it for dead, and so must all others.
void Job::miss_node(const Strike& strike) {
  ServerNode& server = servers_[strike.victim];
  for (std::uint32_t i = 0; i < scenario_.workers && server.transport != nullptr; ++i) {
    const std::uint32_t rank = (strike.copy + i) % scenario_.workers;
    const WorkerNode& worker = workers_[rank];
    if (worker.transport == nullptr || worker.leaves || is_victim(rank)) continue;
    note_struck(strike);
    static_cast<void>(note(Death{strike.victim}));
    server.is_dead = true;
    if (network_.cut_a_link(*worker.transport, server.transport)) ++links_cut_;
    return;
  }
}

void Job::kill(const Strike& strike) {
  if (strike.breaks_a_link()) return break_a_link(strike);
  if (strike.what == Disaster::kWorkerIsReplaced) return strike_worker(strike);
  if (strike.what == Disaster::kServerMoves) return move(strike);
  if (strike.what == Disaster::kNodeIsMissed) return miss_node(strike);
  if (scenario_.has_configurations()) return kill_a_copy(strike);
  SimulatedTransport* const node =
      strike.is_of_a_server() ? servers_[strike.victim].transport : workers_[strike.victim].transport;
  if (node == nullptr) return;
  note_struck(strike);
  if (scenario_.outlives_nodes) static_cast<void>(note(Death{strike.victim}));
  for (std::uint32_t rank = 0; rank < scenario_.workers && strike.what == Disaster::kNodeDies; ++rank) {
    if (scenario_.nodes[rank] != strike.victim || workers_[rank].transport == nullptr) continue;
    network_.kill(*workers_[rank].transport);
    if (hosts_) hosts_->kill(process_of_worker(rank));
  }
  if (strike.is_of_a_server()) servers_[strike.victim].is_dead = true;
  network_.kill(*node);
  if (hosts_)
    hosts_->kill(strike.is_of_a_server() ? process_of(servers_[strike.victim])
                                         : process_of_worker(strike.victim));
}

// ---- checkpoints

void Job::keep(const Life& life, Archive& archive) {
  life_ = &life;
  archive_ = &archive;
  hosts_.emplace(
      scheduler_, archive.disk,
      HostOptions{.seed = life.seed + 3, .slowest = life.slowest_operation, .faults = life.disk_faults},
      [this](const DiskFault& fault, Process user) { strike_disk(fault, user); });
}

void Job::cut(std::uint32_t rank, Clock clock) {
  const std::uint32_t number = identity(rank).number;
  if (archive_ == nullptr || power_has_failed_ || dead_.contains(number)) return;
  Cutting& cutting = cutting_.try_emplace(clock, Cutting{scheduler_.now(), {}}).first->second;
  cutting.numbers[rank] = number;
  if (cutting.numbers.size() < scenario_.workers) return;
  Archive::Cut cut{history_, {}};
  for (const auto& [worker, its_number] : cutting.numbers) cut.numbers.push_back(its_number);
  archive_->cut(clock, std::move(cut));
}

/// A worker was replaced since the checkpoint before it has begun, of which a server may still write its
/// part.
bool Job::is_disturbed(Clock clock) const {
  const auto at = cutting_.find(clock);
  if (!replaced_at_ || at == cutting_.end()) return false;
  return at == cutting_.begin() || *replaced_at_ >= std::prev(at)->second.since;
}

/// A checkpoint for which all workers have come is written, unless something goes wrong.
void Job::written(std::uint32_t rank, Clock clock, const absl::Status& status) {
  if (power_has_failed_ || archive_ == nullptr || !has_place(identity(rank).number)) return;
  // Worker 0 does not know, nor wait for, what servers still write that the process before it has asked for.
  const bool waits_for_former = replaced_at_ && status.message().find("still writes") != std::string::npos;
  if (!status.ok() && !struck_ && links_cut_ == 0 && !disk_has_failed_ && !is_disturbed(clock) &&
      !waits_for_former && cutting_[clock].numbers.size() == scenario_.workers) {
    fail(fmt::format("worker {} hears that checkpoint {} was not written: {}", rank, clock,
                     status.ToString()));
  }
  if (!status.ok() || rank != 0 || is_victim(0)) return;
  ++checkpoints_;
  const TimePoint on_disk =
      std::max(hosts_->last_served(process_of_worker(0)), workers_[0].waits_for_disk_since);
  if (const Duration late = scheduler_.now() - on_disk; !struck_ && late > kLongestWake) {
    fail(fmt::format("worker 0 goes on {} ms after checkpoint {} was written",
                     std::chrono::duration_cast<std::chrono::milliseconds>(late).count(), clock));
  }
  const bool may_be_more = disk_has_failed_ || has_replaced_who_goes_on_;
  if (const auto wrong = archive_->written(clock, *scenario_.checkpoints, may_be_more)) fail(*wrong);
}

/// Something goes wrong in an operation of the disk that the process has asked for.
void Job::strike_disk(const DiskFault& fault, Process user) {
  const bool kills = fault.what == DiskFault::What::kUserDies;
  const bool may_be_replaced = scenario_.spares > 0 && kills;
  // No server, and none that is dead already.
  if (may_be_replaced && (user.is_server || user != process_of_worker(user.rank))) return;
  if (!may_be_replaced) disk_has_failed_ = true;
  trace([&] {
    return fmt::format("the disk: fault {} in an operation of {} {}", static_cast<int>(fault.what),
                       user.is_server ? "server" : "worker", user.rank);
  });
  if (fault.what == DiskFault::What::kPowerFails) return fail_power();
  if (may_be_replaced) return strike_worker({.what = Disaster::kWorkerIsReplaced, .victim = user.rank});
  if (!kills) {
    ++faults_;
    return;
  }
  disasters_.push_back(
      {.what = user.is_server ? Disaster::kServerDies : Disaster::kWorkerDies, .victim = user.rank});
  kill(disasters_.back());
}

void Job::fail_power() {
  ++faults_;
  std::mt19937_64 random(life_->seed + 4);
  disk_after_that_ = archive_->disk.survivor([&](std::size_t ways) { return below(random, ways); });
  power_has_failed_ = true;
  stop_servers();
  end_all();
}

/// Ends servers that wait for workers that will never come, as whoever runs a job does.
void Job::end_the_waiting() {
  while (!all_workers(&WorkerNode::ended) && !failure_) scheduler_.sleep(scheduler_.now() + milliseconds(10));
  if (!struck_) return;
  scheduler_.sleep(scheduler_.now() + kNewsTimeOfSilence);
  stop_servers();
}

/// Breaks all connections, so that all tasks get errors, and end.
void Job::end_all() {
  for (ServerNode& node : servers_) {
    if (node.transport != nullptr) network_.kill(*node.transport);
  }
  for (WorkerNode& node : workers_) {
    if (node.transport != nullptr) network_.kill(*node.transport);
  }
}

bool Job::comes_late(const WorkerNode& node) const {
  return first_struck_ && (!node.connected || node.connected_at > *first_struck_);
}

bool Job::is_news(const absl::Status& status, bool finds_nobody) const {
  const std::string message(status.message());
  const auto says = [&](const std::string& what) { return message.find(what) != std::string::npos; };
  const bool is_of_nobody = status.code() == absl::StatusCode::kDeadlineExceeded ||
                            status.code() == absl::StatusCode::kCancelled || says("waited") ||
                            says("nobody listens") || says("it is gone");
  if (finds_nobody && is_of_nobody) return true;
  return std::any_of(disasters_.begin(), disasters_.end(), [&](const Strike& strike) {
    if (is_harmless(strike)) return false;
    const bool named =
        says(fmt::format("{} {}", strike.is_of_a_server() ? "server" : "worker", strike.victim));
    if (strike.lacks_memory()) return named || says("no room for a region");
    if (strike.what == Disaster::kTraitor) return named;
    if (strike.what == Disaster::kLinkBreaks && says("server ")) return true;
    return named &&
           (status.code() == absl::StatusCode::kUnavailable || status.code() == absl::StatusCode::kAborted);
  });
}

void Job::check_end(const Ending& end) {
  if (failure_) return;
  if (struck_ && !goes_on() && !end.is_victim) {
    const Duration most = (end.finds_nobody ? kNewsTimeOfStrangers : news_time_) + all_stopped_;
    if (const Duration time = end.at - *struck_; time > most)
      fail(fmt::format("it took {:.3f} s until {} had ended", std::chrono::duration<double>(time).count(),
                       end.name));
  }
  if (end.status.ok()) return;
  if (!struck_) return fail(fmt::format("{} ended with {}", end.name, end.status.ToString()));
  if (end.is_victim) return;
  if (goes_on())
    return fail(fmt::format("{} ended with {} in a job that goes on", end.name, end.status.ToString()));
  if (is_news(end.status, end.finds_nobody)) return;
  std::string victims;
  for (const Strike& strike : disasters_) victims += (victims.empty() ? "" : "; ") + to_string(strike);
  fail(fmt::format("{} ended with {}, expected news of this: {}", end.name, end.status.ToString(), victims));
}

void Job::check_ends() {
  if (const std::optional<std::string> wrong = history_.check_the_end()) fail(*wrong);
  // A worker that comes when the job has failed, or goes on after a stop, finds nobody; and the servers wait
  // for it.
  bool any_is_late = false;
  for (std::uint32_t rank = 0; rank < scenario_.workers; ++rank) {
    const WorkerNode& node = workers_[rank];
    const bool is_late = comes_late(node);
    any_is_late |= is_late;
    check_end({.name = fmt::format("worker {}", rank),
               .status = node.status,
               .at = node.ended_at,
               .is_victim = is_victim(rank),
               .finds_nobody = is_late || node.was_stopped || strangers_are_waited_for_});
  }
  for (const ServerNode& node : servers_) {
    const auto [rank, copy] = std::pair(node.rank, node.copy);
    check_end(
        {.name = copy == 0 ? fmt::format("server {}", rank) : fmt::format("copy {} of server {}", copy, rank),
         .status = node.status,
         .at = node.ended_at,
         .is_victim = node.is_called_off || is_server_victim(rank, copy),
         .finds_nobody = any_is_late || node.was_stopped || strangers_are_waited_for_});
  }
}

JobResult Job::run() {
  const TimePoint start = scheduler_.now();
  trace([&] { return fmt::format("{}", to_string(scenario_)); });
  if (scenario_.left_behind) {
    configurations_.let_them_go_on([this](const std::string& address) { hear_suspicion(address); });
  }
  if (scenario_.has_configurations()) {
    std::vector<cluster::Configuration::Chain> chains(scenario_.servers);
    for (std::uint32_t rank = 0; rank < scenario_.servers; ++rank) {
      for (std::uint32_t copy = 0; copy < scenario_.copies; ++copy)
        chains[rank].push_back(address_of(rank, copy));
    }
    configurations_.begin(std::move(chains));
  }
  for (std::uint32_t place = 0; place < servers_.size(); ++place) {
    ServerNode& node = servers_[place];
    node.rank = place % scenario_.servers;
    node.copy = place / scenario_.servers;
    begin(node);
  }
  for (std::uint32_t rank = 0; rank < scenario_.workers; ++rank)
    workers_[rank].task = scheduler_.spawn([this, rank] { run_worker(rank); }, scenario_.slowness[rank]);
  bool anybody_may_not_come = life_ != nullptr && !life_->disk_faults.empty();
  for (const Strike& strike : disasters_) {
    anybody_may_not_come |=
        (strike.early && !goes_on()) || strike.lacks_memory() || strike.what == Disaster::kTraitor;
    // These disasters begin with their node.
    if (strike.lacks_memory() || strike.what == Disaster::kTraitor) continue;
    scheduler_.spawn([this, &strike] { run_disaster(strike); });
  }
  if (anybody_may_not_come) scheduler_.spawn([this] { end_the_waiting(); });
  if (scenario_.has_configurations()) scheduler_.spawn([this] { end_the_rest(); });

  const auto outcome = scheduler_.run(network_, scheduler_.now() + kMaxTime, kMaxSteps);
  if (outcome == Scheduler::Outcome::kAllEnded) {
    if (!power_has_failed_) check_ends();
  } else {
    fail(outcome == Scheduler::Outcome::kOutOfTime ? "the job does not end: somebody waits in vain"
                                                   : "the job does not end: somebody is busy in vain");
    stop_servers();
    end_all();
    if (scheduler_.run(network_, scheduler_.now() + kMaxTime, kMaxSteps) != Scheduler::Outcome::kAllEnded) {
      // The task's stack cannot be unwound.
      fmt::print(stderr, "seed {}: a task hangs for good, even with all connections broken\n",
                 scenario_.seed);
      std::abort();
    }
  }
  hosts_.reset();
  if (disk_after_that_) archive_->found(*std::move(disk_after_that_));
  return {.failure = failure_,
          .numbers_checked = history_.numbers_checked() + checked_,
          .steps = scheduler_.steps(),
          .digest = scheduler_.digest(),
          .time = scheduler_.now() - start,
          .final_rows = final_rows_,
          .ended_early = history_.ended_early(),
          .rows_localized = rows_localized_,
          .rows_moved_by_intent = rows_moved_by_intent_,
          .rows_replicated = rows_replicated_,
          .replicas_used = replicas_used_,
          .checkpoints = checkpoints_,
          .resumed = scenario_.resume.empty() ? 0U : 1U,
          .failovers = failovers_,
          .moves = moves_,
          .joins = configurations_.joins(),
          .replacements = replacements_,
          .links_cut = links_cut_,
          .left_behind = left_behind_,
          .inherited = inherited_,
          .faults = faults_,
          .restored = restored_,
          .losses = losses_};
}

}  // namespace

JobResult run_job(const Scenario& scenario, const std::function<void(const std::string&)>& trace) {
  if (scenario.checkpoints) return run_lives(scenario, trace);
  return Job(scenario, nullptr, trace).run();
}

JobResult run_life(const Scenario& scenario, const Life& life, Archive& archive,
                   const std::function<void(const std::string&)>& trace) {
  Job job(scenario, archive.newest().empty() ? nullptr : &archive.newest_cut(), trace);
  job.keep(life, archive);
  return job.run();
}

JobResult run_job(Model model, std::uint64_t seed, const std::function<void(const std::string&)>& trace) {
  return run_job(make_scenario(model, seed), trace);
}

}  // namespace verbena::simulation
