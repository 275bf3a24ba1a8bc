#include "job/meeting/entry_keeper.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/return_if_error.hpp"
#include "base/signals_blocked.hpp"
#include "cluster/etcd_store.hpp"

namespace verbena::job {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

/// How long an entry outlives its process. It does no harm then: who looks there finds nobody. Shorter: more
/// requests.
constexpr auto kEntryTtl = std::chrono::seconds(30);
constexpr auto kBetweenAttempts = milliseconds(1000);     // when one has failed
constexpr auto kBetweenFirstAttempts = milliseconds(50);  // before the entry is there
constexpr auto kBetweenEtcdReminders = milliseconds(5000);
constexpr auto kBeforeWarning = milliseconds(75'000);  // that etcd does not answer
constexpr auto kEntryFarewell = milliseconds(500);

bool is_refusal(const absl::Status& status) {
  return absl::IsUnauthenticated(status) || absl::IsPermissionDenied(status);
}

}  // namespace

absl::StatusOr<std::unique_ptr<EntryKeeper>> EntryKeeper::make(const EtcdPlace& place,
                                                               const LeaderEntry& entry, Lives lives,
                                                               milliseconds patience,
                                                               const Rendezvous::Stopped& stopped) {
  absl::StatusOr<std::unique_ptr<cluster::EtcdStore>> store = cluster::EtcdStore::create(place.etcd);
  if (!store.ok()) return store.status();
  std::unique_ptr<EntryKeeper> keeper(new EntryKeeper(place, entry, std::move(lives), *std::move(store)));
  RETURN_IF_ERROR(keeper->wait_until_made(patience, stopped));
  keeper->was_made_ = true;
  const base::SignalsBlocked blocked;
  keeper->thread_ = std::thread([&keeper = *keeper] { keeper.keep(); });
  return keeper;
}

EntryKeeper::EntryKeeper(const EtcdPlace& place, const LeaderEntry& entry, Lives lives,
                         std::unique_ptr<cluster::Store> store)
    : between_renewals_(place.between_renewals),
      name_(to_string(place)),
      key_(key_of(place)),
      value_(encode(entry)),
      lives_(std::move(lives)),
      etcd_(std::move(store)) {}

EntryKeeper::~EntryKeeper() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  ends_.notify_all();
  if (thread_.joinable()) thread_.join();
  // With the lease the entry goes, unless another process has made its own.
  if (lease_ != cluster::kNoLease) etcd_.revoke(lease_, kEntryFarewell);
}

absl::Status EntryKeeper::wait_until_made(milliseconds patience, const Rendezvous::Stopped& stopped) {
  const auto deadline = Clock::now() + patience;
  auto next_reminder = Clock::now() + kBetweenEtcdReminders;
  etcd_.stop_if(stopped);
  while (true) {
    const absl::Status renewed = renew();
    if (renewed.ok()) break;
    if (absl::IsAlreadyExists(renewed) || is_refusal(renewed)) return renewed;
    if (stopped()) return absl::CancelledError("stopped");
    const std::string text = fmt::format("{}: {}", name_, std::string(renewed.message()));
    if (Clock::now() >= deadline) {
      return absl::UnavailableError(
          fmt::format("etcd has not answered within {} s: {}", patience.count() / 1000, text));
    }
    if (Clock::now() >= next_reminder) {
      next_reminder += kBetweenEtcdReminders;
      spdlog::warn("waiting for etcd: {}", text);
    }
    std::this_thread::sleep_for(kBetweenFirstAttempts);
  }
  renewed_at_ = Clock::now();
  etcd_.stop_if([this] {
    const std::lock_guard lock(mutex_);
    return is_over_;
  });
  return absl::OkStatus();
}

absl::Status EntryKeeper::renew() {
  if (lease_ != cluster::kNoLease) {
    const absl::Status kept = etcd_.keep_alive(lease_).status();
    if (absl::IsNotFound(kept)) {
      lease_ = cluster::kNoLease;
    } else if (!kept.ok()) {
      return kept;
    }
  }
  if (lease_ == cluster::kNoLease) {
    const absl::StatusOr<cluster::Lease> granted = etcd_.grant(kEntryTtl);
    if (!granted.ok()) return granted.status();
    lease_ = granted->id;
  }
  const absl::StatusOr<cluster::Snapshot> read = etcd_.get(key_);
  if (!read.ok()) return read.status();
  const cluster::Entry* const entry = read->entries.empty() ? nullptr : &read->entries.front();
  if (entry != nullptr && entry->value == value_ && entry->lease == lease_) return absl::OkStatus();
  const std::optional<LeaderEntry> other =
      entry == nullptr || entry->value == value_ ? std::nullopt : decode_leader_entry(entry->value);
  if (other && lives_(*other)) {
    return absl::AlreadyExistsError(fmt::format(
        "{}: rank 0 of that job is at {}, and lives: if this process is to take its place, end that "
        "one first; if its job is another one, expected another name",
        name_, to_string(other->place)));
  }
  const absl::StatusOr<cluster::TransactionResult> put = etcd_.transact(
      {.conditions = {{.key = key_, .is = entry == nullptr ? cluster::Revision{0} : entry->modified}},
       .puts = {{.key = key_, .value = value_, .lease = lease_}},
       .deletes = {}});
  if (!put.ok()) return put.status();
  if (put->succeeded && other && was_made_) {
    spdlog::warn(
        "{}: etcd said that rank 0 is at {}, where nobody has this job's secret; it says again that it is "
        "here. If "
        "another job has the same name: expected a name for each",
        name_, to_string(other->place));
  }
  return put->succeeded ? absl::OkStatus() : absl::AbortedError("the entry has changed meanwhile");
}

void EntryKeeper::keep() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      const bool is_late = Clock::now() > renewed_at_ + between_renewals_ && !is_warned_;
      if (ends_.wait_for(lock, is_late ? std::min(kBetweenAttempts, between_renewals_) : between_renewals_,
                         [&] { return is_over_; }))
        return;
    }
    note(renew());
  }
}

/// Training needs no etcd: only who looks for rank 0 misses it.
void EntryKeeper::note(const absl::Status& renewed) {
  if (renewed.ok()) {
    if (std::exchange(is_warned_, false)) spdlog::warn("{} says again where rank 0 is", name_);
    renewed_at_ = Clock::now();
  } else if (!is_warned_ && absl::IsAlreadyExists(renewed)) {
    is_warned_ = true;
    spdlog::warn("{}; who looks for rank 0 from now on finds that one", std::string(renewed.message()));
  } else if (!is_warned_ && Clock::now() >= renewed_at_ + kBeforeWarning) {
    is_warned_ = true;
    spdlog::warn(
        "etcd does not answer: {}: {}; the job goes on, but processes that are started meanwhile do "
        "not find it",
        name_, std::string(renewed.message()));
  }
}

}  // namespace verbena::job
