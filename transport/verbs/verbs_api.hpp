// The seam to libibverbs and librdmacm: every call of this backend goes through one table of functions. It is
// filled from the two libraries at run time, so that the program starts on a host without them, or by a fake
// device in a test's process.
//
// Each entry behaves like the function of its name in the libraries' manual pages. The first two take no
// handle by which a fake could find its state, so they carry their own state.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"

namespace verbena::transport {

struct VerbsApi {
  std::function<ibv_device**(int* count)> get_device_list;
  std::function<rdma_event_channel*()> create_event_channel;

  // libibverbs
  void (*free_device_list)(ibv_device**);
  ibv_context* (*open_device)(ibv_device*);
  int (*close_device)(ibv_context*);
  int (*query_device)(ibv_context*, ibv_device_attr*);
  int (*query_port)(ibv_context*, std::uint8_t port, ibv_port_attr*);
  int (*query_gid)(ibv_context*, std::uint32_t port, std::uint32_t index, ibv_gid_entry*, std::uint32_t flags,
                   std::size_t entry_bytes);
  int (*get_async_event)(ibv_context*, ibv_async_event*);
  void (*ack_async_event)(ibv_async_event*);
  ibv_pd* (*alloc_pd)(ibv_context*);
  int (*dealloc_pd)(ibv_pd*);
  ibv_mr* (*reg_mr)(ibv_pd*, void* address, std::size_t bytes, int access);
  int (*dereg_mr)(ibv_mr*);
  ibv_mw* (*alloc_mw)(ibv_pd*, ibv_mw_type);
  int (*dealloc_mw)(ibv_mw*);
  ibv_comp_channel* (*create_comp_channel)(ibv_context*);
  int (*destroy_comp_channel)(ibv_comp_channel*);
  ibv_cq* (*create_cq)(ibv_context*, int entries, void* context, ibv_comp_channel*, int vector);
  int (*destroy_cq)(ibv_cq*);
  int (*get_cq_event)(ibv_comp_channel*, ibv_cq**, void** context);
  void (*ack_cq_events)(ibv_cq*, unsigned int count);
  int (*req_notify_cq)(ibv_cq*, int solicited_only);
  int (*poll_cq)(ibv_cq*, int count, ibv_wc*);
  ibv_qp* (*create_qp)(ibv_pd*, ibv_qp_init_attr*);
  int (*modify_qp)(ibv_qp*, ibv_qp_attr*, int mask);
  int (*destroy_qp)(ibv_qp*);
  int (*post_send)(ibv_qp*, ibv_send_wr*, ibv_send_wr** bad);
  int (*post_recv)(ibv_qp*, ibv_recv_wr*, ibv_recv_wr** bad);

  // librdmacm
  void (*destroy_event_channel)(rdma_event_channel*);
  int (*get_cm_event)(rdma_event_channel*, rdma_cm_event**);
  int (*ack_cm_event)(rdma_cm_event*);
  int (*create_id)(rdma_event_channel*, rdma_cm_id**, void* context, rdma_port_space);
  int (*destroy_id)(rdma_cm_id*);
  int (*bind_addr)(rdma_cm_id*, sockaddr*);
  int (*listen)(rdma_cm_id*, int backlog);
  std::uint16_t (*get_src_port)(rdma_cm_id*);  ///< in network byte order
  int (*resolve_addr)(rdma_cm_id*, sockaddr* source, sockaddr* destination, int timeout_ms);
  int (*resolve_route)(rdma_cm_id*, int timeout_ms);
  int (*init_qp_attr)(rdma_cm_id*, ibv_qp_attr*, int* mask);
  int (*connect)(rdma_cm_id*, rdma_conn_param*);
  int (*accept)(rdma_cm_id*, rdma_conn_param*);
  int (*reject)(rdma_cm_id*, const void* private_data, std::uint8_t bytes);
  int (*establish)(rdma_cm_id*);
  int (*notify)(rdma_cm_id*, ibv_event_type);
  int (*disconnect)(rdma_cm_id*);
};

/// Each fills its part of the table from the host's library. UNAVAILABLE if the library is missing; the
/// message says how to get it.
absl::Status load_ibverbs(VerbsApi& api);
absl::Status load_rdmacm(VerbsApi& api);

/// The whole table.
absl::StatusOr<VerbsApi> load_verbs_api();

}  // namespace verbena::transport
