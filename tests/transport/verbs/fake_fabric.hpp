// A fabric of RDMA devices inside this process, behind the table of functions of transport/verbs (VerbsApi).
//
// It promises what verbs promise and nothing more. Requests of one queue pair are carried out in order, those
// of different ones in an order drawn from a seed. Unsignaled requests complete only if they fail. Transfers
// go word by word, and synchronize no more than an adapter does. Keys, bounds, rights, memory windows,
// states, receiver-not-ready and queue overruns are checked as devices check them. Faults happen where a test
// asks for them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "transport/verbs/verbs_api.hpp"

namespace verbena::transport {

namespace fake {
struct State;
}

class FakeFabric {
 public:
  struct DeviceOptions {
    std::string name = "fake0";
    std::string address = "10.0.0.1";  ///< IPv4
    bool iwarp = false;                ///< no immediate data
    bool connections = true;           ///< reliable ones; false: neither InfiniBand, RoCE nor iWARP
    std::string folder = "";  ///< the device's folder in /sys/class/infiniband, or what stands for it
    bool windows = true;      ///< memory windows
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

  /// With a thread of its own the devices work by themselves; without one, only in step().
  explicit FakeFabric(std::uint64_t seed = 1, bool own_thread = true);
  ~FakeFabric();
  FakeFabric(const FakeFabric&) = delete;
  FakeFabric& operator=(const FakeFabric&) = delete;

  void add_device(const DeviceOptions& options);
  /// The functions, for transports over this fabric. All that was opened through them must be closed before
  /// the fabric is destroyed.
  [[nodiscard]] std::shared_ptr<const VerbsApi> api();
  /// Carries out one request of a queue pair drawn at random. Returns false if no request waits.
  bool step();

  // ---- faults
  /// The next call of that name (as in VerbsApi), after `skip` more that succeed, fails with `error`, once.
  /// In post_send and post_recv each request counts as a call.
  void fail_call(const std::string& name, int error, std::uint32_t skip = 0);
  /// Cancels the faults that were asked for and have not happened yet.
  void forget_faults();
  /// The next request of that device's queue pairs, after `skip` more, completes with `status` instead of
  /// being carried out.
  void fail_request(const std::string& device, ibv_wc_status status, std::uint32_t skip = 0);
  /// Raises an event in each open context of the device. An event of a queue pair is about the context's
  /// newest one, an event of a completion queue about the send completion queue of that.
  void raise(const std::string& device, ibv_event_type type);
  /// Nothing leaves or reaches the device any more, and nobody is notified.
  void vanish(const std::string& device);
  /// As broken hardware: requests that should be flushed do not complete.
  void swallow_flushes(bool swallow);

  [[nodiscard]] Counters counters() const;
  /// What was created and not destroyed, "" if nothing.
  [[nodiscard]] std::string leaks() const;

 private:
  std::shared_ptr<fake::State> state_;
};

}  // namespace verbena::transport
