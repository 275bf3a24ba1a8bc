#include "cluster/store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

#include "base/return_if_error.hpp"

namespace verbena::cluster {
namespace {

absl::Status check_key(std::string_view key) {
  if (!key.empty() && key.size() <= kMostKeyBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("a key has {} bytes, expected 1 to {}", key.size(), kMostKeyBytes));
}

absl::Status check_lease(LeaseId lease) {
  // etcd's are signed.
  if (lease != kNoLease && lease <= static_cast<LeaseId>(INT64_MAX)) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("there is no lease {}", lease));
}

absl::Status check_request(const KeyRange& range) {
  return check_key(range.key);
}

absl::Status check_request(const Transaction& transaction) {
  const std::size_t operations = transaction.puts.size() + transaction.deletes.size();
  if (transaction.conditions.size() > kMostOperations || operations > kMostOperations) {
    return absl::InvalidArgumentError(
        fmt::format("a transaction has {} conditions, and {} puts and deletes, expected at most {} each",
                    transaction.conditions.size(), operations, kMostOperations));
  }
  std::size_t bytes = 0;
  std::set<std::string_view> changed;
  for (const Condition& condition : transaction.conditions) {
    RETURN_IF_ERROR(check_key(condition.key));
    bytes += condition.key.size();
  }
  for (const Put& put : transaction.puts) {
    RETURN_IF_ERROR(check_key(put.key));
    if (put.lease != kNoLease) RETURN_IF_ERROR(check_lease(put.lease));
    bytes += put.key.size() + put.value.size();
    changed.insert(put.key);
  }
  for (const std::string& key : transaction.deletes) {
    RETURN_IF_ERROR(check_key(key));
    bytes += key.size();
    changed.insert(key);
  }
  if (changed.size() != operations)
    return absl::InvalidArgumentError("a transaction puts or deletes a key twice");
  if (bytes <= kMostRequestBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("a transaction has {} bytes, expected at most {}", bytes, kMostRequestBytes));
}

absl::Status check_request(const GrantLease& grant) {
  if (grant.ttl >= kShortestTtl && grant.ttl <= kLongestTtl) return absl::OkStatus();
  return absl::InvalidArgumentError("a lease is for a time that is too short or too long");
}
absl::Status check_request(const KeepLease& keep) {
  return check_lease(keep.id);
}
absl::Status check_request(const RevokeLease& revoke) {
  return check_lease(revoke.id);
}

/// A callback for any answer that passes on those of one kind. What a store answers of another kind is the
/// implementation's mistake, and not possible.
template <class Result>
std::function<void(const absl::StatusOr<Answer>&)> only(Store::Done<Result> done) {
  return [done = std::move(done)](const absl::StatusOr<Answer>& answer) {
    if (answer.ok()) {
      done(std::get<Result>(*answer));
    } else {
      done(answer.status());
    }
  };
}

}  // namespace

bool outcome_unknown(const absl::Status& status) {
  return absl::IsDeadlineExceeded(status) || absl::IsUnknown(status);
}

bool may_repeat(const Request& request) {
  return !std::holds_alternative<Transaction>(request);
}

absl::Status check(const Request& request) {
  return std::visit([](const auto& each) { return check_request(each); }, request);
}

bool answers(const Request& request, const Answer& answer) {
  if (std::holds_alternative<KeyRange>(request)) return std::holds_alternative<Snapshot>(answer);
  if (std::holds_alternative<Transaction>(request)) return std::holds_alternative<TransactionResult>(answer);
  if (std::holds_alternative<RevokeLease>(request)) return std::holds_alternative<Revoked>(answer);
  return std::holds_alternative<Lease>(answer);
}

absl::Status check_watch(std::string_view prefix, Revision from) {
  RETURN_IF_ERROR(check_key(prefix));
  if (from > 0) return absl::OkStatus();
  return absl::InvalidArgumentError("a watch begins at a revision, of which the first is 1");
}

void Store::get(KeyRange range, TimePoint deadline, Done<Snapshot> done) {
  add(std::move(range), deadline, only<Snapshot>(std::move(done)));
}
void Store::transact(Transaction transaction, TimePoint deadline, Done<TransactionResult> done) {
  add(std::move(transaction), deadline, only<TransactionResult>(std::move(done)));
}
void Store::grant(Duration ttl, TimePoint deadline, Done<Lease> done) {
  add(GrantLease{ttl}, deadline, only<Lease>(std::move(done)));
}
void Store::keep_alive(LeaseId lease, TimePoint deadline, Done<Lease> done) {
  add(KeepLease{lease}, deadline, only<Lease>(std::move(done)));
}
void Store::revoke(LeaseId lease, TimePoint deadline, std::function<void(const absl::Status&)> done) {
  add(RevokeLease{lease}, deadline,
      [done = std::move(done)](const absl::StatusOr<Answer>& answer) { done(answer.status()); });
}

void Store::add(Request request, TimePoint deadline,
                std::function<void(const absl::StatusOr<Answer>&)> done) {
  absl::Status status = check(request);
  if (status.ok() && pending_.size() >= kMostUnanswered)
    status = absl::ResourceExhaustedError(fmt::format("{} requests wait for an answer", pending_.size()));
  if (!status.ok()) {
    calls_.emplace_back([done = std::move(done), status] { done(status); });
    return;
  }
  pending_.emplace(next_number_++,
                   Pending{.request = std::move(request), .deadline = deadline, .done = std::move(done)});
}

Store::WatchId Store::watch(std::string prefix, Revision from, OnEvents on_events) {
  absl::Status status = check_watch(prefix, from);
  if (status.ok() && watches_.size() >= kMostWatches)
    status = absl::ResourceExhaustedError(fmt::format("there are {} watches", watches_.size()));
  const WatchId id = next_number_++;
  watches_.emplace(id, Watch{.prefix = std::move(prefix), .next = from, .on_events = std::move(on_events)});
  if (!status.ok()) tell(id, status);
  return id;
}

void Store::unwatch(WatchId watch) {
  ended_.erase(watch);
  if (watches_.erase(watch) > 0) on_unwatched(watch);
}

TimePoint Store::next_poll() const {
  if (!calls_.empty()) return TimePoint::min();
  TimePoint next = next_step();
  for (const auto& [number, each] : pending_) next = std::min(next, each.deadline);
  return next;
}

void Store::poll(TimePoint now) {
  step(now);
  give_up_late(now);
  // What callbacks ask for belongs to the next poll().
  for (std::deque<std::function<void()>> calls = std::exchange(calls_, {}); !calls.empty(); calls.pop_front())
    calls.front()();
}

void Store::give_up_late(TimePoint now) {
  for (auto each = pending_.begin(); each != pending_.end();) {
    const std::uint64_t number = each->first;
    const Pending& late = (each++)->second;  // finish() takes it out
    if (late.deadline > now) continue;
    const std::string why = trouble_.empty() ? "" : fmt::format(": {}", trouble_);
    on_given_up(number);
    if (!late.is_asked && !late.may_have_happened) {
      finish(number, absl::UnavailableError(fmt::format("the store cannot be reached{}", why)));
    } else if (may_repeat(late.request)) {
      finish(number, absl::DeadlineExceededError(fmt::format("the store has not answered in time{}", why)));
    } else {
      finish(number,
             absl::DeadlineExceededError(fmt::format(
                 "the store has not answered in time; whether the transaction has happened is not known{}",
                 why)));
    }
  }
}

void Store::finish(std::uint64_t request, absl::StatusOr<Answer> answer) {
  auto found = pending_.extract(request);
  if (found.empty()) return;
  calls_.emplace_back([done = std::move(found.mapped().done), answer = std::move(answer)] { done(answer); });
}

void Store::lose_answer(std::uint64_t request, std::string_view why) {
  const auto found = pending_.find(request);
  if (found == pending_.end()) return;
  if (may_repeat(found->second.request)) {
    const bool only_looks = std::holds_alternative<KeyRange>(found->second.request);
    found->second.may_have_happened |= found->second.is_asked && !only_looks;
    found->second.is_asked = false;
  } else if (found->second.is_asked) {
    finish(request,
           absl::UnknownError(fmt::format("whether the transaction has happened is not known: {}", why)));
  }
}

void Store::tell(WatchId watch, absl::StatusOr<std::vector<Event>> events) {
  const auto found = watches_.find(watch);
  if (found == watches_.end()) return;
  if (!events.ok()) {
    ended_.emplace(watch, std::move(found->second.on_events));
    watches_.erase(found);
    calls_.emplace_back([this, watch, status = events.status()] {
      if (auto last = ended_.extract(watch); !last.empty()) last.mapped()(status);
    });
    return;
  }
  std::erase_if(*events, [&](const Event& each) { return each.entry.modified < found->second.next; });
  if (events->empty()) return;
  found->second.next = events->back().entry.modified + 1;
  calls_.emplace_back([this, watch, events = std::move(events)] {
    // It may have been ended since; what it heard before its end it hears.
    const auto live = watches_.find(watch);
    const auto ended = ended_.find(watch);
    if (live == watches_.end() && ended == ended_.end()) return;
    const OnEvents on_events = live != watches_.end() ? live->second.on_events : ended->second;
    on_events(events);
  });
}

void Store::lose_all(std::string_view why) {
  for (auto each = pending_.begin(); each != pending_.end();) lose_answer((each++)->first, why);
  for (auto each = watches_.begin(); each != watches_.end();) {
    const auto& [id, watch] = *each++;
    if (watch.is_asked) tell(WatchId{id}, absl::UnavailableError(fmt::format("the watch was cut: {}", why)));
  }
}

}  // namespace verbena::cluster
