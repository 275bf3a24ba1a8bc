#include "apps/launcher/joint_stop.hpp"

#include <algorithm>

namespace verbena::apps {

JointStop::JointStop(const std::vector<std::uint32_t>& ranks) {
  for (const std::uint32_t rank : ranks) answers_[rank];
}

bool JointStop::want(int signal, Clock::time_point now) {
  if (is_wanted()) return false;
  signal_ = signal;
  since_ = now;
  return true;
}

bool JointStop::asks(std::uint32_t rank) const {
  const auto found = answers_.find(rank);
  return is_wanted() && !is_decided_ && found != answers_.end() && !found->second;
}

void JointStop::take(std::uint32_t rank, const job::HeldMessage& answer) {
  if (asks(rank)) answers_[rank] = answer;
}

void JointStop::finish(std::uint32_t rank) {
  const auto found = answers_.find(rank);
  if (found == answers_.end() || is_decided_) return;
  found->second = job::HeldMessage{.begun = 0, .has_finished = true};
}

std::optional<JointStop::Decision> JointStop::decide(Clock::time_point now) {
  if (!is_wanted() || is_decided_) return std::nullopt;
  is_decided_ = true;
  const auto has_finished = [](const auto& one) { return one.second && one.second->has_finished; };
  if (std::any_of(answers_.begin(), answers_.end(), has_finished)) return IsTooLate{};
  const auto missing =
      std::find_if(answers_.begin(), answers_.end(), [](const auto& one) { return !one.second; });
  if (missing == answers_.end()) {
    std::int64_t most = 0;
    for (const auto& [rank, answer] : answers_) most = std::max(most, answer->begun);
    if (most == 0) return HasNotBegun{};
    end_ = most;
    return EndsAfter{most};
  }
  is_decided_ = now >= since_ + kPatience;
  if (!is_decided_) return std::nullopt;
  return IsUnanswered{missing->first};
}

}  // namespace verbena::apps
