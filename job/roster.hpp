// Which processes a job has, as rank 0 tells all of them, so that never two processes lead a job that was not
// ended (docs/decisions/0066-rank-0-may-die.md).
//
// Each roster follows from one that is *settled*: at least half of those on it know the one after it. A
// process that is started as rank 0 while a job runs leads it only if more than half of those on the newest
// roster that any of them knows have come to it. Of a job that is led, that many cannot come elsewhere
// without its rank 0 finding that it can settle nothing any more, and then it gives up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

namespace verbena::job {

struct Roster {
  /// Of a rank.
  struct Place {
    std::uint32_t incarnation = 0;  ///< of the process that has it, or had it last
    bool is_taken = false;

    bool operator==(const Place&) const = default;
  };

  std::uint64_t number = 0;   ///< of one rank 0's process
  std::vector<Place> places;  ///< by rank; that of rank 0 is its own

  /// All of a job at its beginning.
  static Roster of_beginning(std::uint32_t size);

  [[nodiscard]] bool has(std::uint32_t rank, std::uint32_t incarnation) const;
  /// How many are on it.
  [[nodiscard]] std::size_t count() const;
  [[nodiscard]] bool is_newer_than(const Roster& other) const;

  bool operator==(const Roster&) const = default;
};

nlohmann::json json_of(const Roster& roster);
/// nullopt: it is none. A peer may have written it.
std::optional<Roster> roster_in(const nlohmann::json& json);

/// Rank 0's. Thread safety: none.
class RosterKeeper {
 public:
  /// At least half of those on `settled` know it, or nothing else.
  explicit RosterKeeper(Roster settled) : settled_(std::move(settled)), told_(settled_) {}

  /// The roster that all are to be told now, if the last one has other places. nullopt: none, or not before
  /// the last one is settled.
  std::optional<Roster> next(const std::vector<Roster::Place>& wanted);
  /// That rank's process knows the roster of that number.
  void hear(std::uint32_t rank, std::uint64_t number);

  /// So many of those on the last roster that all were told, and as long as it is not settled of those on the
  /// one before, have these places that too few are left to make another rank 0.
  [[nodiscard]] bool is_backed_by(const std::vector<Roster::Place>& followers) const;

  /// The last one that all were told.
  [[nodiscard]] const Roster& told() const { return told_; }
  [[nodiscard]] bool is_settled() const { return told_.number == settled_.number; }

 private:
  void settle();

  Roster settled_;
  Roster told_;
  std::set<std::uint32_t> heard_;  ///< ranks that know told_
};

}  // namespace verbena::job
