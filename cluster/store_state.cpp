#include "cluster/store_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <iterator>
#include <variant>

namespace verbena::cluster {
namespace {

constexpr std::size_t kEntryOverheadBytes = 64;  // so that many empty values are not free

std::size_t bytes_of(std::string_view key, std::string_view value) {
  return key.size() + value.size() + kEntryOverheadBytes;
}

template <class... Each>
struct Overloaded : Each... {
  using Each::operator()...;
};
template <class... Each>
Overloaded(Each...) -> Overloaded<Each...>;

absl::Status no_lease(LeaseId id) {
  return absl::NotFoundError(fmt::format("there is no lease {} (any more)", id));
}

}  // namespace

void StoreState::advance(TimePoint now) {
  if (expiries_.empty()) return;
  if (now - expiries_.begin()->first > kLate) return renew_leases(now);
  while (!expiries_.empty() && expiries_.begin()->first <= now) end(expiries_.begin()->second);
}

TimePoint StoreState::next_expiry() const {
  return expiries_.empty() ? TimePoint::max() : expiries_.begin()->first;
}

void StoreState::renew_leases(TimePoint now) {
  for (auto& [id, lease] : leases_) set_expiry(id, lease, now + lease.ttl);
}

absl::StatusOr<Answer> StoreState::execute(const Request& request, TimePoint now) {
  const auto as_answer = [](const auto& result) -> absl::StatusOr<Answer> {
    if (!result.ok()) return result.status();
    return Answer(*result);
  };
  return std::visit(Overloaded{
                        [&](const KeyRange& range) -> absl::StatusOr<Answer> { return get(range); },
                        [&](const Transaction& transaction) { return as_answer(transact(transaction)); },
                        [&](const GrantLease& grant_lease) { return as_answer(grant(grant_lease.ttl, now)); },
                        [&](const KeepLease& keep) { return as_answer(keep_alive(keep.id, now)); },
                        [&](const RevokeLease& revoke) -> absl::StatusOr<Answer> {
                          if (leases_.contains(revoke.id)) end(revoke.id);
                          return Revoked{};
                        },
                    },
                    request);
}

Snapshot StoreState::get(const KeyRange& range) const {
  Snapshot snapshot{.revision = revision_, .entries = {}};
  for (auto each = entries_.lower_bound(range.key); each != entries_.end() && range.holds(each->first);
       ++each)
    snapshot.entries.push_back(each->second);
  return snapshot;
}

bool StoreState::holds(const Condition& condition) const {
  const auto found = entries_.find(condition.key);
  if (found == entries_.end()) return condition.is == 0;
  return condition.is ==
         (condition.of == Condition::Of::kCreated ? found->second.created : found->second.modified);
}

absl::StatusOr<TransactionResult> StoreState::transact(const Transaction& transaction) {
  const auto fulfilled = [&](const Condition& condition) { return holds(condition); };
  if (!std::all_of(transaction.conditions.begin(), transaction.conditions.end(), fulfilled))
    return TransactionResult{.succeeded = false, .revision = revision_};
  std::size_t bytes = bytes_;
  for (const Put& each : transaction.puts) {
    if (each.lease != kNoLease && !leases_.contains(each.lease)) return no_lease(each.lease);
    bytes += bytes_of(each.key, each.value);
    if (const auto old = entries_.find(each.key); old != entries_.end())
      bytes -= bytes_of(old->first, old->second.value);
  }
  if (bytes > options_.most_bytes && bytes > bytes_) {
    return absl::ResourceExhaustedError(
        fmt::format("the store has room for {} bytes, and would have {}", options_.most_bytes, bytes));
  }
  Change change;
  for (const Put& each : transaction.puts) put(each, change);
  for (const std::string& key : transaction.deletes) remove(key, change);
  commit(std::move(change));
  return TransactionResult{.succeeded = true, .revision = revision_};
}

absl::StatusOr<Lease> StoreState::grant(Duration ttl, TimePoint now) {
  if (leases_.size() >= options_.most_leases)
    return absl::ResourceExhaustedError(fmt::format("the store has {} leases", leases_.size()));
  const LeaseId id = next_lease_++;
  LeaseState& lease = leases_[id];
  lease.ttl = ttl;
  set_expiry(id, lease, now + ttl);
  return Lease{.id = id, .ttl = ttl};
}

absl::StatusOr<Lease> StoreState::keep_alive(LeaseId id, TimePoint now) {
  const auto found = leases_.find(id);
  if (found == leases_.end()) return no_lease(id);
  set_expiry(id, found->second, now + found->second.ttl);
  return Lease{.id = id, .ttl = found->second.ttl};
}

void StoreState::end(LeaseId id) {
  const auto found = leases_.find(id);
  expiries_.erase({found->second.expiry, id});
  const std::set<std::string> keys = std::move(found->second.keys);
  leases_.erase(found);
  Change change;
  for (const std::string& key : keys) remove(key, change);
  commit(std::move(change));
}

void StoreState::put(const Put& put, Change& change) {
  Entry& entry = entries_[put.key];
  if (entry.created == 0) {
    entry.key = put.key;
    entry.created = revision_ + 1;
    bytes_ += bytes_of(entry.key, "");
  }
  bytes_ += put.value.size();
  bytes_ -= entry.value.size();
  attach(put.key, entry.lease, put.lease);
  entry.value = put.value;
  entry.lease = put.lease;
  entry.modified = revision_ + 1;
  change.bytes += bytes_of(entry.key, entry.value);
  change.events.push_back({.is_delete = false, .entry = entry});
}

void StoreState::remove(const std::string& key, Change& change) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  bytes_ -= bytes_of(key, found->second.value);
  attach(key, found->second.lease, kNoLease);
  entries_.erase(found);
  change.bytes += bytes_of(key, "");
  change.events.push_back({.is_delete = true, .entry = {.key = key, .modified = revision_ + 1}});
}

void StoreState::attach(const std::string& key, LeaseId from, LeaseId to) {
  if (const auto old = leases_.find(from); old != leases_.end()) old->second.keys.erase(key);
  if (to != kNoLease) leases_.at(to).keys.insert(key);
}

void StoreState::set_expiry(LeaseId id, LeaseState& lease, TimePoint expiry) {
  expiries_.erase({lease.expiry, id});
  lease.expiry = expiry;
  expiries_.emplace(expiry, id);
}

void StoreState::commit(Change change) {
  if (change.events.empty()) return;
  ++revision_;
  history_bytes_ += change.bytes;
  history_.push_back(std::move(change));
  while (history_bytes_ > options_.most_history_bytes && history_.size() > 1) {
    history_bytes_ -= history_.front().bytes;
    history_.pop_front();
  }
}

absl::StatusOr<StoreState::Events> StoreState::events(std::string_view prefix, Revision from,
                                                      std::size_t enough_bytes) const {
  const Revision first = revision_ + 1 - history_.size();
  // Before the first change there was nothing: "from 1" is "from the beginning", as long as that is known.
  const bool from_empty = first == 2 && from == 1;
  if (from < first && !from_empty) {
    return absl::OutOfRangeError(fmt::format(
        "the store has forgotten the changes before revision {}, expected them from {} on", first, from));
  }
  Events found{.events = {}, .next = std::max(from, first)};
  std::size_t bytes = 0;
  while (found.next <= revision_ && bytes < enough_bytes) {
    for (const Event& event : history_[found.next - first].events) {
      if (!event.entry.key.starts_with(prefix)) continue;
      found.events.push_back(event);
      bytes += bytes_of(event.entry.key, event.entry.value);
    }
    ++found.next;
  }
  return found;
}

void StoreState::compact(Revision first) {
  while (!history_.empty() && revision_ + 1 - history_.size() < first) {
    history_bytes_ -= history_.front().bytes;
    history_.pop_front();
  }
}

}  // namespace verbena::cluster
