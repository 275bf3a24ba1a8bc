#include "cluster/local_store.hpp"

#include <utility>

namespace verbena::cluster {
namespace {

constexpr std::size_t kBytesAPoll = 1 << 20;  // of events, for each watch

}  // namespace

void LocalStore::step(TimePoint now) {
  state_.advance(now);
  for (auto each = pending().begin(); each != pending().end();) {
    const auto& [number, request] = *each++;  // finish() takes it out
    // As another store would: what is late is not asked any more.
    if (request.deadline > now) finish(number, state_.execute(request.request, now));
  }
  for (auto each = watches().begin(); each != watches().end();) {
    auto& [id, watch] = *each++;
    absl::StatusOr<StoreState::Events> found = state_.events(watch.prefix, watch.next, kBytesAPoll);
    if (!found.ok()) {
      tell(id, found.status());
      continue;
    }
    tell(id, std::move(found->events));
    watch.next = found->next;
  }
}

TimePoint LocalStore::next_step() const {
  if (!pending().empty()) return TimePoint::min();
  for (const auto& [id, watch] : watches()) {
    if (watch.next <= state_.revision()) return TimePoint::min();
  }
  return state_.next_expiry();
}

}  // namespace verbena::cluster
