#include "worker/moving/intents.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/prefetch.hpp"

namespace verbena::worker {

namespace {

/// The most clocks ahead that a worker acts.
constexpr double kMostClocksAhead = 1e6;
constexpr double kMeanWeight = 0.125;
constexpr double kDeviationWeight = 0.25;
constexpr double kDeviations = 4;

}  // namespace

void LeadTime::Smoothed::add(double value) {
  if (!std::exchange(known, true)) {
    mean = value;
    deviation = value / 2;
    return;
  }
  deviation += kDeviationWeight * (std::abs(value - mean) - deviation);
  mean += kMeanWeight * (value - mean);
}

consistency::Clock LeadTime::clocks() const {
  if (!clock_.known || !coming_.known) return kFirst;
  const double coming = coming_.mean + kDeviations * coming_.deviation;
  // One clock more: a request in the middle of a clock has only a part of that clock.
  if (coming >= kMostClocksAhead * clock_.mean) return static_cast<consistency::Clock>(kMostClocksAhead);
  return 1 + static_cast<consistency::Clock>(std::ceil(coming / clock_.mean));
}

void Intents::add(Keys keys, Clock from, Clock to) {
  if (from >= to || keys.empty()) return;
  waiting_.emplace(from, Intent{std::move(keys), to});
}

Intents::Keys Intents::take_begun(Clock clock, Clock latest) {
  Keys fresh;
  while (!waiting_.empty() && waiting_.begin()->first <= latest) {
    auto node = waiting_.extract(waiting_.begin());
    auto& [keys, to] = node.mapped();
    if (to <= clock) continue;
    Keys& ends = ends_[to];
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (i + base::kKeysAhead < keys.size()) uses_.prefetch(keys[i + base::kKeysAhead]);
      const Key key = keys[i];
      const auto [found, is_fresh] = uses_.try_emplace(key, {.from = node.key(), .to = to});
      Use& use = found->second;
      use.from = std::min(use.from, node.key());
      if (is_fresh) fresh.push_back(key);
      if (!is_fresh && use.to >= to) continue;
      use.to = to;
      ends.push_back(key);
    }
    begun_.emplace(node.key(), std::move(keys));
  }
  return fresh;
}

Intents::Keys Intents::take_ended(Clock clock) {
  Keys ended;
  for (; !ends_.empty() && ends_.begin()->first <= clock; ends_.erase(ends_.begin())) {
    const Keys& keys = ends_.begin()->second;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (i + base::kKeysAhead < keys.size()) uses_.prefetch(keys[i + base::kKeysAhead]);
      const Key key = keys[i];
      const auto use = uses_.find(key);
      if (use == uses_.end() || use->second.to > clock) continue;
      uses_.erase(use);
      ended.push_back(key);
    }
  }
  return ended;
}

Intents::Keys Intents::take_used(Clock clock) {
  Keys used;
  for (; !begun_.empty() && begun_.begin()->first <= clock; begun_.erase(begun_.begin())) {
    const Keys& keys = begun_.begin()->second;
    used.insert(used.end(), keys.begin(), keys.end());
  }
  return used;
}

}  // namespace verbena::worker
