#include "apps/report/run_status.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "job/child_message.hpp"

namespace verbena::apps {
namespace {

using nlohmann::json;
using CopyRole = RunStatus::Copy::Role;

/// In the order of CopyRole.
constexpr std::array<std::string_view, 4> kRoleNames = {"starts", "serves", "follows", "joins"};

CopyRole role_of(const std::string& name) {
  const auto found = std::ranges::find(kRoleNames, name);
  return found == kRoleNames.end() ? CopyRole::kStarts : static_cast<CopyRole>(found - kRoleNames.begin());
}

json json_of(const RunStatus::Copy& copy) {
  json one = {{"copy", copy.copy}, {"pid", copy.pid}, {"role", name_of(copy.role)}};
  if (!copy.host.empty()) one["host"] = copy.host;
  return one;
}

json json_of(const RunStatus::Worker& worker) {
  return {{"worker", worker.worker},
          {"pid", worker.pid},
          {"iteration", worker.iteration},
          {"seconds_ago", worker.seconds_ago},
          {"finished", worker.finished}};
}

json json_of(const RunEvent& event) {
  return {{"kind", name_of(event.kind)}, {"elapsed_seconds", event.elapsed_seconds}, {"what", event.what}};
}

/// Throws what the library throws if something is missing, or of another kind.
RunStatus read_status(const json& from) {
  RunStatus status{.title = from.at("title"),
                   .began = from.at("began"),
                   .elapsed_seconds = from.at("elapsed_seconds"),
                   .configuration = from.at("configuration"),
                   .servers = {},
                   .moves = from.value("moves", std::vector<std::string>()),
                   .workers = {},
                   .failovers = from.at("failovers"),
                   .joins = from.at("joins"),
                   .restarts = from.at("restarts"),
                   .events = {},
                   .checkpoints = from.at("checkpoints")};
  for (const json& chain : from.at("servers")) {
    std::vector<RunStatus::Copy>& copies = status.servers.emplace_back();
    for (const json& copy : chain)
      copies.push_back({.copy = copy.at("copy"),
                        .pid = copy.at("pid"),
                        .role = role_of(copy.at("role")),
                        .host = copy.value("host", "")});
  }
  for (const json& worker : from.at("workers")) {
    status.workers.push_back({.worker = worker.at("worker"),
                              .pid = worker.at("pid"),
                              .iteration = worker.at("iteration"),
                              .seconds_ago = worker.at("seconds_ago"),
                              .finished = worker.at("finished")});
  }
  for (const json& event : from.at("events")) {
    const std::optional<RunEvent::Kind> kind = event_kind_of(event.at("kind").get<std::string>());
    if (!kind) continue;  // of a newer launcher
    status.events.push_back(
        {.kind = *kind, .elapsed_seconds = event.at("elapsed_seconds"), .what = event.at("what")});
  }
  return status;
}

}  // namespace

std::string_view name_of(CopyRole role) {
  return kRoleNames.at(static_cast<std::size_t>(role));
}

std::string encode(const RunStatus& status) {
  json servers = json::array();
  for (const std::vector<RunStatus::Copy>& chain : status.servers) {
    json& copies = servers.emplace_back(json::array());
    for (const RunStatus::Copy& copy : chain) copies.push_back(json_of(copy));
  }
  json workers = json::array();
  for (const RunStatus::Worker& worker : status.workers) workers.push_back(json_of(worker));
  json events = json::array();
  for (const RunEvent& event : status.events) events.push_back(json_of(event));
  return job::to_line({{"title", status.title},
                       {"began", status.began},
                       {"elapsed_seconds", status.elapsed_seconds},
                       {"configuration", status.configuration},
                       {"servers", std::move(servers)},
                       {"moves", status.moves},
                       {"workers", std::move(workers)},
                       {"failovers", status.failovers},
                       {"joins", status.joins},
                       {"restarts", status.restarts},
                       {"events", std::move(events)},
                       {"checkpoints", status.checkpoints}});
}

absl::StatusOr<RunStatus> decode_run_status(std::string_view text) {
  // The parser's own limit of depth is the stack: nothing here is deeper than this.
  constexpr int kDeepest = 6;
  const auto is_shallow = [](int depth, json::parse_event_t, json&) { return depth <= kDeepest; };
  try {
    return read_status(json::parse(text, is_shallow));
  } catch (const json::exception& error) {
    return absl::InvalidArgumentError(fmt::format("a status of a run: {}", error.what()));
  }
}

std::int64_t iterations_behind(const RunStatus& run, const RunStatus::Worker& worker) {
  std::int64_t newest = 0;
  for (const RunStatus::Worker& each : run.workers) newest = std::max(newest, each.iteration);
  return newest - std::max<std::int64_t>(worker.iteration, 0);
}

void describe(const RunStatus& run, json& into) {
  into["title"] = run.title;
  into["began"] = run.began;
  into["elapsed_seconds"] = run.elapsed_seconds;
  into["configuration"] = run.configuration > 0 ? json(run.configuration) : json();
  into["failovers"] = run.failovers;
  into["joins"] = run.joins;
  into["restarts"] = run.restarts;
  for (std::size_t server = 0; server < run.servers.size(); ++server) {
    json copies = json::array();
    for (const RunStatus::Copy& copy : run.servers[server]) {
      copies.push_back(json_of(copy));
      if (copy.pid == 0) copies.back()["pid"] = nullptr;
    }
    into["servers"].push_back({{"server", server}, {"copies", std::move(copies)}});
  }
  if (!run.moves.empty()) into["moves"] = run.moves;
  for (const RunStatus::Worker& worker : run.workers) {
    json one = {{"worker", worker.worker},
                {"pid", nullptr},
                {"iteration", nullptr},
                {"behind", iterations_behind(run, worker)},
                {"reported_seconds_ago", worker.seconds_ago},
                {"finished", worker.finished}};
    if (worker.pid > 0) one["pid"] = worker.pid;
    if (worker.iteration >= 0) one["iteration"] = worker.iteration;
    into["workers"].push_back(std::move(one));
  }
  for (const RunEvent& event : run.events) into["events"].push_back(json_of(event));
}

RunStatus status_of(const RunRecord& record, double elapsed_seconds) {
  RunStatus status;
  status.elapsed_seconds = elapsed_seconds;
  status.failovers = record.failovers();
  status.joins = record.count(RunEvent::Kind::kJoin);
  status.restarts = record.restarts();
  for (const WorkerRecord& worker : record.workers()) {
    status.workers.push_back({.worker = static_cast<std::uint32_t>(status.workers.size()),
                              .iteration = worker.last_iteration,
                              .seconds_ago = elapsed_seconds - worker.reported_seconds,
                              .finished = worker.finished.has_value()});
  }
  const std::vector<RunEvent>& events = record.events();
  const std::size_t told = std::min(events.size(), RunStatus::kMostEvents);
  status.events.assign(events.end() - static_cast<std::ptrdiff_t>(told), events.end());
  return status;
}

}  // namespace verbena::apps
