#include "apps/launcher/succession.hpp"

#include <fmt/format.h>

#include <chrono>
#include <utility>

namespace verbena::apps {
namespace {

cluster::TimePoint now() {
  return std::chrono::steady_clock::now();
}

}  // namespace

std::string what_follows(const cluster::Configuration& next, std::uint32_t server) {
  const std::size_t left = next.servers[server].size();
  return fmt::format("the run goes on with {} of server {} (configuration {})",
                     left == 1 ? std::string("the last copy") : fmt::format("{} copies", left), server,
                     next.number);
}

absl::StatusOr<std::unique_ptr<Succession>> Succession::begin(
    std::shared_ptr<const transport::Secret> secret) {
  absl::StatusOr<job::SharedWord> decided = job::SharedWord::make();
  if (!decided.ok()) return decided.status();
  std::unique_ptr<Succession> succession(new Succession(*std::move(decided)));
  if (absl::Status status = succession->store_.listen(std::move(secret)); !status.ok()) return status;
  return succession;
}

void Succession::poll(const std::function<void(const cluster::Controller::Suspect&)>& end,
                      const std::function<void(const Copy&)>& joined) {
  store_.poll();
  for (const Copy& copy : controller_.take_joined(now())) joined(copy);
  for (const cluster::Controller::Suspect& suspect : controller_.take_suspects(now())) end(suspect);
}

std::optional<cluster::Controller::Chains> Succession::chains() {
  return controller_.chains(now());
}

absl::StatusOr<Succession::Copy> Succession::may_leave(const DrainRequest& request) {
  return controller_.may_leave(request.server, request.copy, now());
}

absl::StatusOr<std::string> Succession::remove(const Copy& ended) {
  const absl::StatusOr<cluster::Configuration> next = controller_.remove(ended, now());
  if (!next.ok()) return next.status();
  return what_follows(*next, ended.server);
}

}  // namespace verbena::apps
