#include "apps/launcher/succession.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>
#include <variant>

#include "apps/report/run_status.hpp"
#include "cluster/remote_store.hpp"
#include "job/server_place.hpp"

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

std::shared_ptr<cluster::StoredConfiguration> configuration_of(
    pid_t launcher, const std::shared_ptr<const transport::Secret>& secret,
    std::shared_ptr<const std::atomic<std::uint64_t>> decided) {
  return std::make_shared<cluster::StoredConfiguration>(
      std::make_unique<cluster::RemoteStore>(job::place_of_store(launcher), secret), /*prefix=*/"",
      std::move(decided));
}

absl::StatusOr<std::unique_ptr<Succession>> Succession::begin(
    std::shared_ptr<const transport::Secret> secret) {
  absl::StatusOr<SharedWord> decided = SharedWord::make();
  if (!decided.ok()) return decided.status();
  std::unique_ptr<Succession> succession(new Succession(*std::move(decided)));
  auto server =
      cluster::StoreServer::listen(job::place_of_store(::getpid()), std::move(secret), succession->state_);
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

std::optional<cluster::Controller::Chains> Succession::chains() {
  return controller_.chains(now());
}

/// One that is too long stays as it was.
void Succession::put(std::string key, std::string value) {
  state_
      .execute(
          cluster::Transaction{
              .conditions = {}, .puts = {{.key = std::move(key), .value = std::move(value)}}, .deletes = {}},
          now())
      .IgnoreError();
}

void Succession::publish(std::string status) {
  put(kStatusKey, std::move(status));
}

std::vector<std::pair<std::string, DrainRequest>> Succession::take_drains() {
  std::vector<std::pair<std::string, DrainRequest>> drains;
  const auto asked = state_.execute(cluster::KeyRange{.key = kDrainsPrefix, .is_prefix = true}, now());
  if (!asked.ok()) return drains;
  for (const cluster::Entry& entry : std::get<cluster::Snapshot>(*asked).entries) {
    const std::string mark = entry.key.substr(std::string_view(kDrainsPrefix).size());
    state_.execute(cluster::Transaction{.conditions = {}, .puts = {}, .deletes = {entry.key}}, now())
        .IgnoreError();
    if (absl::StatusOr<DrainRequest> request = decode_drain_request(entry.value); request.ok()) {
      drains.emplace_back(mark, *request);
    } else {
      answer_drain(mark, request.status());
    }
  }
  return drains;
}

absl::StatusOr<Succession::Copy> Succession::may_leave(const DrainRequest& request) {
  return controller_.may_leave(request.server, request.copy, now());
}

void Succession::answer_drain(const std::string& mark, const absl::StatusOr<std::string>& answer) {
  put(kDrainedPrefix + mark, encode_drain_answer(answer));
}

absl::StatusOr<std::string> Succession::remove(const Copy& ended) {
  const absl::StatusOr<cluster::Configuration> next = controller_.remove(ended, now());
  if (!next.ok()) return next.status();
  return what_follows(*next, ended.server);
}

}  // namespace verbena::apps
