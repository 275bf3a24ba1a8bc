// The store of a run, which one of its processes on this host holds: its launcher, or rank 0 of a job on
// several hosts. Whoever looks into the run finds there how it is (`verbena cluster status`), and leaves what
// it asks for (`verbena cluster drain`).
#pragma once

#include <poll.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/report/drain_request.hpp"
#include "cluster/store_server.hpp"
#include "cluster/store_state.hpp"
#include "transport/secret.hpp"

namespace verbena::apps {

/// Thread safety: belongs to one thread.
class RunStore {
 public:
  RunStore() = default;
  RunStore(const RunStore&) = delete;
  RunStore& operator=(const RunStore&) = delete;

  /// At job::place_of_store() of this process. Errors: StoreServer::listen().
  absl::Status listen(std::shared_ptr<const transport::Secret> secret);

  // REQUIRES: listen() has succeeded.
  void add_descriptors(std::vector<pollfd>& wanted) const { server_->add_descriptors(wanted); }
  /// Milliseconds until poll() has something to do, at most `most_ms`.
  [[nodiscard]] int timeout_ms(int most_ms) const;
  /// Serves those who ask.
  void poll();

  /// Whoever gets kStatusKey finds this from now on.
  void publish(std::string status);
  /// Who is asked to step aside, each told once, with the mark of its answer.
  std::vector<std::pair<std::string, DrainRequest>> take_drains();
  /// Whoever has asked for it hears this.
  void answer_drain(const std::string& mark, const absl::StatusOr<std::string>& answer);

  [[nodiscard]] cluster::StoreState& state() { return state_; }

 private:
  void put(std::string key, std::string value);

  cluster::StoreState state_;
  std::unique_ptr<cluster::StoreServer> server_;
};

}  // namespace verbena::apps
