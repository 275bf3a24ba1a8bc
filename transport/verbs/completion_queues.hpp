// Completion queues, shared by connections, all on one channel.
//
// A queue never overruns: each connection reserves room for everything that it can have outstanding, and
// releases it when its queue pair is gone and the completions that the queue pair left in the queue have been
// taken out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/verbs/device.hpp"

namespace verbena::transport::verbs {

struct CompletionQueue {
  ibv_cq* cq = nullptr;
  std::uint32_t capacity = 0;
  std::uint32_t reserved = 0;
};

class CompletionQueues {
 public:
  using Visitor = std::function<void(const ibv_wc&)>;

  /// `visit` sees every completion, each queue's in their order, from inside take() and release(), which it
  /// may call itself.
  CompletionQueues(const Device& device, Visitor visit) : device_(device), visit_(std::move(visit)) {}
  ~CompletionQueues();
  CompletionQueues(const CompletionQueues&) = delete;
  CompletionQueues& operator=(const CompletionQueues&) = delete;

  absl::StatusOr<CompletionQueue*> reserve(std::uint32_t completions);
  /// REQUIRES: the queue pair that used the room can produce no more completions.
  void release(CompletionQueue& queue, std::uint32_t completions);

  /// Takes some completions out of each queue; returns how many.
  std::size_t take();

  /// Asks for a wake-up through the device's channel at the next completion in any queue.
  void arm();
  /// Takes the wake-ups out of the channel.
  void clear_events();

 private:
  std::size_t take(ibv_cq* cq);

  const Device& device_;
  Visitor visit_;
  std::vector<std::unique_ptr<CompletionQueue>> queues_;
  // Completions that are being visited: those from next_ to end_ still have to be.
  std::vector<ibv_wc> taken_;
  std::size_t next_ = 0;
  std::size_t end_ = 0;
};

}  // namespace verbena::transport::verbs
