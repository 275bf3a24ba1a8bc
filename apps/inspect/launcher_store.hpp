// The store of a run, which its launcher or its rank 0 holds on this host, for somebody who looks from
// outside: one request after the other, each waited for.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cluster/remote_store.hpp"
#include "transport/secret.hpp"

namespace verbena::apps::inspect {

/// Thread safety: belongs to one thread.
class LauncherStore {
 public:
  /// `patience`: for all that is asked, together. Errors of the functions: the launcher does not answer.
  LauncherStore(std::int64_t launcher, std::shared_ptr<const transport::Secret> secret,
                std::chrono::milliseconds patience);

  /// nullopt: there is no such entry.
  absl::StatusOr<std::optional<std::string>> get(const std::string& key);
  absl::Status put(const std::string& key, const std::string& value);
  absl::Status remove(const std::string& key);
  /// Lets so much time pass.
  void wait(std::chrono::milliseconds time);

 private:
  absl::Status transact(cluster::Transaction transaction);
  void poll_until(const std::function<bool()>& done);

  cluster::RemoteStore store_;
  const cluster::TimePoint deadline_;
};

}  // namespace verbena::apps::inspect
