// A TCP proxy of this process, between a connector and a listener, that spoils what goes through it.
#pragma once

#include <chrono>
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
    /// The connection with this number, counted from 0, is late by so much, and the others are not.
    std::size_t late = SIZE_MAX;
    std::chrono::microseconds late_by{0};
    /// What comes from the connection with this number goes nowhere once so many bytes have gone through, of
    /// both directions together; nobody hears why.
    std::size_t swallowed = SIZE_MAX;
    std::uint64_t swallowed_after = 0;
    double bytes_per_second = 0;  ///< in each direction of each connection; 0: as many as can be
    /// Sees all that goes through, of both directions. Called by the proxy's thread.
    std::function<void(std::span<const std::byte>)> watch = {};
  };

  /// Forwards to a port of this host.
  FaultProxy(std::uint16_t to_port, const Plan& plan);
  ~FaultProxy();
  FaultProxy(const FaultProxy&) = delete;
  FaultProxy& operator=(const FaultProxy&) = delete;

  [[nodiscard]] std::uint16_t port() const;
  /// How many connections have come.
  [[nodiscard]] std::size_t connections() const;
  /// How many bytes have come from the connection with this number, one of the first kCounted, in both
  /// directions.
  [[nodiscard]] std::uint64_t carried(std::size_t number) const;
  static constexpr std::size_t kCounted = 16;
  /// Does this now to the connection with this number.
  void spoil(std::size_t number, Fault fault);

 private:
  class Forwarding;
  std::unique_ptr<Forwarding> forwarding_;
};

}  // namespace verbena::transport
