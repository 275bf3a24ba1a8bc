// A queue pair, the connection manager's identifier that connects it, and the room that it has reserved in a
// completion queue.
//
// The identifier comes first and goes last: create() and the moves between states need it. The room is
// released when the queue pair is destroyed. Both can be made anew after destroy(), for another attempt to
// connect. `peer`, in the functions that take it, is for their errors. For the transport's thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/verbs/completion_queues.hpp"
#include "transport/verbs/device.hpp"
#include "transport/verbs/manager_event.hpp"

namespace verbena::transport::verbs {

class QueuePair {
 public:
  /// With so many sends and receives. The references outlive it.
  QueuePair(const Device& device, const VerbsOptions& options, CompletionQueues& queues, std::uint32_t sends,
            std::uint32_t receives)
      : device_(device), options_(options), queues_(queues), sends_(sends), receives_(receives) {}
  ~QueuePair() {
    destroy();
    destroy_id();
  }
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  // The identifier. Its events go to the user.
  /// Returns errno, or 0. REQUIRES: there is none.
  int create_id(rdma_event_channel* channel, ManagerUser& user);
  /// Takes that of a request to connect.
  void adopt_id(rdma_cm_id* id, ManagerUser& user);
  [[nodiscard]] rdma_cm_id* id() const { return id_; }
  /// REQUIRES: the queue pair is destroyed.
  void destroy_id();
  /// Fails in silence if the peer was faster.
  void disconnect();

  // The queue pair.
  /// Makes it, so that receives can be posted. Returns how many bytes the device takes inline.
  absl::StatusOr<std::uint32_t> create(std::string_view peer);
  /// Lets it receive and send, with the parameters of the request if it answers one.
  absl::Status start(const ManagerEvent* request, std::string_view peer);
  /// Flushes what is outstanding. False if the device cannot do even that.
  bool flush();
  /// Its last completions are seen in here, after it is gone.
  void destroy();

  [[nodiscard]] ibv_qp* get() const { return pair_; }
  [[nodiscard]] bool exists() const { return pair_ != nullptr; }
  [[nodiscard]] bool uses(const ibv_cq* cq) const { return queue_ != nullptr && queue_->cq == cq; }

  /// What it asks for when it connects, or grants when it accepts. `data` must outlive it. REQUIRES:
  /// exists().
  [[nodiscard]] rdma_conn_param parameters(std::span<const std::byte> data) const;

 private:
  absl::StatusOr<ibv_qp*> create(ibv_qp_init_attr& attributes, std::string_view peer);
  absl::Status move_to(ibv_qp_state state, const ManagerEvent* request, std::string_view peer);

  const Device& device_;
  const VerbsOptions& options_;
  CompletionQueues& queues_;
  const std::uint32_t sends_;
  const std::uint32_t receives_;
  rdma_cm_id* id_ = nullptr;
  ibv_qp* pair_ = nullptr;
  CompletionQueue* queue_ = nullptr;
};

}  // namespace verbena::transport::verbs
