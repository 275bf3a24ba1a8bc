// What the connections of a transport share. For the transport's thread only.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "transport/transport.hpp"
#include "transport/verbs/completion_queues.hpp"
#include "transport/verbs/device.hpp"
#include "transport/verbs/introduction.hpp"
#include "transport/verbs/neighbours.hpp"
#include "transport/verbs/windows.hpp"

namespace verbena::transport::verbs {

class VerbsConnection;

struct Hub {
  struct Pending {
    Event event;
    std::optional<std::uint32_t> receive;  ///< to be posted again after the event was seen
  };

  const VerbsOptions& options;
  Device& device;
  Windows& windows;
  CompletionQueues& queues;
  rdma_event_channel* channel;
  Gatekeeper& gatekeeper;
  Neighbours& neighbours;
  std::function<void()> check_device;  ///< handles the pending events of the device and the manager at once

  absl::flat_hash_map<std::uint32_t, VerbsConnection*> connections = {};  ///< by serial number
  std::vector<VerbsConnection*> attention = {};                           ///< their attend() must be called
  std::deque<Pending> ready = {};
  std::vector<RegisteredMemory> retired = {};  ///< messages may lie there until the next poll()
  std::uint32_t last_serial = 0;
  std::uint64_t activity = 0;  ///< grows with everything that a waiting owner may have waited for
  std::uint32_t failed = 0;    ///< connections that have not raised kDisconnected
  bool port_down = false;
};

inline TimePoint clock_now() {
  return std::chrono::steady_clock::now();
}

}  // namespace verbena::transport::verbs
