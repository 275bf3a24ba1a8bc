#include "worker/joining.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "base/return_if_error.hpp"
#include "protocol/clock_board.hpp"

namespace verbena::worker {
namespace {

absl::Status watch(ServerLink& link, const protocol::Descriptor& heartbeat, const Ground& ground) {
  // A live server looks at its connections all the time; if it does not, it hangs.
  const transport::HeartbeatWatch::Bounds bounds{
      .silence = std::chrono::milliseconds(ground.options.silence_timeout_ms),
      .hanging = std::chrono::milliseconds(ground.options.timeout_ms)};
  link.watch = std::make_unique<transport::HeartbeatWatch>(ground.transport, bounds);
  return link.watch->watch(*link.connection, heartbeat.as<transport::RemoteDescriptor>());
}

absl::Status take_clock_board(ServerLink& link, const protocol::Descriptor& board, const Ground& ground) {
  const std::uint32_t workers = ground.options.workers;
  const std::size_t expected = link.server == 0 ? protocol::ClockBoard::bytes_for(workers) : 0;
  const bool is_granted = board != protocol::Descriptor{};
  if (is_granted && (board.length_bytes != expected || board.address % alignof(std::int64_t) != 0)) {
    return absl::InvalidArgumentError(
        fmt::format("welcomes with a clock board of {} bytes at {:#x}, expected {} at a multiple of 8",
                    board.length_bytes, board.address, expected));
  }
  if (link.server != 0) return absl::OkStatus();
  std::byte* const mapped =
      is_granted ? link.connection->mapped_in_place(board.as<transport::RemoteDescriptor>()) : nullptr;
  if (mapped != nullptr) {
    ground.lead.set_board(protocol::ClockBoard(mapped, workers), ground.options.rank,
                          std::max(ground.clock, link.former_clock));
    return absl::OkStatus();
  }
  if (ground.lead.is_limited()) {
    return absl::FailedPreconditionError(
        "welcomes without the clock board by which workers limit how far they are ahead");
  }
  // Another process is server 0 now, on another host. The board of the one before goes with its connection.
  ground.lead.forget_board();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<protocol::Hello> prepare_hello(ServerLink& link, const Ground& ground) {
  const SessionOptions& options = ground.options;
  auto push_ring =
      transport::RingReceiver::create(ground.transport, *link.connection, options.push_ring_bytes);
  if (!push_ring.ok()) return push_ring.status();
  auto inbox = transport::RingSender::create(ground.transport, *link.connection);
  if (!inbox.ok()) return inbox.status();
  link.push_ring = *std::move(push_ring);
  link.inbox = *std::move(inbox);
  if (!link.small.is_allocated()) RETURN_IF_ERROR(link.small.allocate(ground.memory));
  const auto heartbeat = ground.heartbeat.grant(*link.connection);
  if (!heartbeat.ok()) return heartbeat.status();
  if (options.update_budget_mb_per_s > 0)
    link.update_budget.emplace(options.update_budget_mb_per_s * 1e6, ground.transport.now());
  return protocol::Hello{.worker = options.rank,
                         .workers = options.workers,
                         .pid = static_cast<std::uint32_t>(::getpid()),
                         .server = link.server,
                         .servers = static_cast<std::uint32_t>(options.servers.size()),
                         .node = ground.node,
                         .configuration = ground.configuration,
                         .incarnation = options.incarnation,
                         .inbox_bytes = options.inbox_bytes,
                         .push_ring = protocol::Descriptor::of(link.push_ring->descriptor()),
                         .inbox_credit = protocol::Descriptor::of(link.inbox->credit_descriptor()),
                         .heartbeat = protocol::Descriptor::of(*heartbeat)};
}

absl::Status take_welcome(ServerLink& link, const protocol::Welcome& welcome, const Ground& ground) {
  const bool is_back = link.state == ServerLink::State::kJoining && !link.has_welcome;
  if (!link.lanes.empty() && !is_back) return absl::InvalidArgumentError("sent two welcomes");
  const bool is_new = link.lanes.empty();
  if (!is_new && (welcome.lanes != link.lanes.size() || welcome.inbox.length_bytes != link.inbox_bytes)) {
    return absl::InvalidArgumentError(
        fmt::format("welcomes with {} lanes and an inbox of {} bytes, in place of {} and {}", welcome.lanes,
                    welcome.inbox.length_bytes, link.lanes.size(), link.inbox_bytes));
  }
  if (welcome.inbox.length_bytes < protocol::kMinRingBytes) {
    return absl::InvalidArgumentError(fmt::format("welcomes with an inbox of {} bytes, expected at least {}",
                                                  welcome.inbox.length_bytes, protocol::kMinRingBytes));
  }
  if (is_new) link.told_clock = link.former_clock = welcome.clock;
  link.lanes.resize(welcome.lanes);
  // Updates for one that did not were put where nobody else can read.
  link.reads_in_place = welcome.reads_in_place && (is_new || link.reads_in_place);
  link.restores_rows = welcome.restores_rows;
  link.inbox_bytes = welcome.inbox.length_bytes;
  link.inbox->set_ring(welcome.inbox.as<transport::RemoteDescriptor>());
  if (!link.inbox->status().ok()) return link.inbox->status();
  link.push_ring->set_credit(welcome.push_credit.as<transport::RemoteDescriptor>());
  link.connection->set_peer_name(fmt::format("server {} (pid {})", link.server, welcome.pid));
  RETURN_IF_ERROR(take_clock_board(link, welcome.clock_board, ground));
  return watch(link, welcome.heartbeat, ground);
}

}  // namespace verbena::worker
