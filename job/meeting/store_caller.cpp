#include "job/meeting/store_caller.hpp"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "base/poll_timeout.hpp"
#include "base/signals_blocked.hpp"

namespace verbena::job {
namespace {

using cluster::Store;
using transport::TimePoint;
using Clock = std::chrono::steady_clock;

constexpr auto kLongestWait = std::chrono::milliseconds(50);  // in which whoever wants to stop is not heard

}  // namespace

void wait_for(const Store& store, TimePoint until) {
  std::vector<pollfd> wanted;
  store.add_descriptors(wanted);
  const TimePoint next = std::min(until, store.next_poll());
  ::poll(wanted.data(), wanted.size(), base::poll_timeout_ms(next, kLongestWait));
}

void step(Store& store) {
  const base::SignalsBlocked blocked;
  store.poll(Clock::now());
}

template <class Result, class Ask>
absl::StatusOr<Result> StoreCaller::wait_for_answer(const Ask& ask) {
  // The store may call back after the wait has been ended.
  const auto answer = std::make_shared<std::optional<absl::StatusOr<Result>>>();
  ask([answer](const absl::StatusOr<Result>& result) { *answer = result; });
  while (true) {
    step(*store_);
    if (*answer) return **answer;
    if (stopped_()) return absl::CancelledError("stopped");
    wait_for(*store_, TimePoint::max());
  }
}

absl::StatusOr<cluster::Snapshot> StoreCaller::get(const std::string& key) {
  return wait_for_answer<cluster::Snapshot>(
      [&](auto done) { store_->get({.key = key}, Clock::now() + kLimit, std::move(done)); });
}

absl::StatusOr<cluster::TransactionResult> StoreCaller::transact(cluster::Transaction transaction) {
  return wait_for_answer<cluster::TransactionResult>(
      [&](auto done) { store_->transact(std::move(transaction), Clock::now() + kLimit, std::move(done)); });
}

absl::StatusOr<cluster::Lease> StoreCaller::grant(cluster::Duration ttl) {
  return wait_for_answer<cluster::Lease>(
      [&](auto done) { store_->grant(ttl, Clock::now() + kLimit, std::move(done)); });
}

absl::StatusOr<cluster::Lease> StoreCaller::keep_alive(cluster::LeaseId lease) {
  return wait_for_answer<cluster::Lease>(
      [&](auto done) { store_->keep_alive(lease, Clock::now() + kLimit, std::move(done)); });
}

void StoreCaller::revoke(cluster::LeaseId lease, cluster::Duration limit) {
  bool has_ended = false;
  store_->revoke(lease, Clock::now() + limit, [&](const absl::Status& /*status*/) { has_ended = true; });
  while (true) {
    step(*store_);
    if (has_ended) return;
    wait_for(*store_, TimePoint::max());
  }
}

}  // namespace verbena::job
