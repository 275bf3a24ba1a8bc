#include "tests/simulation/lives.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/folder.hpp"
#include "checkpoint/verify.hpp"
#include "tests/simulation/saver.hpp"

namespace verbena::simulation {

using consistency::Clock;

void Archive::cut(Clock clock, Cut cut) {
  cuts_.erase(clock);  // of a life before, whose checkpoint was not written; or a worker has died meanwhile
  cuts_.emplace(clock, std::move(cut));
}

std::optional<std::string> Archive::written(Clock clock, const Checkpoints& checkpoints, bool fails) {
  written_.insert(clock);
  const auto listing = checkpoint::Folder(disk, kCheckpointFolder).list();
  if (!listing.ok()) return fmt::format("checkpoint {} is written: {}", clock, listing.status().ToString());
  const bool is_newest =
      !listing->complete.empty() && listing->complete.front().clock == static_cast<std::uint64_t>(clock);
  const std::size_t kept = listing->complete.size();
  // What lives before have left of later clocks stays.
  const auto left = std::count_if(
      listing->unfinished.begin(), listing->unfinished.end(),
      [&](const std::string& name) { return std::stoll(name.substr(name.find('-') + 1)) <= clock; });
  // There may be more than worker 0 has asked about, and those that the oldest one builds upon.
  const std::size_t fewest = least(checkpoints.keep);
  const std::size_t resumed = checkpoints.keep_resumed && !newest_.empty() ? 1 + checkpoints.increments : 0;
  const std::size_t most = checkpoints.keep + checkpoints.increments + resumed;
  if (is_newest && kept >= fewest && (fails || (kept <= most && left == 0))) return std::nullopt;
  return fmt::format(
      "checkpoint {} is written: {} are there, expected {} to {}, {} unfinished are left, and it is {}the "
      "newest",
      clock, kept, fewest, most, left, is_newest ? "" : "not ");
}

std::optional<std::string> Archive::look(std::uint64_t keep) {
  checkpoint::Folder folder(disk, kCheckpointFolder);
  const auto listing = folder.list();
  if (!listing.ok() && !absl::IsNotFound(listing.status())) return listing.status().ToString();
  std::vector<checkpoint::Folder::Complete> complete;
  if (listing.ok()) complete = listing->complete;
  if (listing.ok() && !listing->damaged.empty()) {
    return fmt::format("{} has its name, and is damaged: {}", listing->damaged.front().name,
                       listing->damaged.front().reason);
  }
  for (const checkpoint::Folder::Complete& one : complete) {
    if (!cuts_.contains(static_cast<Clock>(one.clock)))
      return fmt::format("{} is there, though not all workers were at its cut", one.name);
    for (const checkpoint::Damage& damage : checkpoint::verify(disk, one.path)) return to_string(damage);
  }
  const auto newest = complete.empty() ? 0 : static_cast<Clock>(complete.front().clock);
  if (!written_.empty() && newest < *written_.rbegin())
    return fmt::format("checkpoint {} was written, and the newest is {}", *written_.rbegin(), newest);
  if (complete.size() < least(keep))
    return fmt::format("{} checkpoints are there, of {} at least", complete.size(), least(keep));
  const auto valid = folder.newest_valid();
  if (valid.ok() != !complete.empty()) return valid.status().ToString();
  newest_ = valid.ok() ? valid->reader.path() : "";
  if (valid.ok() && newest_ != complete.front().path)
    return fmt::format("{} is not the newest of those that are whole", newest_);
  // What comes after it comes again.
  cuts_.erase(cuts_.upper_bound(newest), cuts_.end());
  std::set<Clock> there;
  for (const checkpoint::Folder::Complete& one : complete) there.insert(static_cast<Clock>(one.clock));
  std::erase_if(written_, [&](Clock clock) { return !there.contains(clock); });
  if (std::exchange(all_is_on_disk_, false)) written_ = there;
  return std::nullopt;
}

namespace {

Scenario scenario_of(const Scenario& scenario, const Life& life, const std::string& resume) {
  Scenario one = scenario;
  one.servers = life.servers;
  one.lanes = life.lanes;
  one.lane_tasks = life.lane_tasks;
  one.nodes = life.nodes;
  one.clocks = life.clocks;
  one.network.seed = life.seed;
  one.scheduler.seed = life.seed + 1;
  one.disasters = life.disasters;
  one.resume = resume;
  return one;
}

void add(const JobResult& life, JobResult& all) {
  all.failure = life.failure;
  all.digest = all.digest * 31 + life.digest;
  all.final_rows = life.final_rows;
  all.time += life.time;
  for (std::uint64_t JobResult::*const count :
       {&JobResult::numbers_checked, &JobResult::steps, &JobResult::ended_early, &JobResult::rows_localized,
        &JobResult::rows_moved_by_intent, &JobResult::rows_replicated, &JobResult::replicas_used,
        &JobResult::checkpoints, &JobResult::resumed, &JobResult::failovers, &JobResult::moves,
        &JobResult::joins, &JobResult::replacements, &JobResult::losses, &JobResult::left_behind,
        &JobResult::restored, &JobResult::faults})
    all.*count += life.*count;
}

}  // namespace

JobResult run_lives(const Scenario& scenario, const std::function<void(const std::string&)>& trace) {
  const Checkpoints& checkpoints = *scenario.checkpoints;
  Archive archive;
  JobResult all;
  for (std::size_t i = 0; i < checkpoints.lives.size() && !all.failure; ++i) {
    const Life& life = checkpoints.lives[i];
    add(run_life(scenario_of(scenario, life, archive.newest()), life, archive, trace), all);
    std::mt19937_64 random(life.seed + 2);
    if (life.power_fails_after_it)
      archive.found(archive.disk.survivor([&](std::size_t ways) { return below(random, ways); }));
    if (!all.failure) all.failure = archive.look(checkpoints.keep);
    if (all.failure) all.failure = fmt::format("life {}: {}", i, *all.failure);
  }
  return all;
}

}  // namespace verbena::simulation
