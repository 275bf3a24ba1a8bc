#include "apps/resuming/stop_agreement.hpp"

#include <algorithm>

namespace verbena::apps {

namespace {

// The word: whether it is too late, how many workers have asked, and the largest iteration that any of these
// has begun. One compare-and-swap changes all three.
constexpr std::uint64_t kTooLate = std::uint64_t{1} << 63U;
constexpr unsigned kIterationBits = 48;
constexpr std::uint64_t kIterations = (std::uint64_t{1} << kIterationBits) - 1;

}  // namespace

std::optional<std::int64_t> StopAgreement::ask(std::int64_t iteration, bool is_last) {
  std::uint64_t word = word_.load(std::memory_order_acquire);
  for (;;) {
    if ((word & kTooLate) != 0) return std::nullopt;
    const std::uint64_t asked = word >> kIterationBits;
    const std::uint64_t begun = word & kIterations;
    if (asked == workers_) return static_cast<std::int64_t>(begun);
    const std::uint64_t asked_now = asked + (has_asked_ ? 0 : 1);
    const bool decides = asked_now == workers_;
    const auto own = static_cast<std::uint64_t>(decides ? iteration : iteration + 1);
    const std::uint64_t most = std::max(begun, own);
    const std::uint64_t next = !decides && is_last ? kTooLate : asked_now << kIterationBits | most;
    if (!word_.compare_exchange_weak(word, next, std::memory_order_acq_rel, std::memory_order_acquire))
      continue;
    has_asked_ = true;
    return decides ? std::optional(static_cast<std::int64_t>(most)) : std::nullopt;
  }
}

void StopAgreement::finish() {
  // It is undecided, and now stays so.
  word_.fetch_or(kTooLate, std::memory_order_acq_rel);
}

}  // namespace verbena::apps
