#include "transport/verbs/verbs_api.hpp"

#include <cerrno>

#include "base/return_if_error.hpp"
#include "base/shared_library.hpp"

namespace verbena::transport {

namespace {

constexpr const char* kOtherwise = " or use the shared-memory transport";

// These functions go through tables of the opened device; <infiniband/verbs.h> defines them, and no library
// does.

int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes) {
  verbs_context* extended = verbs_get_ctx_op(context, query_port);
  return extended == nullptr ? EOPNOTSUPP
                             : extended->query_port(context, port, attributes, sizeof(*attributes));
}

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type) {
  return ::ibv_alloc_mw(pd, type);
}

int dealloc_mw(ibv_mw* window) {
  return ::ibv_dealloc_mw(window);
}

int req_notify_cq(ibv_cq* cq, int solicited_only) {
  return ::ibv_req_notify_cq(cq, solicited_only);
}

int poll_cq(ibv_cq* cq, int count, ibv_wc* completions) {
  return ::ibv_poll_cq(cq, count, completions);
}

int post_send(ibv_qp* qp, ibv_send_wr* requests, ibv_send_wr** bad) {
  return ::ibv_post_send(qp, requests, bad);
}

int post_recv(ibv_qp* qp, ibv_recv_wr* requests, ibv_recv_wr** bad) {
  return ::ibv_post_recv(qp, requests, bad);
}

}  // namespace

absl::Status load_ibverbs(VerbsApi& api) {
  base::SharedLibrary library("libibverbs.so.1", "libibverbs1", kOtherwise);
  ibv_device** (*get_device_list)(int*) = nullptr;
  library.find("ibv_get_device_list", get_device_list);
  api.get_device_list = get_device_list;
  library.find("ibv_free_device_list", api.free_device_list);
  library.find("ibv_open_device", api.open_device);
  library.find("ibv_close_device", api.close_device);
  library.find("ibv_query_device", api.query_device);
  library.find("_ibv_query_gid_ex", api.query_gid);
  library.find("ibv_get_async_event", api.get_async_event);
  library.find("ibv_ack_async_event", api.ack_async_event);
  library.find("ibv_alloc_pd", api.alloc_pd);
  library.find("ibv_dealloc_pd", api.dealloc_pd);
  library.find("ibv_reg_mr", api.reg_mr);
  library.find("ibv_dereg_mr", api.dereg_mr);
  library.find("ibv_create_comp_channel", api.create_comp_channel);
  library.find("ibv_destroy_comp_channel", api.destroy_comp_channel);
  library.find("ibv_create_cq", api.create_cq);
  library.find("ibv_destroy_cq", api.destroy_cq);
  library.find("ibv_get_cq_event", api.get_cq_event);
  library.find("ibv_ack_cq_events", api.ack_cq_events);
  library.find("ibv_create_qp", api.create_qp);
  library.find("ibv_modify_qp", api.modify_qp);
  library.find("ibv_destroy_qp", api.destroy_qp);
  api.query_port = query_port;
  api.alloc_mw = alloc_mw;
  api.dealloc_mw = dealloc_mw;
  api.req_notify_cq = req_notify_cq;
  api.poll_cq = poll_cq;
  api.post_send = post_send;
  api.post_recv = post_recv;
  return library.status();
}

absl::Status load_rdmacm(VerbsApi& api) {
  base::SharedLibrary library("librdmacm.so.1", "librdmacm1", kOtherwise);
  rdma_event_channel* (*create_event_channel)() = nullptr;
  library.find("rdma_create_event_channel", create_event_channel);
  api.create_event_channel = create_event_channel;
  library.find("rdma_destroy_event_channel", api.destroy_event_channel);
  library.find("rdma_get_cm_event", api.get_cm_event);
  library.find("rdma_ack_cm_event", api.ack_cm_event);
  library.find("rdma_create_id", api.create_id);
  library.find("rdma_destroy_id", api.destroy_id);
  library.find("rdma_bind_addr", api.bind_addr);
  library.find("rdma_listen", api.listen);
  library.find("rdma_get_src_port", api.get_src_port);
  library.find("rdma_resolve_addr", api.resolve_addr);
  library.find("rdma_resolve_route", api.resolve_route);
  library.find("rdma_init_qp_attr", api.init_qp_attr);
  library.find("rdma_connect", api.connect);
  library.find("rdma_accept", api.accept);
  library.find("rdma_reject", api.reject);
  library.find("rdma_establish", api.establish);
  library.find("rdma_notify", api.notify);
  library.find("rdma_disconnect", api.disconnect);
  return library.status();
}

absl::StatusOr<VerbsApi> load_verbs_api() {
  VerbsApi api{};
  RETURN_IF_ERROR(load_ibverbs(api));
  RETURN_IF_ERROR(load_rdmacm(api));
  return api;
}

}  // namespace verbena::transport
