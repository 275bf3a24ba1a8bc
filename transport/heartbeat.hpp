// Tells whether a peer's process still runs: the process counts in its own memory, and its peers read the
// counts one-sidedly.
//
// A stopped process (SIGSTOP, a debugger, a host that hangs) keeps its connections, and its adapter goes on
// answering for it; only what its own processor does shows that it runs. Each process therefore counts beats,
// in a thread that does nothing else: a worker that computes for hours between two calls of its session
// beats, a stopped one does not. A process that polls its connections all the time, as a server does, also
// counts its turns: that shows a thread that hangs in a process that runs.
//
// A watch looks at the counts of one peer at intervals: through the mapping if the peer's memory is mapped,
// else by a one-sided read. Over tcp, where no adapter answers, a stopped process leaves that without an
// answer: time in which it is awaited counts as silence, too. Only time counts in which it has looked itself.
// So a process that was stopped together with its peers, or has computed for a long time, does not mistake
// its own absence for theirs.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/transport.hpp"

namespace verbena::transport {

/// How often a process beats, and how often its peers look.
constexpr auto kBeatInterval = std::chrono::milliseconds(500);
/// No bound on silence may be smaller: a few late beats are not silence.
constexpr std::uint32_t kMinSilenceTimeoutMs = 2000;

/// INVALID_ARGUMENT unless it is 0, which is no bound, or at least kMinSilenceTimeoutMs.
absl::Status check_silence_timeout(std::uint32_t timeout_ms);

/// How long both sides of a connection that has broken wait for another one: as long as silence may last; 0:
/// some seconds.
[[nodiscard]] std::chrono::milliseconds mending_time(std::uint32_t silence_timeout_ms);

/// The heartbeat of this process. REQUIRES: the transport outlives it.
class Heartbeat {
 public:
  static constexpr std::size_t kBytes = 16;  ///< two words: beats, turns

  static absl::StatusOr<std::unique_ptr<Heartbeat>> create(Transport& transport);
  /// Lets the peer watch it.
  absl::StatusOr<RemoteDescriptor> grant(Connection& connection) const;
  /// The owner's thread has looked at its connections. Owner's thread only.
  void count_turn();

 private:
  explicit Heartbeat(std::unique_ptr<MemoryRegion> region) : region_(std::move(region)) {}

  std::unique_ptr<MemoryRegion> region_;
  std::uint64_t turns_ = 0;
  std::unique_ptr<Ticker> ticker_;  ///< destroyed before the memory in which it counts
};

/// Watches the heartbeat of one peer. REQUIRES: it outlives the connection.
class HeartbeatWatch {
 public:
  struct Bounds {
    Duration silence{0};  ///< without a beat
    Duration hanging{0};  ///< without a turn; 0: it need not take any
  };

  HeartbeatWatch(Transport& transport, const Bounds& bounds) : transport_(transport), bounds_(bounds) {}
  HeartbeatWatch(const HeartbeatWatch&) = delete;
  HeartbeatWatch& operator=(const HeartbeatWatch&) = delete;

  /// `counts` is the descriptor that the peer has sent. INVALID_ARGUMENT if it cannot be a heartbeat.
  absl::Status watch(Connection& connection, const RemoteDescriptor& counts);

  /// Call it again and again; it does something every kBeatInterval. UNAVAILABLE, with the peer's name, once
  /// the peer has been silent, or has hung, for too long; another error if there is no memory to watch it.
  absl::Status look(Connection& connection, TimePoint now);
  /// Takes any completion of the connection; returns true if it is the watch's own.
  bool on_completion(const Event& event);

 private:
  void wait_for_answer(TimePoint now);
  absl::Status see(Connection& connection, TimePoint now);
  void take(const std::uint64_t* counts, TimePoint seen_at);

  Transport& transport_;
  const Bounds bounds_;
  RemoteDescriptor counts_;
  const std::byte* mapped_ = nullptr;
  std::unique_ptr<MemoryRegion> landing_;  ///< used if the counts are not mapped
  bool is_reading_ = false;
  TimePoint posted_at_;
  TimePoint waited_at_;  ///< for its answer; the time until then is counted, or need not be
  TimePoint next_look_;
  bool has_seen_ = false;
  TimePoint seen_at_;
  std::uint64_t beats_ = 0;
  std::uint64_t turns_ = 0;
  Duration silent_{0};
  Duration hanging_{0};
};

}  // namespace verbena::transport
