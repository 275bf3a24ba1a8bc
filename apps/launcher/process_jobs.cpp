#include "apps/launcher/process_jobs.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "apps/thrown.hpp"
#include "base/poll_timeout.hpp"

namespace verbena::apps {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kJobsPatience = std::chrono::seconds(1);  // less than the launcher's

/// Shared with the threads, so that it outlives those that are abandoned.
struct Shared {
  explicit Shared(std::size_t jobs) : statuses(jobs, absl::CancelledError("stopped")), running(jobs) {}
  ~Shared() { ::close(changed); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  const int changed = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  std::mutex mutex;
  std::vector<absl::Status> statuses;
  std::size_t running;
  bool failed = false;
};

void note_end(absl::Status status, std::size_t index, Shared& shared) {
  const std::lock_guard lock(shared.mutex);
  shared.failed = shared.failed || !status.ok();
  shared.statuses[index] = std::move(status);
  --shared.running;
  const std::uint64_t one = 1;
  (void)!::write(shared.changed, &one, sizeof one);
}

absl::Status cannot_start_thread(const absl::Status& why) {
  return {why.code(), fmt::format("cannot start a thread: {}", std::string(why.message()))};
}

}  // namespace

JobsResult run_jobs(ProcessJobs jobs, StopSignals& signals, std::atomic<bool>& stop) {
  const auto shared = std::make_shared<Shared>(jobs.jobs.size());
  std::vector<std::thread> threads;
  threads.reserve(jobs.jobs.size());
  for (std::size_t index = 0; index < jobs.jobs.size(); ++index) {
    const absl::Status started = run_caught([&] {
      threads.emplace_back(
          [shared, job = jobs.jobs[index], index] { note_end(run_caught(job), index, *shared); });
      return absl::OkStatus();
    });
    // This ends the other jobs, like a job that fails.
    if (!started.ok()) note_end(cannot_start_thread(started), index, *shared);
  }

  JobsResult result;
  Clock::time_point give_up = Clock::time_point::max();
  bool is_told_to_end = false;  // by a signal
  for (;;) {
    bool must_end = result.told_to_stop || is_told_to_end;
    {
      const std::lock_guard lock(shared->mutex);
      if (shared->running == 0) break;
      must_end = must_end || shared->failed;
    }
    if ((must_end || result.signal != 0) && !stop) {
      stop = true;
      jobs.wake();
    }
    if (must_end && give_up == Clock::time_point::max()) give_up = Clock::now() + kJobsPatience;
    if (Clock::now() >= give_up) {
      result.abandoned = true;
      break;
    }
    // A broken pipe stays broken: so poll it only until that is known. poll() ignores negative descriptors.
    std::array<pollfd, 3> wanted = {{{signals.descriptor(), POLLIN, 0},
                                     {shared->changed, POLLIN, 0},
                                     {result.told_to_stop ? -1 : jobs.listener_descriptor, POLLIN, 0}}};
    ::poll(wanted.data(), wanted.size(),
           give_up == Clock::time_point::max() ? -1 : base::poll_timeout_ms(give_up, kJobsPatience));
    if (const std::optional<int> signal = signals.take(); signal && !jobs.goes_on_after(*signal)) {
      result.signal = *signal;
      is_told_to_end = is_told_to_end || !jobs.saves_first || *signal != kSaveSignal;
      jobs.on_signal(*signal);
    }
    std::uint64_t count = 0;
    (void)!::read(shared->changed, &count, sizeof count);
    result.told_to_stop = result.told_to_stop || wanted[2].revents != 0;
  }
  for (std::thread& thread : threads) {
    if (result.abandoned) {
      thread.detach();
    } else {
      thread.join();
    }
  }
  const std::lock_guard lock(shared->mutex);
  result.statuses = shared->statuses;
  return result;
}

}  // namespace verbena::apps
