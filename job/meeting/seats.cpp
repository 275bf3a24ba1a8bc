#include "job/meeting/seats.hpp"

#include <algorithm>
#include <utility>

#include "job/meeting/messages.hpp"

namespace verbena::job {

void Seats::begin_again(const Roster& roster, std::uint32_t first_size, std::uint32_t leaders_before) {
  seats_ = std::vector<RankSeat>(roster.places.size());
  for (std::uint32_t rank = 0; rank < size(); ++rank) {
    // Of processes that were added nobody knows here but themselves.
    seats_[rank] = {.has_come = true,
                    .is_gone = true,
                    .is_outlived = true,
                    .is_dismissed = !roster.places[rank].is_taken || rank >= first_size,
                    .incarnation = roster.places[rank].incarnation};
  }
  seats_[0] = {.has_come = true, .has_spoken = true, .incarnation = leaders_before};
}

std::optional<std::uint32_t> Seats::find(const transport::Connection* connection) const {
  for (std::uint32_t rank = 1; rank < size(); ++rank) {
    if (seats_[rank].wire && seats_[rank].wire->uses(connection)) return rank;
  }
  return std::nullopt;
}

std::vector<Roster::Place> Seats::places() const {
  std::vector<Roster::Place> places;
  for (const RankSeat& seat : seats_)
    places.push_back({.incarnation = seat.incarnation, .is_taken = seat.has_come && !seat.is_dismissed});
  return places;
}

std::string Seats::name_of(std::uint32_t rank) const {
  return seats_[rank].wire ? seats_[rank].wire->peer_name() : "that has left";
}

std::uint32_t Seats::add() {
  // As one whose process is gone: another one may come.
  seats_.push_back({.has_come = true, .is_gone = true, .is_outlived = true, .is_dismissed = true});
  return size() - 1;
}

RankSeat& Seats::seat(std::uint32_t rank, Wire wire) {
  RankSeat& seat = seats_[rank];
  if (seat.wire) former_.push_back(*std::move(seat.wire));  // it may not have heard yet that it is dismissed
  seat = RankSeat{.wire = std::move(wire),
                  .has_come = true,
                  .is_outlived = seat.is_outlived,
                  .incarnation = seat.has_come ? seat.incarnation + 1 : 0};
  return seat;
}

void Seats::send_away(Wire wire, const std::string& why) {
  wire.say(dismissed_line(why));
  former_.push_back(std::move(wire));
}

void Seats::forget_former(const transport::Connection* connection) {
  std::erase_if(former_, [&](const Wire& wire) { return wire.uses(connection); });
}

void Seats::tell_all(std::string_view words, std::uint32_t but) {
  for (std::uint32_t rank = 1; rank < size(); ++rank) {
    if (rank != but && seats_[rank].wire) seats_[rank].wire->say(words);
  }
}

bool Seats::try_to_say_all() {
  bool has_said_all = true;
  for (RankSeat& seat : seats_) {
    if (!seat.wire) continue;
    seat.wire->flush();
    has_said_all = has_said_all && seat.wire->has_said_all();
  }
  for (Wire& wire : former_) wire.flush();  // it may be stopped, and never hear it
  return has_said_all;
}

}  // namespace verbena::job
