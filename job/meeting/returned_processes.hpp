// Those who have come to a rank 0 that was started anew, and are of a job whose rank 0 is gone: when are they
// enough to make this one lead that job, and what does it inherit
// (docs/decisions/0066-rank-0-may-die.md)?
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "job/meeting/messages.hpp"
#include "job/meeting/wire.hpp"
#include "job/roster.hpp"
#include "transport/transport.hpp"

namespace verbena::job {

/// A process of a job that runs, and whose rank 0 is gone.
struct ReturnedProcess {
  Wire wire;
  Back says;
  bool is_asked = false;  ///< to tell what was told at fences
};

/// What a rank 0 takes over.
struct InheritedJob {
  std::string name;
  Roster roster;                           ///< the newest one
  std::uint32_t leaders_before = 0;        ///< how many processes have been its rank 0
  std::string told;                        ///< at fences, as lines
  std::vector<ReturnedProcess> members;    ///< those on the roster who have come back
  std::vector<ReturnedProcess> outsiders;  ///< who have come back, too, and are not on it
};

/// Thread safety: none.
class ReturnedProcesses {
 public:
  enum class Heard : std::uint8_t {
    kNobodyHere,  ///< it is none of these
    kSomething,
    kAll,  ///< one of these has told what was told at fences: inherit()
  };

  /// When more than half are there, the rest is waited for so long.
  explicit ReturnedProcesses(std::chrono::milliseconds for_stragglers) : for_stragglers_(for_stragglers) {}

  /// `most`: so many may be here; the one that has come first gives way.
  void add(Wire wire, Back says, std::size_t most);
  Heard hear(const transport::Event& event);
  void forget(const transport::Connection* connection);
  /// Asks one of them what was told at fences, if they are enough.
  void consider(transport::TimePoint now);
  /// The job that this rank 0 leads from now on; nobody else can (roster.hpp). Nobody is left here. nullopt:
  /// some have gone again, and there are too few now.
  std::optional<InheritedJob> inherit();
  /// Nobody is left here.
  std::deque<ReturnedProcess> take_all() { return std::exchange(returned_, {}); }

  [[nodiscard]] bool empty() const { return returned_.empty(); }
  /// How many of a job have come, for people.
  [[nodiscard]] std::string progress() const;
  /// True: nothing is left to say.
  [[nodiscard]] bool try_to_say_all();

 private:
  [[nodiscard]] ReturnedProcess* find_who_knows_best();
  [[nodiscard]] std::size_t count_those_on_roster_of(const ReturnedProcess& one) const;

  const std::chrono::milliseconds for_stragglers_;
  std::deque<ReturnedProcess> returned_;
  std::optional<transport::TimePoint> are_enough_since_;
  std::string recalled_;  ///< by the one that is asked
};

}  // namespace verbena::job
