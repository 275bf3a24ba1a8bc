#include "transport/verbs/sender.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "transport/inside.hpp"
#include "transport/verbs/remote_key.hpp"
#include "transport/verbs/work_request_id.hpp"

namespace verbena::transport::verbs {

Sender::Sender(const Device& device, const VerbsOptions& options, const Windows& windows,
               std::uint32_t serial)
    : device_(device),
      options_(options),
      windows_(windows),
      serial_(serial),
      queue_(device.send_depth()),
      requests_(device.send_depth()),
      pieces_(device.send_depth()),
      headers_(device.send_depth()) {}

ibv_send_wr& Sender::append(const SendQueue::Entry& entry, std::span<const std::byte> local,
                            std::uint32_t key) {
  const std::uint32_t number = queue_.push(entry);
  ibv_send_wr& request = requests_[prepared_];
  std::array<ibv_sge, 2>& pieces = pieces_[prepared_];
  ++prepared_;
  request = {};
  request.wr_id = send_id(serial_, number);
  request.sg_list = pieces.data();
  request.num_sge = local.empty() ? 0 : 1;
  request.send_flags = entry.signaled ? static_cast<unsigned>(IBV_SEND_SIGNALED) : 0U;
  pieces[0] = {.addr = reinterpret_cast<std::uintptr_t>(local.data()),
               .length = static_cast<std::uint32_t>(local.size()),
               .lkey = key};
  return request;
}

bool Sender::add_message(MessageKind kind, std::uint32_t value, std::span<const std::byte> payload,
                         SendQueue::Entry entry) {
  const MessageHeader header = {.kind = kind, .value = value};
  const std::size_t bytes = sizeof(header) + payload.size();
  if (bytes <= max_inline_bytes_) {
    MessageHeader& kept = headers_[prepared_];
    kept = header;
    entry.signaled = entry.signaled || queue_.must_signal();
    ibv_send_wr& request = append(entry, std::as_bytes(std::span(&kept, 1)), 0);
    request.opcode = IBV_WR_SEND;
    request.send_flags |= IBV_SEND_INLINE;
    if (!payload.empty()) {
      request.sg_list[1] = {.addr = reinterpret_cast<std::uintptr_t>(payload.data()),
                            .length = static_cast<std::uint32_t>(payload.size()),
                            .lkey = 0};
      request.num_sge = 2;
    }
    return true;
  }
  if (!has_buffer()) return false;
  const std::span<std::byte> buffer = buffers_.at(buffers_taken_++ % kBuffers).first(bytes);
  std::memcpy(buffer.data(), &header, sizeof(header));
  if (!payload.empty()) std::memcpy(buffer.data() + sizeof(header), payload.data(), payload.size());
  entry.buffered = true;
  entry.signaled = true;  // there are few buffers
  append(entry, buffer, buffers_.key).opcode = IBV_WR_SEND;
  return true;
}

void Sender::add_bind(const Windows::Binding& binding) {
  ibv_send_wr& request = append({.bind = true, .signaled = true}, {}, 0);
  request.opcode = IBV_WR_BIND_MW;
  request.bind_mw.mw = binding.window;
  request.bind_mw.rkey = binding.key;
  request.bind_mw.bind_info = {
      .mr = binding.region->registration(),
      .addr = reinterpret_cast<std::uintptr_t>(binding.region->bytes().data()),
      .length = binding.region->bytes().size(),
      .mw_access_flags = static_cast<unsigned>(remote_right(binding.region->access()))};
}

std::optional<Sender::Fault> Sender::fault_of(const WorkRequest& request, const std::string& peer) const {
  const std::size_t bytes = request.local.size();
  if (request.opcode == Opcode::kSend) {
    if (bytes <= options_.max_message_bytes) return std::nullopt;
    return Fault{
        OperationResult::kDeviceError,
        absl::InternalError(fmt::format("{}: a message of {} bytes was posted to it; at most {} can be", peer,
                                        bytes, options_.max_message_bytes))};
  }
  if (bytes == 0) return std::nullopt;
  const auto* region = dynamic_cast<const VerbsRegion*>(request.region);
  if (region == nullptr || &region->owner() != &windows_ || !is_inside(request.local, region->bytes())) {
    return Fault{OperationResult::kAccessDenied,
                 absl::PermissionDeniedError(
                     fmt::format("{}: a request was posted to it whose local bytes are in no region", peer))};
  }
  if (request.remote.length_bytes < bytes) {
    return Fault{OperationResult::kAccessDenied,
                 absl::PermissionDeniedError(fmt::format(
                     "{}: {} bytes are not allowed there: no such region, or too short", peer, bytes))};
  }
  if (bytes > device_.max_transfer_bytes()) {
    return Fault{
        OperationResult::kDeviceError,
        absl::InternalError(fmt::format("{}: a request of {} bytes was posted to it; {} moves {} at once",
                                        peer, bytes, device_.name(), device_.max_transfer_bytes()))};
  }
  return std::nullopt;
}

bool Sender::has_room_for(const WorkRequest& request) const {
  const bool send = request.opcode == Opcode::kSend;
  const bool notify = request.opcode == Opcode::kWriteNotify;
  if (queue_.room() < kReservedSends + 2 || ((send || notify) && credits_ == 0)) return false;
  const std::size_t message_bytes = sizeof(MessageHeader) + (send ? request.local.size() : 0);
  const bool takes_buffer = (send || (notify && !immediate_)) && message_bytes > max_inline_bytes_;
  return !takes_buffer || has_buffer();
}

void Sender::prepare_transfer(const WorkRequest& request) {
  const bool notify = request.opcode == Opcode::kWriteNotify;
  const bool two_requests = notify && !immediate_;
  const bool signaled = request.signaled && !two_requests;
  // An empty read brings no bytes back: an empty write takes its place.
  const bool read = request.opcode == Opcode::kRead && !request.local.empty();
  const std::uint32_t key =
      request.local.empty() ? 0 : static_cast<const VerbsRegion*>(request.region)->local_key();
  ibv_send_wr& transfer = append({.id = request.id,
                                  .report_success = signaled,
                                  .report_failure = true,
                                  .continued = two_requests,
                                  .read = read,
                                  .signaled = signaled || queue_.must_signal()},
                                 request.local, key);
  transfer.wr.rdma.remote_addr = request.remote.address;
  transfer.wr.rdma.rkey = device_key(request.remote);
  transfer.opcode = read                      ? IBV_WR_RDMA_READ
                    : notify && !two_requests ? IBV_WR_RDMA_WRITE_WITH_IMM
                                              : IBV_WR_RDMA_WRITE;
  transfer.imm_data = ::htonl(request.notification);
  // The data to write may be what an earlier read brings: so do not copy it now, and do not overtake the
  // read.
  if (!read) {
    if (queue_.reads() > 0) {
      transfer.send_flags |= IBV_SEND_FENCE;
    } else if (!request.local.empty() && request.local.size() <= max_inline_bytes_) {
      transfer.send_flags |= IBV_SEND_INLINE;
    }
  }
  if (!two_requests) return;
  add_message(MessageKind::kNotification, request.notification, {},
              {.id = request.id,
               .report_success = request.signaled,
               .report_failure = true,
               .signaled = request.signaled});
}

// REQUIRES: there is room for the request, and it has no fault.
void Sender::prepare(const WorkRequest& request) {
  if (request.opcode == Opcode::kSend || request.opcode == Opcode::kWriteNotify) --credits_;
  if (request.opcode != Opcode::kSend) return prepare_transfer(request);
  add_message(MessageKind::kMessage, 0, request.local,
              {.id = request.id,
               .report_success = request.signaled,
               .report_failure = true,
               .signaled = request.signaled});
  // A message overtakes an earlier read unless it has a fence.
  if (queue_.reads() > 0) requests_[prepared_ - 1].send_flags |= IBV_SEND_FENCE;
}

std::optional<Sender::Fault> Sender::add(std::span<const WorkRequest> requests, const std::string& peer) {
  request_ends_.clear();
  std::optional<Fault> fault;
  for (const WorkRequest& request : requests) {
    if (!has_room_for(request)) break;
    fault = fault_of(request, peer);
    if (fault) break;
    prepare(request);
    request_ends_.push_back(prepared_);
  }
  return fault;
}

std::size_t Sender::begun(std::size_t work_requests) const {
  const auto first_incomplete = std::upper_bound(request_ends_.begin(), request_ends_.end(), work_requests);
  const auto complete = static_cast<std::size_t>(first_incomplete - request_ends_.begin());
  const std::size_t complete_end = complete == 0 ? 0 : request_ends_[complete - 1];
  return complete + (work_requests > complete_end ? 1 : 0);
}

}  // namespace verbena::transport::verbs
