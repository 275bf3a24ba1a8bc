// Where in etcd the processes of a job find rank 0, if they were not told its address.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "cluster/etcd_store.hpp"

namespace verbena::job {

struct EtcdPlace {
  cluster::EtcdOptions etcd;
  std::string job;  ///< its name, by which it is told from others in the same etcd
  /// How often rank 0 looks after its entry. Shorter: what has been done to it is mended sooner; longer: etcd
  /// has less to do.
  std::chrono::milliseconds between_renewals{10'000};
};

/// Whether a text names a place by a scheme, and no host and port.
bool has_scheme(std::string_view text);
/// "etcd://HOST:PORT[,HOST:PORT…]/JOB"; "etcd+https://…" if etcd speaks TLS. INVALID_ARGUMENT says what is
/// expected.
absl::StatusOr<EtcdPlace> parse_etcd_place(std::string_view text);
/// As it was parsed.
std::string to_string(const EtcdPlace& place);
/// The key of the entry that says where rank 0 is (leader_entry.hpp).
std::string key_of(const EtcdPlace& place);

}  // namespace verbena::job
