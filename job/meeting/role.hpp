// What a process is at a rendezvous over a network: the host, which is rank 0, or a guest.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "job/peer_news.hpp"
#include "transport/transport.hpp"

namespace verbena::job {

/// Thread safety: none. Talk calls it, with its lock held but where another thing is said; what PeerNews has,
/// too, must not wait.
class MeetingRole {
 public:
  virtual ~MeetingRole() = default;
  MeetingRole(const MeetingRole&) = delete;
  MeetingRole& operator=(const MeetingRole&) = delete;

  // By the talk's thread, which alone uses the transport:
  /// Before all else that it does at a time.
  virtual void begin_turn(transport::TimePoint /*now*/) {}
  /// This process says that.
  virtual void on_own_words(std::string_view words) = 0;
  virtual void on_event(const transport::Event& event) = 0;
  virtual void on_time(transport::TimePoint now) = 0;
  /// Also what could not be sent before. True: nothing is left.
  [[nodiscard]] virtual bool try_to_say_all() = 0;
  /// Without the lock, since it may wait.
  virtual void travel() {}
  /// At least so often the thread is to look at the time.
  [[nodiscard]] virtual std::chrono::milliseconds turn() const { return std::chrono::milliseconds(500); }
  // What only rank 0 does:
  virtual void outlive(const std::vector<std::uint32_t>& /*ranks*/) {}
  virtual void tell(const std::string& /*news*/) {}
  virtual void tell_one(std::uint32_t /*rank*/, const std::string& /*news*/) {}
  virtual void dismiss(std::uint32_t /*rank*/, const std::string& /*why*/) {}
  virtual void release(std::uint32_t /*rank*/) {}
  virtual void give_place(std::uint32_t /*added*/, std::uint32_t /*rank*/) {}

  // By any thread:
  virtual void outlive_leader(std::chrono::milliseconds patience) = 0;
  /// There is another listener (Hearing::listener()).
  virtual void on_listen() {}
  virtual std::vector<PeerNews::Returned> returned() { return {}; }
  virtual std::uint32_t keep_place() { return 0; }
  virtual PeerNews::Standing standing() { return {}; }

 protected:
  MeetingRole() = default;
};

}  // namespace verbena::job
