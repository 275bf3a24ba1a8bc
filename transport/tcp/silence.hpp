// Whether a socket's peer gives no sign of life.
#pragma once

#include <chrono>
#include <cstdint>

#include "transport/tcp/socket.hpp"

namespace verbena::transport::tcp {

/// To be looked at at intervals. Silence counts only while this process has looked: it may have been stopped
/// itself.
class Silence {
 public:
  enum class Verdict : std::uint8_t {
    kAlive,
    kUnknown,  ///< there is nothing that its kernel would acknowledge: something has to be sent
    kGone,     ///< it has lasted for the timeout
  };
  /// `has_to_send`: there is something that the kernel has not got yet.
  Verdict look(const Acknowledged& known, bool has_to_send, std::chrono::milliseconds timeout) {
    if (known.silent < timeout / 4) {
      looks_ = 0;
      return Verdict::kAlive;
    }
    if (!known.has_unacknowledged && !has_to_send) return Verdict::kUnknown;
    // A process that does not receive has a living host as long as that answers whether it may be sent to.
    ++looks_;
    const bool is_silent =
        known.is_shut ? known.unanswered_probes >= kMostUnansweredProbes : known.silent >= timeout;
    return is_silent && looks_ >= kLooksBeforeItIsGone ? Verdict::kGone : Verdict::kAlive;
  }

 private:
  static constexpr std::uint32_t kMostUnansweredProbes = 3;
  static constexpr int kLooksBeforeItIsGone = 5;

  int looks_ = 0;  ///< in a row, at a peer that is silent
};

}  // namespace verbena::transport::tcp
