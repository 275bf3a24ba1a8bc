// What a launcher does when servers have copies (--replicas): it holds the job's store, and decides which
// copy takes the place of one that has ended. docs/elasticity.md
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cluster/controller.hpp"
#include "cluster/store_server.hpp"
#include "cluster/store_state.hpp"
#include "cluster/stored_configuration.hpp"
#include "transport/transport.hpp"

namespace verbena::apps {

/// The configuration of the job that `launcher` has started, for one of its processes.
std::shared_ptr<cluster::StoredConfiguration> configuration_of(
    pid_t launcher, const std::shared_ptr<const transport::Secret>& secret);

/// Thread safety: belongs to one thread.
class Succession {
 public:
  using Copy = cluster::Controller::Copy;

  /// Errors: StoreServer::listen().
  static absl::StatusOr<std::unique_ptr<Succession>> begin(std::shared_ptr<const transport::Secret> secret);

  void add_descriptors(std::vector<pollfd>& wanted) const { server_->add_descriptors(wanted); }
  /// Milliseconds until poll() has something to do, at most `most_ms`.
  [[nodiscard]] int timeout_ms(int most_ms) const;
  /// Serves processes. `end`: is told of each that others suspect, and that is to be ended; `joined`: of each
  /// that was joining, and has all that the others have.
  void poll(const std::function<void(const cluster::Controller::Suspect&)>& end,
            const std::function<void(const Copy&)>& joined);

  /// The copy's process has ended, and was reaped. Returns what follows from that, for people. Errors:
  /// Controller::remove().
  absl::StatusOr<std::string> remove(const Copy& ended);

 private:
  explicit Succession() : controller_(state_) {}

  cluster::StoreState state_;
  cluster::Controller controller_;
  std::unique_ptr<cluster::StoreServer> server_;
};

}  // namespace verbena::apps
