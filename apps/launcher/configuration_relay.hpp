// A program that a process of a job on several hosts has started (`verbena run --rendezvous … -- PROGRAM`)
// goes by the configurations that this process hears of: it asks this one for them as, on one host, it would
// ask the launcher (job/launchers_configuration.hpp).
#pragma once

#include <poll.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/launcher/told_configuration.hpp"
#include "base/file_descriptor.hpp"
#include "cluster/configuration.hpp"
#include "cluster/store_server.hpp"
#include "cluster/store_state.hpp"
#include "job/shared_word.hpp"
#include "transport/secret.hpp"

namespace verbena::apps {

/// Step-driven. Thread safety: belongs to one thread.
class ConfigurationRelay {
 public:
  /// `told` must outlive it. Errors:
  /// StoreServer::listen(), job::SharedWord::make().
  static absl::StatusOr<std::unique_ptr<ConfigurationRelay>> begin(
      std::shared_ptr<const transport::Secret> secret, ToldConfiguration& told);
  ~ConfigurationRelay();
  ConfigurationRelay(const ConfigurationRelay&) = delete;
  ConfigurationRelay& operator=(const ConfigurationRelay&) = delete;

  /// Where the program finds the store: nobody else's place, since processes in different containers may have
  /// the same number.
  [[nodiscard]] const std::string& place() const { return place_; }
  /// Of a job::SharedWord for the program.
  [[nodiscard]] int decided_descriptor() const { return decided_.descriptor(); }

  // What to wait for before the next poll().
  void add_descriptors(std::vector<pollfd>& wanted) const;
  [[nodiscard]] cluster::TimePoint next_poll() const;
  void poll();

 private:
  ConfigurationRelay(job::SharedWord decided, base::FileDescriptor woken, ToldConfiguration& told);
  void pass_on_newest(cluster::TimePoint now);
  void pass_on_suspicions(cluster::TimePoint now);

  const std::string place_;
  const job::SharedWord decided_;
  const base::FileDescriptor woken_;  ///< readable when there may be another configuration
  ToldConfiguration& told_;
  const std::shared_ptr<cluster::ConfigurationSource> heard_;
  std::uint64_t passed_on_ = 0;  ///< the number of the newest configuration that the program can find
  cluster::StoreState state_;
  std::unique_ptr<cluster::StoreServer> server_;
};

}  // namespace verbena::apps
