// Who owns which row of a dynamic table: what a home knows of its keys, and the order in which it lets them
// move.
//
// A key is settled, or it is on its way to a node. While it is on its way, workers that ask for it wait in
// line. When it has arrived, they are answered in the order in which they asked, until one of them moves it
// on; then the rest wait for that move. So a localize is granted after all moves before it, nobody is
// forgotten, and there is one mover at a time.
//
// An intent is a worker's word that it will use a key until it says otherwise. As long as only one node has
// intents on a key, the key goes there. If several nodes have intents, the key stays where it is, because
// moving it to and fro would cost more than reaching it, and each worker is told that it is shared. When the
// intents of all nodes but one are gone, one worker of that node is told so, and may intend again. Workers of
// the node where the row lies may record their intents there (protocol/presence.hpp); then the home does not
// know of them. So a worker that is to move the row for an intent may find there that the row is kept; it is
// told when the row is no longer kept.
//
// A worker that has died moves nothing any more. A row that it was moving may still be with the old owner, or
// already on the worker's own node; the home cannot know which. The row is in doubt: the next worker that
// wants to move it tries these places, one after the other. That is safe whatever the dead worker has done or
// its last messages still do, because a slot hands over only once at an epoch. If the row is in none of these
// places, it is lost, and everybody is told so.
//
// Pure rules: no I/O. Thread safety: none; one owner.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/prefetch.hpp"
#include "base/zeroed_array.hpp"
#include "protocol/messages.hpp"
#include "server/key_intents.hpp"

namespace verbena::server {

class Homes {
 public:
  static constexpr std::uint32_t kMaxNodes = 1 << 24;

  using Worker = server::Worker;
  /// kOwned, kHere, kShared, kAlone or kLost, or kTake to the worker that is to move the row now.
  struct Answer {
    std::uint32_t worker = 0;
    protocol::KeyAnswers::Answer answer;
    bool yields = false;  ///< kTake, for an intent
  };
  using Answers = std::vector<Answer>;

  /// All keys are settled, at `home` and epoch 0. RESOURCE_EXHAUSTED where memory is short.
  static absl::StatusOr<Homes> create(KeyRange keys, std::uint32_t home);

  // REQUIRES: the key is one of `keys`. Each locate(), localize() and intend() gets one answer in `answers`:
  // at once or, if it waits in line, from a later call.
  void locate(Key key, std::uint32_t worker, Answers& answers);
  void localize(Key key, const Worker& worker, Answers& answers);
  /// The worker will use the key until end_intent(). As localize(), unless other nodes will use it, too.
  void intend(Key key, const Worker& worker, Answers& answers);
  /// INVALID_ARGUMENT if the worker has no intent on the key.
  absl::Status end_intent(Key key, std::uint32_t worker, Answers& answers);
  /// The worker is gone, and so are its intents.
  void leave(std::uint32_t worker, Answers& answers);
  /// As leave(), for a worker that has died, maybe in the middle of moves.
  void lose(const Worker& worker, Answers& answers);
  /// The row is not where the worker was told, at that epoch; so it will not be there again. Adds one answer,
  /// now or later, as localize() does. INVALID_ARGUMENT if the worker moves the key from another epoch.
  /// `keeper`: if the row is in no other place, that server may have an image of it, from which it comes back
  /// (kImage); nullopt: then it is lost.
  absl::Status missing(Key key, const Worker& worker, std::uint64_t epoch, Answers& answers,
                       std::optional<std::uint32_t> keeper = std::nullopt);
  /// INVALID_ARGUMENT if missing() would return it.
  [[nodiscard]] absl::Status check_missing(Key key, const Worker& worker, std::uint64_t epoch) const;
  /// INVALID_ARGUMENT if the worker does not move the key, or moves it to another epoch.
  absl::Status arrived(Key key, std::uint32_t worker, std::uint64_t epoch, Answers& answers);
  /// As arrived() and end_intent(): the intent goes on where the row is.
  absl::Status settled(Key key, std::uint32_t worker, std::uint64_t epoch, Answers& answers);
  /// The row stays where it is until released(), because workers of its node intend to use it.
  /// INVALID_ARGUMENT if the worker does not move the key from there.
  absl::Status kept(Key key, std::uint32_t worker, std::uint64_t epoch, Answers& answers);
  /// Of a home that inherits its keys, and has not been asked about them yet: the slot of `node` owns the
  /// row. Of several such words the newest epoch counts.
  void found(Key key, std::uint32_t node, std::uint64_t epoch);
  /// A worker of `node`, which has kept the row, says that nobody there intends to use it any more.
  void released(Key key, std::uint32_t node, Answers& answers);

  /// The key will be asked about soon.
  void prefetch(Key key) const {
    base::prefetch_to_write(&places_[key - keys_.first]);
    base::prefetch_to_write(&movers_[key - keys_.first]);
    intents_.prefetch(key);
  }
  [[nodiscard]] std::uint64_t moving() const { return moving_; }
  /// Where the row is, as far as the home knows, or where it was last.
  [[nodiscard]] std::uint32_t node_of(Key key) const { return place(key).node; }
  /// Keys that somebody has an intent on.
  [[nodiscard]] std::uint64_t intended() const { return intents_.size(); }

 private:
  struct Waiting {
    enum class For : std::uint8_t { kLocate, kLocalize, kIntend };
    Worker worker;
    For what = For::kLocate;
  };
  struct Place {
    std::uint32_t node = 0;
    std::uint64_t epoch = 0;
  };
  /// By key; 0 stands for the home at epoch 0, so that pages of keys that never moved cost nothing.
  using Places = base::ZeroedArray<std::uint64_t>;
  /// By key: kNobody or, for the worker that moves it, (rank + 1) · 4 plus the flags below.
  using Movers = base::ZeroedArray<std::uint32_t>;
  static constexpr std::uint32_t kNobody = 0;
  static constexpr std::uint32_t kReleased = 1;   ///< released() since the mover has been told to take it
  static constexpr std::uint32_t kWaitedFor = 2;  ///< has an entry in lines_: rare, as most moves meet nobody
  static constexpr std::uint32_t rank_of(std::uint32_t mover) { return mover / 4 - 1; }

  /// Throws std::bad_alloc.
  Homes(KeyRange keys, std::uint32_t home)
      : keys_(keys),
        home_(home),
        places_(base::make_zeroed_array<std::uint64_t>(keys.size())),
        movers_(base::make_zeroed_array<std::uint32_t>(keys.size())),
        intents_(keys) {}
  [[nodiscard]] Place place(Key key) const {
    const std::uint64_t packed = places_[key - keys_.first];
    if (packed == 0) return {home_, 0};
    return {static_cast<std::uint32_t>(packed % kMaxNodes), packed / kMaxNodes};
  }
  void set_place(Key key, const Place& place) {
    places_[key - keys_.first] = place.epoch * kMaxNodes + place.node;
  }
  [[nodiscard]] bool is_moving(Key key) const { return movers_[key - keys_.first] != kNobody; }
  [[nodiscard]] bool is_mover(Key key, std::uint32_t worker) const {
    return is_moving(key) && rank_of(movers_[key - keys_.first]) == worker;
  }
  /// Sets the first worker that moves the key, or the next one.
  void set_mover(Key key, const Worker& worker);
  [[nodiscard]] Answer answer(Key key, std::uint32_t worker, protocol::KeyAnswers::Kind kind) const;
  /// For a key that nobody moves. True if the worker is to move it.
  bool answer_now(Key key, const Waiting& to, Answers& answers) const;
  absl::Status check_mover(Key key, std::uint32_t worker, std::uint64_t epoch, std::uint64_t moved) const;
  /// For a key that nobody moves.
  [[nodiscard]] protocol::KeyAnswers::Kind kind_of_answer(Key key, const Waiting& to) const;
  /// Answers now, or when the key has arrived.
  void answer_in_turn(Key key, const Waiting& to, Answers& answers);
  /// The key's move has ended: answers those in line, up to the next one that moves it.
  void answer_line(Key key, Answers& answers);
  /// Tells a worker of the only node that is left with intents on a key, if the key lies elsewhere.
  void tell_if_alone(Key key, Answers& answers);

  KeyRange keys_;
  std::uint32_t home_;
  Places places_;
  Movers movers_;
  std::uint64_t moving_ = 0;          ///< keys that somebody moves
  std::vector<std::uint32_t> nodes_;  ///< by worker, for workers that have ever moved a key
  /// The workers that wait for a move to end. No list is empty.
  absl::flat_hash_map<Key, std::vector<Waiting>> lines_;
  /// Where else a row may be than place() says.
  absl::flat_hash_map<Key, std::deque<Place>> in_doubt_;
  absl::flat_hash_set<Key> lost_;  ///< lost with the node that place() says
  KeyIntents intents_;
};

}  // namespace verbena::server
