// Moves rows to this worker's node, because a user localizes them or intends to use them. It asks the row's
// home, which gives it the move, and then the owner, which hands over; it copies the row, and tells the home
// (docs/allocation.md).
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "protocol/messages.hpp"
#include "worker/moving/moving_operation.hpp"

namespace verbena::worker {

class Localize final : public MovingOperation {
 public:
  enum class Why : std::uint8_t {
    kUser,
    kIntent,  ///< the rows may stay where they are
    kFetch,   ///< a row that this session has chased in vain
  };

  /// The phases of a row's way to this node, in this order except for the last two. Phases that end in -ing
  /// are ended by others.
  enum class Phase : std::uint8_t {
    kAsk,
    kAsking,
    kTake,
    kTaking,
    kTaken,
    kCopying,
    kInstalled,
    kDone,
    kNotThere,  ///< the home is to be told that the row is not where it said; then kAsking
    kKept,      ///< the home is to be told that the row stays where it is; then kDone
  };

  struct Move {
    Key key = 0;
    Phase phase = Phase::kAsk;
    std::uint32_t from = 0;
    std::uint64_t epoch = 0;  ///< at which `from` owned it
    std::uint32_t home = 0;   ///< after kAsk: whom it has asked; if it dies, another inherits the key
    bool is_image = false;    ///< nobody owns it; `from` may have an image of it
  };

  Localize(MovingRows& rows, Why why);
  /// Those of `keys` that are not here become moves of this operation, or wait for another operation's move
  /// in this session. REQUIRES: called once, before the operation is started.
  void begin(const Keys& keys);
  /// Adds a move for an intent. Returns false if another operation moves the row already.
  bool add_intended(Key key);
  [[nodiscard]] bool has_moves() const { return !moves_.empty(); }

  /// A row that is on its way here must arrive; otherwise nobody finds it.
  [[nodiscard]] bool must_end_before(Milestone milestone) const override {
    return milestone == Milestone::kCut || milestone == Milestone::kLeaving;
  }

  [[nodiscard]] bool has_moves_of_dead_homes() const override;

  [[nodiscard]] bool is_intent() const { return why_ == Why::kIntent; }

  // About its `index`-th move.

  [[nodiscard]] Phase phase(std::size_t index) const { return moves_[index].phase; }
  /// Leaves the move to another localize of this session, and waits until that one ends it. REQUIRES: the
  /// move is in phase kAsk, so that no server has heard of it.
  void leave_to_other(std::size_t index);
  /// The answer of `server`, which is the row's home or its owner.
  absl::Status on_answer(std::size_t index, std::uint32_t server, const protocol::KeyAnswers::Answer& answer);
  void give_up(std::size_t index, const absl::Status& why);

  /// This node's server says that the rows are installed.
  absl::Status on_installed(ServerLink& link);

 private:
  static constexpr std::size_t kPhases = static_cast<std::size_t>(Phase::kKept) + 1;
  /// Rows that are being copied, as an install message: records of a key and its slot.
  struct Batch {
    LocalSpan memory;
    std::vector<std::size_t> moves;  ///< in `moves_`
    protocol::Tag tag = 0;           ///< of the install message, if there is one
    bool sent = false;
  };

  bool do_own() override;
  void add_move(Key key);
  /// REQUIRES: `move` is one of `moves_`.
  void enter(Move& move, Phase phase) {
    --moves_in_[static_cast<std::size_t>(move.phase)];
    ++moves_in_[static_cast<std::size_t>(phase)];
    move.phase = phase;
  }
  [[nodiscard]] bool has_moves_in(Phase phase) const {
    return moves_in_[static_cast<std::size_t>(phase)] > 0;
  }
  [[nodiscard]] bool has_moves_left() const {
    return moves_in_[static_cast<std::size_t>(Phase::kDone)] < moves_.size();
  }
  /// Whether it counts the intents on its rows on this node when the rows have come.
  [[nodiscard]] bool counts_intents() const;
  /// Whether the owner may keep the row. It may not if it is this worker's own node: then the row is in
  /// doubt.
  [[nodiscard]] bool yields(const Move& move) const;
  /// How `from` is asked for the row.
  [[nodiscard]] protocol::KeyRequests::Kind taking(const Move& move) const;

  void send_requests();
  void send_requests(Phase from, Phase to, protocol::KeyRequests::Kind kind);
  /// The request that was due in phase `from` has been sent to the home or the owner.
  void on_sent(Move& move, Phase from, Phase to);
  void look_after_others_moves();
  void begin_copying();
  void end_copying();
  /// Writes the record of a row that has been copied. Returns the place of the next record.
  std::byte* make_record(std::byte* record, const Move& move, const std::byte* slot) const;
  void send_install();
  [[nodiscard]] std::byte* copied_slot(const LocalSpan& memory, std::size_t i) const;
  void install(Move& move, const std::byte* slot_values);
  void on_installed(Move& move);
  void arrive(Move& move);
  void end_move(Move& move, std::uint64_t epoch);
  void end_shared(Move& move);
  void give_up(Move& move, const absl::Status& why);
  void do_without_dead();
  [[nodiscard]] bool is_of_dead_home(const Move& move) const;
  void do_without_home(Move& move);
  bool end_all();

  const Why why_;
  std::vector<Move> moves_;
  std::array<std::size_t, kPhases> moves_in_{};  ///< by phase, how many
  std::vector<Key> awaited_moves_;               ///< of other localizes of this session
  /// Rows for which this session has just announced an intent: they may come or not.
  std::vector<Key> awaited_intents_;
  std::optional<Batch> batch_;
  bool brings_ = false;              ///< a row has come
  transport::TimePoint asked_at_{};  ///< when its first move was added
};

}  // namespace verbena::worker
