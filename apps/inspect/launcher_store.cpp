#include "apps/inspect/launcher_store.hpp"

#include <poll.h>

#include <utility>
#include <vector>

#include "job/server_place.hpp"

namespace verbena::apps::inspect {
namespace {

constexpr auto kSlice = std::chrono::milliseconds(20);

cluster::TimePoint now() {
  return std::chrono::steady_clock::now();
}

}  // namespace

LauncherStore::LauncherStore(std::int64_t launcher, std::shared_ptr<const transport::Secret> secret,
                             std::chrono::milliseconds patience)
    : store_(job::place_of_store(launcher), std::move(secret)), deadline_(now() + patience) {}

/// Requests end by themselves at their deadline.
void LauncherStore::poll_until(const std::function<bool()>& done) {
  for (store_.poll(now()); !done(); store_.poll(now())) {
    std::vector<pollfd> wanted;
    store_.add_descriptors(wanted);
    if (store_.next_poll() > now()) ::poll(wanted.data(), wanted.size(), static_cast<int>(kSlice.count()));
  }
}

absl::StatusOr<std::optional<std::string>> LauncherStore::get(const std::string& key) {
  std::optional<absl::StatusOr<cluster::Snapshot>> answer;
  store_.get({.key = key}, deadline_, [&](const auto& got) { answer = got; });
  poll_until([&] { return answer.has_value(); });
  if (!answer->ok()) return answer->status();
  if ((*answer)->entries.empty()) return std::optional<std::string>();
  return std::optional((*answer)->entries.front().value);
}

absl::Status LauncherStore::put(const std::string& key, const std::string& value) {
  return transact({.conditions = {}, .puts = {{.key = key, .value = value}}, .deletes = {}});
}

absl::Status LauncherStore::remove(const std::string& key) {
  return transact({.conditions = {}, .puts = {}, .deletes = {key}});
}

absl::Status LauncherStore::transact(cluster::Transaction transaction) {
  std::optional<absl::Status> answer;
  store_.transact(std::move(transaction), deadline_,
                  [&](const absl::StatusOr<cluster::TransactionResult>& done) { answer = done.status(); });
  poll_until([&] { return answer.has_value(); });
  return *answer;
}

void LauncherStore::wait(std::chrono::milliseconds time) {
  ::poll(nullptr, 0, static_cast<int>(time.count()));
}

}  // namespace verbena::apps::inspect
