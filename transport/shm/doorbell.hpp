// Wakes a transport that sleeps; costs nothing while it does not sleep.
//
// Each transport has one doorbell, a word in shared memory that all its peers may ring. The sleeper and a
// ringer follow Dekker's handshake, all of it sequentially consistent:
//
//   sleeper: sleeping := 1;  look for work;  futex-wait while sleeping = 1
//   ringer:  publish work;   is sleeping 1?  then sleeping := 0 and futex-wake
//
// In the single order of these operations either the sleeper's look comes after the publication and finds the
// work, or the ringer's look comes after the announcement and wakes it. So the work, too, must be published
// by a sequentially consistent store, and the sleeper must look for it with sequentially consistent loads. A
// ringer that comes between announcement and futex-wait has cleared the word, and the kernel then does not
// sleep. A peer can write nonsense here; a sleeper therefore never sleeps long without looking around.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/status/statusor.h"
#include "transport/shm/shared_memory.hpp"
#include "transport/transport.hpp"

namespace verbena::transport::shm {

class Doorbell {
 public:
  Doorbell() = default;
  static absl::StatusOr<Doorbell> create();
  static absl::StatusOr<Doorbell> open(const base::FileDescriptor& received);

  [[nodiscard]] bool valid() const { return !mapping_.bytes().empty(); }
  [[nodiscard]] const base::FileDescriptor& file() const { return file_; }  ///< valid only after create()

  /// May be called from any thread, and from signal handlers.
  void ring() const noexcept;

  // The owner's side.
  void announce_sleep() const { word().store(1, std::memory_order_seq_cst); }
  void cancel_sleep() const { word().store(0, std::memory_order_seq_cst); }
  /// Call it after announce_sleep() and a look for work. True if it was rung, false after `timeout`.
  [[nodiscard]] bool sleep(Duration timeout) const;

 private:
  using Word = std::atomic<std::uint32_t>;
  static_assert(Word::is_always_lock_free && sizeof(Word) == sizeof(std::uint32_t));

  Doorbell(base::FileDescriptor file, Mapping mapping)
      : file_(std::move(file)), mapping_(std::move(mapping)) {}
  [[nodiscard]] Word& word() const { return *reinterpret_cast<Word*>(mapping_.bytes().data()); }

  base::FileDescriptor file_;
  Mapping mapping_;
};

}  // namespace verbena::transport::shm
