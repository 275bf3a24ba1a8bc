#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "tests/transport/verbs/fake_libraries.hpp"
#include "tests/transport/verbs/fake_state.hpp"

namespace verbena::transport::fake {
namespace {

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

}  // namespace

void add_verbs(VerbsApi& api, State& state) {
  api.get_device_list = [&state](int* count) -> ibv_device** {
    const std::lock_guard lock(state.mutex);
    if (state.failing("get_device_list")) return nullptr;
    *count = static_cast<int>(state.devices.size());
    auto** list = new ibv_device*[state.devices.size() + 1]();
    for (std::size_t i = 0; i < state.devices.size(); ++i) list[i] = state.devices[i].get();
    return list;
  };
  api.free_device_list = [](ibv_device** list) { delete[] list; };
  api.ack_async_event = [](ibv_async_event*) {};
  api.open_device = open_device;
  api.close_device = close_device;
  api.query_device = query_device;
  api.query_port = query_port;
  api.query_gid = query_gid;
  api.get_async_event = get_async_event;
  api.alloc_pd = alloc_pd;
  api.dealloc_pd = dealloc_pd;
  api.reg_mr = reg_mr;
  api.dereg_mr = dereg_mr;
  api.alloc_mw = alloc_mw;
  api.dealloc_mw = dealloc_mw;
  api.create_comp_channel = create_comp_channel;
  api.destroy_comp_channel = destroy_comp_channel;
  api.create_cq = create_cq;
  api.destroy_cq = destroy_cq;
  api.get_cq_event = get_cq_event;
  api.ack_cq_events = ack_cq_events;
  api.req_notify_cq = req_notify_cq;
  api.poll_cq = poll_cq;
  api.create_qp = create_qp;
  api.modify_qp = modify_qp;
  api.destroy_qp = destroy_qp;
  api.post_send = post_send;
  api.post_recv = post_recv;
}

}  // namespace verbena::transport::fake
