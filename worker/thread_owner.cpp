#include "worker/thread_owner.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <array>

namespace verbena::worker {

namespace {

std::string name_of_this_thread() {
  std::array<char, 16> name{};  // the system's limit
  return ::pthread_getname_np(::pthread_self(), name.data(), name.size()) == 0 ? name.data() : "";
}

}  // namespace

void ThreadOwner::take_over() {
  owner_ = &here;
  number_ = ::gettid();
  name_ = name_of_this_thread();
}

absl::Status ThreadOwner::refuse(std::string_view whose) const {
  return absl::FailedPreconditionError(fmt::format(
      "{} belongs to thread {} (\"{}\"), and thread {} (\"{}\") has used it, which would lose updates: use "
      "it in its own, or hand it over with Session::take_over()",
      whose, number_, name_, ::gettid(), name_of_this_thread()));
}

}  // namespace verbena::worker
