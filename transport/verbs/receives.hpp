// The receives of a connection: which are posted, which are free to be posted again, and how many credits the
// peer has coming for them.
//
// Notifications and messages each use up a receive that the other side has posted. Receiver-not-ready never
// happens, because a side sends only as many as it has credits. It starts with as many credits as the peer
// has receives (VerbsOptions::receive_depth), and the peer returns credits by a separate message as soon as
// half of them were used. This message uses one of kReservedReceives: the second can follow only when the
// other half was used, the third only when the first was taken, so there are never more than two under way,
// plus the hello. Queue pairs share no receives: each needs its credits in full, and iWARP ends a connection
// that finds no receive.
//
// A receive is posted, then taken (it completed), then given back by return_counted() or return_reserved(),
// which makes it free. Its buffer holds a message from the first to the last of these.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "transport/verbs/message.hpp"
#include "transport/verbs/verbs_api.hpp"

namespace verbena::transport::verbs {

class Receives {
 public:
  Receives(std::uint32_t serial, std::uint32_t count) : serial_(serial), count_(count) {}

  /// With the reserved ones.
  [[nodiscard]] std::uint32_t count() const { return count_; }
  /// REQUIRES: it has as many buffers as there are receives, and they outlive the queue pair.
  void use(const BufferRow& buffers) { buffers_ = buffers; }
  [[nodiscard]] std::span<std::byte> buffer(std::uint32_t receive) const { return buffers_.at(receive); }

  /// There is a new queue pair, or will be: all are free. REQUIRES: no queue pair uses the buffers.
  void restart();
  /// Posts all that are free. Returns the device's error, or 0; after an error those that it did not take are
  /// lost.
  int post(const VerbsApi& api, ibv_qp* queue_pair);

  /// The device has completed it. False if that cannot be.
  [[nodiscard]] bool take(std::uint32_t receive) {
    if (posted_ == 0 || receive >= count_) return false;
    --posted_;
    return true;
  }
  /// It brought what cost the peer a credit, and the owner has seen that.
  void return_counted(std::uint32_t receive) {
    free_.push_back(receive);
    ++owed_credits_;
  }
  /// It brought what costs no credit.
  void return_reserved(std::uint32_t receive) { free_.push_back(receive); }

  [[nodiscard]] std::uint32_t posted() const { return posted_; }
  [[nodiscard]] std::uint32_t owed_credits() const { return owed_credits_; }
  /// They are on their way to the peer.
  void credits_sent() { owed_credits_ = 0; }

 private:
  const std::uint32_t serial_;
  const std::uint32_t count_;
  BufferRow buffers_;
  std::vector<std::uint32_t> free_;
  std::vector<ibv_recv_wr> requests_;  ///< of one post()
  std::vector<ibv_sge> pieces_;        ///< of one post()
  std::uint32_t posted_ = 0;
  std::uint32_t owed_credits_ = 0;
};

}  // namespace verbena::transport::verbs
