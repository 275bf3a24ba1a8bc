#include "tests/transport/verbs/fake_fabric.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "transport/shm/transfer.hpp"

namespace verbena::transport {

namespace {

using State = FakeFabric::State;

/// A queue whose file is readable as long as something is in it.
template <class Value>
class FileQueue {
 public:
  FileQueue() : fd_(::eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC)) {}
  ~FileQueue() { ::close(fd_); }
  FileQueue(const FileQueue&) = delete;
  FileQueue& operator=(const FileQueue&) = delete;

  [[nodiscard]] int fd() const { return fd_; }
  void push(Value value) {
    values_.push_back(std::move(value));
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(fd_, &one, sizeof(one));
  }
  bool pop(Value& value) {
    if (values_.empty()) {
      errno = EAGAIN;
      return false;
    }
    value = std::move(values_.front());
    values_.pop_front();
    take_one();
    return true;
  }
  template <class Condition>
  void erase_if(Condition condition) {
    for (auto left = std::erase_if(values_, condition); left > 0; --left) take_one();
  }
  [[nodiscard]] const std::deque<Value>& values() const { return values_; }

 private:
  void take_one() const {
    std::uint64_t one = 0;
    [[maybe_unused]] const auto bytes = ::read(fd_, &one, sizeof(one));
  }
  int fd_;
  std::deque<Value> values_;
};

struct Context;

struct Device : ibv_device {
  State* state = nullptr;
  FakeFabric::DeviceOptions options;
  std::unique_ptr<Context> manager_context;  ///< the connection manager opens each device itself
  bool vanished = false;
};

struct Context : ibv_context {
  Device* fake = nullptr;
  FileQueue<ibv_async_event> events;
};

struct Domain : ibv_pd {};

struct Region : ibv_mr {
  int rights = 0;
};

struct Queue;

struct Window : ibv_mw {
  const Region* region = nullptr;
  const Queue* queue = nullptr;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  unsigned rights = 0;
};

struct Completions;

struct Channel : ibv_comp_channel {
  FileQueue<Completions*> events;
};

struct Completions : ibv_cq {
  Channel* fake_channel = nullptr;
  std::deque<ibv_wc> waiting;
  bool armed = false;
};

struct Request {
  ibv_send_wr wr{};
  std::vector<ibv_sge> pieces;
  std::vector<std::byte> kept;  ///< the bytes of an inline request
};

struct Receive {
  std::uint64_t id = 0;
  ibv_sge piece{};
};

struct Queue : ibv_qp {
  Device* device = nullptr;
  ibv_qp_state at = IBV_QPS_RESET;
  std::uint32_t peer = 0;
  unsigned rights = 0;
  std::uint8_t not_ready_retries = 0;
  ibv_qp_cap cap{};
  std::deque<Request> sends;
  std::deque<Receive> receives;
  std::uint32_t outstanding_sends = 0;  ///< each until its completion, or that of a later one, is polled
  std::map<std::uint64_t, std::uint32_t> covers;  ///< by id of a signaled request: the places it frees
};

struct Identifier;

struct ManagerEvent : rdma_cm_event {
  std::vector<std::byte> data;
};

struct ManagerChannel : rdma_event_channel {
  FileQueue<ManagerEvent*> events;
  State* state = nullptr;
};

struct Identifier : rdma_cm_id {
  State* state = nullptr;
  ManagerChannel* fake_channel = nullptr;
  Identifier* peer = nullptr;
  std::uint32_t queue_number = 0;
  std::uint8_t not_ready_retries = 0;
  sockaddr_in own{};
  bool listening = false;
  bool connected = false;
  bool answered = false;
};

std::uint64_t length_of(const Request& request) {
  std::uint64_t length = 0;
  for (const ibv_sge& piece : request.pieces) length += piece.length;
  return length;
}

}  // namespace

struct FakeFabric::State {
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
  Counters counters;

  bool failing(const std::string& name) {
    for (auto fault = call_faults.begin(); fault != call_faults.end(); ++fault) {
      if (fault->name != name) continue;
      if (fault->skip-- > 0) continue;
      errno = fault->error;
      call_faults.erase(fault);
      return true;
    }
    return false;
  }

  // ---- what adapters do

  void complete(Queue& queue, ibv_cq* cq, ibv_wc completion) {
    auto& target = *static_cast<Completions*>(cq);
    completion.qp_num = queue.qp_num;
    if (target.waiting.size() >= static_cast<std::size_t>(target.cqe)) {
      ++counters.overruns;
      raise_for(*static_cast<Context*>(cq->context), IBV_EVENT_CQ_ERR, nullptr, cq);
      return;
    }
    target.waiting.push_back(completion);
    if (!std::exchange(target.armed, false)) return;
    target.fake_channel->events.push(&target);
  }

  void raise_for(Context& context, ibv_event_type type, ibv_qp* qp, ibv_cq* cq) {
    ibv_async_event event{};
    event.event_type = type;
    if (qp != nullptr) event.element.qp = qp;
    if (cq != nullptr) event.element.cq = cq;
    if (qp == nullptr && cq == nullptr) event.element.port_num = 1;
    context.events.push(event);
  }

  void complete_send(Queue& queue, const Request& request, ibv_wc_status status) {
    const bool signaled = (request.wr.send_flags & IBV_SEND_SIGNALED) != 0;
    if (status == IBV_WC_SUCCESS && !signaled) return;
    ibv_wc completion{};
    completion.wr_id = request.wr.wr_id;
    completion.status = status;
    // In the completion of a failed request no other field is valid.
    completion.opcode = status == IBV_WC_SUCCESS ? IBV_WC_RDMA_WRITE : static_cast<ibv_wc_opcode>(0x7e);
    complete(queue, queue.send_cq, completion);
  }

  void break_queue(Queue& queue) {
    if (queue.at == IBV_QPS_ERR) return;
    queue.at = IBV_QPS_ERR;
    std::erase(busy, &queue);
    for (const Request& request : std::exchange(queue.sends, {})) {
      if (!swallow) complete_send(queue, request, IBV_WC_WR_FLUSH_ERR);
    }
    for (const Receive& receive : std::exchange(queue.receives, {})) {
      if (!swallow) complete_receive(queue, receive, IBV_WC_WR_FLUSH_ERR, {});
    }
  }

  void complete_receive(Queue& queue, const Receive& receive, ibv_wc_status status, ibv_wc completion) {
    completion.wr_id = receive.id;
    completion.status = status;
    complete(queue, queue.recv_cq, completion);
  }

  [[nodiscard]] bool reachable(const Queue& from, const Queue* to) const {
    return to != nullptr && (to->at == IBV_QPS_RTR || to->at == IBV_QPS_RTS) && to->peer == from.qp_num &&
           !from.device->vanished && !to->device->vanished;
  }

  [[nodiscard]] bool local_allowed(const Queue& queue, const Request& request, bool write) const {
    if (!request.kept.empty()) return true;
    return std::all_of(request.pieces.begin(), request.pieces.end(), [&](const ibv_sge& piece) {
      const auto found = regions.find(piece.lkey);
      if (found == regions.end() || found->second->pd != queue.pd) return false;
      const auto begin = reinterpret_cast<std::uintptr_t>(found->second->addr);
      const bool writable = (found->second->rights & IBV_ACCESS_LOCAL_WRITE) != 0;
      return piece.addr >= begin && piece.addr - begin <= found->second->length &&
             piece.length <= found->second->length - (piece.addr - begin) && (writable || !write);
    });
  }

  /// The peer's bytes; nullptr if the request may not access them.
  [[nodiscard]] std::byte* remote_place(const Queue& owner, std::uint64_t address, std::uint64_t length,
                                        std::uint32_t key, unsigned right) const {
    std::uint64_t begin = 0;
    std::uint64_t bytes = 0;
    unsigned rights = 0;
    if (const auto window = windows.find(key); window != windows.end()) {
      if (window->second->queue != &owner) return nullptr;
      begin = window->second->address;
      bytes = window->second->bytes;
      rights = window->second->rights;
    } else if (const auto region = regions.find(key); region != regions.end()) {
      if (region->second->pd != owner.pd) return nullptr;
      begin = reinterpret_cast<std::uintptr_t>(region->second->addr);
      bytes = region->second->length;
      rights = static_cast<unsigned>(region->second->rights);
    }
    const bool inside = address >= begin && address - begin <= bytes && length <= bytes - (address - begin);
    return inside && (rights & owner.rights & right) != 0 ? reinterpret_cast<std::byte*>(address) : nullptr;
  }

  static void gather(const Request& request, std::byte* to) {
    if (!request.kept.empty()) return shm::transfer(to, request.kept.data(), request.kept.size());
    for (const ibv_sge& piece : request.pieces) {
      shm::transfer(to, reinterpret_cast<const std::byte*>(piece.addr), piece.length);
      to += piece.length;
    }
  }

  bool bind(Queue& queue, const ibv_send_wr& wr) {
    auto& window = *static_cast<Window*>(wr.bind_mw.mw);
    const bool known = std::any_of(windows.begin(), windows.end(),
                                   [&](const auto& entry) { return entry.second == &window; });
    const auto& info = wr.bind_mw.bind_info;
    const auto* region = static_cast<const Region*>(info.mr);
    const bool registered = std::any_of(regions.begin(), regions.end(),
                                        [&](const auto& entry) { return entry.second == region; });
    if (!known || !registered || window.queue != nullptr || region->pd != queue.pd) return false;
    if ((region->rights & IBV_ACCESS_MW_BIND) == 0) return false;
    if ((info.mw_access_flags & IBV_ACCESS_REMOTE_WRITE) != 0 &&
        (region->rights & IBV_ACCESS_LOCAL_WRITE) == 0) {
      return false;
    }
    if ((wr.bind_mw.rkey ^ window.rkey) >> 8U != 0 || wr.bind_mw.rkey == window.rkey) return false;
    windows.erase(window.rkey);
    window.rkey = wr.bind_mw.rkey;
    window.region = region;
    window.queue = &queue;
    window.address = info.addr;
    window.bytes = info.length;
    window.rights = info.mw_access_flags;
    windows.emplace(window.rkey, &window);
    return true;
  }

  enum class Outcome { kDone, kNotReady, kRemoteAccess };

  /// Consumes a posted receive of `to`.
  Outcome deliver(Queue& from, Queue& to, const Request& request, ibv_wc_status& status) {
    if (to.receives.empty()) {
      ++counters.receiver_not_ready;
      if (from.not_ready_retries == 7 && !to.device->options.iwarp) return Outcome::kNotReady;
      status = IBV_WC_RNR_RETRY_EXC_ERR;
      return Outcome::kDone;
    }
    const Receive receive = to.receives.front();
    to.receives.pop_front();
    ibv_wc completion{};
    if (request.wr.opcode == IBV_WR_SEND) {
      const std::uint64_t length = length_of(request);
      if (length > receive.piece.length) {
        complete_receive(to, receive, IBV_WC_LOC_LEN_ERR, {});
        break_queue(to);
        status = IBV_WC_REM_INV_REQ_ERR;
        return Outcome::kDone;
      }
      gather(request, reinterpret_cast<std::byte*>(receive.piece.addr));
      completion.opcode = IBV_WC_RECV;
      completion.byte_len = static_cast<std::uint32_t>(length);
    } else {
      completion.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
      completion.wc_flags = IBV_WC_WITH_IMM;
      completion.imm_data = request.wr.imm_data;
    }
    complete_receive(to, receive, IBV_WC_SUCCESS, completion);
    return Outcome::kDone;
  }

  Outcome carry_out(Queue& queue, const Request& request, ibv_wc_status& status) {
    status = IBV_WC_SUCCESS;
    const ibv_wr_opcode opcode = request.wr.opcode;
    if (opcode == IBV_WR_BIND_MW) {
      if (!bind(queue, request.wr)) status = IBV_WC_MW_BIND_ERR;
      return Outcome::kDone;
    }
    const bool read = opcode == IBV_WR_RDMA_READ;
    const std::uint64_t length = length_of(request);
    if (!local_allowed(queue, request, read)) {
      status = IBV_WC_LOC_PROT_ERR;
      return Outcome::kDone;
    }
    const auto found = queues.find(queue.peer);
    Queue* peer = found == queues.end() ? nullptr : found->second;
    if (!reachable(queue, peer)) {
      status = IBV_WC_RETRY_EXC_ERR;
      return Outcome::kDone;
    }
    if (opcode != IBV_WR_SEND && length > 0) {
      std::byte* place =
          remote_place(*peer, request.wr.wr.rdma.remote_addr, length, request.wr.wr.rdma.rkey,
                       static_cast<unsigned>(read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE));
      if (place == nullptr) {
        status = IBV_WC_REM_ACCESS_ERR;
        return Outcome::kRemoteAccess;
      }
      const bool waits = opcode == IBV_WR_RDMA_WRITE_WITH_IMM && peer->receives.empty();
      if (read) {
        for (const ibv_sge& piece : request.pieces) {
          shm::transfer(reinterpret_cast<std::byte*>(piece.addr), place, piece.length);
          place += piece.length;
        }
      } else if (!waits) {
        gather(request, place);
      }
    }
    if (opcode == IBV_WR_SEND || opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
      return deliver(queue, *peer, request, status);
    }
    return Outcome::kDone;
  }

  bool step() {
    if (busy.empty()) return false;
    const std::size_t choice = random() % busy.size();
    Queue& queue = *busy[choice];
    const Request request = queue.sends.front();
    ibv_wc_status status = IBV_WC_SUCCESS;
    Outcome outcome = Outcome::kDone;
    if (!forced(queue, status)) outcome = carry_out(queue, request, status);
    if (outcome == Outcome::kNotReady) {
      std::erase(busy, &queue);  // it waits until its peer posts a receive
      return true;
    }
    queue.sends.pop_front();
    if (queue.sends.empty()) std::erase(busy, &queue);
    complete_send(queue, request, status);
    if (status != IBV_WC_SUCCESS) break_queue(queue);
    if (outcome == Outcome::kRemoteAccess) {
      if (const auto peer = queues.find(queue.peer); peer != queues.end()) {
        raise_for(*static_cast<Context*>(peer->second->context), IBV_EVENT_QP_ACCESS_ERR, peer->second,
                  nullptr);
        break_queue(*peer->second);
      }
    }
    return true;
  }

  bool forced(const Queue& queue, ibv_wc_status& status) {
    for (auto fault = request_faults.begin(); fault != request_faults.end(); ++fault) {
      if (fault->device != queue.device->options.name) continue;
      if (fault->skip-- > 0) continue;
      status = fault->status;
      request_faults.erase(fault);
      return true;
    }
    return false;
  }

  void run() {
    std::unique_lock lock(mutex);
    while (!stop) {
      if (!step()) work.wait(lock);
    }
  }

  void wake(Queue& queue) {
    if (queue.sends.empty() || queue.at != IBV_QPS_RTS) return;
    if (std::find(busy.begin(), busy.end(), &queue) == busy.end()) busy.push_back(&queue);
    work.notify_one();
  }

  // ---- the connection manager

  void tell(Identifier& who, rdma_cm_event_type type, int status = 0, const void* data = nullptr,
            std::size_t bytes = 0, Identifier* listener = nullptr) {
    auto event = std::make_unique<ManagerEvent>();
    static_cast<rdma_cm_event&>(*event) = {};
    event->id = &who;
    event->listen_id = listener;
    event->event = type;
    event->status = status;
    if (bytes > 0) {
      const auto* begin = static_cast<const std::byte*>(data);
      event->data.assign(begin, begin + bytes);
      event->data.resize(bytes + 20);  // padded, as the real connection manager's is
    }
    event->param.conn.private_data = event->data.empty() ? nullptr : event->data.data();
    event->param.conn.private_data_len = static_cast<std::uint8_t>(event->data.size());
    event->param.conn.responder_resources = 16;
    event->param.conn.initiator_depth = 16;
    who.fake_channel->events.push(event.release());
  }

  Device* device_at(std::uint32_t address) const {
    for (const auto& device : devices) {
      in_addr own{};
      ::inet_pton(AF_INET, device->options.address.c_str(), &own);
      if (own.s_addr == address) return device.get();
    }
    return nullptr;
  }

  Identifier* listener_at(const sockaddr_in& place) const {
    for (Identifier* each : identifiers) {
      const bool same_host =
          each->own.sin_addr.s_addr == place.sin_addr.s_addr || each->own.sin_addr.s_addr == 0;
      if (each->listening && each->own.sin_port == place.sin_port && same_host) return each;
    }
    return nullptr;
  }

  static sockaddr_in& destination(rdma_cm_id& id) { return id.route.addr.dst_sin; }

  void hang_up(Identifier& id) {
    Identifier* peer = std::exchange(id.peer, nullptr);
    id.connected = false;
    if (peer == nullptr) return;
    peer->peer = nullptr;
    if (id.verbs != nullptr && static_cast<Context*>(id.verbs)->fake->vanished) return;
    if (peer->verbs != nullptr && static_cast<Context*>(peer->verbs)->fake->vanished) return;
    const bool answered = peer->answered || id.answered;
    tell(*peer, answered ? RDMA_CM_EVENT_DISCONNECTED : RDMA_CM_EVENT_REJECTED, answered ? 0 : 28);
  }

  Identifier* new_identifier(ManagerChannel* channel, void* context) {
    auto* id = new Identifier();
    static_cast<rdma_cm_id&>(*id) = {};
    id->state = this;
    id->channel = channel;
    id->fake_channel = channel;
    id->context = context;
    id->ps = RDMA_PS_TCP;
    identifiers.insert(id);
    return id;
  }

  void connect_queues(Identifier& a, Identifier& b) {
    for (auto [mine, theirs] : {std::pair(&a, &b), std::pair(&b, &a)}) {
      Queue& queue = *queues.at(mine->queue_number);
      queue.at = IBV_QPS_RTS;
      queue.peer = theirs->queue_number;
    }
  }
};

namespace {

State& state_of(ibv_device* device) {
  return *static_cast<Device*>(device)->state;
}
State& state_of(ibv_context* context) {
  return state_of(context->device);
}
State& state_of(rdma_cm_id* id) {
  return *static_cast<Identifier*>(id)->state;
}

Context* new_context(Device& device) {
  auto* context = new Context();
  static_cast<ibv_context&>(*context) = {};
  context->device = &device;
  context->fake = &device;
  context->async_fd = context->events.fd();
  return context;
}

// ---- libibverbs

ibv_context* open_device(ibv_device* device) {
  State& state = state_of(device);
  const std::lock_guard lock(state.mutex);
  if (state.failing("open_device")) return nullptr;
  Context* context = new_context(*static_cast<Device*>(device));
  state.contexts.insert(context);
  return context;
}

int close_device(ibv_context* context) {
  State& state = state_of(context);
  const std::lock_guard lock(state.mutex);
  state.contexts.erase(static_cast<Context*>(context));
  delete static_cast<Context*>(context);
  return 0;
}

int query_device(ibv_context* context, ibv_device_attr* attributes) {
  State& state = state_of(context);
  const std::lock_guard lock(state.mutex);
  if (state.failing("query_device")) return errno;
  const FakeFabric::DeviceOptions& options = static_cast<Context*>(context)->fake->options;
  *attributes = {};
  attributes->phys_port_cnt = 1;
  attributes->max_qp = 1000;
  attributes->max_qp_wr = options.max_queue_depth;
  attributes->max_cqe = options.max_completions;
  attributes->max_qp_rd_atom = 16;
  attributes->max_qp_init_rd_atom = 16;
  attributes->max_mw = options.windows ? 1000 : 0;
  attributes->device_cap_flags = options.windows ? static_cast<unsigned>(IBV_DEVICE_MEM_WINDOW_TYPE_2B) : 0;
  return 0;
}

int query_port(ibv_context* context, std::uint8_t, ibv_port_attr* attributes) {
  State& state = state_of(context);
  const std::lock_guard lock(state.mutex);
  if (state.failing("query_port")) return errno;
  *attributes = {};
  attributes->state = static_cast<Context*>(context)->fake->options.up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  attributes->active_mtu = IBV_MTU_4096;
  attributes->gid_tbl_len = 6;
  attributes->max_msg_sz = 1U << 31U;
  attributes->link_layer = IBV_LINK_LAYER_ETHERNET;
  return 0;
}

// First the link-local address for both versions of RoCE, as adapters have it; then an empty entry; then the
// IPv4 address, twice, for RoCEv2.
int query_gid(ibv_context* context, std::uint32_t, std::uint32_t index, ibv_gid_entry* entry, std::uint32_t,
              std::size_t) {
  State& state = state_of(context);
  const std::lock_guard lock(state.mutex);
  const std::string& address = static_cast<Context*>(context)->fake->options.address;
  if (index == 2 || index >= 5) return ENODATA;
  *entry = {};
  entry->gid_index = index;
  entry->port_num = 1;
  entry->gid_type = index % 2 == 0 && index < 4 ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2;
  const std::string text = index < 2 ? "fe80::1" : "::ffff:" + address;
  if (index >= 3 && address.empty()) return ENODATA;
  ::inet_pton(AF_INET6, text.c_str(), entry->gid.raw);
  return 0;
}

int get_async_event(ibv_context* context, ibv_async_event* event) {
  State& state = state_of(context);
  const std::lock_guard lock(state.mutex);
  return static_cast<Context*>(context)->events.pop(*event) ? 0 : -1;
}

ibv_pd* alloc_pd(ibv_context* context) {
  State& state = state_of(context);
  const std::lock_guard lock(state.mutex);
  if (state.failing("alloc_pd")) return nullptr;
  auto* domain = new Domain();
  domain->context = context;
  state.domains.insert(domain);
  return domain;
}

int dealloc_pd(ibv_pd* pd) {
  State& state = state_of(pd->context);
  const std::lock_guard lock(state.mutex);
  state.domains.erase(static_cast<Domain*>(pd));
  delete static_cast<Domain*>(pd);
  return 0;
}

ibv_mr* reg_mr(ibv_pd* pd, void* address, std::size_t bytes, int rights) {
  State& state = state_of(pd->context);
  const std::lock_guard lock(state.mutex);
  if (state.failing("reg_mr")) return nullptr;
  auto* region = new Region();
  region->context = pd->context;
  region->pd = pd;
  region->addr = address;
  region->length = bytes;
  region->rights = rights;
  region->lkey = region->rkey = state.next_key += 0x100;
  state.regions.emplace(region->rkey, region);
  return region;
}

int dereg_mr(ibv_mr* mr) {
  State& state = state_of(mr->context);
  const std::lock_guard lock(state.mutex);
  const auto* region = static_cast<Region*>(mr);
  for (const auto& [key, window] : state.windows) {
    if (window->region == region) return EBUSY;
  }
  state.regions.erase(mr->rkey);
  delete region;
  return 0;
}

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type) {
  State& state = state_of(pd->context);
  const std::lock_guard lock(state.mutex);
  if (state.failing("alloc_mw")) return nullptr;
  auto* window = new Window();
  static_cast<ibv_mw&>(*window) = {};
  window->context = pd->context;
  window->pd = pd;
  window->type = type;
  window->rkey = state.next_key += 0x100;
  state.windows.emplace(window->rkey, window);
  return window;
}

int dealloc_mw(ibv_mw* mw) {
  State& state = state_of(mw->context);
  const std::lock_guard lock(state.mutex);
  state.windows.erase(mw->rkey);
  delete static_cast<Window*>(mw);
  return 0;
}

ibv_comp_channel* create_comp_channel(ibv_context* context) {
  State& state = state_of(context);
  const std::lock_guard lock(state.mutex);
  if (state.failing("create_comp_channel")) return nullptr;
  auto* channel = new Channel();
  channel->context = context;
  channel->fd = channel->events.fd();
  state.channels.insert(channel);
  return channel;
}

int destroy_comp_channel(ibv_comp_channel* channel) {
  State& state = state_of(channel->context);
  const std::lock_guard lock(state.mutex);
  state.channels.erase(static_cast<Channel*>(channel));
  delete static_cast<Channel*>(channel);
  return 0;
}

ibv_cq* create_cq(ibv_context* context, int entries, void*, ibv_comp_channel* channel, int) {
  State& state = state_of(context);
  const std::lock_guard lock(state.mutex);
  if (state.failing("create_cq")) return nullptr;
  if (entries > static_cast<Context*>(context)->fake->options.max_completions) {
    errno = EINVAL;
    return nullptr;
  }
  auto* cq = new Completions();
  static_cast<ibv_cq&>(*cq) = {};
  cq->context = context;
  cq->channel = channel;
  cq->fake_channel = static_cast<Channel*>(channel);
  cq->cqe = entries;
  state.completions.insert(cq);
  return cq;
}

int destroy_cq(ibv_cq* cq) {
  State& state = state_of(cq->context);
  const std::lock_guard lock(state.mutex);
  auto* fake = static_cast<Completions*>(cq);
  for (const auto& [number, queue] : state.queues) {
    if (queue->send_cq == cq || queue->recv_cq == cq) return EBUSY;
  }
  fake->fake_channel->events.erase_if([&](const Completions* each) { return each == fake; });
  state.completions.erase(fake);
  delete fake;
  return 0;
}

int get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** context) {
  State& state = state_of(channel->context);
  const std::lock_guard lock(state.mutex);
  Completions* fake = nullptr;
  if (!static_cast<Channel*>(channel)->events.pop(fake)) return -1;
  ++state.unacknowledged;
  *cq = fake;
  *context = nullptr;
  return 0;
}

void ack_cq_events(ibv_cq* cq, unsigned int count) {
  State& state = state_of(cq->context);
  const std::lock_guard lock(state.mutex);
  state.unacknowledged -= count;
}

int req_notify_cq(ibv_cq* cq, int) {
  State& state = state_of(cq->context);
  const std::lock_guard lock(state.mutex);
  if (state.failing("req_notify_cq")) return errno;
  static_cast<Completions*>(cq)->armed = true;
  return 0;
}

int poll_cq(ibv_cq* cq, int count, ibv_wc* completions) {
  State& state = state_of(cq->context);
  const std::lock_guard lock(state.mutex);
  auto& waiting = static_cast<Completions*>(cq)->waiting;
  int taken = 0;
  for (; taken < count && !waiting.empty(); ++taken) {
    completions[taken] = waiting.front();
    waiting.pop_front();
    const auto queue = state.queues.find(completions[taken].qp_num);
    if (queue == state.queues.end()) continue;
    // A completion frees the place of its request in the send queue, and those of the unsignaled requests
    // before it.
    auto& covers = queue->second->covers;
    if (const auto covered = covers.find(completions[taken].wr_id); covered != covers.end()) {
      queue->second->outstanding_sends -= covered->second;
      covers.erase(covered);
    }
  }
  return taken;
}

ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes) {
  State& state = state_of(pd->context);
  const std::lock_guard lock(state.mutex);
  if (state.failing("create_qp")) return nullptr;
  const FakeFabric::DeviceOptions& options = static_cast<Context*>(pd->context)->fake->options;
  const auto depth = static_cast<unsigned>(options.max_queue_depth);
  if (attributes->cap.max_inline_data > options.max_inline_bytes || attributes->cap.max_send_wr > depth ||
      attributes->cap.max_recv_wr > depth || attributes->qp_type != IBV_QPT_RC) {
    errno = EINVAL;
    return nullptr;
  }
  auto* queue = new Queue();
  static_cast<ibv_qp&>(*queue) = {};
  queue->context = pd->context;
  queue->pd = pd;
  queue->send_cq = attributes->send_cq;
  queue->recv_cq = attributes->recv_cq;
  queue->cap = attributes->cap;
  queue->device = static_cast<Context*>(pd->context)->fake;
  queue->qp_num = state.next_queue++;
  state.queues.emplace(queue->qp_num, queue);
  ++state.counters.queue_pairs;
  return queue;
}

int modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
  State& state = state_of(qp->context);
  const std::lock_guard lock(state.mutex);
  if (state.failing("modify_qp")) return errno;
  auto& queue = *static_cast<Queue*>(qp);
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0) queue.rights = static_cast<unsigned>(attributes->qp_access_flags);
  if ((mask & IBV_QP_DEST_QPN) != 0) queue.peer = attributes->dest_qp_num;
  if ((mask & IBV_QP_RNR_RETRY) != 0) queue.not_ready_retries = attributes->rnr_retry;
  if ((mask & IBV_QP_STATE) == 0) return 0;
  if (attributes->qp_state == IBV_QPS_ERR) {
    state.break_queue(queue);
    return 0;
  }
  const bool in_order = (attributes->qp_state == IBV_QPS_INIT && queue.at == IBV_QPS_RESET) ||
                        (attributes->qp_state == IBV_QPS_RTR && queue.at == IBV_QPS_INIT) ||
                        (attributes->qp_state == IBV_QPS_RTS && queue.at == IBV_QPS_RTR);
  if (!in_order) return EINVAL;
  queue.at = attributes->qp_state;
  return 0;
}

int destroy_qp(ibv_qp* qp) {
  State& state = state_of(qp->context);
  const std::lock_guard lock(state.mutex);
  auto* queue = static_cast<Queue*>(qp);
  static_cast<Context*>(qp->context)->events.erase_if([&](const ibv_async_event& event) {
    return event.event_type <= IBV_EVENT_COMM_EST && event.event_type != IBV_EVENT_CQ_ERR &&
           event.element.qp == qp;
  });
  for (const auto& [key, window] : state.windows) {
    if (window->queue == queue) return EBUSY;
  }
  std::erase(state.busy, queue);
  state.queues.erase(qp->qp_num);
  delete queue;
  return 0;
}

int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad) {
  State& state = state_of(qp->context);
  const std::lock_guard lock(state.mutex);
  auto& queue = *static_cast<Queue*>(qp);
  ++state.counters.doorbells;
  for (; wr != nullptr; wr = wr->next) {
    *bad = wr;
    if (state.failing("post_send")) return errno;
    if (queue.at != IBV_QPS_RTS && queue.at != IBV_QPS_ERR) return EINVAL;
    Request request{.wr = *wr, .pieces = {wr->sg_list, wr->sg_list + wr->num_sge}, .kept = {}};
    if (queue.device->options.iwarp &&
        (wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM || wr->opcode == IBV_WR_SEND_WITH_IMM)) {
      return EOPNOTSUPP;
    }
    if (request.pieces.size() > queue.cap.max_send_sge) return EINVAL;
    // The limit of mlx5, which is the smallest of all drivers.
    if (wr->opcode == IBV_WR_BIND_MW && wr->bind_mw.bind_info.length > std::uint64_t{1} << 31)
      return EOPNOTSUPP;
    if (queue.outstanding_sends == queue.cap.max_send_wr) {
      ++state.counters.overruns;
      return ENOMEM;
    }
    if ((wr->send_flags & IBV_SEND_INLINE) != 0) {
      if (length_of(request) > queue.cap.max_inline_data || wr->opcode == IBV_WR_RDMA_READ) return EINVAL;
      request.kept.resize(length_of(request));
      std::size_t offset = 0;
      for (const ibv_sge& piece : request.pieces) {
        std::memcpy(request.kept.data() + offset, reinterpret_cast<const void*>(piece.addr), piece.length);
        offset += piece.length;
      }
      ++state.counters.inline_requests;
    }
    if ((wr->send_flags & IBV_SEND_FENCE) != 0) ++state.counters.fenced_requests;
    ++state.counters.requests;
    ++queue.outstanding_sends;
    if ((wr->send_flags & IBV_SEND_SIGNALED) != 0) {
      ++state.counters.signaled_requests;
      std::uint32_t covered = queue.outstanding_sends;
      for (const auto& [id, places] : queue.covers) covered -= places;
      queue.covers[wr->wr_id] = covered;
    }
    if (queue.at == IBV_QPS_ERR) {
      if (!state.swallow) state.complete_send(queue, request, IBV_WC_WR_FLUSH_ERR);
    } else {
      queue.sends.push_back(std::move(request));
    }
  }
  state.wake(queue);
  return 0;
}

int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  State& state = state_of(qp->context);
  const std::lock_guard lock(state.mutex);
  auto& queue = *static_cast<Queue*>(qp);
  for (; wr != nullptr; wr = wr->next) {
    *bad = wr;
    if (state.failing("post_recv")) return errno;
    if (queue.receives.size() == queue.cap.max_recv_wr) {
      ++state.counters.overruns;
      return ENOMEM;
    }
    const Receive receive = {.id = wr->wr_id, .piece = wr->sg_list[0]};
    if (queue.at == IBV_QPS_ERR) {
      if (!state.swallow) state.complete_receive(queue, receive, IBV_WC_WR_FLUSH_ERR, {});
    } else {
      queue.receives.push_back(receive);
    }
  }
  if (const auto peer = state.queues.find(queue.peer); peer != state.queues.end()) state.wake(*peer->second);
  return 0;
}

// ---- librdmacm

int get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) {
  auto* fake = static_cast<ManagerChannel*>(channel);
  const std::lock_guard lock(fake->state->mutex);
  ManagerEvent* next = nullptr;
  if (!fake->events.pop(next)) return -1;
  ++fake->state->unacknowledged;
  *event = next;
  return 0;
}

int ack_cm_event(rdma_cm_event* event) {
  State& state = state_of(event->id);
  const std::lock_guard lock(state.mutex);
  --state.unacknowledged;
  delete static_cast<ManagerEvent*>(event);
  return 0;
}

void destroy_event_channel(rdma_event_channel* channel) {
  auto* fake = static_cast<ManagerChannel*>(channel);
  State& state = *fake->state;
  const std::lock_guard lock(state.mutex);
  for (ManagerEvent* event : fake->events.values()) delete event;
  state.manager_channels.erase(fake);
  delete fake;
}

int create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context, rdma_port_space) {
  auto* fake = static_cast<ManagerChannel*>(channel);
  State& state = *fake->state;
  const std::lock_guard lock(state.mutex);
  if (state.failing("create_id")) return -1;
  *id = state.new_identifier(fake, context);
  return 0;
}

int destroy_id(rdma_cm_id* id) {
  State& state = state_of(id);
  const std::lock_guard lock(state.mutex);
  auto* fake = static_cast<Identifier*>(id);
  state.hang_up(*fake);
  std::vector<Identifier*> unheard;  // requests that nobody will answer
  fake->fake_channel->events.erase_if([&](ManagerEvent* event) {
    if (event->id != id && event->listen_id != id) return false;
    if (event->listen_id == id) unheard.push_back(static_cast<Identifier*>(event->id));
    delete event;
    return true;
  });
  for (Identifier* each : unheard) {
    state.hang_up(*each);
    state.identifiers.erase(each);
    delete each;
  }
  state.identifiers.erase(fake);
  delete fake;
  return 0;
}

int bind_addr(rdma_cm_id* id, sockaddr* address) {
  State& state = state_of(id);
  const std::lock_guard lock(state.mutex);
  if (state.failing("bind_addr")) return -1;
  auto& fake = *static_cast<Identifier*>(id);
  fake.own = reinterpret_cast<const sockaddr_in&>(*address);
  if (fake.own.sin_port == 0) fake.own.sin_port = htons(state.next_port++);
  if (fake.own.sin_addr.s_addr == 0) return 0;
  Device* device = state.device_at(fake.own.sin_addr.s_addr);
  if (device == nullptr) {
    errno = EADDRNOTAVAIL;
    return -1;
  }
  id->verbs = device->manager_context.get();
  id->port_num = 1;
  return 0;
}

int listen(rdma_cm_id* id, int) {
  State& state = state_of(id);
  const std::lock_guard lock(state.mutex);
  if (state.failing("listen")) return -1;
  auto& fake = *static_cast<Identifier*>(id);
  if (state.listener_at(fake.own) != nullptr) {
    errno = EADDRINUSE;
    return -1;
  }
  fake.listening = true;
  return 0;
}

std::uint16_t get_src_port(rdma_cm_id* id) {
  return static_cast<Identifier*>(id)->own.sin_port;
}

int resolve_addr(rdma_cm_id* id, sockaddr* source, sockaddr* destination, int) {
  State& state = state_of(id);
  const std::lock_guard lock(state.mutex);
  if (state.failing("resolve_addr")) return -1;
  auto& fake = *static_cast<Identifier*>(id);
  State::destination(*id) = reinterpret_cast<const sockaddr_in&>(*destination);
  Device* device = state.devices.front().get();
  if (source != nullptr) device = state.device_at(reinterpret_cast<sockaddr_in*>(source)->sin_addr.s_addr);
  if (device == nullptr || state.device_at(State::destination(*id).sin_addr.s_addr) == nullptr) {
    state.tell(fake, RDMA_CM_EVENT_ADDR_ERROR, -ENETUNREACH);
    return 0;
  }
  id->verbs = device->manager_context.get();
  id->port_num = 1;
  ::inet_pton(AF_INET, device->options.address.c_str(), &fake.own.sin_addr);
  fake.own.sin_family = AF_INET;
  state.tell(fake, RDMA_CM_EVENT_ADDR_RESOLVED);
  return 0;
}

int resolve_route(rdma_cm_id* id, int) {
  State& state = state_of(id);
  const std::lock_guard lock(state.mutex);
  if (state.failing("resolve_route")) return -1;
  state.tell(*static_cast<Identifier*>(id), RDMA_CM_EVENT_ROUTE_RESOLVED);
  return 0;
}

int init_qp_attr(rdma_cm_id* id, ibv_qp_attr* attributes, int* mask) {
  State& state = state_of(id);
  const std::lock_guard lock(state.mutex);
  if (state.failing("init_qp_attr")) return -1;
  auto& fake = *static_cast<Identifier*>(id);
  *mask = IBV_QP_STATE;
  if (attributes->qp_state == IBV_QPS_INIT) {
    attributes->qp_access_flags = 0;
    *mask |= IBV_QP_ACCESS_FLAGS | IBV_QP_PORT | IBV_QP_PKEY_INDEX;
  } else if (attributes->qp_state == IBV_QPS_RTR) {
    if (fake.peer == nullptr) {
      errno = EINVAL;
      return -1;
    }
    attributes->dest_qp_num = fake.peer->queue_number;
    *mask |= IBV_QP_DEST_QPN | IBV_QP_MAX_DEST_RD_ATOMIC;
  } else if (attributes->qp_state == IBV_QPS_RTS) {
    attributes->rnr_retry = fake.not_ready_retries;
    attributes->retry_cnt = 7;
    *mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  }
  return 0;
}

int connect(rdma_cm_id* id, rdma_conn_param* param) {
  State& state = state_of(id);
  const std::lock_guard lock(state.mutex);
  if (state.failing("connect")) return -1;
  auto& fake = *static_cast<Identifier*>(id);
  fake.queue_number = param->qp_num;
  Identifier* listener = state.listener_at(State::destination(*id));
  if (listener == nullptr) {
    state.tell(fake, RDMA_CM_EVENT_REJECTED, 8);
    return 0;
  }
  Identifier* incoming = state.new_identifier(listener->fake_channel, listener->context);
  Device* device = state.device_at(State::destination(*id).sin_addr.s_addr);
  incoming->verbs = device->manager_context.get();
  incoming->port_num = 1;
  incoming->not_ready_retries = param->rnr_retry_count;
  State::destination(*incoming) = fake.own;
  incoming->peer = &fake;
  fake.peer = incoming;
  state.tell(*incoming, RDMA_CM_EVENT_CONNECT_REQUEST, 0, param->private_data, param->private_data_len,
             listener);
  return 0;
}

int accept(rdma_cm_id* id, rdma_conn_param* param) {
  State& state = state_of(id);
  const std::lock_guard lock(state.mutex);
  if (state.failing("accept")) return -1;
  auto& fake = *static_cast<Identifier*>(id);
  fake.queue_number = param->qp_num;
  fake.answered = true;
  if (fake.peer == nullptr) {
    errno = ENOTCONN;
    return -1;
  }
  Identifier& peer = *fake.peer;
  peer.not_ready_retries = param->rnr_retry_count;
  const auto* context = static_cast<Context*>(id->verbs);
  if (!context->fake->options.iwarp) {
    state.tell(peer, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, param->private_data, param->private_data_len);
    return 0;
  }
  if (!state.queues.contains(peer.queue_number)) {
    errno = ECONNRESET;
    return -1;
  }
  state.connect_queues(fake, peer);
  fake.connected = peer.connected = true;
  state.tell(peer, RDMA_CM_EVENT_ESTABLISHED, 0, param->private_data, param->private_data_len);
  state.tell(fake, RDMA_CM_EVENT_ESTABLISHED);
  return 0;
}

int reject(rdma_cm_id* id, const void* data, std::uint8_t bytes) {
  State& state = state_of(id);
  const std::lock_guard lock(state.mutex);
  auto& fake = *static_cast<Identifier*>(id);
  Identifier* peer = std::exchange(fake.peer, nullptr);
  if (peer == nullptr) return 0;
  peer->peer = nullptr;
  state.tell(*peer, RDMA_CM_EVENT_REJECTED, 28, data, bytes);
  return 0;
}

int establish(rdma_cm_id* id) {
  State& state = state_of(id);
  const std::lock_guard lock(state.mutex);
  if (state.failing("establish")) return -1;
  auto& fake = *static_cast<Identifier*>(id);
  if (fake.peer == nullptr) {
    errno = ENOTCONN;
    return -1;
  }
  fake.connected = fake.peer->connected = true;
  state.tell(*fake.peer, RDMA_CM_EVENT_ESTABLISHED);
  return 0;
}

int notify(rdma_cm_id*, ibv_event_type) {
  return 0;
}

int disconnect(rdma_cm_id* id) {
  State& state = state_of(id);
  const std::lock_guard lock(state.mutex);
  auto& fake = *static_cast<Identifier*>(id);
  if (fake.peer == nullptr) {
    errno = EINVAL;
    return -1;
  }
  state.hang_up(fake);
  return 0;
}

}  // namespace

// ---- the fabric

FakeFabric::FakeFabric(std::uint64_t seed, bool own_thread) : state_(std::make_shared<State>(seed)) {
  state_->own_thread = own_thread;
  if (own_thread) state_->thread = std::thread([state = state_.get()] { state->run(); });
}

FakeFabric::~FakeFabric() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
    state_->work.notify_one();
  }
  if (state_->thread.joinable()) state_->thread.join();
}

void FakeFabric::add_device(const DeviceOptions& options) {
  const std::lock_guard lock(state_->mutex);
  auto device = std::make_unique<Device>();
  static_cast<ibv_device&>(*device) = {};
  options.name.copy(device->name, sizeof(device->name) - 1);
  options.folder.copy(device->ibdev_path, sizeof(device->ibdev_path) - 1);
  device->transport_type = !options.connections ? IBV_TRANSPORT_UNSPECIFIED
                           : options.iwarp      ? IBV_TRANSPORT_IWARP
                                                : IBV_TRANSPORT_IB;
  device->state = state_.get();
  device->options = options;
  device->manager_context.reset(new_context(*device));
  state_->devices.push_back(std::move(device));
}

std::shared_ptr<const VerbsApi> FakeFabric::api() {
  auto api = std::make_shared<VerbsApi>();
  api->get_device_list = [state = state_.get()](int* count) -> ibv_device** {
    const std::lock_guard lock(state->mutex);
    if (state->failing("get_device_list")) return nullptr;
    *count = static_cast<int>(state->devices.size());
    auto** list = new ibv_device*[state->devices.size() + 1]();
    for (std::size_t i = 0; i < state->devices.size(); ++i) list[i] = state->devices[i].get();
    return list;
  };
  api->free_device_list = [](ibv_device** list) { delete[] list; };
  api->create_event_channel = [state = state_.get()]() -> rdma_event_channel* {
    const std::lock_guard lock(state->mutex);
    if (state->failing("create_event_channel")) return nullptr;
    auto* channel = new ManagerChannel();
    channel->fd = channel->events.fd();
    channel->state = state;
    state->manager_channels.insert(channel);
    return channel;
  };
  api->ack_async_event = [](ibv_async_event*) {};
  api->open_device = open_device;
  api->close_device = close_device;
  api->query_device = query_device;
  api->query_port = query_port;
  api->query_gid = query_gid;
  api->get_async_event = get_async_event;
  api->alloc_pd = alloc_pd;
  api->dealloc_pd = dealloc_pd;
  api->reg_mr = reg_mr;
  api->dereg_mr = dereg_mr;
  api->alloc_mw = alloc_mw;
  api->dealloc_mw = dealloc_mw;
  api->create_comp_channel = create_comp_channel;
  api->destroy_comp_channel = destroy_comp_channel;
  api->create_cq = create_cq;
  api->destroy_cq = destroy_cq;
  api->get_cq_event = get_cq_event;
  api->ack_cq_events = ack_cq_events;
  api->req_notify_cq = req_notify_cq;
  api->poll_cq = poll_cq;
  api->create_qp = create_qp;
  api->modify_qp = modify_qp;
  api->destroy_qp = destroy_qp;
  api->post_send = post_send;
  api->post_recv = post_recv;
  api->destroy_event_channel = destroy_event_channel;
  api->get_cm_event = get_cm_event;
  api->ack_cm_event = ack_cm_event;
  api->create_id = create_id;
  api->destroy_id = destroy_id;
  api->bind_addr = bind_addr;
  api->listen = listen;
  api->get_src_port = get_src_port;
  api->resolve_addr = resolve_addr;
  api->resolve_route = resolve_route;
  api->init_qp_attr = init_qp_attr;
  api->connect = connect;
  api->accept = accept;
  api->reject = reject;
  api->establish = establish;
  api->notify = notify;
  api->disconnect = disconnect;
  return api;
}

bool FakeFabric::step() {
  const std::lock_guard lock(state_->mutex);
  return state_->step();
}

void FakeFabric::fail_call(const std::string& name, int error, std::uint32_t skip) {
  const std::lock_guard lock(state_->mutex);
  state_->call_faults.push_back({name, error, skip});
}

void FakeFabric::forget_faults() {
  const std::lock_guard lock(state_->mutex);
  state_->call_faults.clear();
  state_->request_faults.clear();
}

void FakeFabric::fail_request(const std::string& device, ibv_wc_status status, std::uint32_t skip) {
  const std::lock_guard lock(state_->mutex);
  state_->request_faults.push_back({device, status, skip});
}

void FakeFabric::raise(const std::string& device, ibv_event_type type) {
  const std::lock_guard lock(state_->mutex);
  for (Context* context : state_->contexts) {
    if (context->fake->options.name != device) continue;
    Queue* queue = nullptr;
    for (const auto& [number, each] : state_->queues) {
      if (each->context == context) queue = each;
    }
    const bool of_queue = type == IBV_EVENT_QP_FATAL || type == IBV_EVENT_QP_REQ_ERR ||
                          type == IBV_EVENT_QP_ACCESS_ERR || type == IBV_EVENT_COMM_EST;
    if ((of_queue || type == IBV_EVENT_CQ_ERR) && queue == nullptr) continue;
    if (of_queue && type != IBV_EVENT_COMM_EST) state_->break_queue(*queue);
    state_->raise_for(*context, type, of_queue ? queue : nullptr,
                      type == IBV_EVENT_CQ_ERR ? queue->send_cq : nullptr);
  }
}

void FakeFabric::vanish(const std::string& device) {
  const std::lock_guard lock(state_->mutex);
  for (const auto& each : state_->devices) {
    if (each->options.name == device) each->vanished = true;
  }
}

void FakeFabric::swallow_flushes(bool swallow) {
  const std::lock_guard lock(state_->mutex);
  state_->swallow = swallow;
}

FakeFabric::Counters FakeFabric::counters() const {
  const std::lock_guard lock(state_->mutex);
  return state_->counters;
}

std::string FakeFabric::leaks() const {
  const std::lock_guard lock(state_->mutex);
  std::string leaks;
  const auto check = [&](std::string_view what, std::size_t count) {
    if (count > 0) leaks += fmt::format("{} {}; ", count, what);
  };
  check("contexts", state_->contexts.size());
  check("domains", state_->domains.size());
  check("regions", state_->regions.size());
  check("windows", state_->windows.size());
  check("completion channels", state_->channels.size());
  check("completion queues", state_->completions.size());
  check("queue pairs", state_->queues.size());
  check("event channels", state_->manager_channels.size());
  check("identifiers", state_->identifiers.size());
  check("events not acknowledged", static_cast<std::size_t>(state_->unacknowledged));
  return leaks;
}

}  // namespace verbena::transport
