#include "apps/launcher/configuration_relay.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "cluster/stored_configuration.hpp"
#include "job/server_place.hpp"

namespace verbena::apps {
namespace {

std::string fresh_place() {
  std::random_device random;
  return fmt::format("{}-{:08x}{:08x}", job::place_of_store(::getpid()), random(), random());
}

}  // namespace

absl::StatusOr<std::unique_ptr<ConfigurationRelay>> ConfigurationRelay::begin(
    std::shared_ptr<const transport::Secret> secret, ToldConfiguration& told) {
  absl::StatusOr<job::SharedWord> decided = job::SharedWord::make();
  if (!decided.ok()) return decided.status();
  base::FileDescriptor woken(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!woken.valid()) {
    const int error = errno;
    return absl::ResourceExhaustedError(fmt::format("eventfd: {}", std::strerror(error)));
  }
  std::unique_ptr<ConfigurationRelay> relay(
      new ConfigurationRelay(*std::move(decided), std::move(woken), told));
  auto server = cluster::StoreServer::listen(relay->place_, std::move(secret), relay->state_);
  if (!server.ok()) return server.status();
  relay->server_ = *std::move(server);
  return relay;
}

ConfigurationRelay::ConfigurationRelay(job::SharedWord decided, base::FileDescriptor woken,
                                       ToldConfiguration& told)
    : place_(fresh_place()),
      decided_(std::move(decided)),
      woken_(std::move(woken)),
      told_(told),
      heard_(told.source()) {
  told_.wake_by([descriptor = woken_.get()] {
    const std::uint64_t one = 1;
    (void)!::write(descriptor, &one, sizeof one);
  });
}

ConfigurationRelay::~ConfigurationRelay() {
  told_.wake_by([] {});
}

void ConfigurationRelay::add_descriptors(std::vector<pollfd>& wanted) const {
  wanted.push_back({woken_.get(), POLLIN, 0});
  server_->add_descriptors(wanted);
}

cluster::TimePoint ConfigurationRelay::next_poll() const {
  return server_->next_poll();
}

void ConfigurationRelay::poll() {
  const cluster::TimePoint now = std::chrono::steady_clock::now();
  std::uint64_t times = 0;
  (void)!::read(woken_.get(), &times, sizeof times);
  heard_->poll(now);
  pass_on_newest(now);
  server_->poll(now);
  pass_on_suspicions(now);
}

void ConfigurationRelay::pass_on_newest(cluster::TimePoint now) {
  const cluster::Configuration& newest = heard_->newest();
  if (newest.number == passed_on_) return;
  passed_on_ = newest.number;
  state_
      .execute(cluster::Transaction{.conditions = {},
                                    .puts = {{.key = cluster::kConfigurationKey, .value = encode(newest)}},
                                    .deletes = {}},
               now)
      .IgnoreError();  // it is far smaller than what a store has room for
  decided_.word().store(newest.number, std::memory_order_release);
}

/// Each once: the program says it again if it still holds by the next configuration.
void ConfigurationRelay::pass_on_suspicions(cluster::TimePoint now) {
  const auto said =
      state_.execute(cluster::KeyRange{.key = cluster::kSuspectsPrefix, .is_prefix = true}, now);
  if (!said.ok()) return;
  for (const cluster::Entry& entry : std::get<cluster::Snapshot>(*said).entries) {
    heard_->suspect(entry.key.substr(std::string_view(cluster::kSuspectsPrefix).size()), entry.value);
    state_.execute(cluster::Transaction{.conditions = {}, .puts = {}, .deletes = {entry.key}}, now)
        .IgnoreError();
  }
}

}  // namespace verbena::apps
