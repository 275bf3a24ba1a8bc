// What a fake fabric is made of, and what its adapters and its connection manager do.
#pragma once

#include <netinet/in.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/transport/verbs/fake_fabric.hpp"
#include "tests/transport/verbs/fake_objects.hpp"

namespace verbena::transport::fake {

/// Thread safety: whoever uses it has the lock, but for run().
struct State {
  explicit State(std::uint64_t seed) : random(seed) {}

  mutable std::mutex mutex;
  std::condition_variable work;
  std::mt19937_64 random;
  bool stop = false;
  std::thread thread;
  bool own_thread = false;

  std::vector<std::unique_ptr<Device>> devices;
  std::set<Context*> contexts;
  std::set<Domain*> domains;
  std::map<std::uint32_t, Region*> regions;  // by key
  std::map<std::uint32_t, Window*> windows;  // by key
  std::set<Channel*> channels;
  std::set<Completions*> completions;
  std::map<std::uint32_t, Queue*> queues;  // by number
  std::vector<Queue*> busy;
  std::set<ManagerChannel*> manager_channels;
  std::set<Identifier*> identifiers;
  std::int64_t unacknowledged = 0;
  std::uint32_t next_key = 0x1000;
  std::uint32_t next_queue = 17;
  std::uint16_t next_port = 20000;

  struct CallFault {
    std::string name;
    int error;
    std::uint32_t skip;
  };
  struct RequestFault {
    std::string device;
    ibv_wc_status status;
    std::uint32_t skip;
  };
  std::vector<CallFault> call_faults;
  std::vector<RequestFault> request_faults;
  bool swallow = false;
  FakeFabric::Counters counters;

  bool failing(const std::string& name);

  // ---- what adapters do

  void complete(Queue& queue, ibv_cq* cq, ibv_wc completion);
  void raise_for(Context& context, ibv_event_type type, ibv_qp* qp, ibv_cq* cq);
  void complete_send(Queue& queue, const Request& request, ibv_wc_status status);
  void break_queue(Queue& queue);
  void complete_receive(Queue& queue, const Receive& receive, ibv_wc_status status, ibv_wc completion);
  [[nodiscard]] bool reachable(const Queue& from, const Queue* to) const;
  [[nodiscard]] bool local_allowed(const Queue& queue, const Request& request, bool write) const;

  /// The peer's bytes; nullptr if the request may not access them.
  [[nodiscard]] std::byte* remote_place(const Queue& owner, std::uint64_t address, std::uint64_t length,
                                        std::uint32_t key, unsigned right) const;
  static void gather(const Request& request, std::byte* to);
  bool bind(Queue& queue, const ibv_send_wr& wr);

  enum class Outcome { kDone, kNotReady, kRemoteAccess };

  /// Consumes a posted receive of `to`.
  Outcome deliver(Queue& from, Queue& to, const Request& request, ibv_wc_status& status);
  Outcome carry_out(Queue& queue, const Request& request, ibv_wc_status& status);
  bool step();
  bool forced(const Queue& queue, ibv_wc_status& status);
  void run();
  void wake(Queue& queue);

  // ---- the connection manager

  void tell(Identifier& who, rdma_cm_event_type type, int status = 0, const void* data = nullptr,
            std::size_t bytes = 0, Identifier* listener = nullptr);
  Device* device_at(std::uint32_t address) const;
  Identifier* listener_at(const sockaddr_in& place) const;
  static sockaddr_in& destination(rdma_cm_id& id) { return id.route.addr.dst_sin; }
  void hang_up(Identifier& id);
  Identifier* new_identifier(ManagerChannel* channel, void* context);
  void connect_queues(Identifier& a, Identifier& b);
};

/// Of a handle.
State& state_of(ibv_device* device);
State& state_of(ibv_context* context);
State& state_of(rdma_cm_id* id);

Context* new_context(Device& device);

}  // namespace verbena::transport::fake
