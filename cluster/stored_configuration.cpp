#include "cluster/stored_configuration.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace verbena::cluster {
namespace {

/// How often the store's connection is looked at: a change is heard of so much later. A process that waits
/// for one looks more often.
constexpr auto kUsualInterval = std::chrono::milliseconds(50);
constexpr auto kShortInterval = std::chrono::milliseconds(2);
constexpr auto kRequestLimit = std::chrono::seconds(2);

}  // namespace

StoredConfiguration::StoredConfiguration(std::unique_ptr<Store> store, const std::string& prefix,
                                         std::shared_ptr<const std::atomic<std::uint64_t>> decided,
                                         Decider decider)
    : prefix_(prefix),
      decided_(std::move(decided)),
      decider_(decider),
      store_(std::move(store)),
      mirror_(*store_, prefix + kConfigurationKey) {}

void StoredConfiguration::propose(const Configuration& first) {
  first_ = first;
}

void StoredConfiguration::poll(transport::TimePoint now) {
  if (now < next_poll_) return;
  now_ = now;
  if (first_ && !is_proposing_) put_first();
  if (!to_say_.empty() && !is_saying_) put_to_say();
  mirror_.poll(now);
  store_->poll(now);
  take_newest();
  const bool waits = expects_change_ || newest_.number == 0 || now < changed_at_ + kTimeOfChange;
  next_poll_ = now + (waits ? kShortInterval : kUsualInterval);
}

void StoredConfiguration::join(std::uint32_t server, std::uint32_t copy, const std::string& address) {
  to_say_.emplace_back(fmt::format("{}{}/{}", kNewcomersPrefix, server, copy), address);
  expect_change();
}

void StoredConfiguration::has_joined(const std::string& address) {
  to_say_.emplace_back(kJoinedPrefix + address, "");
  expect_change();
}

void StoredConfiguration::put_to_say() {
  is_saying_ = true;
  const auto& [key, value] = to_say_.front();
  put({.conditions = {}, .puts = {{.key = prefix_ + key, .value = value}}, .deletes = {}},
      [this](bool is_there) {
        is_saying_ = false;
        if (is_there) to_say_.pop_front();
      });
}

void StoredConfiguration::put_first() {
  is_proposing_ = true;
  const std::string key = prefix_ + kConfigurationKey;
  Transaction transaction{.conditions = {{.key = key, .of = Condition::Of::kCreated, .is = 0}},
                          .puts = {{.key = key, .value = encode(*first_)}},
                          .deletes = {}};
  put(std::move(transaction), [this](bool is_there) {
    is_proposing_ = false;
    if (is_there) first_.reset();
  });
}

/// `done`: it is told whether the entry is there now, put by this process or by another one.
void StoredConfiguration::put(Transaction transaction, std::function<void(bool is_there)> done) {
  store_->transact(
      std::move(transaction), now_ + kRequestLimit,
      [done = std::move(done)](const absl::StatusOr<TransactionResult>& result) { done(result.ok()); });
}

void StoredConfiguration::take_newest() {
  const auto found = mirror_.entries().find(prefix_ + kConfigurationKey);
  if (found == mirror_.entries().end() || found->second.modified == taken_) return;
  taken_ = found->second.modified;
  absl::StatusOr<Configuration> configuration = decode_configuration(found->second.value);
  if (!configuration.ok()) {
    spdlog::warn("{}", std::string(configuration.status().message()));
    return;
  }
  if (configuration->number <= newest_.number) return;
  newest_ = *std::move(configuration);
  expects_change_ = false;
  changed_at_ = now_;
  // Whoever was not ended for want of another copy may be now.
  if (!decider_.ends_who_is_left_out) suspects_.clear();
}

void StoredConfiguration::expect_change() {
  expects_change_ = true;
  next_poll_ = transport::TimePoint::min();
}

void StoredConfiguration::suspect(const std::string& address, const std::string& why) {
  expect_change();
  if (!suspects_.insert(address).second) return;
  Transaction transaction{
      .conditions = {}, .puts = {{.key = prefix_ + kSuspectsPrefix + address, .value = why}}, .deletes = {}};
  put(std::move(transaction), [this, address](bool is_there) {
    if (!is_there) suspects_.erase(address);  // whoever suspects it says so again
  });
}

}  // namespace verbena::cluster
