#include "transport/verbs/queue_pair.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <utility>

#include "base/return_if_error.hpp"
#include "transport/verbs/errors.hpp"

namespace verbena::transport::verbs {

namespace {

constexpr std::uint8_t kRetries = 6;         // for rxe 7 means endless
constexpr std::uint8_t kEndlessRetries = 7;  // of receiver-not-ready, which does not happen; see receives.hpp

/// InfiniBand's code for the time until a retry, 4.096 µs × 2^code. All retries must fit into half of
/// `patience`, because devices take up to four times as long as they are told.
std::uint8_t retry_code(Duration patience) {
  const double each_us = std::chrono::duration<double, std::micro>(patience).count() / 2 / (kRetries + 1);
  return static_cast<std::uint8_t>(std::clamp(std::floor(std::log2(each_us / 4.096)), 1.0, 21.0));
}

}  // namespace

int QueuePair::create_id(rdma_event_channel* channel, ManagerUser& user) {
  if (device_.api().create_id(channel, &id_, &user, RDMA_PS_TCP) == 0) return 0;
  const int error = errno;
  id_ = nullptr;
  return error != 0 ? error : EIO;
}

void QueuePair::adopt_id(rdma_cm_id* id, ManagerUser& user) {
  id_ = id;
  id_->context = &user;
}

void QueuePair::destroy_id() {
  if (id_ != nullptr) device_.api().destroy_id(std::exchange(id_, nullptr));
}

void QueuePair::disconnect() {
  // An identifier has no device before its address is resolved, and older libraries do not check that.
  if (id_ != nullptr && id_->verbs != nullptr) device_.api().disconnect(id_);
}

absl::StatusOr<ibv_qp*> QueuePair::create(ibv_qp_init_attr& attributes, std::string_view peer) {
  // A device does not tell how many inline bytes it grants; some refuse the queue pair instead of granting
  // less.
  for (std::uint32_t bytes = options_.max_inline_bytes;; bytes /= 2) {
    attributes.cap = {.max_send_wr = sends_,
                      .max_recv_wr = receives_,
                      .max_send_sge = 2,
                      .max_recv_sge = 1,
                      .max_inline_data = bytes};
    ibv_qp* pair = device_.api().create_qp(device_.domain(), &attributes);
    if (pair != nullptr) return pair;
    if (bytes == 0) break;
  }
  const int error = errno;
  return errno_status(
      error, fmt::format("{}: {} makes no queue pair with {} sends and {} receives (of {} queue pairs)", peer,
                         device_.name(), sends_, receives_, device_.attributes().max_qp));
}

absl::StatusOr<std::uint32_t> QueuePair::create(std::string_view peer) {
  auto queue = queues_.reserve(sends_ + receives_);
  if (!queue.ok()) return queue.status();
  queue_ = *queue;
  ibv_qp_init_attr attributes{};
  attributes.send_cq = queue_->cq;
  attributes.recv_cq = queue_->cq;
  attributes.qp_type = IBV_QPT_RC;
  auto pair = create(attributes, peer);
  if (!pair.ok()) {
    queues_.release(*std::exchange(queue_, nullptr), sends_ + receives_);
    return pair.status();
  }
  pair_ = *pair;
  const std::uint32_t inline_bytes = std::min(attributes.cap.max_inline_data, options_.max_inline_bytes);
  if (inline_bytes < options_.max_inline_bytes) {
    spdlog::debug("{} grants {} bytes inline instead of {}", device_.name(), inline_bytes,
                  options_.max_inline_bytes);
  }
  RETURN_IF_ERROR(move_to(IBV_QPS_INIT, nullptr, peer));
  return inline_bytes;
}

absl::Status QueuePair::start(const ManagerEvent* request, std::string_view peer) {
  RETURN_IF_ERROR(move_to(IBV_QPS_RTR, request, peer));
  return move_to(IBV_QPS_RTS, request, peer);
}

absl::Status QueuePair::move_to(ibv_qp_state state, const ManagerEvent* request, std::string_view peer) {
  ibv_qp_attr attributes{};
  int mask = 0;
  attributes.qp_state = state;
  if (device_.api().init_qp_attr(id_, &attributes, &mask) != 0) {
    const int error = errno;
    return errno_status(error, fmt::format("{}: the connection manager has no parameters", peer));
  }
  if (state == IBV_QPS_INIT) {
    attributes.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    mask |= IBV_QP_ACCESS_FLAGS;
  }
  if ((mask & IBV_QP_TIMEOUT) != 0) attributes.timeout = retry_code(options_.peer_timeout);
  if (request != nullptr) {
    const std::uint8_t most = device_.reads_at_once();
    if (state == IBV_QPS_RTR) attributes.max_dest_rd_atomic = std::min(most, request->responder_resources);
    if (state == IBV_QPS_RTS) attributes.max_rd_atomic = std::min(most, request->initiator_depth);
  }
  if (const int error = device_.api().modify_qp(pair_, &attributes, mask); error != 0) {
    return errno_status(
        error, fmt::format("{}: its queue pair cannot be set to state {}", peer, static_cast<int>(state)));
  }
  return absl::OkStatus();
}

bool QueuePair::flush() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  return device_.api().modify_qp(pair_, &attributes, IBV_QP_STATE) == 0;
}

void QueuePair::destroy() {
  if (pair_ != nullptr) {
    if (const int error = device_.api().destroy_qp(std::exchange(pair_, nullptr)); error != 0) {
      spdlog::error("{}", errno_text(error, "a queue pair cannot be destroyed"));
    }
  }
  if (queue_ == nullptr) return;
  queues_.release(*std::exchange(queue_, nullptr), sends_ + receives_);
}

rdma_conn_param QueuePair::parameters(std::span<const std::byte> data) const {
  return {.private_data = data.data(),
          .private_data_len = static_cast<std::uint8_t>(data.size()),
          .responder_resources = device_.reads_at_once(),
          .initiator_depth = device_.reads_at_once(),
          .flow_control = 1,
          .retry_count = kRetries,
          .rnr_retry_count = kEndlessRetries,
          .srq = 0,
          .qp_num = pair_->qp_num};
}

}  // namespace verbena::transport::verbs
