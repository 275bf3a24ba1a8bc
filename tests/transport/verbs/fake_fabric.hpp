// A fabric of RDMA devices inside this process, behind the table of functions of transport/verbs.
//
// It keeps what the verbs promise and nothing more: requests of one queue pair in order, those of different
// ones in any (drawn from a seed); completions of unsignaled requests only if they fail; transfers word by
// word, with no synchronization that an adapter would not give. Keys, bounds, rights, windows, states,
// receiver-not-ready and queue overruns are checked as devices check them. Faults are made to order.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "transport/verbs/verbs_api.hpp"

namespace verbena::transport {

class FakeFabric {
 public:
  struct DeviceOptions {
    std::string name = "fake0";
    std::string address = "10.0.0.1";  ///< IPv4
    bool iwarp = false;                ///< no immediate data
    bool connections = true;           ///< false: neither InfiniBand, RoCE nor iWARP
    std::string folder = "";           ///< in /sys/class/infiniband, or instead of it
    bool windows = true;
    bool up = true;
    std::uint32_t max_inline_bytes = 400;  ///< more is refused
    int max_queue_depth = 4096;
    int max_completions = 32768;
  };

  struct Counters {
    std::uint64_t receiver_not_ready = 0;
    std::uint64_t overruns = 0;  ///< of completion or send queues
    std::uint64_t doorbells = 0;
    std::uint64_t inline_requests = 0;
    std::uint64_t fenced_requests = 0;
    std::uint64_t signaled_requests = 0;
    std::uint64_t requests = 0;
    std::uint64_t queue_pairs = 0;  ///< ever made
  };

  /// With a thread of its own the devices work by themselves; without, in step() only.
  explicit FakeFabric(std::uint64_t seed = 1, bool own_thread = true);
  ~FakeFabric();
  FakeFabric(const FakeFabric&) = delete;
  FakeFabric& operator=(const FakeFabric&) = delete;

  void add_device(const DeviceOptions& options);
  /// Shares the fabric. Whoever holds the table must have closed all before the fabric goes.
  [[nodiscard]] std::shared_ptr<const VerbsApi> api();
  /// One request of some queue pair; false if there was none to do.
  bool step();

  // ---- faults
  /// The call of that name (as in VerbsApi) after `skip` more of them fails by `error`, once. Of post_send
  /// and post_recv each request counts.
  void fail_call(const std::string& name, int error, std::uint32_t skip = 0);
  /// Those that were ordered and have not come yet.
  void forget_faults();
  /// The next request that a queue pair of that device carries out completes with `status`.
  void fail_request(const std::string& device, ibv_wc_status status, std::uint32_t skip = 0);
  /// To all contexts of the device; for events of queue pairs and completion queues, about the newest of
  /// each.
  void raise(const std::string& device, ibv_event_type type);
  /// Nothing comes from or gets to the device any more; nobody is told.
  void vanish(const std::string& device);
  /// Broken hardware: what should be flushed is not.
  void swallow_flushes(bool swallow);

  [[nodiscard]] Counters counters() const;
  /// What was created and not destroyed, "" if nothing.
  [[nodiscard]] std::string leaks() const;

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace verbena::transport
