// Tells what a completion belongs to, if several components post on one connection: which component posted
// the request, and which of its requests it was. Travels as WorkRequest::id, which a transport returns
// unchanged.
#pragma once

#include <cstdint>

namespace verbena::transport {

class RequestId {
 public:
  enum class Of : std::uint8_t {
    kNobody,      ///< a message; nobody waits for its completion
    kRing,        ///< `number`: a position of the ring
    kRingCredit,  ///< a credit that a ring's receiver wrote
    kHeartbeat,
    kRead,  ///< `number`: the number of the read
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
