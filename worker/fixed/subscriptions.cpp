#include "worker/fixed/subscriptions.hpp"

#include <algorithm>

namespace verbena::worker {

using protocol::Row;

namespace {

void keep_each_once(std::vector<Row>& rows) {
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
}

}  // namespace

void Subscriptions::note(Row row) {
  changed_.push_back(row);
  if (changed_.size() / 2 > rows_) keep_each_once(changed_);
}

Subscriptions::Changes Subscriptions::take(absl::FunctionRef<bool(Row)> is_cached,
                                           absl::FunctionRef<bool(Row)> is_live) {
  Changes changes;
  changes.begin.swap(changed_);
  if (!subscribed_) return changes;
  keep_each_once(changes.begin);
  std::erase_if(changes.begin, [&](Row row) {
    if (!is_cached(row) && subscribed_->find(row) != 0) changes.end.push_back(row);
    return !is_cached(row) || is_live(row);
  });
  return changes;
}

void Subscriptions::told(Row row, bool begins, std::uint64_t message) {
  if (!subscribed_) return;
  if (begins) {
    subscribed_->set(row, 1);
  } else {
    subscribed_->erase(row);
  }
  awaiting_.erase(row);
  if (begins) awaiting_.emplace(row, message);
}

bool Subscriptions::covers(Row row, std::uint64_t messages_processed) {
  if (!subscribed_) return true;
  if (subscribed_->find(row) == 0) return false;
  const auto awaited = awaiting_.find(row);
  if (awaited == awaiting_.end()) return true;
  if (messages_processed < awaited->second) return false;
  awaiting_.erase(awaited);
  return true;
}

}  // namespace verbena::worker
