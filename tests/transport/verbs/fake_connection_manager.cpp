#include <arpa/inet.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "tests/transport/verbs/fake_libraries.hpp"
#include "tests/transport/verbs/fake_state.hpp"

namespace verbena::transport::fake {
namespace {

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

void add_connection_manager(VerbsApi& api, State& state) {
  api.create_event_channel = [&state]() -> rdma_event_channel* {
    const std::lock_guard lock(state.mutex);
    if (state.failing("create_event_channel")) return nullptr;
    auto* channel = new ManagerChannel();
    channel->fd = channel->events.fd();
    channel->state = &state;
    state.manager_channels.insert(channel);
    return channel;
  };
  api.destroy_event_channel = destroy_event_channel;
  api.get_cm_event = get_cm_event;
  api.ack_cm_event = ack_cm_event;
  api.create_id = create_id;
  api.destroy_id = destroy_id;
  api.bind_addr = bind_addr;
  api.listen = listen;
  api.get_src_port = get_src_port;
  api.resolve_addr = resolve_addr;
  api.resolve_route = resolve_route;
  api.init_qp_attr = init_qp_attr;
  api.connect = connect;
  api.accept = accept;
  api.reject = reject;
  api.establish = establish;
  api.notify = notify;
  api.disconnect = disconnect;
}

}  // namespace verbena::transport::fake
