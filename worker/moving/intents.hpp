// What a worker has said it will use, and when (Table::intent()): for which keys it must now tell others of
// its first intent, and for which keys that its last intent is over.
//
// Just in time (Renz-Wieland et al., "Good Intentions", 2022, section 4.2): acting early keeps rows from
// workers that use them now, acting late makes this worker wait. So a worker acts so many clocks before a
// key's first use that lately nearly all rows would have come in time.
//
// Pure rules: no I/O, and no time but what the caller passes. Thread safety: none; one owner.
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
  /// Used before anything is known.
  static constexpr consistency::Clock kFirst = 10;

  void add_clock(double seconds) { clock_.add(seconds); }
  /// The time from asking for some rows until the last of them could be used.
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

  /// For keys below `rows`. Must be called first; throws std::bad_alloc.
  void allocate(std::uint64_t rows) { uses_.allocate(rows); }
  /// This worker uses `keys` in its clocks from … to − 1.
  void add(Keys keys, Clock from, Clock to);
  [[nodiscard]] bool empty() const { return waiting_.empty() && begun_.empty() && uses_.empty(); }

  /// Returns the keys whose use begins at `latest` or before and that have not begun; from now on they have.
  /// A use that is over at `clock` never begins.
  Keys take_begun(Clock clock, Clock latest);
  /// Returns the keys that have begun and whose use is over at `clock`.
  Keys take_ended(Clock clock);
  /// Returns the keys of all intents whose use begins at `clock` or before. Each intent is returned once.
  Keys take_used(Clock clock);
  [[nodiscard]] bool has_begun(Key key) const { return uses_.contains(key); }
  /// The key has begun, and its use begins at `clock` or before.
  [[nodiscard]] bool is_used_by(Key key, Clock clock) const {
    const auto use = uses_.find(key);
    return use != uses_.end() && use->second.from <= clock;
  }

 private:
  struct Intent {
    Keys keys;
    Clock to = 0;
  };
  /// The intents on a key that has begun, taken together.
  struct Use {
    Clock from = 0;  ///< the first
    Clock to = 0;    ///< the last
  };
  std::multimap<Clock, Intent> waiting_;  ///< by `from`
  std::multimap<Clock, Keys> begun_;      ///< by `from`, until they are used
  KeyMap<Use> uses_;
  std::map<Clock, Keys> ends_;  ///< by `to`; longer intents may have come since
};

}  // namespace verbena::worker
