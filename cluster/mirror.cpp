#include "cluster/mirror.hpp"

#include <algorithm>
#include <utility>

namespace verbena::cluster {

Mirror::Mirror(Store& store, std::string prefix, const MirrorOptions& options)
    : store_(store), prefix_(std::move(prefix)), options_(options) {}

Mirror::~Mirror() {
  if (watch_) store_.unwatch(*watch_);
}

void Mirror::poll(TimePoint now) {
  if (is_reading_ || now < next_read_) return;
  is_reading_ = true;
  heard_.clear();
  asked_at_ = now;
  next_read_ = now + options_.read_interval;
  store_.get({.key = prefix_, .is_prefix = true}, now + options_.request_limit,
             [self = std::weak_ptr<Mirror*>(self_)](const absl::StatusOr<Snapshot>& snapshot) {
               if (const auto alive = self.lock()) (*alive)->on_snapshot(snapshot);
             });
}

void Mirror::on_snapshot(const absl::StatusOr<Snapshot>& snapshot) {
  is_reading_ = false;
  trouble_ = snapshot.status();
  if (!snapshot.ok()) {
    next_read_ = std::min(next_read_, asked_at_ + options_.request_limit + kShortestInterval);
    return;
  }
  revision_ = snapshot->revision;
  entries_.clear();
  for (const Entry& each : snapshot->entries) entries_.emplace(each.key, each);
  // What was heard before it was asked for, it has: gets are linearizable.
  for (const Event& event : heard_) apply(event);
  heard_.clear();
  current_at_ = asked_at_;
  if (watch_) return;
  watch_ = store_.watch(prefix_, revision_ + 1, [this](const auto& events) { on_events(events); });
}

void Mirror::on_events(const absl::StatusOr<std::vector<Event>>& events) {
  if (!events.ok()) {
    watch_.reset();
    next_read_ = std::min(next_read_, asked_at_ + kShortestInterval);
    return;
  }
  const Revision before = revision_;
  for (const Event& event : *events) {
    if (event.entry.modified <= before) continue;
    apply(event);
    if (is_reading_) heard_.push_back(event);
  }
}

void Mirror::apply(const Event& event) {
  // One change may have several events.
  if (event.entry.modified < revision_) return;
  revision_ = event.entry.modified;
  if (event.is_delete) {
    entries_.erase(event.entry.key);
  } else {
    entries_.insert_or_assign(event.entry.key, event.entry);
  }
}

}  // namespace verbena::cluster
