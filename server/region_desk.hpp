// Where lanes get memory for sparse tables that grow. Only the transport's thread can allocate regions and
// announce them to workers. So a lane orders a region here before it needs it. Only if it comes to need it
// before it is there, it waits for it; the transport's thread never waits for a lane.
//
// Where lanes have no threads of their own, nothing else runs while a lane does: instead of waiting, it has
// its order carried out.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "protocol/sparse_memory.hpp"
#include "server/stored_rows.hpp"

namespace verbena::server {

class SparseShard;

class RegionDesk {
 public:
  /// One region of one lane's part. Belongs to the part, and to this desk from place() until it is done.
  struct Order {
    SparseShard* shard = nullptr;
    std::uint32_t lane = 0;
    protocol::RegionKind kind = protocol::RegionKind::kRoot;
    std::uint32_t number = 0;
    // The result.
    absl::Status status;  ///< RESOURCE_EXHAUSTED; CANCELLED: the server ends
    std::byte* memory = nullptr;
    StoredRows::Chunk chunk;  ///< kRows
    std::atomic<bool> is_done = false;
  };

  /// `carry_out`: allocates what is ordered and announces it. Called in the transport's thread. `wake`: has
  /// that thread call serve() soon; may be called from any thread.
  RegionDesk(std::function<void(Order&)> carry_out, std::function<void()> wake)
      : carry_out_(std::move(carry_out)), wake_(std::move(wake)) {}

  // For lanes: from any thread.
  void place(Order& order);
  /// Returns once the order is done.
  void wait_for(Order& order);
  /// The order is about to go. REQUIRES: the transport's thread, or none that serves.
  void withdraw(const Order& order);

  // For the transport's thread.
  /// Carries out all orders; true if there were any.
  bool serve();
  /// From now on lanes run at the same time as this thread. `pause`, if given, is what a lane does again and
  /// again while it waits; otherwise it sleeps.
  void start_threads(std::function<void()> pause) {
    pause_ = std::move(pause);
    has_threads_.store(true, std::memory_order_release);
  }
  /// `watch` is told how long lanes were busy with making room, each time that a part gets a region or
  /// divides a segment of its index. It is called in the lane's thread. REQUIRES: no lane runs.
  void set_growth_watch(std::function<void(std::chrono::nanoseconds)> watch) {
    growth_watch_ = std::move(watch);
  }
  /// Empty: nobody wants to know.
  [[nodiscard]] const std::function<void(std::chrono::nanoseconds)>& growth_watch() const {
    return growth_watch_;
  }
  /// These threads are about to end. Nobody waits any more: orders that are not done are cancelled.
  void close();

 private:
  const std::function<void(Order&)> carry_out_;
  const std::function<void()> wake_;
  std::function<void()> pause_;  ///< constant once has_threads_
  std::function<void(std::chrono::nanoseconds)> growth_watch_;
  std::atomic<bool> has_threads_ = false;
  std::atomic<bool> has_orders_ = false;  ///< so that serve() need not take the mutex
  std::mutex mutex_;
  bool is_closed_ = false;
  std::vector<Order*> orders_;
};

}  // namespace verbena::server
