// What a worker has told others about the rows that it will use, and what it has to tell them when its
// intents are over. For a row on its own node it counts its intent there (protocol::Presence), and the row's
// home need not know. For any other row it tells the home.
//
// No I/O: messages to homes go into the queue. Thread safety: none; one owner.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "worker/moving/directory.hpp"
#include "worker/moving/key_map.hpp"
#include "worker/moving/own_slots.hpp"
#include "worker/moving/request_queue.hpp"
#include <verbena/keys.hpp>

namespace verbena::worker {

class ToldIntents {
 public:
  using Keys = std::vector<Key>;
  enum class State : std::uint8_t {
    kAsking,     ///< the home has been told, and has not answered
    kHere,       ///< the home has been told: the row was here
    kShared,     ///< the home has been told: the row stays elsewhere, since others use it, too, or it is lost
    kCounted,    ///< the intent is counted on this node, where the row is; the home knows nothing of it
    kForgotten,  ///< the home that has been told is gone
  };

  /// All three must outlive this object.
  ToldIntents(const OwnSlots& own, const Directory& directory, RequestQueue& requests)
      : own_(own), directory_(directory), requests_(requests) {}
  /// For keys below `rows`. Must be called first; throws std::bad_alloc.
  void allocate(std::uint64_t rows);
  void prefetch(Key key) const { told_.prefetch(key); }

  [[nodiscard]] bool contains(Key key) const { return told_.contains(key); }
  [[nodiscard]] bool is(Key key, State state) const {
    const auto known = told_.find(key);
    return known != told_.end() && known->second.state == state;
  }

  /// Counts the intent if the row is here and the count is below its maximum. Returns false if not: the home
  /// must be told.
  bool count(Key key);
  /// The row has been brought here, and this intent counted with it (OwnSlots::install()).
  void set_counted(Key key, std::uint64_t epoch);
  void set_asking(Key key) { told_[key] = {}; }
  void set_shared(Key key) { told_[key] = {.state = State::kShared, .since = 0}; }
  /// A move of the row to this node has ended: it is here, at that epoch.
  void on_here(Key key, std::uint64_t epoch);
  /// A move of the row to this node has ended without the row. The home knows of the intent, and must be told
  /// when it is over.
  void on_not_coming(Key key);

  /// The home that was told is gone, and its heir knows nothing of the intent. Returns true if the heir is to
  /// be told: there is an intent that the home knew of, and it is not ending.
  bool forget(Key key);
  /// In ascending order.
  [[nodiscard]] Keys keys() const { return told_.keys(); }

  /// The intents on the key are over. end_idle() ends them as soon as nothing prevents it.
  void begin_ending(Key key);
  [[nodiscard]] bool is_ending(Key key) const { return ending_.contains(key); }
  /// There is one more intent after all. Returns false if the intents on the key were not ending.
  bool keep(Key key) { return ending_.erase(key); }
  /// Ends the intents that were to end, except on rows for which no answer has come and on rows that are in
  /// use. Returns the keys of those that it has ended: nothing is known about them any more.
  Keys end_idle(absl::FunctionRef<bool(Key)> is_in_use);
  /// This worker leaves: nobody else could end the intents that it has counted.
  void end_all_counted();

 private:
  using Kind = RequestQueue::Kind;
  struct Told {
    State state = State::kAsking;
    std::uint32_t since = 0;  ///< if it is counted
  };
  void end_counted(Key key, const Told& told);

  const OwnSlots& own_;
  const Directory& directory_;
  RequestQueue& requests_;
  KeyMap<Told> told_;
  Keys ending_order_;  ///< in the order of coming; those that are not in `ending_` are skipped
  KeySet ending_;
};

}  // namespace verbena::worker
