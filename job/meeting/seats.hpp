// The ranks of a job, as rank 0 sees them: who has come as each, and what has become of that one.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "job/meeting/wire.hpp"
#include "job/roster.hpp"
#include "transport/transport.hpp"

namespace verbena::job {

/// Of one rank.
struct RankSeat {
  std::optional<Wire> wire = std::nullopt;  ///< rank 0 has none, nor has one that is gone
  bool has_come = false;
  bool is_gone = false;       ///< it has left, or is lost
  bool is_outlived = false;   ///< its end is not that of all
  bool is_dismissed = false;  ///< and is not heard any more
  bool has_spoken = false;    ///< a word of it was heard
  bool has_said_goodbye = false;
  bool has_ended = false;         ///< on purpose, also if it was late: it looks for no other rank 0
  std::uint32_t incarnation = 0;  ///< how many have come as this rank before
  /// What it has said before all have met, for the case that another job goes on instead.
  std::vector<std::string> said = {};

  /// It has come in the place of one that was dismissed.
  [[nodiscard]] bool is_late() const { return incarnation > 0; }
};

/// Thread safety: none.
class Seats {
 public:
  /// Rank 0 has come.
  explicit Seats(std::uint32_t size) : seats_(size) { seats_[0].has_come = true; }

  /// Of a job of `first_size` processes at its beginning, whose newest roster that is, and whose rank 0 is
  /// gone: nobody but this rank 0 is there yet, which others have been before.
  void begin_again(const Roster& roster, std::uint32_t first_size, std::uint32_t leaders_before);

  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(seats_.size()); }
  [[nodiscard]] RankSeat& operator[](std::uint32_t rank) { return seats_[rank]; }
  [[nodiscard]] const RankSeat& operator[](std::uint32_t rank) const { return seats_[rank]; }
  [[nodiscard]] std::optional<std::uint32_t> find(const transport::Connection* connection) const;
  /// Another process may come as that rank: nobody has, or the run goes on without the one that has.
  [[nodiscard]] bool is_free(std::uint32_t rank) const {
    return !seats_[rank].has_come || seats_[rank].is_dismissed;
  }
  /// Who is of the job.
  [[nodiscard]] std::vector<Roster::Place> places() const;
  /// For people.
  [[nodiscard]] std::string name_of(std::uint32_t rank) const;

  /// The rank of a process that will be added.
  std::uint32_t add();
  /// A process comes as that rank, which is free.
  RankSeat& seat(std::uint32_t rank, Wire wire);
  /// It has no seat, is told why, and ends.
  void send_away(Wire wire, const std::string& why);
  /// The connection of one without a seat is gone.
  void forget_former(const transport::Connection* connection);

  /// But not that rank.
  void tell_all(std::string_view words, std::uint32_t but = 0);
  /// True: nothing is left to say.
  [[nodiscard]] bool try_to_say_all();

 private:
  std::vector<RankSeat> seats_;  ///< by rank; also of processes that are added
  std::deque<Wire> former_;      ///< of those that were dismissed, and whose places others have
};

}  // namespace verbena::job
