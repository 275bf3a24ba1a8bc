#include "tests/simulation/saver.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstring>
#include <random>
#include <utility>

#include "base/return_if_error.hpp"
#include "protocol/random_bits.hpp"

namespace verbena::simulation {

using consistency::Clock;

bool Saver::is_due(Clock clock) const {
  if (!scenario_.checkpoints) return false;
  const std::uint64_t bits =
      protocol::random_bits(protocol::random_bits(scenario_.seed) + static_cast<std::uint64_t>(clock));
  return bits % scenario_.checkpoints->every == 0;
}

CheckpointOptions Saver::options() const {
  return {.folder = kCheckpointFolder,
          .keep = scenario_.checkpoints->keep,
          .keep_resumed = scenario_.checkpoints->keep_resumed,
          .increments = scenario_.checkpoints->increments};
}

absl::Status Saver::pass() {
  RETURN_IF_ERROR(session_.checkpoint(options(), {}));
  if (chance(random_, 0.5)) return absl::OkStatus();
  const absl::Status status = session_.finish_checkpoint();
  if (absl::IsUnavailable(status)) return absl::OkStatus();
  return absl::InternalError("a session knows what became of another process's checkpoint: " +
                             status.ToString());
}

absl::Status Saver::save(const State& state) {
  if (session_.is_catching_up()) return pass();
  const Clock clock = session_.current_clock() + 1;
  world_.cut(session_.rank(), clock);
  if (world_.traces()) world_.trace(fmt::format("worker {} saves clock {}", session_.rank(), clock));
  // First what tells this part from any other.
  State all = {session_.rank(), static_cast<std::uint64_t>(clock)};
  all.insert(all.end(), state.begin(), state.end());
  const auto bytes = std::as_bytes(std::span(all));
  saved_ = clock;
  RETURN_IF_ERROR(session_.checkpoint(options(), {bytes.begin(), bytes.end()}));
  if (chance(random_, 0.4)) wait_until_written();
  return absl::OkStatus();
}

void Saver::finish() {
  if (saved_ != 0 && chance(random_, 0.7)) wait_until_written();
}

/// If it is the session that fails, the next call will say so.
void Saver::wait_until_written() {
  world_.waits_for_disk(session_.rank());
  const absl::Status status = session_.finish_checkpoint();
  if (world_.traces())
    world_.trace(fmt::format("worker {}: checkpoint {}: {}", session_.rank(), saved_, status.ToString()));
  world_.written(session_.rank(), std::exchange(saved_, 0), status);
}

absl::StatusOr<std::optional<Saver::State>> Saver::resume() {
  const auto bytes = session_.resumed_state();
  if (!bytes.ok()) return bytes.status();
  if (bytes->has_value() != !scenario_.resume.empty())
    return absl::InternalError("a session does not know whether it goes on from a checkpoint");
  if (!bytes->has_value()) return std::nullopt;
  State all((*bytes)->size() / sizeof(std::uint64_t));
  std::memcpy(all.data(), (*bytes)->data(), all.size() * sizeof(std::uint64_t));
  const auto clock = static_cast<std::uint64_t>(session_.current_clock());
  if (all.size() < 2 || all[0] != session_.rank() || all[1] != clock) {
    return absl::InternalError(
        fmt::format("worker {} has another state than it saved at clock {}", session_.rank(), clock));
  }
  return State(all.begin() + 2, all.end());
}

}  // namespace verbena::simulation
