// What a process of a job does: serve, or train. It does not matter what started the process.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "apps/application.hpp"
#include "apps/launcher/job_options.hpp"
#include "apps/launcher/outlet.hpp"
#include "apps/launcher/process_jobs.hpp"
#include "job/address_exchange.hpp"
#include "job/launchers_configuration.hpp"

namespace verbena::apps {

class EarlyReading;
class HandOver;
class StopGate;
class ToldConfiguration;

struct Role {
  JobOptions job;  ///< its transport is decided
  /// Of this process among its kind; of a server's, its number: see JobOptions::server_processes().
  std::uint32_t rank = 0;
  /// For a worker process: the server of the node that it belongs to. nullopt: its rank modulo the number of
  /// servers.
  std::optional<std::uint32_t> own_server = std::nullopt;
  /// Where processes exchange the servers' addresses; nullptr: `job` has them.
  job::AddressExchange* addresses = nullptr;
  /// The process after which the job is called on this host; nullopt: the parent, which has started them all.
  std::optional<std::int64_t> run = std::nullopt;
  /// Of a server: is called when all have done so.
  std::function<void()> on_met = [] {};
  /// Where the job's workers agree after which iteration they save and end when they are asked to stop: the
  /// process has then all the time that this takes. nullptr: it ends at once.
  std::atomic<std::uint64_t>* stop_word = nullptr;
  /// The same for a process of workers of a job over several hosts.
  StopGate* stop_gate = nullptr;
  /// Of a process of workers in whose place another one may be: how they step aside for it.
  HandOver* hand_over = nullptr;
  /// What a process of workers has begun to read already, if it has.
  EarlyReading* early = nullptr;
  bool joins = false;  ///< it comes while the job runs: a server's copy, or in another worker's place
  bool replaces_workers = false;  ///< other processes take the places of workers that die
  std::uint32_t incarnation = 0;  ///< SessionOptions::incarnation of all workers of a process
  /// For a job on one host whose servers have copies; else nullptr.
  job::Decided decided = nullptr;
  /// For a job on several hosts whose servers have copies; else nullptr.
  ToldConfiguration* told = nullptr;
};

/// The jobs for run_jobs(). The arguments must outlive the jobs; `stop` is the flag that run_jobs() sets.
/// UNAVAILABLE and similar errors if this host lacks what the transport needs.
absl::StatusOr<ProcessJobs> server_jobs(const Role& role, Outlet& outlet, const std::atomic<bool>& stop);
/// `make_notes`: those of the job's checkpoints. Called once, if any are made, and when the worker has its
/// place in the job, because it may read all data.
using MakeNotes = std::function<absl::StatusOr<std::map<std::string, std::string>>()>;
ProcessJobs worker_jobs(const Role& role, Application& application, Outlet& outlet,
                        const std::atomic<bool>& stop, MakeNotes make_notes);
ProcessJobs baseline_jobs(Application& application, Outlet& outlet, const std::atomic<bool>& stop);

}  // namespace verbena::apps
