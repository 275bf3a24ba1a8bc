// One end of a connection. Its parts, each with a header of its own:
//
//   QueuePair    the queue pair, and the connection manager's identifier that connects it
//   Meeting      how it comes about: the connector's attempts, the acceptor's answer
//   Sender       what goes out: requests, send queue, send buffers, the credits that this side has
//   Receives     what comes in: posted receives, their buffers, the credits that the peer has coming
//   Grants       memory that the two ends let each other reach
//   AnswerWatch  whether the peer's device still answers
//   EventGate    the events on their way to the owner
//
// What is left here is what concerns several of them: the connection's state, which event goes to which part,
// what this side posts for itself, and the end.
//
// The connecting side begins with a message that introduces it, because iWARP does not let an acceptor speak
// first.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "transport/transport.hpp"
#include "transport/verbs/answer_watch.hpp"
#include "transport/verbs/event_gate.hpp"
#include "transport/verbs/grants.hpp"
#include "transport/verbs/hub.hpp"
#include "transport/verbs/manager_event.hpp"
#include "transport/verbs/meeting.hpp"
#include "transport/verbs/queue_pair.hpp"
#include "transport/verbs/receives.hpp"
#include "transport/verbs/sender.hpp"

namespace verbena::transport::verbs {

class VerbsConnection final : public Connection, public ManagerUser {
 public:
  /// Starts to connect to `address`, `destination`.
  VerbsConnection(Hub& hub, std::string address, const sockaddr_storage& destination, TimePoint deadline);
  /// Answers a request; nullptr if it was refused.
  static std::unique_ptr<VerbsConnection> accept(Hub& hub, const ManagerEvent& request);
  ~VerbsConnection() override;

  absl::StatusOr<RemoteDescriptor> grant(const MemoryRegion& region) override;
  [[nodiscard]] std::size_t do_post(std::span<const WorkRequest> requests) override;
  absl::StatusOr<RemoteDescriptor> grant_in_place(const MemoryRegion& region) override;
  const std::byte* mapped(const RemoteDescriptor& remote) override { return mapped_in_place(remote); }
  std::byte* mapped_in_place(const RemoteDescriptor& remote) override { return grants_.find(remote); }
  [[nodiscard]] const absl::Status& status() const override { return status_; }

  [[nodiscard]] bool connecting() const { return state_ == State::kConnecting; }
  /// Since when this side has waited for the answer of a listener that is there.
  [[nodiscard]] std::optional<TimePoint> asked_at() const { return meeting_.asked_at(); }

  /// Raises its events from now on.
  void take() { events_.open(); }

  void on_manager_event(const ManagerEvent& event) override;
  void on_completion(const ibv_wc& completion);
  void on_device_event(ibv_event_type type);

  /// Handles timers. Call it at intervals.
  void tick(TimePoint now);
  /// Posts what this side must post for itself: receives, credits, windows.
  void attend();
  /// The owner of the transport has seen an event that used `receive`.
  void release_receive(std::uint32_t receive);
  /// Raises kDisconnected when nothing is outstanding any more.
  void finish(TimePoint now);
  void fail(absl::Status status);

  [[nodiscard]] bool uses(const ibv_cq* cq) const { return queue_pair_.uses(cq); }
  [[nodiscard]] bool uses(const ibv_qp* qp) const { return queue_pair_.get() == qp; }

 private:
  enum class State : std::uint8_t { kConnecting, kOpen, kFailed };

  VerbsConnection(Hub& hub, Meeting::Role role);

  // Meeting.
  absl::Status create_queue_pair();
  absl::Status ask();
  absl::Status answer(const ManagerEvent& request);
  absl::Status take_answer(const ManagerEvent& event);
  void open();

  // Posting.
  /// Returns how many of the work requests since the last call the device took.
  std::size_t submit();
  void probe();
  void post_receives();
  void bind_windows();
  bool post_windows();
  void want_attention();

  // Completing.
  void on_send_completion(const ibv_wc& completion);
  void on_receive_completion(const ibv_wc& completion);
  void take_message(std::uint32_t receive, std::uint32_t bytes);
  void complete_front(OperationResult result);
  void learn_cause(ibv_wc_status status);
  void drain();

  Hub& hub_;
  const std::uint32_t serial_;
  State state_ = State::kConnecting;
  absl::Status status_;

  std::optional<RegisteredMemory> staging_;  ///< receive buffers, then send buffers
  Sender sender_;
  Receives receives_;
  QueuePair queue_pair_;
  Meeting meeting_;
  Grants grants_;
  AnswerWatch watch_;
  EventGate events_;
  bool wants_attention_ = false;

  std::optional<Event> refused_;  ///< completes last
  std::optional<TimePoint> failed_at_;
  bool disconnect_raised_ = false;
};

}  // namespace verbena::transport::verbs
