// The transport's own thread, which takes the sockets over while the owner's thread is away.
//
// The owner's thread works on the sockets itself when it polls and waits: no other thread then stands between
// it and the kernel. This thread looks at intervals whether the owner has been there; if it has not, the
// thread waits for the sockets in its place until the owner is back. While the owner waits in the kernel, it
// is there; when that has lasted for a while, this thread sleeps, too, until the owner wakes.
//
// What the two tell each other are hints only: whoever works on the sockets does so under the transport's
// lock, and two who do it at once find half as much each.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "absl/status/statusor.h"
#include "base/file_descriptor.hpp"

namespace verbena::transport::tcp {

class IoThread {
 public:
  /// How soon it notices that the owner is away: after one to two of these. Shorter: a peer waits less for an
  /// owner that has just gone. Longer: fewer wake-ups, each a few microseconds of a processor.
  static constexpr std::chrono::microseconds kLookInterval{400};

  /// `sockets` can be read when there is work; `work` does it, and what is to be done at least every
  /// `longest_sleep`. RESOURCE_EXHAUSTED if no thread or file can be had.
  static absl::StatusOr<std::unique_ptr<IoThread>> start(int sockets, std::chrono::nanoseconds longest_sleep,
                                                         std::function<void()> work);
  ~IoThread();
  IoThread(const IoThread&) = delete;
  IoThread& operator=(const IoThread&) = delete;

  // For the owner's thread. From owner_sleeps() until owner_wakes() it works on the sockets whenever they are
  // ready.
  void owner_is_here() { turns_.fetch_add(1, std::memory_order_relaxed); }
  void owner_sleeps() { owner_sleeps_.store(true, std::memory_order_seq_cst); }
  void owner_wakes();
  /// For `work`.
  [[nodiscard]] bool is_owner_asleep() const { return owner_sleeps_.load(std::memory_order_seq_cst); }

 private:
  IoThread(int sockets, std::chrono::nanoseconds longest_sleep, std::function<void()> work,
           base::FileDescriptor bell);
  void run();
  void sleep(bool with_sockets, std::chrono::nanoseconds longest);
  void sleep_until_the_owner_wakes();
  void ring() const;

  const int sockets_;
  const std::chrono::nanoseconds longest_sleep_;
  const std::function<void()> work_;
  const base::FileDescriptor bell_;  ///< an eventfd that ends this thread's sleep
  std::atomic<bool> stop_ = false;
  std::atomic<std::uint64_t> turns_ = 0;  ///< of the owner
  std::atomic<bool> owner_sleeps_ = false;
  std::atomic<bool> sleeps_too_ = false;  ///< this thread, until the bell
  std::thread thread_;
};

}  // namespace verbena::transport::tcp
