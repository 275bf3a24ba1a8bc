#include "apps/launcher/run_store.hpp"

#include <unistd.h>

#include <chrono>
#include <string_view>
#include <utility>
#include <variant>

#include "apps/report/run_status.hpp"
#include "base/poll_timeout.hpp"
#include "job/server_place.hpp"

namespace verbena::apps {
namespace {

cluster::TimePoint store_now() {
  return std::chrono::steady_clock::now();
}

}  // namespace

absl::Status RunStore::listen(std::shared_ptr<const transport::Secret> secret) {
  auto server = cluster::StoreServer::listen(job::place_of_store(::getpid()), std::move(secret), state_);
  if (!server.ok()) return server.status();
  server_ = *std::move(server);
  return absl::OkStatus();
}

int RunStore::timeout_ms(int most_ms) const {
  return base::poll_timeout_ms(server_->next_poll(), std::chrono::milliseconds(most_ms));
}

void RunStore::poll() {
  server_->poll(store_now());
}

/// One that is too long stays as it was.
void RunStore::put(std::string key, std::string value) {
  state_
      .execute(
          cluster::Transaction{
              .conditions = {}, .puts = {{.key = std::move(key), .value = std::move(value)}}, .deletes = {}},
          store_now())
      .IgnoreError();
}

void RunStore::publish(std::string status) {
  put(kStatusKey, std::move(status));
}

std::vector<std::pair<std::string, DrainRequest>> RunStore::take_drains() {
  std::vector<std::pair<std::string, DrainRequest>> drains;
  const auto asked = state_.execute(cluster::KeyRange{.key = kDrainsPrefix, .is_prefix = true}, store_now());
  if (!asked.ok()) return drains;
  for (const cluster::Entry& entry : std::get<cluster::Snapshot>(*asked).entries) {
    const std::string mark = entry.key.substr(std::string_view(kDrainsPrefix).size());
    state_.execute(cluster::Transaction{.conditions = {}, .puts = {}, .deletes = {entry.key}}, store_now())
        .IgnoreError();
    if (absl::StatusOr<DrainRequest> request = decode_drain_request(entry.value); request.ok()) {
      drains.emplace_back(mark, *request);
    } else {
      answer_drain(mark, request.status());
    }
  }
  return drains;
}

void RunStore::answer_drain(const std::string& mark, const absl::StatusOr<std::string>& answer) {
  put(kDrainedPrefix + mark, encode_drain_answer(answer));
}

}  // namespace verbena::apps
