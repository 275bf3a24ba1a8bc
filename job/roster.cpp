#include "job/roster.hpp"

#include <algorithm>
#include <utility>

namespace verbena::job {
namespace {

using Json = nlohmann::json;

constexpr const char* kNumber = "number";
constexpr const char* kPlaces = "places";

}  // namespace

Roster Roster::of_beginning(std::uint32_t size) {
  return {.number = 0, .places = std::vector<Place>(size, {.incarnation = 0, .is_taken = true})};
}

bool Roster::has(std::uint32_t rank, std::uint32_t incarnation) const {
  return rank < places.size() && places[rank] == Place{.incarnation = incarnation, .is_taken = true};
}

std::size_t Roster::count() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(places, [](const Place& place) { return place.is_taken; }));
}

bool Roster::is_newer_than(const Roster& other) const {
  if (places.empty() || other.places.empty()) return !places.empty();
  return std::pair(places[0].incarnation, number) > std::pair(other.places[0].incarnation, other.number);
}

Json json_of(const Roster& roster) {
  Json places = Json::array();
  for (const Roster::Place& place : roster.places)
    places.push_back(Json::array({place.incarnation, place.is_taken ? 1U : 0U}));
  return {{kNumber, roster.number}, {kPlaces, std::move(places)}};
}

std::optional<Roster> roster_in(const Json& json) {
  constexpr std::size_t kMostPlaces = 1 << 20;
  if (!json.is_object()) return std::nullopt;
  const auto number = json.find(kNumber);
  const auto places = json.find(kPlaces);
  if (number == json.end() || !number->is_number_unsigned()) return std::nullopt;
  if (places == json.end() || !places->is_array() || places->size() > kMostPlaces) return std::nullopt;
  Roster roster{.number = number->get<std::uint64_t>(), .places = {}};
  for (const Json& place : *places) {
    if (!place.is_array() || place.size() != 2 || !place[0].is_number_unsigned() ||
        !place[1].is_number_unsigned() || !std::in_range<std::uint32_t>(place[0].get<std::uint64_t>()))
      return std::nullopt;
    roster.places.push_back(
        {.incarnation = place[0].get<std::uint32_t>(), .is_taken = place[1].get<std::uint64_t>() != 0});
  }
  return roster;
}

std::optional<Roster> RosterKeeper::next(const std::vector<Roster::Place>& wanted) {
  if (!is_settled() || wanted == told_.places) return std::nullopt;
  told_ = {.number = told_.number + 1, .places = wanted};
  heard_ = {0};
  settle();
  return told_;
}

void RosterKeeper::hear(std::uint32_t rank, std::uint64_t number) {
  if (number != told_.number || is_settled()) return;
  heard_.insert(rank);
  settle();
}

bool RosterKeeper::is_backed_by(const std::vector<Roster::Place>& followers) const {
  const auto is_half_of = [&](const Roster& roster) {
    std::size_t count = 0;
    for (std::uint32_t rank = 0; rank < followers.size(); ++rank) {
      // Who leads is itself on each, whoever was rank 0 when a roster was made.
      const bool is_on_it = rank == 0 || roster.has(rank, followers[rank].incarnation);
      if (followers[rank].is_taken && is_on_it) ++count;
    }
    return 2 * count >= roster.count();
  };
  return is_half_of(told_) && is_half_of(settled_);
}

/// Those count that are on both.
void RosterKeeper::settle() {
  const auto known = std::ranges::count_if(heard_, [&](std::uint32_t rank) {
    return rank < told_.places.size() && told_.places[rank].is_taken &&
           settled_.has(rank, told_.places[rank].incarnation);
  });
  if (2 * static_cast<std::size_t>(known) >= settled_.count()) settled_ = told_;
}

}  // namespace verbena::job
