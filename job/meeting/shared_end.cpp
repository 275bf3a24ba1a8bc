#include "job/meeting/shared_end.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

namespace verbena::job {
namespace {

constexpr auto kPoliteness = std::chrono::milliseconds(10000);  // from SIGTERM to SIGKILL

}  // namespace

void SharedEnd::lose(const std::string& why) {
  if (has_lost()) return;
  lost_ = why;
  ends_at_ = time_.now() + grace_;
}

void SharedEnd::end_this_process(std::string_view how, const std::string& why) {
  if (!is_watching_ || is_leaving_) return;
  is_watching_ = false;
  if (end_) return end_(why);
  show(fmt::format("verbena: this process ends{}: {}", how, why));
  ends_this_process_ = true;
  ::kill(::getpid(), SIGTERM);
  dies_at_ = time_.now() + kPoliteness;
}

void SharedEnd::look(transport::TimePoint now) {
  time_.look(now);
  if (dies_at_ && time_.now() >= *dies_at_) ::kill(::getpid(), SIGKILL);
}

void SharedEnd::show(const std::string& line) const {
  if (show_) return show_(line);
  fmt::print(stderr, "{}\n", line);
}

}  // namespace verbena::job
