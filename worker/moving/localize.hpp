// Rows on their way to this worker's node, because a user localizes them or intends to use them: it asks the
// row's home, which gives it the move, and then the owner, which hands over; it copies the row, and tells the
// home (docs/allocation.md).
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
    kIntent,  ///< so that rows may stay where they are
    kFetch,   ///< a row that this session has chased in vain
  };

  /// Of a row's way to this node, in this order but for the last two; those in -ing are for others to end.
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
  };

  Localize(MovingRows& rows, Why why);
  /// Those of `keys` that are not here become its moves, or wait for another's of this session. To be called
  /// once, before it is started.
  void begin(const Keys& keys);
  /// An intent's. False: the row is moved by another already.
  bool add_intended(Key key);
  [[nodiscard]] bool has_moves() const { return !moves_.empty(); }

  /// A row that is on its way here must arrive, or nobody finds it.
  [[nodiscard]] bool must_end_before(Milestone milestone) const override {
    return milestone == Milestone::kLeaving;
  }

  [[nodiscard]] bool is_intent() const { return why_ == Why::kIntent; }

  // About its `index`-th move.

  [[nodiscard]] Phase phase(std::size_t index) const { return moves_[index].phase; }
  /// Gives the move up to another localize of this session, and waits for that one to end it. REQUIRES: it is
  /// in phase kAsk, so that nobody has heard of it.
  void leave_to_other(std::size_t index);
  /// What that server, its home or its owner, has answered.
  absl::Status on_answer(std::size_t index, std::uint32_t server, const protocol::KeyAnswers::Answer& answer);
  void give_up(std::size_t index, const absl::Status& why);

  /// Its rows are installed, says this node's server.
  absl::Status on_installed(ServerLink& link);

 private:
  static constexpr std::size_t kPhases = static_cast<std::size_t>(Phase::kKept) + 1;
  /// Rows that are being copied, as an install message: records of a key and its slot.
  struct Batch {
    LocalSpan memory;
    std::vector<std::size_t> moves;  ///< in `moves_`
    protocol::Tag tag = 0;           ///< of the install, where there is one
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
  /// Of its rows, that is, when they have come.
  [[nodiscard]] bool counts_intents() const;
  /// The owner may keep the row, unless that is this worker's own node: then it is a row in doubt.
  [[nodiscard]] bool yields(const Move& move) const;

  void send_requests();
  void send_requests(Phase from, Phase to, protocol::KeyRequests::Kind kind);
  /// The home or the owner has been sent what was in order at `from`.
  void on_sent(Move& move, Phase from, Phase to);
  void look_after_others_moves();
  void begin_copying();
  void end_copying();
  /// The record of a row that has been copied. Returns the next one's place.
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
  bool end_all();

  const Why why_;
  std::vector<Move> moves_;
  std::array<std::size_t, kPhases> moves_in_{};  ///< by phase, how many
  std::vector<Key> awaited_moves_;               ///< of other localizes of this session
  /// Rows on which this session has just told an intent: they come, or they do not.
  std::vector<Key> awaited_intents_;
  std::optional<Batch> batch_;
  bool brings_ = false;              ///< a row has come
  transport::TimePoint asked_at_{};  ///< when its first move was added
};

}  // namespace verbena::worker
