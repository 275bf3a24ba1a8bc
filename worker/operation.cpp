#include "worker/operation.hpp"

#include <utility>

#include "absl/container/inlined_vector.h"
#include "transport/request_id.hpp"
#include "worker/server_link.hpp"

namespace verbena::worker {

using transport::RequestId;

void RemoteReads::add(ServerLink& link, const transport::RemoteDescriptor& from, std::span<std::byte> to,
                      const LocalSpan& memory) {
  if (!unposted_.empty() && unposted_.back().link == &link) {
    transport::WorkRequest& last = unposted_.back().request;
    if (last.region == memory.region && last.local.data() + last.local.size() == to.data() &&
        last.remote.key == from.key && last.remote.address + last.local.size() == from.address) {
      last.local = {last.local.data(), last.local.size() + to.size()};
      last.remote.length_bytes = last.local.size();
      return;
    }
  }
  unposted_.push_back({.link = &link,
                       .request = {.opcode = transport::Opcode::kRead,
                                   .id = RequestId(RequestId::Of::kRead, ReadsUnderWay::kUnsignaled).bits(),
                                   .local = to,
                                   .region = memory.region,
                                   .remote = {from.address, to.size(), from.key}}});
}

bool RemoteReads::post() {
  constexpr std::size_t kMostAtOnce = 16;
  while (!unposted_.empty()) {
    ServerLink& link = *unposted_.front().link;
    if (!link.is_up()) {
      // Unsignaled reads that were posted to it need no end: a failed connection brings nothing any more.
      unposted_.pop_front();
      continue;
    }
    absl::InlinedVector<transport::WorkRequest, kMostAtOnce> requests;
    for (const Read& read : unposted_) {
      if (requests.size() == kMostAtOnce || read.link != &link) break;
      requests.push_back(read.request);
    }
    // A connection's reads end in order. If it takes only some of these requests, their end is seen with that
    // of the rest.
    requests.back().signaled = true;
    requests.back().id = RequestId(RequestId::Of::kRead, link.reads.next_number()).bits();
    const std::size_t taken = link.connection->post(requests);
    unposted_.erase(unposted_.begin(), unposted_.begin() + static_cast<std::ptrdiff_t>(taken));
    if (taken < requests.size()) break;
    if (signaled_ == nullptr) signaled_ = std::make_shared<std::size_t>(0);
    ++*signaled_;
    link.reads.add(signaled_);
  }
  return unposted_.empty() && (signaled_ == nullptr || *signaled_ == 0);
}

void Operation::set_keys(const Keys& to) {
  if (to.is_range()) {
    keys = to;
  } else {
    set_keys(std::vector<Key>(to.list().begin(), to.list().end()));
  }
}

void Operation::set_keys(std::vector<Key> to) {
  key_copy_ = std::move(to);
  keys = Keys(std::span<const Key>(key_copy_));
}

bool Operation::step() {
  while (!after.empty()) {
    if (!after.back()->ended) {
      awaited = after.back()->awaited;
      return false;
    }
    after.pop_back();
  }
  ended = advance();
  return ended;
}

}  // namespace verbena::worker
