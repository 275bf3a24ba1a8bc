// What a worker has said it will use, and when (Table::intent()): from which keys its first word is to go to
// their homes now, and for which its last.
//
// Just in time (Renz-Wieland et al., "Good Intentions", 2022, section 4.2): acting early keeps rows from
// those who use them now, acting late makes this worker wait. So it acts as many clocks before a key's first
// use as a row has needed to come, lately and nearly always.
//
// Pure rules: no I/O, no time but what it is told. Thread safety: none; one owner.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "consistency/rules.hpp"
#include "worker/moving/key_map.hpp"
#include <verbena/keys.hpp>

namespace verbena::worker {

/// How many clocks before a key's use to act.
class LeadTime {
 public:
  /// Before anything is known.
  static constexpr consistency::Clock kFirst = 10;

  void add_clock(double seconds) { clock_.add(seconds); }
  /// From asking for some rows until the last of them could be used.
  void add_coming(double seconds) { coming_.add(seconds); }
  [[nodiscard]] consistency::Clock clocks() const;

 private:
  /// Mean and mean deviation, smoothed as TCP smooths round trips (Jacobson 1988).
  struct Smoothed {
    double mean = 0;
    double deviation = 0;
    bool known = false;
    void add(double value);
  };
  Smoothed clock_;
  Smoothed coming_;
};

class Intents {
 public:
  using Clock = consistency::Clock;
  using Keys = std::vector<Key>;

  /// For keys below `rows`, before anything else; throws std::bad_alloc.
  void allocate(std::uint64_t rows) { uses_.allocate(rows); }
  /// This worker uses `keys` in its clocks from … to − 1.
  void add(Keys keys, Clock from, Clock to);
  [[nodiscard]] bool empty() const { return waiting_.empty() && begun_.empty() && uses_.empty(); }

  /// Of the keys whose use begins before or at `latest`, those that have not begun: from now on they have.
  /// What is over at `clock` never begins.
  Keys take_begun(Clock clock, Clock latest);
  /// Keys that have begun and are over at `clock`.
  Keys take_ended(Clock clock);
  /// Keys whose use by one intent begins at `clock` or has begun before, each intent once.
  Keys take_used(Clock clock);
  [[nodiscard]] bool has_begun(Key key) const { return uses_.contains(key); }
  /// Of a key that has begun: its use begins at `clock` or has begun before.
  [[nodiscard]] bool is_used_by(Key key, Clock clock) const {
    const auto use = uses_.find(key);
    return use != uses_.end() && use->second.from <= clock;
  }

 private:
  struct Intent {
    Keys keys;
    Clock to = 0;
  };
  /// Of the intents on a key that has begun.
  struct Use {
    Clock from = 0;  ///< the first
    Clock to = 0;    ///< the last
  };
  std::multimap<Clock, Intent> waiting_;  ///< by `from`
  std::multimap<Clock, Keys> begun_;      ///< by `from`, until it is used
  KeyMap<Use> uses_;
  std::map<Clock, Keys> ends_;  ///< by `to`; longer intents may have come since
};

}  // namespace verbena::worker
