// What a session knows about one server: its connection, the rings between them, and what the server's lanes
// have told this worker.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "consistency/rules.hpp"
#include "protocol/messages.hpp"
#include "transport/attempt_limit.hpp"
#include "transport/heartbeat.hpp"
#include "transport/message_outbox.hpp"
#include "transport/message_ring.hpp"
#include "transport/token_bucket.hpp"
#include "transport/transport.hpp"
#include "worker/local_memory.hpp"
#include "worker/lookups.hpp"
#include "worker/sent_messages.hpp"

namespace verbena::worker {

/// What a lane has told this worker, and what this worker has told the lane.
struct LaneView {
  consistency::Clock min_clock = 0;           ///< all updates of clocks < min_clock are applied there
  consistency::Clock min_clock_at_start = 0;  ///< min_clock when this worker's clock began
  /// Of this worker's messages with updates.
  struct Updates {
    std::uint64_t applied = 0;  ///< how many are applied there
    std::uint64_t shipped = 0;  ///< how many this worker has sent
  };
  Updates at_once;                  ///< of tables whose updates are applied as they come
  Updates held;                     ///< of tables whose updates wait for the ends of clocks
  std::uint64_t subscriptions = 0;  ///< how many messages about subscriptions it has sent
  std::uint32_t open_calls = 0;     ///< of server functions: sent and not answered
  Lookups lookups;                  ///< of rows of sparse tables
};

/// Registered scratch for small messages to one server, reused when the transport has read it.
class SmallMessages {
 public:
  static constexpr std::size_t kSlotBytes = 512;
  static constexpr std::size_t kSlots = 32;

  absl::Status allocate(LocalMemory& memory);
  [[nodiscard]] bool is_allocated() const { return memory_.region != nullptr; }
  /// A free slot; empty if all are under way.
  [[nodiscard]] std::span<std::byte> slot(const transport::RingSender& ring);
  /// The slot that was just filled has been sent; its message ended at this position of the ring.
  void sent(std::uint64_t position);
  [[nodiscard]] const transport::MemoryRegion& region() const { return *memory_.region; }
  /// There is another ring.
  void begin_anew() { std::fill(positions_.begin(), positions_.end(), 0); }

 private:
  LocalSpan memory_;
  std::vector<std::uint64_t> positions_ = std::vector<std::uint64_t>(kSlots, 0);
  std::size_t next_ = 0;
};

/// The signaled reads of a connection that have not ended. They end in the order in which they were posted,
/// and when one ends, the unsignaled ones before it have ended, too.
class ReadsUnderWay {
 public:
  /// The number of a request that is not signaled.
  static constexpr std::uint64_t kUnsignaled = 0;

  /// The number that the next add() gives to its read.
  [[nodiscard]] std::uint64_t next_number() const { return last_ + 1; }
  /// A read has been posted. When it ends, `*left` is decremented.
  void add(std::shared_ptr<std::size_t> left) {
    left_.push_back(std::move(left));
    ++last_;
  }
  /// The read with that number has ended.
  void end(std::uint64_t number) {
    for (; !left_.empty() && number != kUnsignaled && last_ - left_.size() < number; left_.pop_front())
      --*left_.front();
  }
  [[nodiscard]] bool has_any() const { return !left_.empty(); }
  /// The connection has ended, and all its reads with it.
  void end_all() {
    for (; !left_.empty(); left_.pop_front()) --*left_.front();
  }

 private:
  std::deque<std::shared_ptr<std::size_t>> left_;  ///< of the reads with the last numbers, up to `last_`
  std::uint64_t last_ = 0;
};

struct ServerLink {
  ServerLink() = default;
  ServerLink(const ServerLink&) = delete;
  ServerLink& operator=(const ServerLink&) = delete;
  /// The connection ends first: what it has under way may be in the memory of the rings.
  ~ServerLink() { connection.reset(); }

  /// See mending.hpp.
  enum class State : std::uint8_t { kUp, kLost, kJoining };

  std::uint32_t server = 0;
  State state = State::kUp;
  std::unique_ptr<SentMessages> sent;  ///< nullptr: the link cannot be mended
  bool has_welcome = false;            ///< while it is kJoining
  transport::TimePoint lost_at;
  // Only time counts in which this worker has looked itself, as in transport::HeartbeatWatch.
  transport::Duration lost_for{0};        ///< since lost_at
  transport::Duration unanswered_for{0};  ///< by the process that is to serve now
  transport::TimePoint next_attempt;
  transport::AttemptLimit attempt;  ///< to reach attempted_address
  std::string attempted_address;
  std::string lost_address;
  std::deque<protocol::ControlMessage> unsaid;       ///< what the server is to be told when it is kUp
  std::unique_ptr<transport::HeartbeatWatch> watch;  ///< once welcomed; outlives the connection
  std::unique_ptr<transport::Connection> connection;
  std::unique_ptr<transport::RingSender> inbox;
  std::size_t inbox_bytes = 0;  ///< the ring's, once welcomed; the same on all copies of the server
  std::unique_ptr<transport::RingReceiver> push_ring;
  std::vector<LaneView> lanes;                      ///< empty before the server's welcome
  std::vector<transport::RemoteDescriptor> shards;  ///< by table
  std::vector<protocol::RegionAdded> regions;       ///< of the table that is being opened, if it is sparse
  ReadsUnderWay reads;
  SmallMessages small;
  bool reads_in_place = false;  ///< the server maps the memory that it is granted
  bool restores_rows = false;   ///< those of a node that dies come back
  std::optional<transport::TokenBucket> update_budget;
  transport::MessageOutbox control;
  std::size_t open_requests = 0;  ///< answers about dynamic tables that are still to come
  bool said_failed = false;       ///< the job has failed there
  bool said_goodbye = false;      ///< or is gone: it writes nothing into this worker's memory any more
  bool is_dead = false;           ///< it is gone, and the session goes on without it
  /// It broke the rules, or was not sent a hello: its messages and writes are ignored.
  bool is_refused = false;
  bool owes_word = false;  ///< lanes are to be told how much this worker has heard of what is gone
  /// It has rows whose readers wait for clocks, or there is no table yet.
  bool counts_clocks = true;
  consistency::Clock told_clock = 0;  ///< this worker's clock, as far as the server was told
  /// What told_clock was when this session began: the server has all of the clocks below it from processes
  /// that were this worker before.
  consistency::Clock former_clock = 0;

  /// Something can be sent to it, and read from it.
  [[nodiscard]] bool is_up() const { return state == State::kUp && !is_dead; }
};

}  // namespace verbena::worker
