// One end of a connection: a queue pair, and the connection manager's identifier that connects it.
//
// Receives. Notifications and messages each use up a receive that the other side has posted.
// Receiver-not-ready never happens, because a side sends only as many as it has credits. It starts with as
// many credits as the peer has receives (VerbsOptions::receive_depth), and the peer returns credits by a
// separate message as soon as half of them were used. This message uses one of kReservedReceives: the second
// can follow only when the other half was used, the third only when the first was taken, so there are never
// more than two under way, plus the hello. Queue pairs share no receives: each needs its credits in full, and
// iWARP ends a connection that finds no receive.
//
// On the wire a message is a header of 8 bytes and the payload. A notification is a write with immediate
// data, or, if one of the devices does not support that, a write and then a message.
//
// The connecting side begins with a message that introduces it, because iWARP does not let an acceptor speak
// first.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "transport/transport.hpp"
#include "transport/verbs/completion_queues.hpp"
#include "transport/verbs/device.hpp"
#include "transport/verbs/introduction.hpp"
#include "transport/verbs/neighbours.hpp"
#include "transport/verbs/send_queue.hpp"
#include "transport/verbs/windows.hpp"

namespace verbena::transport::verbs {

class VerbsConnection;

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

/// What the connections of a transport share. For the transport's thread only.
struct Hub {
  struct Pending {
    Event event;
    std::optional<std::uint32_t> receive;  ///< to be posted again after the event was seen
  };

  const VerbsOptions& options;
  Device& device;
  Windows& windows;
  CompletionQueues& queues;
  rdma_event_channel* channel;
  Gatekeeper& gatekeeper;
  Neighbours& neighbours;
  std::function<void()> check_device;  ///< handles the pending events of the device and the manager at once

  absl::flat_hash_map<std::uint32_t, VerbsConnection*> connections = {};  ///< by serial number
  std::vector<VerbsConnection*> attention = {};                           ///< their attend() must be called
  std::deque<Pending> ready = {};
  std::vector<RegisteredMemory> retired = {};  ///< messages may lie there until the next poll()
  std::uint32_t last_serial = 0;
  std::uint64_t activity = 0;  ///< grows with everything that a waiting owner may have waited for
  std::uint32_t failed = 0;    ///< connections that have not raised kDisconnected
  bool port_down = false;
};

class VerbsConnection final : public Connection, public ManagerUser {
 public:
  /// Starts to connect to `address`, `destination`.
  VerbsConnection(Hub& hub, std::string address, const sockaddr_storage& destination, TimePoint deadline);
  /// Answers a request; nullptr if it was refused.
  static std::unique_ptr<VerbsConnection> accept(Hub& hub, const ManagerEvent& request);
  ~VerbsConnection() override;

  absl::StatusOr<RemoteDescriptor> grant(const MemoryRegion& region) override;
  [[nodiscard]] std::size_t post(std::span<const WorkRequest> requests) override;
  absl::StatusOr<RemoteDescriptor> grant_in_place(const MemoryRegion& region) override;
  const std::byte* mapped(const RemoteDescriptor& remote) override { return mapped_in_place(remote); }
  std::byte* mapped_in_place(const RemoteDescriptor& remote) override;
  [[nodiscard]] const absl::Status& status() const override { return status_; }

  [[nodiscard]] bool connecting() const { return state_ == State::kConnecting; }
  /// Since when this side has waited for the answer of a listener that is there.
  [[nodiscard]] std::optional<TimePoint> asked_at() const { return asked_at_; }

  /// Raises its events from now on.
  void take();

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

  [[nodiscard]] bool failed() const { return state_ == State::kFailed; }
  [[nodiscard]] bool uses(const ibv_cq* cq) const { return queue_ != nullptr && queue_->cq == cq; }
  [[nodiscard]] bool uses(const ibv_qp* qp) const { return qp_ == qp; }

 private:
  enum class State : std::uint8_t { kConnecting, kOpen, kFailed };
  enum class Role : std::uint8_t { kConnector, kAcceptor };
  enum class MessageKind : std::uint32_t { kMessage = 1, kNotification = 2, kCredits = 3, kIntroduction = 4 };
  struct MessageHeader {
    MessageKind kind;
    std::uint32_t value;
  };
  static_assert(sizeof(MessageHeader) == 8);
  struct Fault {
    OperationResult result;
    absl::Status status;
  };

  VerbsConnection(Hub& hub, Role role);

  // Meeting.
  void start_attempt();
  void abandon_attempt(std::string obstacle);
  absl::Status ask();
  void prepare_opening();
  absl::Status answer(const ManagerEvent& request);
  absl::Status take_answer(const ManagerEvent& event);
  void take_refusal(const ManagerEvent& event);
  void take_challenge(const Refusal& challenge);
  rdma_conn_param parameters(std::span<const std::byte> data) const;
  void open();
  Neighbour* neighbour();

  // The queue pair.
  absl::Status create_queue_pair();
  absl::StatusOr<ibv_qp*> create_queue_pair(ibv_qp_init_attr& attributes);
  absl::Status create_staging();
  void destroy_queue_pair();
  absl::Status move_to(ibv_qp_state state, const ManagerEvent* request);
  void destroy_id();

  // Posting.
  void prepare(const WorkRequest& request);
  void prepare_transfer(const WorkRequest& request);
  [[nodiscard]] bool has_room_for(const WorkRequest& request) const;
  [[nodiscard]] std::optional<Fault> fault_of(const WorkRequest& request) const;
  bool add_message(MessageKind kind, std::uint32_t value, std::span<const std::byte> payload,
                   SendQueue::Entry entry);
  ibv_send_wr& add(const SendQueue::Entry& entry, std::span<const std::byte> local, std::uint32_t key);
  /// Returns how many of the work requests since the last call the device took.
  std::size_t submit();
  void probe();
  void post_receives();
  void bind_windows();
  bool post_windows();
  void want_attention();

  // Completing.
  void on_send_completion(const ibv_wc& completion, std::uint32_t number);
  void on_receive_completion(const ibv_wc& completion, std::uint32_t receive);
  void take_message(std::uint32_t receive, std::uint32_t bytes);
  void complete_front(OperationResult result);
  void learn_cause(ibv_wc_status status);
  void raise(const Event& event, std::optional<std::uint32_t> receive = std::nullopt);
  void drain();

  [[nodiscard]] std::span<std::byte> receive_buffer(std::uint32_t receive) const;
  [[nodiscard]] std::span<std::byte> send_buffer(std::uint32_t number) const;
  [[nodiscard]] std::uint32_t receives() const { return hub_.device.receive_depth() + kReservedReceives; }
  [[nodiscard]] std::size_t buffer_bytes() const;
  [[nodiscard]] const VerbsApi& api() const { return hub_.device.api(); }

  Hub& hub_;
  const Role role_;
  State state_ = State::kConnecting;
  const std::uint32_t serial_;
  absl::Status status_;

  std::string address_;  ///< of the listener
  sockaddr_storage destination_{};
  TimePoint deadline_;
  TimePoint next_attempt_;
  Duration attempt_pause_;
  std::optional<TimePoint> asked_at_;
  std::string obstacle_;  ///< why the last attempt failed
  Opening opening_;       ///< the connector's; at the connector: of the last attempt
  bool answers_ = false;  ///< the next attempt answers a challenge, which is in opening_

  rdma_cm_id* id_ = nullptr;
  ibv_qp* qp_ = nullptr;
  CompletionQueue* queue_ = nullptr;
  std::uint32_t max_inline_bytes_ = 0;
  bool immediate_ = false;

  SendQueue sends_;
  std::vector<ibv_send_wr> requests_;  ///< of one submit()
  std::vector<std::array<ibv_sge, 2>> pieces_;
  std::vector<MessageHeader> headers_;
  std::uint32_t prepared_ = 0;               ///< entries used in the three above
  std::vector<std::uint32_t> request_ends_;  ///< of one post(), counted in work requests
  std::uint32_t binds_ = 0;                  ///< among sends_
  std::uint32_t reads_ = 0;                  ///< among sends_
  std::uint32_t send_credits_ = 0;
  std::uint32_t buffers_taken_ = 0;     ///< send buffers, counted from the beginning
  std::uint32_t buffers_released_ = 0;  ///< send buffers, counted from the beginning

  std::optional<RegisteredMemory> staging_;  ///< receive buffers, then send buffers
  std::vector<std::uint32_t> free_receives_;
  std::vector<ibv_recv_wr> receive_requests_;  ///< of one post_receives()
  std::vector<ibv_sge> receive_pieces_;
  std::uint32_t posted_receives_ = 0;
  std::uint32_t owed_credits_ = 0;
  std::vector<Windows::Binding> unbound_;  ///< windows that were granted and are not bound yet
  std::unique_ptr<Neighbour> neighbour_;   ///< if the peer is on this host and has come
  bool wants_attention_ = false;

  std::deque<Hub::Pending> held_;  ///< events, until take()
  bool taken_ = false;
  std::optional<Event> refused_;  ///< completes last
  std::optional<TimePoint> failed_at_;
  bool disconnect_raised_ = false;

  std::uint64_t completions_ = 0;
  std::uint64_t completions_at_tick_ = 0;
  TimePoint last_tick_;
  TimePoint alive_at_;  ///< when the peer's device was known to be alive, as of the last tick
  std::optional<TimePoint> waiting_since_;  ///< for the device to report something
};

}  // namespace verbena::transport::verbs
