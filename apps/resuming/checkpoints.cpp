#include "apps/resuming/checkpoints.hpp"

#include <fmt/format.h>

#include <limits>
#include <utility>
#include <vector>

#include "apps/resuming/saved_state.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps {

namespace {

constexpr const char* kIteration = "iteration";
constexpr const char* kState = "state";

std::vector<std::byte> encoded(std::int64_t iteration, nlohmann::json state) {
  nlohmann::json all = nlohmann::json::object();
  all[kIteration] = static_cast<std::uint64_t>(iteration);
  all[kState] = std::move(state);
  return encode_state(all);
}

}  // namespace

void Checkpoints::save_at_stop(const std::atomic<bool>& wanted, std::atomic<std::uint64_t>& agreement) {
  stop_.emplace(Stop{.wanted = wanted, .agreement = StopAgreement(agreement, session_->workers())});
}

void Checkpoints::save_at_stop(StopGate& gate, std::uint32_t worker) {
  gate_.emplace(Gate{.gate = gate, .worker = worker});
}

absl::Status Checkpoints::load() {
  RETURN_IF_ERROR(take_resumed());
  if (gate_) gate_->gate.begin(gate_->worker, first_iteration_, session_->is_catching_up());
  return absl::OkStatus();
}

absl::Status Checkpoints::take_resumed() {
  const absl::StatusOr<std::optional<std::vector<std::byte>>> bytes = session_->resumed_state();
  if (!bytes.ok()) return bytes.status();
  if (!*bytes) return absl::OkStatus();
  absl::StatusOr<nlohmann::json> all = decode_state(**bytes);
  if (!all.ok()) return all.status();
  const SavedState saved(*all);
  const absl::StatusOr<std::uint64_t> iteration = saved.whole_number(kIteration);
  if (!iteration.ok()) return iteration.status();
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max() - 1);
  if (*iteration > kMost) return wrong_state(fmt::format("the iteration {} is impossible", *iteration));
  RETURN_IF_ERROR(saved.object(kState).status());
  first_iteration_ = static_cast<std::int64_t>(*iteration) + 1;
  resumed_ = std::move((*all)[kState]);
  return absl::OkStatus();
}

void Checkpoints::forget_resumed() {
  if (resumed_) resumed_ = nlohmann::json::object();
}

absl::Status Checkpoints::after_iteration(std::int64_t iteration, bool is_last,
                                          absl::FunctionRef<nlohmann::json()> state) {
  const HandOver::Turn turn = turn_to_step_aside(iteration, is_last);
  // Once they step aside, nobody is held: the process after this one is (StopGate::let_another_go_on()).
  const absl::StatusOr<bool> stops =
      turn == HandOver::Turn::kStays ? stops_after(iteration, is_last) : absl::StatusOr<bool>(false);
  if (!stops.ok()) return stops.status();
  if (*stops) {
    RETURN_IF_ERROR(save(iteration, state));
    return end_saved(iteration);
  }
  if (is_due(iteration) && (!is_last || plan_.after_last)) RETURN_IF_ERROR(save(iteration, state));
  if (turn != HandOver::Turn::kStepsAside) return absl::OkStatus();
  finish_last();  // or that one would lack this worker's part
  steps_aside_ = true;
  return absl::CancelledError("another process takes this worker's place");
}

/// One that is catching up does not know yet where it is.
HandOver::Turn Checkpoints::turn_to_step_aside(std::int64_t iteration, bool is_last) {
  if (!hand_over_ || session_->is_catching_up()) return HandOver::Turn::kStays;
  return hand_over_->all.ask(hand_over_->worker, iteration, is_last);
}

absl::StatusOr<bool> Checkpoints::stops_after(std::int64_t iteration, bool is_last) {
  if (gate_ && !session_->is_catching_up()) return gate_->gate.ends_after(gate_->worker, iteration, is_last);
  if (!stop_) return false;
  if (stop_->after) return stop_->after == iteration;
  // Nobody may ask for less than it has begun: so one that takes another's place asks when it is where that
  // was.
  if (stop_->wanted.load(std::memory_order_relaxed) && !session_->is_catching_up()) {
    stop_->after = stop_->agreement.ask(iteration, is_last);
  } else if (is_last) {
    stop_->agreement.finish();
  }
  return stop_->after == iteration;
}

absl::Status Checkpoints::save(std::int64_t iteration, absl::FunctionRef<nlohmann::json()> state) {
  finish_last();  // checkpoint() would wait for it
  CheckpointOptions options{.folder = plan_.folder,
                            .keep = plan_.keep,
                            .keep_resumed = plan_.keep_resumed,
                            .increments = plan_.increments,
                            .notes = plan_.notes};
  options.notes[kIterationNote] = std::to_string(iteration);
  // The process whose place it has taken was there, and this one has nothing to say of it.
  if (session_->is_catching_up()) return session_->checkpoint(options, {});
  RETURN_IF_ERROR(session_->checkpoint(options, encoded(iteration, state())));
  saved_iteration_ = iteration;
  saved_clock_ = session_->current_clock();
  return absl::OkStatus();
}

absl::Status Checkpoints::end_saved(std::int64_t iteration) {
  const absl::Status written = session_->finish_checkpoint();
  print(written.ok() ? fmt::format("stopped after iteration {}, saved as {}: --resume goes on from there",
                                   iteration, path_of(saved_clock_))
                     : fmt::format("stopped after iteration {}, which could not be saved: {}", iteration,
                                   std::string(written.message())));
  if (written.ok() && session_->rank() == 0) reporter_->summary(kSavedAtStop, path_of(saved_clock_));
  has_stopped_ = true;
  return absl::CancelledError("stopped");
}

/// A checkpoint that cannot be written is no reason to end the training, but users must know.
void Checkpoints::finish_last() {
  if (saved_iteration_ == 0) return;
  const std::int64_t iteration = std::exchange(saved_iteration_, 0);
  const absl::Status written = session_->finish_checkpoint();
  if (written.ok()) {
    ++written_;
    newest_ = path_of(saved_clock_);
    return;
  }
  ++failed_;
  print(fmt::format("there is no checkpoint of iteration {}: {}", iteration, std::string(written.message())));
}

void Checkpoints::finish() {
  finish_last();
  if (session_ == nullptr || session_->rank() != 0) return;
  nlohmann::json summary = nlohmann::json::object();
  if (first_iteration_ > 1) summary["resumed_after_iteration"] = first_iteration_ - 1;
  if (!plan_.folder.empty()) {
    summary["written"] = written_;
    summary["failed"] = failed_;
    if (written_ > 0) summary["newest"] = newest_;
  }
  if (!summary.empty()) reporter_->summary("checkpoints", std::move(summary));
}

std::string Checkpoints::path_of(std::int64_t clock) const {
  return fmt::format("{}/ckpt-{}", plan_.folder, clock);
}

void Checkpoints::print(std::string_view line) {
  if (session_->rank() == 0) reporter_->print(line);
}

}  // namespace verbena::apps
