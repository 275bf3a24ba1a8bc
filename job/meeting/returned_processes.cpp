#include "job/meeting/returned_processes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/printable.hpp"
#include "job/fence_board.hpp"

namespace verbena::job {

using nlohmann::json;
using transport::Connection;
using transport::TimePoint;

void ReturnedProcesses::add(Wire wire, Back says, std::size_t most) {
  std::erase_if(returned_, [&](const ReturnedProcess& one) {
    return one.says.job == says.job && one.says.rank == says.rank && one.says.incarnation == says.incarnation;
  });
  if (returned_.size() >= most) returned_.pop_front();
  returned_.push_back({.wire = std::move(wire), .says = std::move(says)});
}

ReturnedProcesses::Heard ReturnedProcesses::hear(const transport::Event& event) {
  const auto back = std::ranges::find_if(
      returned_, [&](const ReturnedProcess& one) { return one.wire.uses(event.connection); });
  if (back == returned_.end()) return Heard::kNobodyHere;
  bool has_told_all = false;
  const bool is_possible = back->wire.hear(event.message, [&](std::string_view line) {
    if (!back->is_asked || has_told_all) return;
    has_told_all = is_go(json::parse(line, nullptr, false));
    if (!has_told_all) recalled_.append(line).append("\n");
  });
  if (!is_possible || recalled_.size() > Wire::kMostHeldBytes) {
    returned_.erase(back);
    return Heard::kSomething;
  }
  return has_told_all ? Heard::kAll : Heard::kSomething;
}

void ReturnedProcesses::forget(const Connection* connection) {
  std::erase_if(returned_, [&](const ReturnedProcess& one) { return one.wire.uses(connection); });
}

/// One that has come with what all of its job know best, if those are enough of whom that knows; nullptr:
/// they are not.
ReturnedProcess* ReturnedProcesses::find_who_knows_best() {
  for (ReturnedProcess& one : returned_) {
    const bool is_behind = std::ranges::any_of(returned_, [&](const ReturnedProcess& other) {
      return other.says.job == one.says.job && other.says.roster.is_newer_than(one.says.roster);
    });
    if (!is_behind && 2 * count_those_on_roster_of(one) > one.says.roster.count()) return &one;
  }
  return nullptr;
}

std::size_t ReturnedProcesses::count_those_on_roster_of(const ReturnedProcess& one) const {
  return static_cast<std::size_t>(std::ranges::count_if(returned_, [&](const ReturnedProcess& other) {
    return other.says.job == one.says.job && one.says.roster.has(other.says.rank, other.says.incarnation);
  }));
}

void ReturnedProcesses::consider(TimePoint now) {
  if (returned_.empty()) return;
  ReturnedProcess* const best = find_who_knows_best();
  if (best == nullptr) {
    are_enough_since_.reset();
    return;
  }
  if (!are_enough_since_) are_enough_since_ = now;
  const bool are_all =
      count_those_on_roster_of(*best) + 1 >= best->says.roster.count();  // the former rank 0 is on it, too
  if (!are_all && now < *are_enough_since_ + for_stragglers_) return;
  if (std::ranges::any_of(returned_, &ReturnedProcess::is_asked)) return;
  best->is_asked = true;
  recalled_.clear();
  best->wire.say(line_of({{says::kRecall, true}}));
}

std::optional<InheritedJob> ReturnedProcesses::inherit() {
  for (ReturnedProcess& one : returned_) one.is_asked = false;
  const ReturnedProcess* const best = find_who_knows_best();
  if (best == nullptr) return std::nullopt;
  InheritedJob job{.name = best->says.job, .roster = best->says.roster, .told = std::move(recalled_)};
  // One that has led for a moment only may have told nobody of its roster, but more than half of it.
  std::uint32_t last_leader = job.roster.places[0].incarnation;
  for (ReturnedProcess& one : take_all()) {
    const bool is_of_it = one.says.job == job.name;
    if (is_of_it) last_leader = std::max(last_leader, one.says.led_by);
    const bool is_member = is_of_it && job.roster.has(one.says.rank, one.says.incarnation);
    (is_member ? job.members : job.outsiders).push_back(std::move(one));
  }
  job.leaders_before = last_leader + 1;
  return job;
}

std::string ReturnedProcesses::progress() const {
  constexpr std::size_t kMostMissing = 8;
  if (empty()) return {};
  const Back& known = returned_.front().says;
  std::vector<std::string> missing;
  for (std::uint32_t rank = 1; rank < known.roster.places.size(); ++rank) {
    const Roster::Place& place = known.roster.places[rank];
    const bool is_here = std::ranges::any_of(returned_, [&](const ReturnedProcess& one) {
      return one.says.job == known.job && one.says.rank == rank && one.says.incarnation == place.incarnation;
    });
    if (!place.is_taken || is_here) continue;
    const std::string name = rank < known.names.size() ? base::printable(known.names[rank]) : "";
    missing.push_back(fmt::format("rank {}{}", rank, name.empty() ? "" : fmt::format(" ({})", name)));
  }
  if (missing.size() > kMostMissing) {
    const std::size_t more = missing.size() - (kMostMissing - 1);
    missing.resize(kMostMissing - 1);
    missing.push_back(fmt::format("{} more", more));
  }
  return fmt::format(
      "of a job that runs {} of {} processes have come back, and more than half are needed; "
      "missing: {}",
      count_those_on_roster_of(returned_.front()), known.roster.count(), fmt::join(missing, ", "));
}

bool ReturnedProcesses::try_to_say_all() {
  bool has_said_all = true;
  for (ReturnedProcess& one : returned_) {
    one.wire.flush();
    has_said_all = has_said_all && one.wire.has_said_all();
  }
  return has_said_all;
}

}  // namespace verbena::job
