#include "job/meeting/entry_watch.hpp"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "base/signals_blocked.hpp"
#include "cluster/etcd_store.hpp"
#include "cluster/mirror.hpp"
#include "job/meeting/store_caller.hpp"

namespace verbena::job {

absl::StatusOr<std::unique_ptr<EntryWatch>> EntryWatch::begin(const EtcdPlace& place) {
  absl::StatusOr<std::unique_ptr<cluster::EtcdStore>> store = cluster::EtcdStore::create(place.etcd);
  if (!store.ok()) return store.status();
  return std::unique_ptr<EntryWatch>(new EntryWatch(place, *std::move(store)));
}

EntryWatch::EntryWatch(EtcdPlace place, std::unique_ptr<cluster::Store> store)
    : place_(std::move(place)), store_(std::move(store)) {
  const base::SignalsBlocked blocked;
  thread_ = std::thread([this] { run(); });
}

EntryWatch::~EntryWatch() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  thread_.join();
}

absl::StatusOr<LeaderEntry> EntryWatch::find(cluster::TimePoint deadline) {
  std::unique_lock lock(mutex_);
  const auto is_refused = [&] {
    return absl::IsUnauthenticated(trouble_) || absl::IsPermissionDenied(trouble_);
  };
  changed_.wait_until(lock, deadline, [&] { return entry().has_value() || is_refused(); });
  if (std::optional<LeaderEntry> found = entry()) return *std::move(found);
  const std::string place = to_string(place_);
  if (!trouble_.ok()) {
    const std::string text = fmt::format("{}: {}", place, std::string(trouble_.message()));
    if (is_refused()) return absl::UnauthenticatedError(text);
    return absl::UnavailableError(text);
  }
  if (!is_known_) return absl::UnavailableError(fmt::format("{}: etcd has not answered yet", place));
  return absl::DeadlineExceededError(
      value_ ? fmt::format("{}: what etcd has as {} does not say where rank 0 is", place, key_of(place_))
             : fmt::format("{}: it has not told etcd where it is", place));
}

std::optional<LeaderEntry> EntryWatch::entry() const {
  return value_ ? decode_leader_entry(*value_) : std::nullopt;
}

void EntryWatch::run() {
  const std::string key = key_of(place_);
  cluster::Mirror mirror(*store_, key);
  while (true) {
    step(*store_);
    mirror.poll(std::chrono::steady_clock::now());
    {
      const std::lock_guard lock(mutex_);
      if (is_over_) return;
      const auto found = mirror.entries().find(key);
      value_ = found == mirror.entries().end() ? std::nullopt : std::optional(found->second.value);
      is_known_ = mirror.revision() > 0;
      trouble_ = mirror.trouble();
    }
    changed_.notify_all();
    wait_for(*store_, mirror.next_poll());
  }
}

}  // namespace verbena::job
