#include <array>

#include "tests/fuzz/target.hpp"

namespace verbena::fuzz {

std::span<const Target> peer_targets() {
  static constexpr auto kTargets = std::to_array<Target>({
      {"bench-message", bench_message},
      {"bench-orders", bench_orders},
      {"bulk-message", bulk_message},
      {"child-line", child_line},
      {"configuration", configuration},
      {"consistency-name", consistency_name},
      {"control-message", control_message},
      {"drain-request", drain_request},
      {"etcd-answer", etcd_answer},
      {"http-request", http_request},
      {"leader", leader},
      {"leader-entry", leader_entry},
      {"leader-link", leader_link},
      {"log-record", log_record},
      {"rendezvous", rendezvous},
      {"server", server},
      {"shm-answer", shm_answer},
      {"shm-channel", shm_channel},
      {"shm-control", shm_control},
      {"store-client", store_client},
      {"store-message", store_message},
      {"tcp-frames", tcp_frames},
      {"verbs-address", verbs_address},
      {"verbs-answer", verbs_answer},
      {"verbs-hello", verbs_hello},
      {"verbs-neighbour", verbs_neighbour},
      {"word", word},
  });
  return kTargets;
}

}  // namespace verbena::fuzz
