// The sending side of a connection: puts requests into the device's form, and posts those that were added
// since the last time together, with one doorbell.
//
// A request is added, submitted, and completed, all in one order. From add to completion it has a place in
// the send queue; a message that is too long to go inline has a send buffer, too. A notification or a message
// costs a credit, of which the peer gives out as many as it has receives (receives.hpp). A notification is a
// write with immediate data, or, if one of the devices does not support that, a write and then a message.
//
// Whoever owns it completes what the device reports, and adds nothing more after an error. For the
// transport's thread only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "transport/transport.hpp"
#include "transport/verbs/device.hpp"
#include "transport/verbs/message.hpp"
#include "transport/verbs/send_queue.hpp"
#include "transport/verbs/windows.hpp"

namespace verbena::transport::verbs {

class Sender {
 public:
  static constexpr std::uint32_t kBuffers = 16;
  static constexpr std::uint32_t kReservedSends = 2;  // credits and an empty write must always find room

  /// Why a request can never be posted.
  struct Fault {
    OperationResult result;
    absl::Status status;
  };
  struct Submitted {
    std::uint32_t posted;  ///< how many work requests the device took
    int error;             ///< why it took no more; 0: it took all
  };

  /// Sends from the regions of `windows`. The references outlive it.
  Sender(const Device& device, const VerbsOptions& options, const Windows& windows, std::uint32_t serial);

  // What is known only when the connection comes about, before anything is added.
  /// REQUIRES: there are kBuffers, and they outlive the queue pair.
  void use(const BufferRow& buffers) { buffers_ = buffers; }
  void set_max_inline(std::uint32_t bytes) { max_inline_bytes_ = bytes; }
  /// `immediate`: both devices can write with immediate data.
  void set_peer(std::uint32_t credits, bool immediate) {
    credits_ = credits;
    immediate_ = immediate;
  }

  /// False if that is more than any peer may give.
  [[nodiscard]] bool take_credits(std::uint32_t count) {
    if (count > kMostCredits - credits_) return false;
    credits_ += count;
    return true;
  }

  /// Adds the requests in order, until there is no room for one, or one has a fault. added() says how many.
  std::optional<Fault> add(std::span<const WorkRequest> requests, const std::string& peer);
  /// Of the last add().
  [[nodiscard]] std::size_t added() const { return request_ends_.size(); }
  /// How many requests of the last add() so many work requests belong to. A request counts even if only a
  /// part of it is among them: that part will complete.
  [[nodiscard]] std::size_t begun(std::size_t work_requests) const;

  /// A message of this side's own, without payload. False if there is no buffer for it. REQUIRES: room() > 0.
  [[nodiscard]] bool add_own(MessageKind kind, std::uint32_t value, bool signaled) {
    return add_message(kind, value, {}, {.signaled = signaled});
  }
  /// An empty write. It proves that the peer's device answers, and frees the send queue up to here. REQUIRES:
  /// room() > 0.
  void add_probe() { append({.signaled = true}, {}, 0).opcode = IBV_WR_RDMA_WRITE; }
  /// Binds the window. REQUIRES: room() > 0.
  void add_bind(const Windows::Binding& binding);

  /// Posts what was added since the last call. The places of what the device does not take are free again.
  Submitted submit(ibv_qp* queue_pair) {
    const std::uint32_t count = std::exchange(prepared_, 0);
    if (count == 0) return {0, 0};
    for (std::uint32_t i = 0; i + 1 < count; ++i) requests_[i].next = &requests_[i + 1];
    requests_[count - 1].next = nullptr;
    ibv_send_wr* bad = nullptr;
    const int error = device_.api().post_send(queue_pair, requests_.data(), &bad);
    if (error == 0) return {count, 0};
    const bool known = bad >= requests_.data() && bad < requests_.data() + count;
    const auto posted = known ? static_cast<std::uint32_t>(bad - requests_.data()) : 0;
    queue_.drop_last(count - posted);
    return {posted, error};
  }

  /// What was added and has not completed.
  [[nodiscard]] const SendQueue& queue() const { return queue_; }
  [[nodiscard]] std::uint32_t room() const { return queue_.room(); }
  /// The oldest has completed. REQUIRES: there is one.
  SendQueue::Entry complete(bool ok) {
    const SendQueue::Entry entry = queue_.front();
    queue_.pop();
    if (entry.buffered) ++buffers_released_;
    // The failure of a request's first part is the failure of the request.
    if (!ok && entry.continued && !queue_.empty()) queue_.front().report_failure = false;
    return entry;
  }

 private:
  static constexpr std::uint32_t kMostCredits = 1U << 20U;  // the most that any peer may give

  [[nodiscard]] bool has_room_for(const WorkRequest& request) const;
  [[nodiscard]] std::optional<Fault> fault_of(const WorkRequest& request, const std::string& peer) const;
  void prepare(const WorkRequest& request);
  void prepare_transfer(const WorkRequest& request);
  bool add_message(MessageKind kind, std::uint32_t value, std::span<const std::byte> payload,
                   SendQueue::Entry entry);
  ibv_send_wr& append(const SendQueue::Entry& entry, std::span<const std::byte> local, std::uint32_t key);
  [[nodiscard]] bool has_buffer() const { return buffers_taken_ - buffers_released_ < kBuffers; }

  const Device& device_;
  const VerbsOptions& options_;
  const Windows& windows_;
  const std::uint32_t serial_;
  std::uint32_t max_inline_bytes_ = 0;
  bool immediate_ = false;

  SendQueue queue_;
  std::vector<ibv_send_wr> requests_;  ///< of one submit()
  std::vector<std::array<ibv_sge, 2>> pieces_;
  std::vector<MessageHeader> headers_;
  std::uint32_t prepared_ = 0;               ///< entries used in the three above
  std::vector<std::uint32_t> request_ends_;  ///< of one add(), counted in work requests
  std::uint32_t credits_ = 0;
  BufferRow buffers_;                   ///< used in turn
  std::uint32_t buffers_taken_ = 0;     ///< counted from the beginning
  std::uint32_t buffers_released_ = 0;  ///< counted from the beginning
};

}  // namespace verbena::transport::verbs
