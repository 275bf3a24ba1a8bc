#include "apps/resuming/hand_over.hpp"

#include <algorithm>

namespace verbena::apps {

HandOver::Turn HandOver::ask(std::uint32_t worker, std::int64_t iteration, bool is_last) {
  const std::lock_guard lock(mutex_);
  std::optional<std::int64_t>& begun = begun_[worker];
  begun = iteration;
  if (!after_) {
    const bool all_are_known =
        std::all_of(begun_.begin(), begun_.end(), [](const auto& one) { return one.has_value(); });
    is_too_late_ |= is_last;
    if (!is_too_late_ && all_are_known && is_wanted_()) {
      const std::int64_t most = **std::max_element(begun_.begin(), begun_.end());
      if (may_begin_(most)) after_ = most;
    }
  }
  if (after_ == iteration) {
    ++stepped_aside_;
    return Turn::kStepsAside;
  }
  begun = iteration + 1;
  return after_ ? Turn::kGoesOn : Turn::kStays;
}

bool HandOver::is_over() const {
  const std::lock_guard lock(mutex_);
  return stepped_aside_ == begun_.size();
}

}  // namespace verbena::apps
