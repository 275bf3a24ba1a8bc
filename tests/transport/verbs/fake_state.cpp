#include "tests/transport/verbs/fake_state.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "transport/shm/transfer.hpp"

namespace verbena::transport::fake {

bool State::failing(const std::string& name) {
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

void State::complete(Queue& queue, ibv_cq* cq, ibv_wc completion) {
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

void State::raise_for(Context& context, ibv_event_type type, ibv_qp* qp, ibv_cq* cq) {
  ibv_async_event event{};
  event.event_type = type;
  if (qp != nullptr) event.element.qp = qp;
  if (cq != nullptr) event.element.cq = cq;
  if (qp == nullptr && cq == nullptr) event.element.port_num = 1;
  context.events.push(event);
}

void State::complete_send(Queue& queue, const Request& request, ibv_wc_status status) {
  const bool signaled = (request.wr.send_flags & IBV_SEND_SIGNALED) != 0;
  if (status == IBV_WC_SUCCESS && !signaled) return;
  ibv_wc completion{};
  completion.wr_id = request.wr.wr_id;
  completion.status = status;
  // In the completion of a failed request no other field is valid.
  completion.opcode = status == IBV_WC_SUCCESS ? IBV_WC_RDMA_WRITE : static_cast<ibv_wc_opcode>(0x7e);
  complete(queue, queue.send_cq, completion);
}

void State::break_queue(Queue& queue) {
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

void State::complete_receive(Queue& queue, const Receive& receive, ibv_wc_status status, ibv_wc completion) {
  completion.wr_id = receive.id;
  completion.status = status;
  complete(queue, queue.recv_cq, completion);
}

bool State::reachable(const Queue& from, const Queue* to) const {
  return to != nullptr && (to->at == IBV_QPS_RTR || to->at == IBV_QPS_RTS) && to->peer == from.qp_num &&
         !from.device->vanished && !to->device->vanished;
}

bool State::local_allowed(const Queue& queue, const Request& request, bool write) const {
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

std::byte* State::remote_place(const Queue& owner, std::uint64_t address, std::uint64_t length,
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

void State::gather(const Request& request, std::byte* to) {
  if (!request.kept.empty()) return shm::transfer(to, request.kept.data(), request.kept.size());
  for (const ibv_sge& piece : request.pieces) {
    shm::transfer(to, reinterpret_cast<const std::byte*>(piece.addr), piece.length);
    to += piece.length;
  }
}

bool State::bind(Queue& queue, const ibv_send_wr& wr) {
  auto& window = *static_cast<Window*>(wr.bind_mw.mw);
  const bool known =
      std::any_of(windows.begin(), windows.end(), [&](const auto& entry) { return entry.second == &window; });
  const auto& info = wr.bind_mw.bind_info;
  const auto* region = static_cast<const Region*>(info.mr);
  const bool registered =
      std::any_of(regions.begin(), regions.end(), [&](const auto& entry) { return entry.second == region; });
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

State::Outcome State::deliver(Queue& from, Queue& to, const Request& request, ibv_wc_status& status) {
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

State::Outcome State::carry_out(Queue& queue, const Request& request, ibv_wc_status& status) {
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

bool State::step() {
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

bool State::forced(const Queue& queue, ibv_wc_status& status) {
  for (auto fault = request_faults.begin(); fault != request_faults.end(); ++fault) {
    if (fault->device != queue.device->options.name) continue;
    if (fault->skip-- > 0) continue;
    status = fault->status;
    request_faults.erase(fault);
    return true;
  }
  return false;
}

void State::run() {
  std::unique_lock lock(mutex);
  while (!stop) {
    if (!step()) work.wait(lock);
  }
}

void State::wake(Queue& queue) {
  if (queue.sends.empty() || queue.at != IBV_QPS_RTS) return;
  if (std::find(busy.begin(), busy.end(), &queue) == busy.end()) busy.push_back(&queue);
  work.notify_one();
}

// ---- the connection manager

void State::tell(Identifier& who, rdma_cm_event_type type, int status, const void* data, std::size_t bytes,
                 Identifier* listener) {
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

Device* State::device_at(std::uint32_t address) const {
  for (const auto& device : devices) {
    in_addr own{};
    ::inet_pton(AF_INET, device->options.address.c_str(), &own);
    if (own.s_addr == address) return device.get();
  }
  return nullptr;
}

Identifier* State::listener_at(const sockaddr_in& place) const {
  for (Identifier* each : identifiers) {
    const bool same_host =
        each->own.sin_addr.s_addr == place.sin_addr.s_addr || each->own.sin_addr.s_addr == 0;
    if (each->listening && each->own.sin_port == place.sin_port && same_host) return each;
  }
  return nullptr;
}

void State::hang_up(Identifier& id) {
  Identifier* peer = std::exchange(id.peer, nullptr);
  id.connected = false;
  if (peer == nullptr) return;
  peer->peer = nullptr;
  if (id.verbs != nullptr && static_cast<Context*>(id.verbs)->fake->vanished) return;
  if (peer->verbs != nullptr && static_cast<Context*>(peer->verbs)->fake->vanished) return;
  const bool answered = peer->answered || id.answered;
  tell(*peer, answered ? RDMA_CM_EVENT_DISCONNECTED : RDMA_CM_EVENT_REJECTED, answered ? 0 : 28);
}

Identifier* State::new_identifier(ManagerChannel* channel, void* context) {
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

void State::connect_queues(Identifier& a, Identifier& b) {
  for (auto [mine, theirs] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    Queue& queue = *queues.at(mine->queue_number);
    queue.at = IBV_QPS_RTS;
    queue.peer = theirs->queue_number;
  }
}

// ---- handles

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

}  // namespace verbena::transport::fake
