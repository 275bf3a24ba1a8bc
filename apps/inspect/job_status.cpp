#include "apps/inspect/job_status.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "apps/inspect/columns.hpp"
#include "apps/inspect/launcher_store.hpp"
#include "base/printable.hpp"
#include "checkpoint/folder.hpp"
#include "job/server_place.hpp"
#include "transport/backends.hpp"

namespace verbena::apps::inspect {
namespace {

using Role = RunStatus::Copy::Role;

std::string ago(double seconds) {
  return fmt::format("{:.1f} s ago", std::max(seconds, 0.0));
}

std::string times(std::uint32_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string text_of_servers(const RunStatus& run) {
  const bool shows_hosts = has_hosts(run);
  std::vector<std::vector<std::string>> lines = {{"server", "copy", "pid", ""}};
  if (shows_hosts) lines.front().emplace_back("on");
  for (std::size_t server = 0; server < run.servers.size(); ++server) {
    if (run.servers[server].empty()) lines.push_back({std::to_string(server), "", "", "is gone"});
    for (const RunStatus::Copy& one : run.servers[server]) {
      lines.push_back({std::to_string(server), std::to_string(one.copy), std::to_string(one.pid),
                       std::string(name_of(one.role))});
      if (shows_hosts) lines.back().push_back(base::printable(one.host));
    }
  }
  return in_columns(lines);
}

std::string text_of_workers(const RunStatus& run) {
  std::vector<std::vector<std::string>> lines = {{"worker", "pid", "iteration", "behind", "reported"}};
  for (const RunStatus::Worker& worker : run.workers) {
    const bool has_reported = worker.iteration >= 0;
    lines.push_back({std::to_string(worker.worker), worker.pid > 0 ? std::to_string(worker.pid) : "",
                     has_reported ? std::to_string(worker.iteration) : "",
                     std::to_string(iterations_behind(run, worker)),
                     worker.finished ? "finished"
                     : has_reported  ? ago(worker.seconds_ago)
                                     : "nothing yet"});
  }
  return in_columns(lines);
}

std::string text_of_moves(const RunStatus& run) {
  std::string text;
  for (const std::string& move : run.moves) text += fmt::format("  {}\n", base::printable(move));
  return text.empty() ? "" : "\nWhat moves:\n" + text;
}

std::string text_of_events(const RunStatus& run) {
  std::string text;
  for (const RunEvent& event : run.events)
    text += fmt::format("{:8.2f} s  {}\n", event.elapsed_seconds, base::printable(event.what));
  return text.empty() ? "" : "\nWhat has happened, in seconds since the start:\n" + text;
}

std::string text_of_clock(const JobStatus& status) {
  if (!status.seen && status.silence.empty())
    return "how many clocks all workers have finished, only the servers know";
  if (!status.seen) return "the servers do not answer: " + base::printable(status.silence);
  return status.seen->clock ? fmt::format("all workers have finished {} clocks", *status.seen->clock)
                            : "all workers have left";
}

std::string text_of_checkpoint(const JobStatus& status) {
  if (status.run->checkpoints.empty()) return "";
  if (!status.checkpoint)
    return fmt::format("no checkpoint yet in {}\n", base::printable(status.run->checkpoints));
  return fmt::format("last checkpoint: {}, of clock {}, written {}\n",
                     base::printable(status.checkpoint->path), status.checkpoint->clock,
                     base::printable(status.checkpoint->written));
}

std::string text_of_run(const JobStatus& status) {
  const RunStatus& run = *status.run;
  std::string text = fmt::format("{}: {}; runs for {:.1f} s\n", base::printable(status.job),
                                 base::printable(run.title), run.elapsed_seconds);
  if (run.configuration > 0)
    text += fmt::format("configuration {}: {}, {}\n", run.configuration, times(run.failovers, "failover"),
                        times(run.joins, "join"));
  if (run.restarts > 0) text += times(run.restarts, "restart") + '\n';
  text += text_of_clock(status) + '\n' + text_of_checkpoint(status);
  return text + '\n' + text_of_servers(run) + '\n' + text_of_workers(run) + text_of_moves(run) +
         text_of_events(run);
}

}  // namespace

bool has_hosts(const RunStatus& run) {
  return std::ranges::any_of(run.servers, [](const std::vector<RunStatus::Copy>& server) {
    return std::ranges::any_of(server, [](const RunStatus::Copy& one) { return !one.host.empty(); });
  });
}

absl::StatusOr<std::optional<RunStatus>> ask_launcher(const FoundJob& job,
                                                      std::shared_ptr<const transport::Secret> secret,
                                                      std::chrono::milliseconds patience) {
  const std::optional<std::int64_t> launcher = job::ServerPlace::run_of(job.name);
  if (!launcher) return std::optional<RunStatus>();
  LauncherStore store(*launcher, std::move(secret), patience);
  const absl::StatusOr<std::optional<std::string>> answer = store.get(kStatusKey);
  if (!answer.ok()) {
    return absl::Status(answer.status().code(),
                        fmt::format("{}: process {}, which leads the run, does not answer: {}", job.name,
                                    *launcher, std::string(answer.status().message())));
  }
  if (!*answer)
    return absl::UnavailableError(
        fmt::format("{}: process {}, which leads the run, has not said yet how it is", job.name, *launcher));
  absl::StatusOr<RunStatus> run = decode_run_status(**answer);
  if (!run.ok()) return run.status();
  return std::optional(*std::move(run));
}

std::vector<std::string> serving_of(const FoundJob& job, const std::optional<RunStatus>& run) {
  if (!run) return job.servers;
  std::vector<std::string> serving;
  for (std::size_t server = 0; server < run->servers.size(); ++server) {
    for (const RunStatus::Copy& one : run->servers[server]) {
      if (one.role != Role::kServes) continue;
      for (const std::string& address : job.servers) {
        const auto place = job::ServerPlace::parse(transport::place_of(address));
        if (place && place->server == one.copy * run->servers.size() + server) serving.push_back(address);
      }
    }
  }
  return serving;
}

std::optional<LastCheckpoint> last_checkpoint(checkpoint::FileSystem& files, const RunStatus& run) {
  if (run.checkpoints.empty()) return std::nullopt;
  const auto listing = checkpoint::Folder(files, run.checkpoints).list();
  if (!listing.ok()) return std::nullopt;  // the first one makes the folder
  for (const checkpoint::Folder::Complete& one : listing->complete) {
    // Others may have written to this folder before.
    if (one.written >= run.began) return LastCheckpoint{one.path, one.clock, one.written};
  }
  return std::nullopt;
}

std::string to_text(const JobStatus& status) {
  if (status.run) return text_of_run(status);
  std::string text = status.job.empty() ? "" : base::printable(status.job) + ": ";
  if (status.seen)
    text += fmt::format(
        "{}, {}, of which {} left; ", times(status.seen->servers, "server"),
        times(status.seen->workers, "worker"),
        status.seen->workers_left == 1 ? "1 has" : fmt::format("{} have", status.seen->workers_left));
  text += text_of_clock(status) + "\n\n";
  for (std::size_t i = 0; i < status.addresses.size(); ++i)
    text += fmt::format("server {}  {}\n", i, base::printable(status.addresses[i]));
  return text + "\nNo process of this host leads this job: only a launcher, or rank 0, could tell more.\n";
}

nlohmann::json to_json(const JobStatus& status) {
  nlohmann::json json = {{"job", nullptr},
                         {"servers", nlohmann::json::array()},
                         {"workers", nlohmann::json::array()},
                         {"events", nlohmann::json::array()},
                         {"clock", nullptr},
                         {"workers_left", nullptr},
                         {"checkpoint", nullptr}};
  if (!status.job.empty()) json["job"] = status.job;
  if (status.run) describe(*status.run, json);
  if (!status.run) {
    for (std::size_t i = 0; i < status.addresses.size(); ++i)
      json["servers"].push_back({{"server", i}, {"address", status.addresses[i]}});
    if (status.seen) {
      for (std::uint32_t worker = 0; worker < status.seen->workers; ++worker)
        json["workers"].push_back({{"worker", worker}});
    }
  }
  if (status.seen) {
    json["workers_left"] = status.seen->workers_left;
    if (status.seen->clock) json["clock"] = *status.seen->clock;
  } else if (!status.silence.empty()) {
    json["silence"] = status.silence;
  }
  if (status.checkpoint) {
    json["checkpoint"] = {{"path", status.checkpoint->path},
                          {"clock", status.checkpoint->clock},
                          {"written", status.checkpoint->written}};
  }
  return json;
}

}  // namespace verbena::apps::inspect
