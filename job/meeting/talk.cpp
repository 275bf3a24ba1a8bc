#include "job/meeting/talk.hpp"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <utility>

#include "base/signals_blocked.hpp"
#include "job/fence_board.hpp"
#include "job/json_line.hpp"
#include "job/meeting/messages.hpp"

namespace verbena::job {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr auto kFenceSlice = milliseconds(50);  // how often a wait checks whether it must end
constexpr auto kFarewell = milliseconds(1000);

}  // namespace

void Talk::start() {
  const base::SignalsBlocked blocked;
  thread_ = std::thread([this] { run(); });
}

void Talk::leave() {
  say(line_of({{says::kBye, true}}));
  end_.leave();
  transport_.interrupt();
  thread_.join();
}

void Talk::say(std::string_view words) {
  with_lock([&] { words_ += words; });
  transport_.interrupt();
}

void Talk::wait_until_said() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kFarewell, [&] { return words_.empty() && has_said_all_; });
}

void Talk::ask(std::function<void()> errand) {
  with_lock([&] { errands_.push_back(std::move(errand)); });
  transport_.interrupt();
}

absl::Status Talk::fence(milliseconds patience, const Stopped& stopped) {
  const auto deadline = Clock::now() + patience;
  const std::uint64_t goal = with_lock([&] {
    words_ += FenceNotes::fence_line();
    return ++fences_begun_;
  });
  transport_.interrupt();
  std::unique_lock lock(mutex_);
  const auto has_passed = [&] { return hearing_.fences_passed() >= goal; };
  const absl::Status waited = wait(lock, deadline, stopped, has_passed);
  if (absl::IsDeadlineExceeded(waited)) {
    const std::string& missing = hearing_.missing();
    return absl::DeadlineExceededError(fmt::format("not all {} processes have come together within {} s{}",
                                                   size_, patience.count() / 1000,
                                                   missing.empty() ? "" : ": " + missing));
  }
  if (!waited.ok()) return waited;
  return has_passed() ? absl::OkStatus() : hearing_.trouble();
}

absl::StatusOr<std::uint32_t> Talk::wait_for_place(milliseconds patience, const Stopped& stopped) {
  std::unique_lock lock(mutex_);
  const absl::Status waited =
      wait(lock, Clock::now() + patience, stopped, [&] { return hearing_.place().has_value(); });
  if (absl::IsDeadlineExceeded(waited))
    return absl::DeadlineExceededError("rank 0 has not answered whether this process may join its job");
  if (!waited.ok()) return waited;
  if (!hearing_.place()) return hearing_.trouble();
  return *hearing_.place();
}

absl::Status Talk::wait(std::unique_lock<std::mutex>& lock, transport::TimePoint deadline,
                        const Stopped& stopped, const std::function<bool()>& done) {
  while (!done() && hearing_.trouble().ok()) {
    if (Clock::now() >= deadline) return absl::DeadlineExceededError("");
    changed_.wait_for(lock, kFenceSlice);
    lock.unlock();  // it may be the caller's
    const bool stop = stopped();
    lock.lock();
    if (stop && !done()) return absl::CancelledError("stopped");
  }
  return absl::OkStatus();
}

void Talk::run() {
  std::array<transport::Event, 32> events;
  std::optional<transport::TimePoint> leaves_at;
  while (true) {
    role_.travel();
    {
      const std::lock_guard lock(mutex_);
      end_.look(Clock::now());
      role_.begin_turn(Clock::now());
      for (const std::function<void()>& errand : std::exchange(errands_, {})) errand();
      if (const std::string words = std::exchange(words_, {}); !words.empty()) role_.on_own_words(words);
      const std::size_t count = transport_.poll(events);
      for (std::size_t i = 0; i < count; ++i) role_.on_event(events[i]);
      role_.on_time(Clock::now());
      has_said_all_ = role_.try_to_say_all();
      if (end_.is_leaving() && !leaves_at) leaves_at = Clock::now() + kFarewell;
      if (leaves_at && words_.empty() && (has_said_all_ || Clock::now() >= *leaves_at)) return;
    }
    changed_.notify_all();
    transport_.wait(Clock::now() + role_.turn());
  }
}

}  // namespace verbena::job
