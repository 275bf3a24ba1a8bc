#include "worker/thread_owner.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>

namespace verbena::worker {

namespace {

std::string name_of_this_thread() {
  std::array<char, 16> name{};  // the system's limit
  return ::pthread_getname_np(::pthread_self(), name.data(), name.size()) == 0 ? name.data() : "";
}

}  // namespace

std::uint64_t ThreadOwner::next_number() {
  static std::atomic<std::uint64_t> last = 0;
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

/// Runs in the only thread of a child process: that thread does not own what its parent had.
void ThreadOwner::become_child() {
  if (here != 0) here = next_number();
}

bool ThreadOwner::is_this_process() const {
  return process_ == ::getpid();
}

void ThreadOwner::take_over() {
  static const int kRegistered = ::pthread_atfork(nullptr, nullptr, &ThreadOwner::become_child);
  static_cast<void>(kRegistered);  // if memory for it is short, forks are not detected
  if (here == 0) here = next_number();
  owner_ = here;
  process_ = ::getpid();
  number_ = ::gettid();
  name_ = name_of_this_thread();
}

absl::Status ThreadOwner::refuse(std::string_view whose) const {
  if (!is_this_process()) {
    return absl::FailedPreconditionError(
        fmt::format("{} belongs to process {}, and a child that it has forked, {}, has used it: a child "
                    "needs a session of its own",
                    whose, process_, ::getpid()));
  }
  return absl::FailedPreconditionError(fmt::format(
      "{} belongs to thread {} (\"{}\"), and thread {} (\"{}\") has used it, which would lose updates: use "
      "it in its own, or hand it over with Session::take_over()",
      whose, number_, name_, ::gettid(), name_of_this_thread()));
}

}  // namespace verbena::worker
