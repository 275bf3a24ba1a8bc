// Which way rows of a sparse table come from another host in less time: each by reads of its own, or gathered
// by its server into a message. Reads need nothing of the server's processor and hundreds of bytes on the
// wire for each; which of the two is scarce, only the network and the server at hand can tell. So a table's
// first pulls go both ways by turns. What a row took at best, in pulls of about as many keys, decides for
// those that follow. Now and then, more and more rarely, both are tried again: a server becomes busy, or its
// worker learns where rows are.
//
// Thread safety: none; it belongs to its table.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "transport/transport.hpp"

namespace verbena::worker {

class PullWays {
 public:
  enum class Way : std::uint8_t { kReads, kGather };

  /// A pull that is under way.
  struct Trip {
    Way way = Way::kReads;
    std::size_t keys = 0;
    transport::TimePoint begun = {};
  };

  /// Pulls of each way in a trial. The least of their times counts: what makes others longer, such as a wait
  /// for other workers, is not the way's.
  static constexpr std::uint32_t kTries = 4;
  /// Pulls of the chosen way after which a trial begins anew: some of the other way must have been lost.
  static constexpr std::uint32_t kMostInTrial = 64;
  /// Pulls from the end of the first trial to the next one; the time after that is twice as long, and so on.
  static constexpr std::uint64_t kFirstPause = 256;
  static constexpr std::uint64_t kLongestPause = std::uint64_t{1} << 16;
  /// A way must take less than this part of the other's time to be taken in its place.
  static constexpr double kClearlyLess = 0.8;

  /// `usual`: the way that is taken as long as nothing is known.
  explicit PullWays(Way usual) { sizes_.fill({.chosen = usual}); }

  /// A pull of so many keys begins. REQUIRES: keys > 0
  Trip begin(std::size_t keys, transport::TimePoint now);
  /// It has ended. Not to be called for one that a failure has delayed. True: now another way is chosen for
  /// pulls of this size than before.
  bool ended(const Trip& trip, transport::TimePoint now);
  /// For pulls of about so many keys.
  [[nodiscard]] Way chosen(std::size_t keys) const { return sizes_[size_class(keys)].chosen; }

 private:
  struct Tried {
    std::uint32_t begun = 0;
    std::uint32_t ended = 0;
    double least_ns = 0;  ///< for a key
  };
  /// Pulls of up to twice as many keys as the least of them.
  struct Size {
    Way chosen;
    bool is_trying = true;
    std::array<Tried, 2> tried = {};  ///< by way, in this trial
    std::uint64_t pause = kFirstPause;
    std::uint64_t pulls_left = 0;  ///< until the next trial
  };
  static std::size_t size_class(std::size_t keys) { return static_cast<std::size_t>(std::bit_width(keys)); }

  std::array<Size, 65> sizes_;
};

}  // namespace verbena::worker
