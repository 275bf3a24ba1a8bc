#include "apps/launcher/status_desk.hpp"

#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "base/return_if_error.hpp"

namespace verbena::apps {
namespace {

constexpr auto kBetweenWords = std::chrono::milliseconds(500);

}  // namespace

absl::StatusOr<std::unique_ptr<StatusDesk>> StatusDesk::open(const std::string& checkpoints) {
  absl::StatusOr<job::RunSecret> secret = job::RunSecret::make(::getpid());
  if (!secret.ok()) return secret.status();
  std::error_code error;
  std::string folder = checkpoints.empty() ? "" : std::filesystem::absolute(checkpoints, error).string();
  std::unique_ptr<StatusDesk> desk(new StatusDesk(*std::move(secret), std::move(folder)));
  RETURN_IF_ERROR(desk->store_.listen(desk->secret_.secret()));
  return desk;
}

void StatusDesk::serve(absl::FunctionRef<RunStatus()> status) {
  if (const auto now = std::chrono::steady_clock::now(); now >= next_status_) {
    next_status_ = now + kBetweenWords;
    RunStatus told = status();
    told.checkpoints = checkpoints_;
    store_.publish(encode(told));
  }
  store_.poll();
  for (const auto& [mark, request] : store_.take_drains()) {
    store_.answer_drain(mark, absl::FailedPreconditionError(
                                  "this job is one of several hosts: send the server's process SIGTERM"));
  }
}

}  // namespace verbena::apps
