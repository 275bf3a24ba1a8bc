#include "server/push_channel.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/return_if_error.hpp"

namespace verbena::server {

namespace {

absl::StatusOr<std::unique_ptr<transport::RingSender>> sender_to(transport::Transport& transport,
                                                                 transport::Connection& connection,
                                                                 const transport::RemoteDescriptor& ring) {
  auto sender = transport::RingSender::create(transport, connection);
  if (!sender.ok()) return sender.status();
  (*sender)->set_ring(ring);
  RETURN_IF_ERROR((*sender)->status());
  return sender;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PushChannel>> PushChannel::create(transport::Transport& transport,
                                                                 transport::Connection& connection,
                                                                 const transport::RemoteDescriptor& ring,
                                                                 std::size_t lanes) {
  auto sender = sender_to(transport, connection, ring);
  if (!sender.ok()) return sender.status();
  const std::size_t buffer_bytes = protocol::max_bulk_bytes((*sender)->capacity_bytes());
  auto memory =
      transport.allocate_region(lanes * Lane::kPushBuffers * buffer_bytes, transport::Access::kLocal);
  if (!memory.ok()) return memory.status();
  return std::unique_ptr<PushChannel>(
      new PushChannel(*std::move(sender), *std::move(memory), ring.length_bytes));
}

absl::Status PushChannel::reconnect(transport::Transport& transport, transport::Connection& connection,
                                    const transport::RemoteDescriptor& ring,
                                    absl::FunctionRef<void(std::uint32_t, PushBuffer*)> give_back) {
  auto sender = sender_to(transport, connection, ring);
  if (!sender.ok()) return sender.status();
  if (ring.length_bytes != ring_bytes_) {
    return absl::InvalidArgumentError(
        fmt::format("takes the place of a worker whose push ring had {} bytes with one of {}", ring_bytes_,
                    ring.length_bytes));
  }
  drop(give_back);
  for (; !in_flight_.empty(); in_flight_.pop_front())
    give_back(in_flight_.front().lane, in_flight_.front().buffer);
  ring_ = *std::move(sender);
  return absl::OkStatus();
}

void PushChannel::give_buffers_to(const Lanes& lanes, std::uint32_t worker) {
  if (!buffers_.empty()) return;
  const std::size_t count = lanes.size() * Lane::kPushBuffers;
  const std::size_t buffer_bytes = memory_->bytes().size() / count;
  buffers_.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    buffers_[i] = {.worker = worker,
                   .memory = memory_->bytes().subspan(i * buffer_bytes, buffer_bytes),
                   .region = memory_.get()};
    lanes[i / Lane::kPushBuffers]->add_push_buffer(&buffers_[i]);
  }
}

bool PushChannel::send(absl::FunctionRef<void(std::uint32_t, PushBuffer*)> give_back, absl::Status& status) {
  bool sent = false;
  while (!outgoing_.empty()) {
    Flight flight = outgoing_.front();
    const PushBuffer& buffer = *flight.buffer;
    if (ring_->try_send(buffer.memory.first(buffer.used_bytes), *buffer.region) !=
        transport::SendResult::kSent) {
      status = ring_->status();
      break;
    }
    flight.position = ring_->sent_position();
    outgoing_.pop_front();
    in_flight_.push_back(flight);
    sent = true;
  }
  while (!in_flight_.empty() && in_flight_.front().position <= ring_->reusable_position()) {
    const Flight flight = in_flight_.front();
    in_flight_.pop_front();
    give_back(flight.lane, flight.buffer);
  }
  return sent;
}

void PushChannel::drop(absl::FunctionRef<void(std::uint32_t, PushBuffer*)> give_back) {
  for (; !outgoing_.empty(); outgoing_.pop_front())
    give_back(outgoing_.front().lane, outgoing_.front().buffer);
}

}  // namespace verbena::server
