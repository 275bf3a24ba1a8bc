#include "apps/launcher/succession.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "cluster/remote_store.hpp"

namespace verbena::apps {
namespace {

std::string name_of_store(pid_t launcher) {
  return fmt::format("verbena/{}/store", launcher);
}

cluster::TimePoint now() {
  return std::chrono::steady_clock::now();
}

}  // namespace

std::shared_ptr<cluster::StoredConfiguration> configuration_of(
    pid_t launcher, const std::shared_ptr<const transport::Secret>& secret,
    std::shared_ptr<const std::atomic<std::uint64_t>> decided) {
  return std::make_shared<cluster::StoredConfiguration>(
      std::make_unique<cluster::RemoteStore>(name_of_store(launcher), secret), /*prefix=*/"",
      std::move(decided));
}

absl::StatusOr<std::unique_ptr<Succession>> Succession::begin(
    std::shared_ptr<const transport::Secret> secret) {
  absl::StatusOr<SharedWord> decided = SharedWord::make();
  if (!decided.ok()) return decided.status();
  std::unique_ptr<Succession> succession(new Succession(*std::move(decided)));
  auto server =
      cluster::StoreServer::listen(name_of_store(::getpid()), std::move(secret), succession->state_);
  if (!server.ok()) return server.status();
  succession->server_ = *std::move(server);
  return succession;
}

int Succession::timeout_ms(int most_ms) const {
  const cluster::TimePoint next = server_->next_poll();
  if (next == cluster::TimePoint::max()) return most_ms;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, most_ms));
}

void Succession::poll(const std::function<void(const cluster::Controller::Suspect&)>& end,
                      const std::function<void(const Copy&)>& joined) {
  server_->poll(now());
  for (const Copy& copy : controller_.take_joined(now())) joined(copy);
  for (const cluster::Controller::Suspect& suspect : controller_.take_suspects(now())) end(suspect);
}

absl::StatusOr<std::string> Succession::remove(const Copy& ended) {
  const absl::StatusOr<cluster::Configuration> next = controller_.remove(ended, now());
  if (!next.ok()) return next.status();
  const std::size_t left = next->servers[ended.server].size();
  return fmt::format("the run goes on with {} of server {} (configuration {})",
                     left == 1 ? std::string("the last copy") : fmt::format("{} copies", left), ended.server,
                     next->number);
}

}  // namespace verbena::apps
