// A launcher holds its run's store. When servers have copies (--replicas) it decides which copy takes the
// place of one that has ended (docs/elasticity.md).
#pragma once

#include <poll.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/launcher/run_store.hpp"
#include "apps/report/drain_request.hpp"
#include "cluster/controller.hpp"
#include "job/shared_word.hpp"
#include "transport/transport.hpp"

namespace verbena::apps {

/// A copy of the server is gone, and this configuration was made: for people.
std::string what_follows(const cluster::Configuration& next, std::uint32_t server);

/// Thread safety: belongs to one thread.
class Succession {
 public:
  using Copy = cluster::Controller::Copy;

  /// Errors: StoreServer::listen(), job::SharedWord::make().
  static absl::StatusOr<std::unique_ptr<Succession>> begin(std::shared_ptr<const transport::Secret> secret);

  /// Of a job::SharedWord for the job's processes: the number of the newest configuration.
  [[nodiscard]] int decided_descriptor() const { return decided_.descriptor(); }

  /// What to wait for before the next poll(), and what whoever looks finds, and asks for.
  [[nodiscard]] RunStore& store() { return store_; }
  /// Serves processes. `end`: is told of each that others suspect, and that is to be ended; `joined`: of each
  /// that was joining, and has all that the others have.
  void poll(const std::function<void(const cluster::Controller::Suspect&)>& end,
            const std::function<void(const Copy&)>& joined);

  /// The newest configuration; nullopt: the processes have not met yet, or servers have no copies.
  [[nodiscard]] std::optional<cluster::Controller::Chains> chains();

  /// See Controller::may_leave().
  absl::StatusOr<Copy> may_leave(const DrainRequest& request);
  /// The copy's process has ended, and was reaped. Returns what follows from that, for people. Errors:
  /// Controller::remove().
  absl::StatusOr<std::string> remove(const Copy& ended);

 private:
  explicit Succession(job::SharedWord decided)
      : decided_(std::move(decided)), controller_(store_.state(), [this](std::uint64_t number) {
          decided_.word().store(number, std::memory_order_release);
        }) {}

  const job::SharedWord decided_;
  RunStore store_;
  cluster::Controller controller_;
};

}  // namespace verbena::apps
