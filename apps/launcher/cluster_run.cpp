#include "apps/launcher/cluster_run.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "apps/launcher/child_command.hpp"
#include "apps/launcher/early_reading.hpp"
#include "apps/launcher/hosts_replacement.hpp"
#include "apps/launcher/hosts_succession.hpp"
#include "apps/launcher/leader.hpp"
#include "apps/launcher/own_checkpoints.hpp"
#include "apps/launcher/process_jobs.hpp"
#include "apps/launcher/rank_chains.hpp"
#include "apps/launcher/resume_notes.hpp"
#include "apps/launcher/roles.hpp"
#include "apps/launcher/started_processes.hpp"
#include "apps/launcher/told_configuration.hpp"
#include "apps/report/console.hpp"
#include "apps/report/exit_status.hpp"
#include "apps/resuming/checkpoints.hpp"
#include "apps/resuming/hand_over.hpp"
#include "apps/resuming/stop_gate.hpp"
#include "apps/thrown.hpp"
#include "base/cores.hpp"
#include "base/decimal.hpp"
#include "base/printable.hpp"
#include "base/return_if_error.hpp"
#include "cluster/account.hpp"
#include "cluster/order.hpp"
#include "cluster/word.hpp"
#include "job/address_exchange.hpp"
#include "job/peer_news.hpp"
#include "job/secret_handover.hpp"

namespace verbena::apps {
namespace {

constexpr const char* kVerdict = "verbena.verdict";
constexpr const char* kName = "verbena.name";
constexpr const char* kCores = "verbena.cores";
constexpr const char* kLeader = "verbena.leader";
/// Which host that is on: of another rank 0 it need not be kToldHost, by which all have decided.
constexpr const char* kLeadersHost = "verbena.leader.host";
constexpr const char* kPlan = "verbena.plan";
/// The checkpoint that rank 0 has found for all, behind a letter, so that no value is empty.
constexpr const char* kResume = "verbena.resume";
constexpr std::string_view kFrom = "@";
/// From the leader's word that the run goes on without this process to the reason.
constexpr auto kReasonComesIn = std::chrono::seconds(3);
/// Who ends several processes at once may ask one that another one has started twice: itself, and through
/// that one.
constexpr auto kSameRequest = std::chrono::seconds(1);
/// For those that this process has started, after the run. One that comes too late would look for rank 0.
constexpr std::chrono::milliseconds kPatienceWithStarted(10'000);
/// So often a process that reads before it has its place looks whether it is to end.
constexpr std::chrono::milliseconds kBetweenLooks(50);

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "an unnamed host";
}

/// What this process knows of the others after the first fence.
struct Others {
  std::vector<std::string> hosts;    ///< identities, by rank
  std::vector<std::string> names;    ///< host names, by rank
  std::vector<std::uint32_t> cores;  ///< that the process may use, by rank
  std::vector<std::string> usable;   ///< transport::usable_schemes() between hosts, by rank
  std::vector<Leader::Member> members;
  RankChains chains;                   ///< of servers, if they have copies
  std::vector<std::uint32_t> numbers;  ///< of server processes, by rank: JobOptions::server_processes()

  [[nodiscard]] bool one_host() const { return std::set(hosts.begin(), hosts.end()).size() == 1; }
};

bool has_ended_well(const JobsResult& result) {
  return !result.abandoned && std::all_of(result.statuses.begin(), result.statuses.end(),
                                          [](const absl::Status& status) { return status.ok(); });
}

/// One process of the cluster, from the rendezvous to its end.
class ClusterProcess {
 public:
  ClusterProcess(RunOptions run, Application& application, const ApplicationOptions& options,
                 const ClusterOptions& cluster)
      : run_(std::move(run)), application_(application), options_(options), cluster_(cluster) {}

  int run();

 private:
  void wait_for_started();
  [[nodiscard]] std::uint32_t rank() const { return taken_rank_.value_or(cluster_.rendezvous.rank()); }
  [[nodiscard]] bool leads() const { return rank() == 0; }
  /// It leads a run that goes on, in the place of a process that is gone.
  [[nodiscard]] bool has_taken_over() const { return leads() && is_late(); }
  /// See PeerRendezvous::is_late().
  [[nodiscard]] bool is_late() const { return cluster_.rendezvous.is_late(); }
  /// It was none of those at the job's beginning: then it is a server or a copy, unless it takes the place of
  /// one with workers.
  [[nodiscard]] bool is_added() const { return rank() >= cluster_.rendezvous.size(); }
  [[nodiscard]] bool is_server() const { return is_added() || others_.members[rank()].server; }
  bool stopped();
  absl::Status fence() {
    return cluster_.rendezvous.fence(job::kMeetingPatience, [this] { return stopped(); });
  }
  absl::Status meet(absl::Status verdict);
  absl::Status learn_of_others();
  [[nodiscard]] std::uint32_t agreed_server_threads() const;
  absl::Status learn_where_it_goes_on();
  void learn_chains();
  [[nodiscard]] absl::Status share_configurations();
  [[nodiscard]] absl::Status learn_of_survivors();
  [[nodiscard]] absl::StatusOr<std::unique_ptr<HostsSuccession>> make_succession(job::PeerNews& news) const;
  [[nodiscard]] absl::Status prepare_to_take_over();
  [[nodiscard]] absl::Status listen_to_members();
  absl::Status tell_who_leads();
  void name_survivors();
  void outlive_leader();
  void lead_survivors();
  void say_that_it_has_come(job::PeerNews& news) const;
  [[nodiscard]] absl::Status let_others_replace_workers();
  [[nodiscard]] bool replaces_workers() const {
    return cluster_.rendezvous.news() != nullptr && application_.can_replace_workers();
  }
  [[nodiscard]] absl::Status take_own_host();
  [[nodiscard]] absl::Status learn_task();
  [[nodiscard]] absl::Status take_place_of_workers(std::uint32_t rank);
  [[nodiscard]] std::uint32_t server_number() const;
  /// The same for workers; rank 0 says why not.
  [[nodiscard]] std::string why_workers_stay() const;
  void prepare_to_step_aside();
  [[nodiscard]] std::string plan() const;
  absl::Status prepare();
  absl::Status decide_transport();
  absl::Status open_link();
  struct FoundLeader {
    std::unique_ptr<LeaderLink> link;
    std::optional<cluster::HasLeader> next;  ///< which one that is; nullopt: the first that it knew
  };
  absl::StatusOr<FoundLeader> connect_to_leader();
  [[nodiscard]] absl::Status check_memory_here() const;
  /// With checkpoints, a signal lets all save before they end.
  [[nodiscard]] bool saves_first() const { return !run_.job.checkpoints.folder.empty(); }
  [[nodiscard]] LeaderLink::StopListener hear_of_stop(LeaderLink& link);
  [[nodiscard]] LeaderLink::StopListener hear_of_stop_of_others();
  [[nodiscard]] bool ends_with_leader();
  [[nodiscard]] bool goes_on_after(int signal);
  absl::StatusOr<ProcessJobs> make_jobs(const Role& role, const std::atomic<bool>& stop);
  int meet_and_train();
  int train();
  int train(std::thread& listening);
  [[noreturn]] void abort(const absl::Status& why);
  int lead(std::thread listening, int own_status);
  void wait_for_reason() const;
  void follow(const JobsResult& result, bool lost);
  [[nodiscard]] int step_aside();
  [[nodiscard]] bool is_asked_again();
  [[nodiscard]] int status_of_stop();
  int end_early(const absl::Status& status);

  RunOptions run_;
  Application& application_;
  const ApplicationOptions& options_;
  const ClusterOptions& cluster_;
  int signal_ = 0;                           ///< a signal that came before the jobs began
  std::uint32_t late_server_ = 0;            ///< of one that comes while the job runs, if it is to be a copy
  std::optional<std::uint32_t> taken_rank_;  ///< of one that was added, if it has workers' place
  absl::Status can_go_on_from_checkpoint_;   ///< of one that was added: as workers have to
  bool has_asked_to_leave_ = false;
  std::optional<std::chrono::steady_clock::time_point> asked_at_;  ///< by a signal, while the jobs run
  int asked_of_ = 0;  ///< LeaderLink::leaders_before() at that time: another leader does not know of it
  bool has_stepped_aside_ = false;
  /// All processes know that rank 0 has found an error. They meet once more after it has printed the error,
  /// because mpirun ends all processes when the first one leaves.
  bool called_off_ = false;
  Others others_;
  const std::string own_host_ = job::host_identity();
  StartedProcesses started_;
  std::string leaders_address_;
  bool leader_is_here_ = false;                          ///< on this host
  std::unique_ptr<RunOutputs> outputs_;                  ///< rank 0's
  std::unique_ptr<HostsSuccession> succession_;          ///< rank 0's, if servers have copies
  std::unique_ptr<HostsReplacement> replacement_;        ///< rank 0's, if workers can be replaced
  std::map<std::uint32_t, cluster::Account> survivors_;  ///< by rank: what they say, if it has taken over
  std::mutex link_mutex_;                                ///< while others may use the link, or wait for it
  std::optional<StopGate> stop_gate_;                    ///< of a process of workers that saves first
  std::atomic<bool> others_hold_ = false;  ///< of a process of servers: workers are to save and end
  std::optional<HandOver> hand_over_;      ///< of one in whose place another one may be
  std::unique_ptr<LeaderLink> link_;
  std::optional<cluster::HasLeader> next_leader_;  ///< that was heard of before there was a link
  // After what they call:
  std::unique_ptr<ToldConfiguration> told_;  ///< if servers have copies
  std::unique_ptr<Leader> leader_;           ///< rank 0's
  std::unique_ptr<EarlyReading> early_;      ///< of one that is to have workers' place
};

bool ClusterProcess::stopped() {
  if (const std::optional<int> signal = cluster_.signals.take()) signal_ = *signal;
  return signal_ != 0;
}

/// Ends before the leader listens. Rank 0 prints an error of the run as a whole, for all processes; the
/// others have CANCELLED instead and print nothing.
int ClusterProcess::end_early(const absl::Status& status) {
  if (signal_ != 0) {
    if (leads()) put_warning(stderr, fmt::format("verbena: stopped by SIG{}\n", ::sigabbrev_np(signal_)));
    return kExitSignalBase + signal_;
  }
  const int exit_status = absl::IsCancelled(status) ? kExitUsage : report_error(status);
  if (called_off_) static_cast<void>(fence());
  return exit_status;
}

int ClusterProcess::run() {
  const int status = meet_and_train();
  const bool is_reading = early_ != nullptr && !early_->has_ended();
  if (!is_reading && cluster_.rendezvous.ends_this_process()) return status;  // and they go on
  if (!cluster_.rendezvous.ends_this_process()) wait_for_started();
  if (is_reading) {  // it cannot be asked to end
    std::fflush(stdout);
    ::_exit(status);
  }
  return status;
}

void ClusterProcess::wait_for_started() {
  started_.wait(cluster_.signals, has_stepped_aside_ ? std::nullopt : std::optional(kPatienceWithStarted));
}

int ClusterProcess::meet_and_train() {
  absl::Status verdict = share_out(cluster_.rendezvous.size(), run_);
  decide_consistency(run_.job, application_, /*is_one_node=*/false);
  if (verdict.ok() && cluster_.rendezvous.news() == nullptr) verdict = check_no_replicas(run_.job);
  if (verdict.ok() && leads()) verdict = check_all(application_, run_);
  std::string resumes;
  if (verdict.ok() && leads()) {
    absl::StatusOr<std::string> decided = decide_resume(run_.job, application_, options_);
    verdict = decided.status();
    if (decided.ok()) resumes = *std::move(decided);
  }
  absl::Status status = meet(std::move(verdict));
  // One that takes a run over goes by what the others know, and finds out here that it does.
  if (status.ok() && !resumes.empty() && !has_taken_over() && !run_.quiet) print_error("{}", resumes);
  if (status.ok()) status = meet(prepare());
  if (status.ok()) {
    const absl::StatusOr<std::string> address = cluster_.rendezvous.get(0, kLeader);
    status = address.status();
    leaders_address_ = address.value_or("");
  }
  if (status.ok()) {
    const absl::StatusOr<std::string> host = cluster_.rendezvous.get(0, kLeadersHost);
    status = host.status();
    leader_is_here_ = host.value_or("") == own_host_;
  }
  if (!status.ok()) return end_early(status);
  if (!run_.job.verbose) spdlog::set_level(spdlog::level::off);  // rank 0 prints the errors
  if (has_taken_over()) lead_survivors();
  return train();
}

/// A fence, at which rank 0 tells the others whether to go on. So an error that rank 0 finds, as a launcher
/// does before it starts a process, is printed once.
absl::Status ClusterProcess::meet(absl::Status verdict) {
  job::Rendezvous& rendezvous = cluster_.rendezvous;
  const std::string key = fmt::format("{}.{}", kVerdict, others_.hosts.empty() ? "first" : "second");
  const bool first = others_.hosts.empty();
  RETURN_IF_ERROR(rendezvous.put(key, verdict.ok() ? "go" : "no"));
  if (first) {
    if (leads()) RETURN_IF_ERROR(job::put_secret(rendezvous));
    for (const auto& [name, value] : {std::pair(job::kToldHost, job::host_identity()),
                                      {kName, fmt::format("{} {}", ::getpid(), host_name())},
                                      {kCores, std::to_string(base::cores_at_hand())},
                                      {kPlan, plan()},
                                      {kResume, fmt::format("{}{}", kFrom, run_.job.checkpoints.resume_from)},
                                      {job::kToldTransports, usable_between_hosts(run_.job.transport)}}) {
      RETURN_IF_ERROR(rendezvous.put(name, value));
    }
  }
  const absl::Status met = fence();
  if (leads() && !verdict.ok()) {
    called_off_ = met.ok();
    return verdict;
  }
  if (!met.ok()) return met;
  const absl::StatusOr<std::string> leaders_verdict = rendezvous.get(0, key);
  if (!leaders_verdict.ok()) return leaders_verdict.status();
  if (*leaders_verdict != "go") {
    called_off_ = true;
    return absl::CancelledError("rank 0 says why");
  }
  // Rank 0 has found nothing wrong: it was told something else, or has another host.
  if (!verdict.ok()) abort(verdict);
  return first ? learn_of_others() : absl::OkStatus();
}

/// What all processes must have been told alike, or they would wait for what none of them does.
std::string ClusterProcess::plan() const {
  const JobOptions& job = run_.job;
  return fmt::format("{} --servers {}{}{} --workers {} --threads {} --consistency {} --transport {}{}{}",
                     std::string(application_.name()), job.servers,
                     job.replicas == 0 ? "" : fmt::format(" --replicas {}", job.replicas),
                     job.elastic ? " --elastic" : "", job.workers, job.threads, job.consistency,
                     job.transport.transport, job.transport.tls ? " --tls" : "",
                     saves_first() ? " --checkpoint" : "");
}

absl::Status ClusterProcess::learn_of_others() {
  job::Rendezvous& rendezvous = cluster_.rendezvous;
  absl::StatusOr<std::shared_ptr<const transport::Secret>> secret = job::get_secret(rendezvous);
  if (!secret.ok()) return secret.status();
  run_.job.transport.secret = *std::move(secret);
  const absl::StatusOr<std::string> leaders_plan = rendezvous.get(0, kPlan);
  if (!leaders_plan.ok()) return leaders_plan.status();
  if (is_late() && plan() != *leaders_plan) {  // the others know only what the one before it was to run
    return absl::InvalidArgumentError(
        fmt::format("rank {} is to run {}, and rank 0 {}: expected the same", rank(), plan(), *leaders_plan));
  }
  RETURN_IF_ERROR(learn_where_it_goes_on());
  for (std::uint32_t other = 0; other < rendezvous.size(); ++other) {
    const absl::StatusOr<std::string> others_plan = rendezvous.get(other, kPlan);
    if (!others_plan.ok()) return others_plan.status();
    if (*others_plan != *leaders_plan) {  // all find the same, so that all end
      called_off_ = true;
      if (!leads()) return absl::CancelledError("rank 0 says why");
      return absl::InvalidArgumentError(fmt::format("rank {} is to run {}, and rank 0 {}: expected the same",
                                                    other, *others_plan, *leaders_plan));
    }
    absl::StatusOr<std::string> host = rendezvous.get(other, job::kToldHost);
    if (!host.ok()) return host.status();
    const absl::StatusOr<std::string> name = rendezvous.get(other, kName);
    if (!name.ok()) return name.status();
    absl::StatusOr<std::string> usable = rendezvous.get(other, job::kToldTransports);
    if (!usable.ok()) return usable.status();
    others_.usable.push_back(*std::move(usable));
    const absl::StatusOr<std::string> cores = rendezvous.get(other, kCores);
    if (!cores.ok()) return cores.status();
    others_.cores.push_back(base::parse_decimal<std::uint32_t>(*cores).value_or(1));
    const std::size_t space = name->find(' ');
    others_.hosts.push_back(*std::move(host));
    others_.names.push_back(name->substr(space + 1));
    others_.members.push_back(
        {.name = fmt::format("(rank {}, pid {} on {})", other, name->substr(0, space), others_.names.back()),
         .server = other < run_.job.server_processes(),
         .host = others_.names.back()});
    static_cast<void>(absl::SimpleAtoi(name->substr(0, space), &others_.members.back().pid));
  }
  learn_chains();
  run_.job.agreed_server_threads = agreed_server_threads();
  return absl::OkStatus();
}

/// On the host that has the fewest to spare: copies take one another's places, and must be alike.
std::uint32_t ClusterProcess::agreed_server_threads() const {
  struct Load {
    std::uint32_t cores = 0;
    std::uint32_t workers = 0;
    std::uint32_t servers = 0;
  };
  std::map<std::string, Load> loads;
  for (std::uint32_t other = 0; other < others_.hosts.size(); ++other) {
    Load& load = loads[others_.hosts[other]];
    load.cores = std::max(load.cores, others_.cores[other]);
    if (others_.members[other].server) {
      ++load.servers;
    } else {
      load.workers += run_.job.threads;
    }
  }
  std::uint32_t least = std::numeric_limits<std::uint32_t>::max();
  for (const auto& [host, load] : loads) {
    if (load.servers > 0)
      least = std::min(least, threads_of_a_server(load.cores, load.workers, load.servers));
  }
  return least;
}

/// Each could find another newest checkpoint: so only rank 0 looks.
absl::Status ClusterProcess::learn_where_it_goes_on() {
  if (leads() && !is_late()) return absl::OkStatus();
  const absl::StatusOr<std::string> told = cluster_.rendezvous.get(0, kResume);
  if (!told.ok()) return told.status();
  run_.job.checkpoints.resume_from = told->substr(kFrom.size());
  const absl::Status followed = follow_resume(run_.job, application_);
  // Only a worker reads it, and it may be gone when others have been made since.
  const bool trains = !is_added() && rank() >= run_.job.server_processes();
  if (is_added()) can_go_on_from_checkpoint_ = followed;
  return is_late() && !trains && absl::IsNotFound(followed) ? absl::OkStatus() : followed;
}

/// Which process is which, as all decide alike from the same facts.
void ClusterProcess::learn_chains() {
  const JobOptions& job = run_.job;
  FormedChains formed = form_chains(others_.hosts, job.servers, job.replicas);
  if (leads() && !is_late() && !formed.are_apart) {
    put_warning(
        stderr,
        "verbena: warning: some servers have a copy on their own host: the run begins, and survives the "
        "death of their processes, but not of that host, which would take both; with server processes "
        "on more hosts it would\n");
  }
  others_.chains = std::move(formed.ranks);
  others_.numbers.resize(job.server_processes());
  for (std::uint32_t server = 0; server < job.servers; ++server) {
    for (std::uint32_t copy = 0; copy < others_.chains[server].size(); ++copy) {
      const std::uint32_t rank = others_.chains[server][copy];
      others_.numbers[rank] = copy * job.servers + server;
      Leader::Member& member = others_.members[rank];
      member.of_server = server;
      member.name = copy == 0 ? fmt::format("server {} {}", server, member.name)
                              : fmt::format("copy {} of server {} {}", copy, server, member.name);
    }
  }
  for (std::uint32_t rank = job.server_processes(); rank < others_.members.size(); ++rank) {
    std::string& name = others_.members[rank].name;
    name = fmt::format("worker {} {}", rank - job.server_processes(), name);
  }
}

/// Before the servers' addresses are known: whoever knows them may know a newer configuration.
absl::Status ClusterProcess::share_configurations() {
  if (cluster_.rendezvous.news() == nullptr) return absl::OkStatus();
  job::PeerNews& news = *cluster_.rendezvous.news();
  if (!leads()) {
    if (run_.job.can_move_servers()) {
      told_ = std::make_unique<ToldConfiguration>(others_.chains, news);
      told_->start_others_by([this](std::uint32_t rank) { started_.start(rank); });
      outlive_leader();
    }
    if (is_late()) say_that_it_has_come(news);
    return absl::OkStatus();
  }
  if (replaces_workers()) RETURN_IF_ERROR(let_others_replace_workers());
  if (!run_.job.can_move_servers()) {
    if (replacement_ != nullptr) news.listen(replacement_->listener());
    return absl::OkStatus();
  }
  news.outlive_leader(run_.job.longest_absence_of_leader());
  if (succession_ == nullptr) {
    absl::StatusOr<std::unique_ptr<HostsSuccession>> succession = make_succession(news);
    if (!succession.ok()) return succession.status();
    succession_ = *std::move(succession);
  }
  leader_->survive_by(*succession_);
  told_ = std::make_unique<ToldConfiguration>(
      others_.chains, news,
      replacement_ == nullptr ? succession_->listener()
                              : both(succession_->listener(), replacement_->listener()),
      [this](const cluster::Configuration& first) { succession_->begin(first); });
  told_->start_others_by([this](std::uint32_t rank) { started_.start(rank); });
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<HostsSuccession>> ClusterProcess::make_succession(job::PeerNews& news) const {
  std::vector<HostsSuccession::HostOfRank> hosts;
  for (std::size_t other = 0; other < others_.hosts.size(); ++other)
    hosts.push_back({.machine = others_.hosts[other], .name = others_.names[other]});
  if (!has_taken_over()) return HostsSuccession::make(others_.chains, hosts, news, why_workers_stay());
  cluster::Configuration newest;
  std::vector<HostsSuccession::Survivor> survivors;
  for (const auto& [rank, account] : survivors_) {
    if (account.configuration.number > newest.number) newest = account.configuration;
    survivors.push_back({.rank = rank,
                         .address = account.address,
                         .host = {.machine = account.machine, .name = account.host}});
  }
  return HostsSuccession::take_over(others_.chains, hosts, news, survivors, std::move(newest),
                                    why_workers_stay());
}

std::string ClusterProcess::why_workers_stay() const {
  if (replaces_workers()) return "";
  return fmt::format("those of {} with these options have a state of their own",
                     std::string(application_.name()));
}

void ClusterProcess::say_that_it_has_come(job::PeerNews& news) const {
  news.say(cluster::encode(cluster::Arrival{.pid = static_cast<std::uint32_t>(::getpid()),
                                            .host = host_name(),
                                            .machine = own_host_,
                                            .takes = run_.takes_servers,
                                            .takes_workers = run_.takes_workers}));
}

// ---- when rank 0 is gone, and another one comes

/// Of any other rank.
void ClusterProcess::outlive_leader() {
  const std::chrono::seconds patience = run_.job.longest_absence_of_leader();
  if (patience.count() == 0) return;
  told_->outlive_leader({.patience = patience,
                         .own = {.pid = static_cast<std::uint32_t>(::getpid()),
                                 .host = host_name(),
                                 .machine = own_host_,
                                 .address = {},
                                 .configuration = {}},
                         .ends_with_it = [this] { return ends_with_leader(); },
                         .on_gone =
                             [this] {
                               const std::lock_guard lock(link_mutex_);
                               if (link_ != nullptr) link_->leave_leader();
                             },
                         .on_next =
                             [this](const cluster::HasLeader& next) {
                               const std::lock_guard lock(link_mutex_);
                               next_leader_ = next;
                               if (link_ != nullptr) link_->follow(next.address, next.machine == own_host_);
                             }});
}

/// Of a rank 0 that has taken over.
absl::Status ClusterProcess::learn_of_survivors() {
  const JobOptions& job = run_.job;
  job::PeerNews* const news = cluster_.rendezvous.news();
  if (news == nullptr || job.replicas == 0) return absl::InternalError("nobody can take this run over");
  for (const job::PeerNews::Returned& one : news->returned()) {
    absl::StatusOr<cluster::Account> account = cluster::decode_account(one.described);
    if (!account.ok()) {  // it ends just now, say
      news->dismiss(one.rank, std::string(account.status().message()));
      continue;
    }
    if (account->configuration.servers.size() != job.servers)
      return absl::InvalidArgumentError(fmt::format("rank {} goes by a configuration of {} servers, of {}",
                                                    one.rank, account->configuration.servers.size(),
                                                    job.servers));
    survivors_[one.rank] = *std::move(account);
  }
  if (replaces_workers()) return absl::OkStatus();
  for (std::uint32_t rank = job.server_processes(); rank < cluster_.rendezvous.size(); ++rank) {
    if (survivors_.contains(rank)) continue;
    return absl::AbortedError(
        fmt::format("{} was lost with rank 0, or while nobody led the run", others_.members[rank].name));
  }
  return absl::OkStatus();
}

/// As those are called who came while the run went on.
void ClusterProcess::name_survivors() {
  std::vector<Leader::Member>& members = others_.members;
  for (const auto& [rank, account] : survivors_) {
    while (members.size() <= rank) members.push_back({.name = "nobody", .server = true});
    const auto copy = succession_->copy_of(rank);
    Leader::Member& member = members[rank];
    const std::string host(base::printable(account.host));
    const std::string where = fmt::format("(rank {}, pid {} on {})", rank, account.pid, host);
    member.pid = account.pid;
    member.host = host;
    if (copy) {
      member.of_server = copy->server;
      member.copy = copy->copy;
      member.name = copy->copy == 0 ? fmt::format("server {} {}", copy->server, where)
                                    : fmt::format("copy {} of server {} {}", copy->copy, copy->server, where);
    } else if (!member.server) {
      member.name = fmt::format("worker {} {}", rank - run_.job.server_processes(), where);
    }
  }
}

/// From now on this rank 0 decides.
void ClusterProcess::lead_survivors() {
  job::PeerNews& news = *cluster_.rendezvous.news();
  put_warning(stderr,
              fmt::format("verbena: this process leads the run, in the place of one that is gone; {} of "
                          "its processes are there\n",
                          survivors_.size()));
  if (replacement_ != nullptr) replacement_->begin();
  succession_->go_on();
  news.tell(cluster::encode(cluster::HasLeader{.address = leader_->address(), .machine = own_host_}));
  say_that_it_has_come(news);
}

absl::Status ClusterProcess::let_others_replace_workers() {
  const JobOptions& job = run_.job;
  absl::StatusOr<std::unique_ptr<HostsReplacement>> replacement =
      HostsReplacement::make({.first_rank = job.server_processes(),
                              .processes = job.workers,
                              .workers = job.threads,
                              .patience = std::chrono::seconds(job.worker_patience_s),
                              .silence_timeout = std::chrono::milliseconds(job.silence_timeout_ms)},
                             *cluster_.rendezvous.news());
  if (!replacement.ok()) return replacement.status();
  replacement_ = *std::move(replacement);
  leader_->replace_by(*replacement_);
  return absl::OkStatus();
}

/// Decides what every process decides in the same way, from the same facts; on rank 0, also prepares what it
/// needs to listen.
absl::Status ClusterProcess::prepare() {
  RETURN_IF_ERROR(decide_transport());
  if (is_late()) RETURN_IF_ERROR(take_own_host());
  if (!leads()) return share_configurations();
  spdlog::info("run {}: {} {}", std::string(application_.name()), effective(run_.job), options_.effective());
  absl::StatusOr<std::unique_ptr<RunOutputs>> outputs = RunOutputs::create(run_, application_, options_);
  if (!outputs.ok()) return outputs.status();
  outputs_ = *std::move(outputs);
  absl::StatusOr<std::unique_ptr<StatusDesk>> desk = StatusDesk::open(run_.job.checkpoints.folder);
  if (desk.ok()) {
    outputs_->monitor().tell_at(*std::move(desk));
  } else {
    spdlog::info("nobody can look into this run: {}", std::string(desk.status().message()));
  }
  if (has_taken_over()) return prepare_to_take_over();
  RETURN_IF_ERROR(listen_to_members());
  RETURN_IF_ERROR(share_configurations());
  return tell_who_leads();
}

absl::Status ClusterProcess::tell_who_leads() {
  RETURN_IF_ERROR(cluster_.rendezvous.put(kLeadersHost, own_host_));
  return cluster_.rendezvous.put(kLeader, leader_->address());
}

/// What goes wrong with this process alone may go well with another one, for which the others wait.
absl::Status ClusterProcess::prepare_to_take_over() {
  absl::Status status = learn_of_survivors();
  if (status.ok()) {
    absl::StatusOr<std::unique_ptr<HostsSuccession>> succession =
        make_succession(*cluster_.rendezvous.news());
    status = succession.status();
    if (succession.ok()) succession_ = *std::move(succession);
  }
  if (!status.ok()) {
    cluster_.rendezvous.abort(exit_status(status), std::string(status.message()));
    return status;
  }
  name_survivors();
  RETURN_IF_ERROR(listen_to_members());
  std::vector<std::uint32_t> gone;
  for (std::uint32_t other = 0; other < others_.members.size(); ++other) {
    if (others_.members[other].server && !succession_->copy_of(other)) gone.push_back(other);
  }
  leader_->begin_without(gone);
  RETURN_IF_ERROR(share_configurations());
  RETURN_IF_ERROR(cluster_.rendezvous.put(kName, fmt::format("{} {}", ::getpid(), host_name())));
  return tell_who_leads();
}

absl::Status ClusterProcess::listen_to_members() {
  absl::StatusOr<std::unique_ptr<Leader>> leader =
      Leader::listen(!run_.job.transport.has_other_hosts, others_.members, run_.job.transport.secret,
                     run_.job.transport.tls);
  if (!leader.ok()) return leader.status();
  leader_ = *std::move(leader);
  if (saves_first()) leader_->save_first();
  return absl::OkStatus();
}

absl::Status ClusterProcess::decide_transport() {
  TransportOptions& chosen = run_.job.transport;
  // Where servers move, other hosts may come.
  chosen.has_other_hosts = !others_.one_host() || run_.job.elastic;
  if (chosen.transport == kAutoTransport && chosen.has_other_hosts) {
    const absl::StatusOr<const transport::Backend*> common =
        transport::common_backend(transport::Reach::kHosts, others_.usable);
    if (!common.ok()) return common.status();
    chosen.transport = (*common)->scheme;
  }
  chosen = decided(chosen, transport::Reach::kHost);
  if (is_decided_for(chosen, transport::Reach::kHost) && !others_.one_host()) {
    const std::set<std::string> names(others_.names.begin(), others_.names.end());
    return absl::InvalidArgumentError(
        fmt::format("--transport {} needs all processes on one host; they are on {} (or in containers that "
                    "share no network namespace)",
                    chosen.transport, absl::StrJoin(names, ", ")));
  }
  RETURN_IF_ERROR(check(run_.job));
  return run_.baseline ? absl::OkStatus() : check_gather(application_, run_.job);
}

/// Until now this process has gone by what the one whose place it takes had told, to decide what all others
/// have decided.
absl::Status ClusterProcess::take_own_host() {
  const TransportOptions& chosen = run_.job.transport;
  const bool needs_their_host = !chosen.has_other_hosts || is_decided_for(chosen, transport::Reach::kHost);
  if (needs_their_host && others_.hosts[0] != own_host_) {
    return absl::InvalidArgumentError(
        fmt::format("rank {} joins a job whose processes share a host, and is on another one ({}, not {}): "
                    "expected the same host, user and network namespace, or a job that was begun with "
                    "--elastic and a transport between hosts",
                    rank(), host_name(), others_.names[0]));
  }
  if (!is_added()) others_.hosts[rank()] = own_host_;
  return absl::OkStatus();
}

/// One that has got a place when its rank 0 died hears of the next one before it has a link.
absl::StatusOr<ClusterProcess::FoundLeader> ClusterProcess::connect_to_leader() {
  const auto next_leader = [this] {
    const std::lock_guard lock(link_mutex_);
    return next_leader_;
  };
  for (;;) {
    const std::optional<cluster::HasLeader> next = next_leader();
    const auto is_over = [&] { return stopped() || next_leader() != next; };
    absl::StatusOr<std::unique_ptr<LeaderLink>> link = LeaderLink::connect(
        next ? next->address : leaders_address_, rank(), next ? next->machine == own_host_ : leader_is_here_,
        *run_.job.transport.secret, job::kMeetingPatience, is_over, run_.job.transport.tls);
    if (link.ok()) return FoundLeader{.link = *std::move(link), .next = next};
    if (stopped() || next_leader() == next) return link.status();
  }
}

absl::Status ClusterProcess::open_link() {
  absl::StatusOr<FoundLeader> found = connect_to_leader();
  if (!found.ok()) return found.status();
  LeaderLink& link = *found->link;
  LeaderLink::Listening listening;
  if (!leads() && told_ != nullptr && run_.job.longest_absence_of_leader().count() > 0)
    listening.outlives_with = run_.job.transport.secret;
  if (saves_first()) listening.stop = is_server() ? hear_of_stop_of_others() : hear_of_stop(link);
  if (listening.outlives_with != nullptr || listening.stop) RETURN_IF_ERROR(link.listen(listening));
  const std::lock_guard lock(link_mutex_);
  link_ = std::move(found->link);
  if (next_leader_ != found->next) link_->follow(next_leader_->address, next_leader_->machine == own_host_);
  return absl::OkStatus();
}

// ---- the end

/// Of a process of workers.
LeaderLink::StopListener ClusterProcess::hear_of_stop(LeaderLink& link) {
  stop_gate_.emplace(run_.job.threads, is_late(), [&link](const StopGate::Begun& begun) {
    link.send(job::HeldMessage{.begun = begun.iteration, .has_finished = begun.has_finished});
  });
  StopGate& gate = *stop_gate_;
  return {.hold = [&gate](int signal) { gate.hold(signal); },
          .end_after = [&gate](std::int64_t iteration) { gate.end_after(iteration); },
          .release = [&gate] { gate.release(); },
          .is_held = [&gate] { return gate.is_held(); }};
}

/// Of a process of servers, which are needed until all have saved.
LeaderLink::StopListener ClusterProcess::hear_of_stop_of_others() {
  return {.hold = [this](int /*signal*/) { others_hold_ = true; },
          .end_after = [](std::int64_t /*iteration*/) {},
          .release = [this] { others_hold_ = false; },
          .is_held = [this] { return others_hold_.load(); }};
}

/// Any thread: all were to save and end, and another rank 0 would not know it.
bool ClusterProcess::ends_with_leader() {
  const std::lock_guard lock(link_mutex_);
  return link_ != nullptr && link_->is_held();
}

/// A server's process that is to end lets its copy take its place, and one with workers that can be replaced
/// another one. All others, if they can, let all save and end. Not if they are asked twice; nor one that has
/// no place yet, and those that the others end.
bool ClusterProcess::goes_on_after(int signal) {
  if (cluster_.rendezvous.ends_this_process()) return false;
  started_.signal(signal);
  const bool is_copy = told_ != nullptr && is_server() && !leads();
  const bool has_place = !is_copy || told_->has_place();
  const bool leaves = ((is_copy && has_place) || hand_over_) && signal == SIGTERM;
  if (!has_place || !(leaves || (saves_first() && link_->is_led()))) return false;
  const auto now = std::chrono::steady_clock::now();
  if (asked_of_ != link_->leaders_before()) asked_at_.reset();  // this one does not know of it
  asked_of_ = link_->leaders_before();
  // Of those that were added others may pass the same signal on.
  const bool may_be_same = leaves || is_added();
  if (asked_at_) return may_be_same && now < *asked_at_ + kSameRequest;
  asked_at_ = now;
  if (leaves) {
    has_asked_to_leave_ = true;
    told_->leave();
  } else {
    link_->send(job::AskedToStopMessage{signal});
  }
  return true;
}

absl::Status ClusterProcess::check_memory_here() const {
  std::uint32_t servers = is_added() ? 1 : 0;
  std::uint32_t workers = 0;
  for (std::size_t other = 0; other < others_.hosts.size(); ++other) {
    if (others_.hosts[other] != own_host_) continue;
    ++(others_.members[other].server ? servers : workers);
  }
  return check_memory(run_.job, servers, workers);
}

absl::StatusOr<ProcessJobs> ClusterProcess::make_jobs(const Role& role, const std::atomic<bool>& stop) {
  RETURN_IF_ERROR(check_memory_here());
  if (is_server()) return server_jobs(role, *link_, stop);
  return cluster_.worker_jobs(role, *link_, stop);
}

int ClusterProcess::train() {
  std::thread listening;
  int status = kExitFailed;
  const absl::Status ended = run_caught([&] {
    status = train(listening);
    return absl::OkStatus();
  });
  if (!ended.ok()) abort(ended);
  return status;
}

/// Ends all processes of the job; this one at once.
void ClusterProcess::abort(const absl::Status& why) {
  const int status = report_error(why);
  cluster_.rendezvous.abort(status, std::string(why.message()));
  ::_exit(status);
}

/// See JobOptions::server_processes(). One that has come while the job runs has a number beyond these, of the
/// server that rank 0 says.
std::uint32_t ClusterProcess::server_number() const {
  return is_late() ? late_server_ + run_.job.servers * (1 + run_.job.replicas + rank())
                   : others_.numbers[rank()];
}

/// Of one that comes while the job runs, in the place of a server's or a copy's process, or as another one.
absl::Status ClusterProcess::learn_task() {
  const absl::StatusOr<ToldConfiguration::Task> task = told_->wait_for_task([this] { return stopped(); });
  if (!task.ok()) return task.status();
  if (const auto* const workers = std::get_if<cluster::BecomesWorkers>(&*task))
    return take_place_of_workers(workers->rank);
  late_server_ = std::get<cluster::BecomesCopy>(*task).server;
  return absl::OkStatus();
}

/// They are there, and train, until this process has read all that they have: so others hardly wait for it.
absl::Status ClusterProcess::take_place_of_workers(std::uint32_t rank) {
  const std::uint32_t first = run_.job.server_processes();
  if (!is_added() || rank < first || rank >= cluster_.rendezvous.size())
    return absl::InvalidArgumentError(
        fmt::format("rank 0 says that this process becomes the workers of rank {}, which has none", rank));
  RETURN_IF_ERROR(can_go_on_from_checkpoint_);
  // Whatever can be found out now costs the run nothing: the other process has the place still.
  others_.hosts[rank] = own_host_;
  RETURN_IF_ERROR(check_memory_here());
  early_ = std::make_unique<EarlyReading>(application_, (rank - first) * run_.job.threads, run_.job.threads,
                                          run_.job.total_workers());
  for (bool has_said = false, has_place = false; !has_place;) {
    if (!has_said && early_->has_ended()) {
      RETURN_IF_ERROR(early_->status());
      told_->has_read();
      has_said = true;
    }
    const absl::StatusOr<bool> place = told_->wait_for_place(kBetweenLooks);
    if (!place.ok()) return place.status();
    if (stopped()) return absl::CancelledError("stopped");
    has_place = *place;
  }
  taken_rank_ = rank;
  say_that_it_has_come(*cluster_.rendezvous.news());
  return absl::OkStatus();
}

/// Of a process of workers, if another one can take its place while it is there.
void ClusterProcess::prepare_to_step_aside() {
  if (told_ == nullptr || !replaces_workers()) return;
  hand_over_.emplace(
      run_.job.threads, [this] { return told_->steps_aside(); },
      [this](std::int64_t after) { return !stop_gate_ || stop_gate_->let_another_go_on(after); });
}

int ClusterProcess::train(std::thread& listening) {
  if (leads()) {
    listening = std::thread([this] {
      const absl::Status heard = run_caught([this] {
        leader_->run(outputs_->monitor());
        return absl::OkStatus();
      });
      if (!heard.ok()) abort(heard);
    });
  }
  // Before rank 0 has found something for this process to do, it does not listen to it.
  const absl::Status has_task = is_late() && is_server() ? learn_task() : absl::OkStatus();
  if (!has_task.ok() && has_taken_over()) {
    put_warning(stderr, fmt::format("verbena: this process leads the run, and is no server: {}\n",
                                    std::string(has_task.message())));
    return lead(std::move(listening), kExitOk);
  }
  if (!has_task.ok()) return end_early(has_task);
  const bool server = is_server();
  const std::uint32_t first_worker = run_.job.server_processes();
  if (const absl::Status linked = open_link(); !linked.ok()) {
    const int status = end_early(linked);
    if (!leads()) return status;
    cluster_.rendezvous.abort(status, "rank 0 cannot listen");
    ::_exit(status);
  }
  if (!server) prepare_to_step_aside();
  job::AddressExchange addresses(cluster_.rendezvous, first_worker);
  const Role role{
      .job = run_.job,
      .rank = server ? server_number() : rank() - first_worker,
      .own_server = server ? std::nullopt : own_server(others_.hosts, run_.job.servers, first_worker, rank()),
      .addresses = &addresses,
      .run = others_.members[0].pid,
      .on_met =
          [this] {
            if (replacement_ != nullptr) replacement_->begin();
          },
      .stop_gate = stop_gate_ ? &*stop_gate_ : nullptr,
      .hand_over = hand_over_ ? &*hand_over_ : nullptr,
      .early = early_.get(),
      .joins = is_late(),
      .replaces_workers = replaces_workers(),
      .incarnation = cluster_.rendezvous.incarnation(),
      .told = told_.get()};
  std::atomic<bool> stop = false;
  JobsResult result;
  if (absl::StatusOr<ProcessJobs> jobs = make_jobs(role, stop); jobs.ok()) {
    jobs->listener_descriptor = link_->descriptor();
    jobs->goes_on_after = [this](int signal) { return goes_on_after(signal); };
    jobs->on_signal = [this](int signal) { link_->send(job::SignaledMessage{signal}); };
    result = run_jobs(*std::move(jobs), cluster_.signals, stop);
  } else {
    result.statuses.push_back(jobs.status());
  }
  if (hand_over_ && hand_over_->is_over() && has_ended_well(result)) return step_aside();
  const bool steps_aside = server && (has_asked_to_leave_ || (told_ != nullptr && told_->steps_aside()));
  has_stepped_aside_ = steps_aside && !told_->has_place() && !result.abandoned;
  if (has_stepped_aside_) return kExitOk;
  int status = report_result(result, *link_);
  if (!result.abandoned) addresses.give_up();  // after the report: who learns of it asks nobody why
  const auto cancelled = std::find_if(result.statuses.begin(), result.statuses.end(),
                                      [](const absl::Status& ended) { return absl::IsCancelled(ended); });
  if (status == kExitOk && cancelled != result.statuses.end() && !result.told_to_stop) {
    // Another process says why. The leader must not take this end for one without a word.
    link_->send(job::FailedMessage{*cancelled, job::Cause::kFollowed});
    status = kExitFailed;
  }
  if (status == kExitOk && (result.told_to_stop || result.abandoned)) status = kExitFailed;
  const bool lost = result.told_to_stop && link_->lost();
  link_->send(job::EndedMessage{status});
  if (leads()) {
    status = lead(std::move(listening), status);
  } else {
    follow(result, lost);
    if (status == kExitOk) status = status_of_stop();
  }
  if (result.abandoned) {
    std::fflush(stdout);
    ::_exit(status);
  }
  return status;
}

/// It is none of the job any more when rank 0, or the next one, has heard so: would it end before, it would
/// be missed as one that has died, and what it has reported could be lost.
int ClusterProcess::step_aside() {
  has_stepped_aside_ = true;
  link_->send(job::SteppedAsideMessage{});
  const auto is_ended = [this] { return cluster_.rendezvous.ends_this_process() || is_asked_again(); };
  while (!link_->wait_for_end(is_ended)) {
    if (is_ended()) return kExitSignalBase + (signal_ == 0 ? SIGTERM : signal_);
    spdlog::warn("this process has stepped aside, and waits until rank 0 has heard so");
  }
  if (!link_->lost()) return kExitOk;
  report_error(absl::UnavailableError(
      fmt::format("{} is gone, which led the run, and may not have heard that this process has stepped aside",
                  others_.members[0].name)));
  return kExitFailed;
}

/// By another signal than the one because of which it leaves.
bool ClusterProcess::is_asked_again() {
  const std::optional<int> signal = cluster_.signals.take();
  if (signal) started_.signal(*signal);
  const bool may_be_same = asked_at_ && std::chrono::steady_clock::now() < *asked_at_ + kSameRequest;
  if (signal && !may_be_same) signal_ = *signal;
  return signal_ != 0;
}

/// Of a process that has ended well: as rank 0's, if all have saved and ended because of a signal.
int ClusterProcess::status_of_stop() {
  const int of_gate = stop_gate_ ? stop_gate_->ended_by() : 0;
  const int signal = of_gate != 0 ? of_gate : link_->ended_by();
  return signal == 0 ? kExitOk : kExitSignalBase + signal;
}

/// The end of the run, in rank 0.
int ClusterProcess::lead(std::thread listening, int own_status) {
  listening.join();
  if (leader_->leads_no_more()) {  // the rendezvous has said why
    leader_.reset();
    return kExitFailed;
  }
  const absl::Status& failure = outputs_->monitor().failure();
  const int signal = failure.ok() ? leader_->signal() : 0;
  if (signal != 0 && saves_first() && !outputs_->monitor().model_summary().contains(kSavedAtStop))
    outputs_->monitor().warn(words_of_unsaved_stop(run_.job.checkpoints.folder, absl::OkStatus()));
  const int status = outputs_->finish(failure, signal);
  if (leader_->abandoned()) {
    std::fflush(stdout);
    cluster_.rendezvous.abort(status == kExitOk ? kExitFailed : status, "some processes did not end");
  }
  leader_.reset();  // the others may go now
  // The run has done without its server, if that came late.
  const bool is_needed = !has_taken_over() || told_->has_place();
  return status == kExitOk && is_needed ? own_status : status;
}

/// The run goes on without this process. The user hears why from the rendezvous, whose word may come after
/// that of the leader's link.
void ClusterProcess::wait_for_reason() const {
  const auto deadline = std::chrono::steady_clock::now() + kReasonComesIn;
  while (!cluster_.rendezvous.ends_this_process() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

/// The end of the run, in the other ranks.
void ClusterProcess::follow(const JobsResult& result, bool lost) {
  if (link_->is_dismissed()) return wait_for_reason();
  const bool has_saved = stop_gate_ && stop_gate_->ended_by() != 0;
  if (lost && ends_with_leader() && !has_saved) {
    report_error(
        absl::UnavailableError(fmt::format("{}, which led the run, is gone while all were to save and end: "
                                           "what is left is the newest checkpoint",
                                           others_.members[0].name)));
    return;
  }
  // Only where the run goes on without this process rank 0 says nothing to it, and does well.
  const auto is_ended = [&] {
    return (told_ != nullptr || has_saved) && (cluster_.rendezvous.ends_this_process() || stopped());
  };
  const bool is_silent = !lost && !link_->wait_for_end(is_ended, has_saved) && !is_ended();
  // Rank 0 would have printed what has happened. Now rank 1 prints it instead, and the other processes wait
  // for the same time once more, because mpirun kills the others when the first process fails.
  if (rank() != 1) {
    if (is_silent) link_->wait_for_end(is_ended);
    return;
  }
  const auto failed = std::find_if(result.statuses.begin(), result.statuses.end(),
                                   [](const absl::Status& status) { return !status.ok(); });
  if (is_silent && failed != result.statuses.end()) {
    // Rank 0 may be stopped, or its host may hang.
    report_error(
        absl::Status(failed->code(), fmt::format("{} ({}, which led the run, does not answer)",
                                                 std::string(failed->message()), others_.members[0].name)));
  }
  if (!lost) return;
  report_error(absl::UnavailableError(fmt::format(
      "{} is gone, which led the run: it was killed, or its host is gone", others_.members[0].name)));
}

}  // namespace

absl::Status share_out(std::uint32_t size, RunOptions& run) {
  JobOptions& job = run.job;
  if (job.checkpoints.restarts > 0) {
    return absl::InvalidArgumentError(
        "--restarts: only what has started the processes can start them again: expected something that does, "
        "with the same words and --resume");
  }
  if (run.baseline) {
    return absl::InvalidArgumentError(fmt::format("--baseline is one process; {} were started", size));
  }
  const bool says_servers = job.given.contains("servers");
  const bool says_workers = job.given.contains("workers");
  const std::uint32_t of_each = 1 + job.replicas;
  if (!says_servers && !says_workers) job.servers = std::max(1U, size / 2 / of_each);
  if (!says_servers && says_workers) job.servers = (size - std::min(size, job.workers)) / of_each;
  if (!says_workers) job.workers = size - std::min(size, job.server_processes());
  if (job.servers > 0 && job.workers > 0 && job.server_processes() + job.workers == size)
    return absl::OkStatus();
  if (job.replicas > 0) {
    return absl::InvalidArgumentError(fmt::format(
        "{} processes were started, which cannot be {} servers with {} more copies each and {} "
        "workers: the number of processes must be --servers × (1 + --replicas) + --workers, with at "
        "least 1 server and 1 worker",
        size, job.servers, job.replicas, job.workers));
  }
  return absl::InvalidArgumentError(
      fmt::format("{} processes were started, which cannot be {} servers and {} workers: --servers and "
                  "--workers must come to the number of processes, each at least 1",
                  size, job.servers, job.workers));
}

std::optional<std::uint32_t> own_server(std::span<const std::string> hosts, std::uint32_t servers,
                                        std::uint32_t first_worker, std::uint32_t rank) {
  assert(rank >= first_worker && first_worker >= servers);
  std::vector<std::uint32_t> here;
  for (std::uint32_t server = 0; server < servers; ++server) {
    if (hosts[server] == hosts[rank]) here.push_back(server);
  }
  if (here.empty()) return std::nullopt;
  const auto workers_before =
      static_cast<std::size_t>(std::count(hosts.begin() + first_worker, hosts.begin() + rank, hosts[rank]));
  return here[workers_before % here.size()];
}

int run_in_cluster(RunOptions run, Application& application, const ApplicationOptions& options,
                   const ClusterOptions& cluster) {
  return ClusterProcess(std::move(run), application, options, cluster).run();
}

}  // namespace verbena::apps
