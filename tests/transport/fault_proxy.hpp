// A TCP proxy of this process, between a connector and a listener, that spoils what goes through it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

namespace verbena::transport {

class FaultProxy {
 public:
  enum class Fault : std::uint8_t {
    kNone,       ///< it only forwards
    kCut,        ///< both sides are reset
    kHalfClose,  ///< one side hears that the other has closed; what it sends still goes through
    kDrop,       ///< some bytes are lost, and the rest goes on
    kFlip,       ///< a bit is changed
  };
  struct Plan {
    std::uint64_t seed = 1;
    Fault fault = Fault::kNone;
    std::uint64_t after_bytes = 0;     ///< of both directions together
    std::size_t most_at_once = 65536;  ///< 1: a byte at a time
    std::uint32_t delay_us = 0;        ///< at most, before a piece is forwarded
    /// Sees all that goes through, of both directions. Called by the proxy's thread.
    std::function<void(std::span<const std::byte>)> watch = {};
  };

  /// Forwards to a port of this host.
  FaultProxy(std::uint16_t to_port, const Plan& plan);
  ~FaultProxy();
  FaultProxy(const FaultProxy&) = delete;
  FaultProxy& operator=(const FaultProxy&) = delete;

  [[nodiscard]] std::uint16_t port() const;

 private:
  class Forwarding;
  std::unique_ptr<Forwarding> forwarding_;
};

}  // namespace verbena::transport
