// One server of a job: connections to all workers, the shards, the lanes.
//
// Step-driven: poll() does a bounded piece of work and never blocks. Lanes may be driven by threads of their
// own (see driver.hpp); everything else here belongs to one thread, the transport's.
//
// A job is a fixed set of workers. When one of them dies or breaks the protocol, the job has failed: every
// worker is told why, and status() says it. (One that dies may be let go, see
// ServerOptions::outlives_workers; or another process takes its place, see replaces_workers. And where
// connections may break, one whose connection has ended has some time to connect again.) A worker that says
// goodbye holds nobody back from then on.
//
// Besides workers there may be observers, which ask what there is and call functions that change nothing.
// Whatever becomes of them, the job does not notice.
//
// It has many functions, one for each thing that may happen. What has a state of its own is a class: Shards,
// Backup, Chain, Lane, Reception, RegionDesk, SavingDesk, Succession, Opening, Observers, Strangers, and Peer
// with its AnswerQueue and PushChannel. What remains here is what connects them: events, messages, and how a
// job ends.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/compression.hpp"
#include "consistency/rules.hpp"
#include "protocol/clock_board.hpp"
#include "protocol/placement.hpp"
#include "server/absences.hpp"
#include "server/backup.hpp"
#include "server/chain.hpp"
#include "server/homes.hpp"
#include "server/image.hpp"
#include "server/job_view.hpp"
#include "server/lane.hpp"
#include "server/observers.hpp"
#include "server/opening.hpp"
#include "server/peer.hpp"
#include "server/reception.hpp"
#include "server/region_desk.hpp"
#include "server/saving_desk.hpp"
#include "server/shards.hpp"
#include "server/sparse_index.hpp"
#include "server/succession.hpp"
#include "server/table_shard.hpp"
#include "transport/heartbeat.hpp"
#include "transport/token_bucket.hpp"
#include "transport/transport.hpp"
#include <verbena/server.hpp>

namespace verbena::server {

class Server : private ShardHost,
               private Chain::Host,
               private Reception::Host,
               private Absences::Host,
               private Backup::Host {
 public:
  /// Listens. `transport` is used in place of the options' network, and must outlive the server.
  /// `keys_of_segment`: of sparse tables, see SparseIndex. `image_grain`: see there. INVALID_ARGUMENT for
  /// impossible options.
  static absl::StatusOr<std::unique_ptr<Server>> create(
      transport::Transport& transport, const ServerOptions& options,
      std::uint32_t keys_of_segment = SparseIndex::kUsualKeysOfSegment, const ImageGrain& image_grain = {});
  ~Server() override;

  [[nodiscard]] const ServerOptions& options() const { return options_; }
  /// Everything but the lanes. False if there was nothing to do.
  bool poll() {
    const bool received = receive();
    return send() || received;
  }
  // The two halves of poll(). Who drives the lanes in the same thread polls them in between: what they have
  // to say is then sent at once.
  bool receive();  ///< takes what has arrived: gives the lanes their tasks
  bool send();     ///< takes what the lanes have done: sends it, releases inboxes
  /// When poll() has something to do although nothing has arrived; TimePoint::max(): never.
  [[nodiscard]] transport::TimePoint next_poll() const;
  [[nodiscard]] const std::vector<std::unique_ptr<Lane>>& lanes() const { return lanes_; }
  [[nodiscard]] const Shards& shards() const { return shards_; }
  /// Called, from poll(), when a lane has got work. For drivers whose lanes have threads.
  void set_lane_waker(std::function<void(std::uint32_t lane)> waker) { wake_lane_ = std::move(waker); }
  /// From now on an image is made of what the server has now (image.hpp). False: not now, or, unless it
  /// `must`, it is better made later.
  bool begin_image(bool must) override;
  /// The image, once lanes have written its head: to be called again until it is there.
  std::optional<Image> take_image() override;
  /// Called, from poll(), when a worker is silent that somebody else can take the place of: it is to be
  /// ended. Without it, and if nobody can, the job fails.
  void set_suspect(std::function<void(std::uint32_t worker, const absl::Status& why)> suspect) {
    absences_.set_suspect(std::move(suspect));
  }
  // Also for them: lanes run at the same time as this thread, and may wait for it (`pause`: see RegionDesk);
  // they are about to end, and wait for nothing any more.
  void start_lane_threads(std::function<void()> pause = {}) { region_desk_.start_threads(std::move(pause)); }
  void end_lane_threads() { region_desk_.close(); }
  /// See RegionDesk::set_growth_watch().
  void set_growth_watch(std::function<void(std::chrono::nanoseconds)> watch) {
    region_desk_.set_growth_watch(std::move(watch));
  }

  /// OK until the job has failed.
  [[nodiscard]] const absl::Status& status() const { return status_; }
  /// Workers may come to it, as they may where it has no copies.
  [[nodiscard]] bool serves() const { return chain_.serves(); }
  /// What it has sent to the copy after it of what workers have said. For the transport's thread.
  [[nodiscard]] std::uint64_t bytes_to_copies() const { return chain_.bytes_to_copies(); }
  /// All workers have said goodbye, or the job has failed and all of them are gone. Peers that are not
  /// workers are not waited for.
  [[nodiscard]] bool finished() const;
  /// The server is to end, although the job has not. Tells workers, where a worker that loses its connection
  /// would look for this server for a while; status() is ABORTED then. False: there is nobody to be told.
  bool tell_of_stop();

 private:
  struct Intents {
    std::uint32_t worker = 0;
    protocol::KeyRequests requests;
  };

  Server(transport::Transport& transport, ServerOptions options,
         std::unique_ptr<transport::Heartbeat> heartbeat,
         std::unique_ptr<transport::MemoryRegion> clock_board_memory, std::uint32_t keys_of_segment,
         const ImageGrain& image_grain);

  void on_event(const transport::Event& event);
  void hear(Peer& peer);
  void on_message(Peer& peer, std::span<const std::byte> bytes);
  absl::Status on_back_up(Peer& peer, const protocol::BackUp& back_up);
  absl::Status take_back(Peer& worker);
  [[nodiscard]] bool is_told_later(const Peer& worker) const;
  absl::Status tell_tables_again(Peer& worker);
  void on_adopted(const WorkerMessage& record);
  [[nodiscard]] bool all_know_why() const;
  [[nodiscard]] bool waits_for_partings() const;
  absl::Status check_copies(TableShard& shard) const;
  static absl::Status check_rings(const Peer& peer, const TableShard& shard);
  static void list_announcements(Peer& peer, const TableShard& shard);
  [[nodiscard]] protocol::Observed observed() const;
  absl::Status on_open_table(Peer& peer, const protocol::OpenTable& open);
  absl::Status tell_opened(Peer& peer, const TableShard& shard);
  absl::Status announce(Peer& peer);
  [[nodiscard]] absl::StatusOr<protocol::ControlMessage> grant(const Peer& peer,
                                                               const Announcement& next) const;
  absl::Status resume(TableShard& shard);
  bool step_opening();
  void on_goodbye(Peer& peer);
  absl::Status on_end_iteration(Peer& peer, consistency::Clock clock);
  void tell_end_of_iteration(Peer& peer);
  absl::Status on_notification(Peer& peer, std::uint32_t notification);
  absl::Status on_bulk(Peer& peer, std::span<const std::byte> bytes);
  absl::Status go_by(Peer& peer, const protocol::BulkMessage& message, InboxMessage& inbox);
  static absl::StatusOr<protocol::BulkMessage> read_in_place(Peer& peer, const protocol::BulkMessage& place);
  absl::Status on_key_requests(Peer& peer, const protocol::KeyRequests& requests);
  void take_intents();
  absl::Status on_heard(Peer& peer, const protocol::BulkMessage& message, InboxMessage& inbox);
  absl::Status on_clock(Peer& peer, const protocol::BulkMessage& message, InboxMessage& inbox);
  void on_disconnected(Peer& peer);
  void on_failed(Peer& worker, const protocol::Failed& failed);
  [[nodiscard]] bool says_again(const Peer& worker) const;
  [[nodiscard]] bool holds_back_much() const;
  void dismiss_copies();
  void part_from(Peer& peer);

  absl::StatusOr<TableShard*> open_shard(const protocol::OpenTable& open);
  // ShardHost
  void enqueue(std::uint32_t lane, const LaneTask& task) override;
  absl::Status begin_call(std::uint32_t lane, std::uint32_t worker) override;
  absl::Status expect_answers(std::uint32_t worker, std::size_t more) override;
  base::Decompressor& decompressor() override { return decompressor_; }
  void order(std::uint32_t worker, const protocol::Census& census) override {
    reply(*workers_[worker], census);
  }
  Homes::Answers& key_answers() override { return key_answers_; }
  MessageAnswers& message_answers() override { return message_answers_; }

  // Chain::Host
  void reply(Peer& peer, const protocol::ControlMessage& message) override;
  Peer& add_peer(std::unique_ptr<transport::Connection> connection) override;
  void drop(Peer& peer) override;
  absl::StatusOr<transport::RemoteDescriptor> grant_heartbeat(transport::Connection& peer) override {
    return heartbeat_->grant(peer);
  }
  absl::Status go_by(const WorkerMessage& record) override;
  void serve() override;
  void begin_catching_up() override;
  [[nodiscard]] bool has_caught_up() const override;
  [[nodiscard]] bool acknowledges_at_once() const override;
  void all_have_come() override;
  void fail(const absl::Status& because) override;
  void step_aside(const absl::Status& because) override;
  void forget_image() override;
  absl::StatusOr<ImageBulk> load(std::string_view head) override;
  void go_on_from_image() override;
  // Backup::Host
  void attend(Peer& peer) override { to_do_.add(peer); }
  // Reception::Host
  void reject(Peer& peer, const absl::Status& because) override;
  void give_back(std::uint32_t lane, PushBuffer* buffer) override;
  void forget_nobodies() override { dropped_ = true; }
  [[nodiscard]] bool waits_for_connections() const override { return absences_.waits_for_connections(); }
  void break_with(Peer& worker) override;
  [[nodiscard]] bool has_loaded_tables_of(const Peer& worker) const override;
  absl::Status welcomed(Peer& worker, bool is_back) override;
  void replaced(Peer& worker) override;
  // Absences::Host
  [[nodiscard]] bool has_failed() const override { return !status_.ok(); }
  [[nodiscard]] bool has_rows_that_move() const override;
  [[nodiscard]] bool waits_for_workers() const override { return chain_.waits_for_workers(); }
  void go_on_without(Peer& worker, const absl::Status& why) override;

  void refill_budgets();
  bool try_again();
  void give_answers(std::uint32_t table);
  void send_answers(Peer& peer);
  void carry_out(RegionDesk::Order& order);
  void take_outgoing();
  bool look_after(Peer& peer);
  bool release_inbox(Peer& peer);
  bool send_outgoing(Peer& peer);
  bool drop_if_closed(Peer& peer);

  transport::Transport& transport_;
  const ServerOptions options_;
  const protocol::Placement placement_;
  std::unique_ptr<transport::Heartbeat> heartbeat_;
  std::unique_ptr<transport::MemoryRegion> clock_board_memory_;  ///< of server 0 only
  protocol::ClockBoard clock_board_;
  RegionDesk region_desk_;
  Shards shards_;
  Opening opening_;
  base::Decompressor decompressor_;
  // The answers to one message. They are members so that their memory stays.
  Homes::Answers key_answers_;
  MessageAnswers message_answers_;
  std::deque<transport::TokenBucket> push_budgets_;  ///< by worker; empty: no bound
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<Peer*> workers_;  ///< by rank; nullptr before hello
  Chain chain_;
  const JobView job_view_;
  SavingDesk saving_;
  Succession succession_;
  std::optional<Backup> backup_;  ///< if rows come back
  Observers observers_;
  Reception reception_;
  Absences absences_;
  Strangers strangers_;  ///< those of peers_ that are not workers
  PeerList to_do_;
  std::vector<Intents> intents_;  ///< heard in the last poll(), in their order
  std::vector<Intents> heeding_;  ///< what intents_ was when a poll() began
  std::array<transport::Event, 64>
      events_;                     ///< of one poll(): making them anew would cost more than the poll
  bool waits_for_reader_ = false;  ///< there are announcements for somebody who does not read
  bool dropped_ = false;           ///< a peer was dropped, in this poll()
  bool has_stepped_aside_ = false;
  absl::flat_hash_set<std::uint32_t> came_too_late_;  ///< ranks of workers that came after the job had failed
  transport::TimePoint serves_since_ = transport::TimePoint::min();  ///< if it is one of many copies
  Progress progress_;
  absl::Status lost_;  ///< why the first worker without a goodbye was let go
  const ImageGrain image_grain_;
  std::shared_ptr<LaneImages> lane_images_;  ///< that are being written, for a copy that joins
  std::string image_head_;                   ///< of the same moment
  consistency::Clock held_back_of_ = -1;     ///< the newest clock of which lanes have held back something
  std::vector<std::shared_ptr<const std::string>> images_of_lanes_;  ///< of an image that is being loaded
  /// How many lanes have not used what there was when this copy came to serve; nullptr: it has always served.
  std::shared_ptr<std::atomic<std::uint32_t>> lanes_behind_;
  std::function<void(std::uint32_t)> wake_lane_;
  absl::Status status_;
};

}  // namespace verbena::server
