// When a worker's training is saved, what is saved with it, and where it goes on. An application's loop is
//
//   if (const nlohmann::json* saved = checkpoints.resumed()) …     // else: the first rows are pushed
//   for (std::int64_t i = checkpoints.first_iteration(); i <= iterations; ++i) {
//     …                                                            // trains, reports
//     RETURN_IF_ERROR(checkpoints.after_iteration(i, i == iterations, [&] { return state; }));
//   }
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/application.hpp"
#include "apps/resuming/hand_over.hpp"
#include "apps/resuming/stop_agreement.hpp"
#include "apps/resuming/stop_gate.hpp"
#include <verbena/session.hpp>

namespace verbena::apps {

/// The same for all workers of a job.
struct CheckpointPlan {
  std::string folder;            ///< empty: none are made
  std::int64_t every = 1;        ///< iterations from one to the next
  bool after_last = false;       ///< also after the last iteration, if it is its turn
  std::uint64_t keep = 2;        ///< as CheckpointOptions::keep
  std::uint32_t increments = 0;  ///< as CheckpointOptions::increments
  bool keep_resumed = false;     ///< as CheckpointOptions::keep_resumed
  std::map<std::string, std::string> notes = {};
};

/// The name, among a checkpoint's notes, of the iteration after which it was made.
inline constexpr const char* kIterationNote = "iteration";
/// What worker 0 has to say of a run that was asked to stop, and was saved: the path.
inline constexpr const char* kSavedAtStop = "saved_at_stop";

/// One worker's. Thread safety: belongs to the session's thread.
class Checkpoints {
 public:
  /// Of a plain loop, or a job without: none are made, and none is gone on from.
  Checkpoints() = default;
  /// `session`, `reporter` and what save_at_stop() is given outlive it.
  Checkpoints(Session& session, Reporter& reporter, CheckpointPlan plan)
      : session_(&session), reporter_(&reporter), plan_(std::move(plan)) {}
  Checkpoints(const Checkpoints&) = delete;
  Checkpoints& operator=(const Checkpoints&) = delete;

  /// When `wanted` becomes true, the workers agree on an iteration, save it and end. It does so in all
  /// workers of the job, sooner or later. `agreement`: shared by all of them, see StopAgreement. REQUIRES:
  /// the plan has a folder.
  void save_at_stop(const std::atomic<bool>& wanted, std::atomic<std::uint64_t>& agreement);
  /// The same for a job over several hosts: when the gate says so. `worker`: this one's number in its
  /// process. To be called before load().
  void save_at_stop(StopGate& gate, std::uint32_t worker);
  /// Another process may become the workers of this one: then after_iteration() ends them. `worker`: as
  /// above.
  void step_aside_by(HandOver& hand_over, std::uint32_t worker) {
    hand_over_.emplace(Handing{.all = hand_over, .worker = worker});
  }
  /// Takes what the session has of the checkpoint that it goes on from, if it does. DATA_LOSS: that is
  /// nothing that after_iteration() has saved. Otherwise the errors of Session::resumed_state().
  absl::Status load();

  /// 1, or the one after the checkpoint's. It may be one more than there are iterations.
  [[nodiscard]] std::int64_t first_iteration() const { return first_iteration_; }
  /// What the application has saved of this worker; nullptr: training begins at its beginning.
  [[nodiscard]] const nlohmann::json* resumed() const { return resumed_ ? &*resumed_ : nullptr; }
  /// resumed() is not needed any more, and may be large.
  void forget_resumed();

  /// Notes what the training itself has decided, "--OPTION" and its value, with what the plan notes.
  void note(const std::string& option, std::string value) { plan_.notes[option] = std::move(value); }

  /// By how many clocks after_iteration() advances the session's clock, unless the training ends with it.
  [[nodiscard]] std::int64_t clocks_after(std::int64_t iteration) const { return is_due(iteration) ? 1 : 0; }
  /// This worker has finished and reported the iteration; `is_last`: there is none to come. If a checkpoint
  /// is due, saves what `state` returns. Collective: all workers call it after the same iterations, when none
  /// of their operations is under way. CANCELLED: the run was asked to stop, and has been saved as far as it
  /// could be, or this worker steps aside. Otherwise the errors of the session, and of
  /// StopGate::ends_after().
  absl::Status after_iteration(std::int64_t iteration, bool is_last,
                               absl::FunctionRef<nlohmann::json()> state);
  /// Training has ended well. Waits until the last checkpoint is written, as far as it is this worker's, and
  /// adds to the summary what became of all of them; of those before this process took another's place
  /// nothing.
  void finish();

  /// after_iteration() has returned CANCELLED: all workers leave, and none of them has failed.
  [[nodiscard]] bool has_stopped() const { return has_stopped_; }
  /// It has because another process goes on as this worker: Session::step_aside() is to come.
  [[nodiscard]] bool steps_aside() const { return steps_aside_; }

 private:
  struct Stop {
    const std::atomic<bool>& wanted;
    StopAgreement agreement;
    std::optional<std::int64_t> after = std::nullopt;  ///< the iteration that was agreed on
  };

  /// But for the end of the training.
  [[nodiscard]] bool is_due(std::int64_t iteration) const {
    return !plan_.folder.empty() && iteration % plan_.every == 0;
  }
  struct Gate {
    StopGate& gate;
    std::uint32_t worker = 0;
  };
  struct Handing {
    HandOver& all;
    std::uint32_t worker = 0;
  };

  absl::Status take_resumed();
  [[nodiscard]] HandOver::Turn turn_to_step_aside(std::int64_t iteration, bool is_last);
  absl::StatusOr<bool> stops_after(std::int64_t iteration, bool is_last);
  absl::Status save(std::int64_t iteration, absl::FunctionRef<nlohmann::json()> state);
  absl::Status end_saved(std::int64_t iteration);
  void finish_last();
  [[nodiscard]] std::string path_of(std::int64_t clock) const;
  void print(std::string_view line);

  Session* session_ = nullptr;
  Reporter* reporter_ = nullptr;
  CheckpointPlan plan_;
  std::optional<Stop> stop_;
  std::optional<Gate> gate_;
  std::optional<Handing> hand_over_;
  std::int64_t first_iteration_ = 1;
  std::optional<nlohmann::json> resumed_;
  std::int64_t saved_iteration_ = 0;  ///< of the checkpoint that is being written; 0: none is
  std::int64_t saved_clock_ = 0;      ///< of the newest checkpoint
  std::string newest_;                ///< the newest one that was written; empty: none yet
  std::uint64_t written_ = 0;
  std::uint64_t failed_ = 0;
  bool has_stopped_ = false;
  bool steps_aside_ = false;
};

}  // namespace verbena::apps
