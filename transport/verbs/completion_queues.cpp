#include "transport/verbs/completion_queues.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cassert>
#include <cerrno>

#include "transport/verbs/errors.hpp"

namespace verbena::transport::verbs {

namespace {

constexpr std::uint32_t kSharedCompletions = 8192;  // of one queue, if the device has that many
constexpr int kTakenAtOnce = 32;

}  // namespace

CompletionQueues::~CompletionQueues() {
  for (const auto& queue : queues_) {
    assert(queue->reserved == 0);
    device_.api().destroy_cq(queue->cq);
  }
}

absl::StatusOr<CompletionQueue*> CompletionQueues::reserve(std::uint32_t completions) {
  for (const auto& queue : queues_) {
    if (completions > queue->capacity - queue->reserved) continue;
    queue->reserved += completions;
    return queue.get();
  }
  const auto most = static_cast<std::uint32_t>(device_.attributes().max_cqe);
  const std::uint32_t entries = std::max(completions, std::min(kSharedCompletions, most));
  ibv_cq* cq =
      device_.api().create_cq(device_.context(), static_cast<int>(entries), nullptr, device_.channel(), 0);
  if (cq == nullptr) {
    const int error = errno;
    return errno_status(error,
                        fmt::format("{} makes no completion queue of {} entries", device_.name(), entries));
  }
  queues_.push_back(std::make_unique<CompletionQueue>(
      CompletionQueue{.cq = cq, .capacity = entries, .reserved = completions}));
  return queues_.back().get();
}

void CompletionQueues::release(CompletionQueue& queue, std::uint32_t completions) {
  while (take(queue.cq) > 0) {
  }
  assert(completions <= queue.reserved);
  queue.reserved -= completions;
}

std::size_t CompletionQueues::take(ibv_cq* cq) {
  // Whoever visits a completion may end a connection, and with that call this again. What was taken before
  // then comes first, as it came out of its queue first.
  if (taken_.size() < end_ + kTakenAtOnce) taken_.resize(end_ + kTakenAtOnce);
  const int count = device_.api().poll_cq(cq, kTakenAtOnce, taken_.data() + end_);
  // A negative count means a broken device, which an asynchronous event reports, too.
  end_ += static_cast<std::size_t>(std::max(count, 0));
  while (next_ < end_) {
    const ibv_wc completion = taken_[next_++];  // a copy: what is called may make room for more
    visit_(completion);
  }
  next_ = end_ = 0;
  return static_cast<std::size_t>(std::max(count, 0));
}

std::size_t CompletionQueues::take() {
  std::size_t count = 0;
  // By index: handling a completion may add a queue.
  for (std::size_t i = 0; i < queues_.size(); ++i) count += take(queues_[i]->cq);
  return count;
}

void CompletionQueues::arm() {
  for (const auto& queue : queues_) {
    if (const int error = device_.api().req_notify_cq(queue->cq, 0); error != 0) {
      spdlog::error("{}", errno_text(error, "completions cannot be waited for"));
    }
  }
}

void CompletionQueues::clear_events() {
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  while (device_.api().get_cq_event(device_.channel(), &cq, &context) == 0) {
    device_.api().ack_cq_events(cq, 1);
  }
}

}  // namespace verbena::transport::verbs
