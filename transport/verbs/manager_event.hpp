// What the connection manager reports, and whom it reports to.
#pragma once

#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace verbena::transport::verbs {

/// An event of the connection manager, copied so that it can be acknowledged before it is handled (an
/// identifier can be destroyed only after that).
struct ManagerEvent {
  rdma_cm_event_type type = RDMA_CM_EVENT_TIMEWAIT_EXIT;
  int status = 0;
  rdma_cm_id* id = nullptr;
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::vector<std::byte> private_data;
};

/// The object that an identifier's context points to.
class ManagerUser {
 public:
  virtual void on_manager_event(const ManagerEvent& event) = 0;

 protected:
  ~ManagerUser() = default;
};

}  // namespace verbena::transport::verbs
