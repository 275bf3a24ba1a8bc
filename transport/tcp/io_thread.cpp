#include "transport/tcp/io_thread.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <ctime>
#include <system_error>
#include <utility>

#include "base/signals_blocked.hpp"

namespace verbena::transport::tcp {

namespace {

/// The owner must have slept for so many looks before this thread sleeps, too: so an owner that often sleeps
/// for a short time does not have to ring each time.
constexpr int kLooksBeforeSleep = 25;

}  // namespace

absl::StatusOr<std::unique_ptr<IoThread>> IoThread::start(int sockets, std::chrono::nanoseconds longest_sleep,
                                                          std::function<void()> work) {
  base::FileDescriptor bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell.valid()) return absl::ErrnoToStatus(errno, "no event file can be made (eventfd)");
  std::unique_ptr<IoThread> started(new IoThread(sockets, longest_sleep, std::move(work), std::move(bell)));
  try {
    const base::SignalsBlocked blocked;
    started->thread_ = std::thread([thread = started.get()] { thread->run(); });
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(fmt::format(
        "no thread for the sockets can be had ({}): is the limit on processes (ulimit -u) reached?",
        error.what()));
  }
  ::pthread_setname_np(started->thread_.native_handle(), "tcp sockets");
  return started;
}

IoThread::IoThread(int sockets, std::chrono::nanoseconds longest_sleep, std::function<void()> work,
                   base::FileDescriptor bell)
    : sockets_(sockets), longest_sleep_(longest_sleep), work_(std::move(work)), bell_(std::move(bell)) {}

IoThread::~IoThread() {
  if (!thread_.joinable()) return;
  stop_.store(true, std::memory_order_seq_cst);
  ring();
  thread_.join();
}

void IoThread::ring() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t bytes = ::write(bell_.get(), &one, sizeof one);
}

void IoThread::owner_wakes() {
  owner_is_here();
  owner_sleeps_.store(false, std::memory_order_seq_cst);
  if (sleeps_too_.load(std::memory_order_seq_cst)) ring();
}

void IoThread::sleep(bool with_sockets, std::chrono::nanoseconds longest) {
  std::array<pollfd, 2> files = {pollfd{.fd = bell_.get(), .events = POLLIN, .revents = 0},
                                 pollfd{.fd = sockets_, .events = POLLIN, .revents = 0}};
  const timespec time = {.tv_sec = static_cast<time_t>(longest.count() / 1'000'000'000),
                         .tv_nsec = static_cast<long>(longest.count() % 1'000'000'000)};
  ::ppoll(files.data(), with_sockets ? 2 : 1, &time, nullptr);
  if ((files[0].revents & POLLIN) == 0) return;
  std::uint64_t rung = 0;
  [[maybe_unused]] const ssize_t bytes = ::read(bell_.get(), &rung, sizeof rung);
}

/// The order of the stores and loads on both sides makes sure that either the owner sees that this thread
/// sleeps, and rings, or this thread sees that the owner does not sleep any more.
void IoThread::sleep_until_the_owner_wakes() {
  sleeps_too_.store(true, std::memory_order_seq_cst);
  if (is_owner_asleep() && !stop_.load(std::memory_order_seq_cst)) {
    sleep(false, std::chrono::hours(1));
  }
  sleeps_too_.store(false, std::memory_order_seq_cst);
}

void IoThread::run() {
  std::uint64_t seen = turns_.load(std::memory_order_relaxed) - 1;
  int looks_asleep = 0;
  while (!stop_.load(std::memory_order_seq_cst)) {
    const std::uint64_t turns = turns_.load(std::memory_order_relaxed);
    const bool has_been_here = std::exchange(seen, turns) != turns;
    if (is_owner_asleep()) {
      looks_asleep = has_been_here ? 0 : looks_asleep + 1;
      if (looks_asleep < kLooksBeforeSleep) {
        sleep(false, kLookInterval);
      } else {
        sleep_until_the_owner_wakes();
        looks_asleep = 0;
      }
    } else if (has_been_here) {
      sleep(false, kLookInterval);
    } else {
      sleep(true, longest_sleep_);
      work_();
    }
  }
}

}  // namespace verbena::transport::tcp
