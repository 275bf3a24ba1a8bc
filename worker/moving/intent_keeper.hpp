// What a worker does about its intents on a table's rows (docs/allocation.md). In time before the first use
// it counts them on its node, or tells the rows' homes. Rows that no other node wants come here; of the
// others it makes replicas. At last it ends the intents.
//
// Thread safety: none; belongs to its table's session.
#pragma once

#include <cstdint>
#include <vector>

#include "consistency/rules.hpp"
#include "worker/moving/intents.hpp"
#include "worker/moving/told_intents.hpp"
#include <verbena/keys.hpp>

namespace verbena::worker {

class MovingRows;

class IntentKeeper {
 public:
  using Keys = std::vector<Key>;

  explicit IntentKeeper(MovingRows& rows);
  /// For keys below `rows`. Must be called first; throws std::bad_alloc.
  void allocate(std::uint64_t rows);

  [[nodiscard]] ToldIntents& told() { return told_; }
  [[nodiscard]] const ToldIntents& told() const { return told_; }
  [[nodiscard]] LeadTime& lead() { return lead_; }

  /// This worker uses `keys` in its clocks from … to − 1.
  void add(Keys keys, consistency::Clock from, consistency::Clock to);
  void on_clock_ends(consistency::Clock next);
  /// Keys that are used by `clock`: each key once for each intent on it.
  Keys take_used(consistency::Clock clock) { return intents_.take_used(clock); }

  /// Counts an intent on a row that is here; false if it cannot be.
  bool count(Key key);
  /// The home's answer: other nodes intend to use the row, too, and it stays where it is.
  void on_shared(Key key);
  /// A later message of the home: no other node intends to use the row any more. begin_alone() acts on it.
  void on_alone(Key key);
  void begin_alone();

  /// The home of these keys is gone: its heir is told of the intents on them with the next clock.
  void forget_home(std::uint32_t home);
  /// The heir of the key's home knows nothing of the intent on it.
  void forget(Key key);

  /// Ends the intents that are over, on rows that are idle.
  void give_up();

 private:
  void act(consistency::Clock clock);
  void begin(const Keys& keys);

  MovingRows& rows_;
  Intents intents_;
  LeadTime lead_;
  ToldIntents told_;
  Keys to_tell_;  ///< keys to announce at the next clock: they are being localized, or none may move now
  Keys alone_;    ///< keys to be asked for once more
};

}  // namespace verbena::worker
