// What a completion is of, where several post on one connection: who posted the request, and which of his.
// Travels as WorkRequest::id, which a transport gives back as it was.
#pragma once

#include <cstdint>

namespace verbena::transport {

class RequestId {
 public:
  enum class Of : std::uint8_t {
    kNobody,      ///< a message, whose end nobody waits for
    kRing,        ///< `number`: a position of the ring
    kRingCredit,  ///< of a ring's receiver
    kHeartbeat,
    kRead,  ///< `number`: of the read
  };
  static constexpr std::uint64_t kMaxNumber = (std::uint64_t{1} << 56) - 1;

  /// REQUIRES: number ≤ kMaxNumber.
  constexpr RequestId(Of of, std::uint64_t number)
      : bits_(static_cast<std::uint64_t>(of) << kNumberBits | number) {}
  constexpr explicit RequestId(std::uint64_t bits) : bits_(bits) {}

  [[nodiscard]] constexpr Of of() const { return static_cast<Of>(bits_ >> kNumberBits); }
  [[nodiscard]] constexpr std::uint64_t number() const { return bits_ & kMaxNumber; }
  [[nodiscard]] constexpr std::uint64_t bits() const { return bits_; }

 private:
  static constexpr int kNumberBits = 56;
  std::uint64_t bits_;
};

}  // namespace verbena::transport
