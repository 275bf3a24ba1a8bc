// Polls stores, and what is behind them, until something is so.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cluster/store.hpp"

namespace verbena::cluster {

/// What is behind stores and must be polled, too; and time.
class Surroundings {
 public:
  virtual ~Surroundings() = default;
  virtual void add_descriptors(std::vector<pollfd>& /*wanted*/) const {}
  [[nodiscard]] virtual TimePoint next_poll() const { return TimePoint::max(); }
  virtual void poll(TimePoint /*now*/) {}
  [[nodiscard]] virtual TimePoint now() const { return std::chrono::steady_clock::now(); }
  /// Until a descriptor is ready, or `until`.
  virtual void wait(std::vector<pollfd>& wanted, TimePoint until) {
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(until - now()).count();
    ::poll(wanted.data(), wanted.size(), static_cast<int>(std::clamp<std::int64_t>(ms, 0, 100)));
  }
};

class Driver {
 public:
  /// More than anything takes, even on a busy machine.
  static constexpr Duration kPatience = std::chrono::seconds(60);

  explicit Driver(Surroundings& surroundings) : surroundings_(surroundings) {}

  void add(Store& store) { stores_.push_back(&store); }
  void remove(Store& store) { std::erase(stores_, &store); }
  [[nodiscard]] TimePoint now() const { return surroundings_.now(); }

  /// Whether it has become so. A failure of the test otherwise.
  bool run_until(const std::function<bool()>& so) {
    const TimePoint end = now() + kPatience;
    while (now() < end) {
      poll();
      if (so()) return true;
      wait(end);
    }
    ADD_FAILURE() << "what was waited for has not come";
    return false;
  }
  void run_for(Duration duration) {
    for (const TimePoint end = now() + duration; now() < end; wait(end)) poll();
  }

  // Requests that wait for their answers.
  absl::StatusOr<Snapshot> get(Store& store, KeyRange range, Duration limit = kLimit) {
    return answer<Snapshot>([&](auto done) { store.get(std::move(range), now() + limit, std::move(done)); });
  }
  absl::StatusOr<TransactionResult> transact(Store& store, Transaction transaction, Duration limit = kLimit) {
    return answer<TransactionResult>(
        [&](auto done) { store.transact(std::move(transaction), now() + limit, std::move(done)); });
  }
  absl::StatusOr<Lease> grant(Store& store, Duration ttl, Duration limit = kLimit) {
    return answer<Lease>([&](auto done) { store.grant(ttl, now() + limit, std::move(done)); });
  }
  absl::StatusOr<Lease> keep_alive(Store& store, LeaseId lease, Duration limit = kLimit) {
    return answer<Lease>([&](auto done) { store.keep_alive(lease, now() + limit, std::move(done)); });
  }
  absl::Status revoke(Store& store, LeaseId lease, Duration limit = kLimit) {
    std::optional<absl::Status> answer;
    store.revoke(lease, now() + limit, [&](const absl::Status& status) { answer = status; });
    run_until([&] { return answer.has_value(); });
    return answer.value_or(absl::InternalError("no answer"));
  }
  absl::StatusOr<TransactionResult> put(Store& store, const std::string& key, const std::string& value,
                                        LeaseId lease = kNoLease) {
    return transact(store, {.conditions = {}, .puts = {{key, value, lease}}, .deletes = {}});
  }

 private:
  static constexpr Duration kLimit = std::chrono::seconds(20);

  template <class Result, class Ask>
  absl::StatusOr<Result> answer(const Ask& ask) {
    std::optional<absl::StatusOr<Result>> answer;
    ask([&](const absl::StatusOr<Result>& result) {
      EXPECT_FALSE(answer.has_value()) << "a second answer";
      answer = result;
    });
    EXPECT_FALSE(answer.has_value()) << "called back outside of poll()";
    run_until([&] { return answer.has_value(); });
    return answer.value_or(absl::InternalError("no answer"));
  }

  void poll() {
    const TimePoint time = now();
    surroundings_.poll(time);
    for (std::size_t i = 0; i < stores_.size(); ++i) stores_[i]->poll(time);
  }
  void wait(TimePoint end) {
    TimePoint next = std::min(end, surroundings_.next_poll());
    std::vector<pollfd> wanted;
    surroundings_.add_descriptors(wanted);
    for (Store* const store : stores_) {
      next = std::min(next, store->next_poll());
      store->add_descriptors(wanted);
    }
    surroundings_.wait(wanted, std::max(next, now()));
  }

  Surroundings& surroundings_;
  std::vector<Store*> stores_;
};

/// What a watch has heard.
struct Heard {
  std::vector<Event> events;
  std::optional<absl::Status> end;

  Store::OnEvents listener() {
    return [this](const absl::StatusOr<std::vector<Event>>& told) {
      EXPECT_FALSE(end.has_value()) << "told something after its end";
      if (!told.ok()) {
        end = told.status();
      } else {
        EXPECT_FALSE(told->empty());
        events.insert(events.end(), told->begin(), told->end());
      }
    };
  }
};

}  // namespace verbena::cluster
