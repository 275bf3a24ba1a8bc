#include "worker/moving/directory.hpp"

#include <algorithm>

namespace verbena::worker {

Location Directory::location(Key key) const {
  const auto known = locations_.find(key);
  return known == locations_.end() ? Location{.node = homes_.server_of(key), .epoch = 0} : known->second;
}

Directory::Advice Directory::missed(Key key, bool is_sure) {
  if (!asked_.try_emplace(key, home(key)).second) return Advice::kWait;
  Chase& chase = chased_[key];
  if (is_sure) chase.not_at = location(key);
  return ++chase.attempts > kMostVainAttempts ? Advice::kAskAndFetch : Advice::kAsk;
}

std::vector<Key> Directory::lose(std::uint32_t server) {
  heirs_.lose(server);
  std::vector<Key> keys;
  for (auto& [key, asked] : asked_) {
    if (asked != server) continue;
    asked = home(key);
    keys.push_back(key);
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

bool Directory::is_known_not_to_be(Key key, Location there) const {
  const auto chase = chased_.find(key);
  return chase != chased_.end() && chase->second.not_at == there;
}

bool Directory::end_chase(Key key) {
  if (chased_.empty()) return false;
  chased_.erase(key);
  return fetched_.erase(key) > 0;
}

}  // namespace verbena::worker
