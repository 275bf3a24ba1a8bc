// What lies between two nodes: memory, requests under way, both ends of a link. Only the simulated network's
// own sources include this file.
#pragma once

#include <sanitizer/asan_interface.h>  // its macros do nothing without the sanitizer
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/simulation/network.hpp"
#include "transport/transport.hpp"

namespace verbena::simulation {

inline constexpr std::size_t kPageBytes = 4096;
inline constexpr std::size_t kMaxMessageBytes = 4096;

/// Memory pages of a node. They exist as long as anyone maps them.
struct Memory {
  Memory(std::byte* memory, std::size_t size, transport::Access rights)
      : data(memory), bytes(size), access(rights) {
    // The rest of the last page is out of bounds, too.
    ASAN_POISON_MEMORY_REGION(data + bytes, mapped_bytes(bytes) - bytes);
  }
  ~Memory() {
    ASAN_UNPOISON_MEMORY_REGION(data, mapped_bytes(bytes));
    ::munmap(data, mapped_bytes(bytes));
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  /// `size` rounded up to whole pages.
  static std::size_t mapped_bytes(std::size_t size) {
    return std::max(kPageBytes, (size + kPageBytes - 1) / kPageBytes * kPageBytes);
  }
  [[nodiscard]] bool holds(std::uint64_t address, std::size_t size) const {
    const auto start = reinterpret_cast<std::uintptr_t>(data);
    return address >= start && address - start <= bytes && size <= bytes - (address - start);
  }

  std::byte* const data;
  const std::size_t bytes;
  const transport::Access access;
  bool alive = true;
};

struct Request {
  transport::WorkRequest work;
  std::uint64_t number = 0;
  std::shared_ptr<Memory> local;   ///< nullptr for messages
  std::shared_ptr<Memory> remote;  ///< set when the request has begun
  std::vector<std::byte> copy;     ///< of the local memory, once the request has left it
  std::uint32_t lots = 0;
  std::vector<std::uint8_t> lot_of_line;
  TimePoint arrival;
  bool copied = false;
  bool may_leave = false;  ///< completes when all before it have
  bool completed = false;  ///< its completion is raised, if it has one
  bool arrived = false;    ///< all its bytes are where they belong

  /// Its place in the queue is free after the next poll.
  [[nodiscard]] bool has_ended() const { return completed && arrived; }
};

struct Grant {
  std::uint64_t key = 0;
  std::shared_ptr<Memory> memory;
  bool in_place = false;  ///< the peer may change the memory in place
};

/// One side's half of a link.
struct End {
  SimulatedTransport* node = nullptr;         ///< nullptr: closed
  SimulatedConnection* connection = nullptr;  ///< nullptr: not taken yet, or closed
  std::uint32_t card = 0;                     ///< the node's card, if there are cards
  bool failed = false;
  transport::OperationResult failure = transport::OperationResult::kOk;
  const char* reason = "";
  bool refused = false;                         ///< has taken fewer requests than it was given
  bool touched = false;                         ///< is in its node's list of ends to look at
  std::vector<Grant> grants;                    ///< to the peer
  std::uint32_t untaken_grants = 0;             ///< since the peer has polled last
  std::uint64_t peer_polls = 0;                 ///< how often it had polled then
  std::vector<std::shared_ptr<Memory>> mapped;  ///< of the peer
  std::deque<Request> requests;                 ///< by number
  std::uint64_t next_number = 0;
  TimePoint last_begin, last_completion;
  TimePoint last_arrival;  ///< nothing posted later arrives before this
  TimePoint last_read;     ///< a later write becomes visible after this: an earlier read must not see it
  std::deque<std::pair<transport::Event, std::string>>
      held;  ///< events of a connection that is not taken yet

  [[nodiscard]] bool closed() const { return node == nullptr; }
  Request* find(std::uint64_t number) {
    if (requests.empty() || number < requests.front().number) return nullptr;
    const auto index = static_cast<std::size_t>(number - requests.front().number);
    return index < requests.size() ? &requests[index] : nullptr;
  }
};

struct Link {
  std::array<End, 2> ends;  ///< [0] is the side that connected, [1] the one that listened
  bool broken = false;      ///< nothing moves any more
  [[nodiscard]] bool leads_to(std::uint8_t side) const {
    return !broken && !ends[side].closed() && !ends[side].failed;
  }
};

/// The owner's handle on its memory.
class SimulatedRegion final : public transport::MemoryRegion {
 public:
  SimulatedRegion(Network& network, std::shared_ptr<Memory> memory)
      : MemoryRegion({memory->data, memory->bytes}, memory->access),
        network_(network),
        memory_(std::move(memory)) {}
  ~SimulatedRegion() override;
  [[nodiscard]] const std::shared_ptr<Memory>& memory() const { return memory_; }

 private:
  Network& network_;
  std::shared_ptr<Memory> memory_;
};

class SimulatedConnection final : public transport::Connection {
 public:
  SimulatedConnection(Network& network, std::shared_ptr<Link> link, std::uint8_t side, TaskId task)
      : network_(network), link_(std::move(link)), side_(side), task_(task) {}
  ~SimulatedConnection() override;

  absl::StatusOr<transport::RemoteDescriptor> grant(const transport::MemoryRegion& region) override;
  std::size_t do_post(std::span<const transport::WorkRequest> requests) override;
  const std::byte* mapped(const transport::RemoteDescriptor& remote) override;
  absl::StatusOr<transport::RemoteDescriptor> grant_in_place(const transport::MemoryRegion& region) override;
  std::byte* mapped_in_place(const transport::RemoteDescriptor& remote) override;
  [[nodiscard]] const absl::Status& status() const override { return status_; }

  /// Shows the owner what has happened to the link since the last call. Returns whether the link has failed.
  bool refresh();

 private:
  End& end() { return link_->ends[side_]; }
  std::byte* locate(const transport::RemoteDescriptor& remote, bool in_place);

  Network& network_;
  std::shared_ptr<Link> link_;
  const std::uint8_t side_;
  const TaskId task_;
  absl::Status status_;
};

/// A ticker of a node. It ticks when somebody looks at the network, because only then can anybody see a tick.
class SimulatedTicker final : public transport::Ticker {
 public:
  SimulatedTicker(Network& network, const SimulatedTransport& node, Duration interval,
                  std::function<void()> tick);
  ~SimulatedTicker() override;

  /// Makes all ticks that have come due since the last call, at once.
  void tick(TimePoint now);
  [[nodiscard]] TimePoint due() const { return due_; }

 private:
  Network& network_;
  const SimulatedTransport& node_;
  const Duration interval_;
  const std::function<void()> tick_;
  TimePoint due_;
};

}  // namespace verbena::simulation
