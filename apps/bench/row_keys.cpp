#include "apps/bench/row_keys.hpp"

#include <algorithm>
#include <numeric>
#include <random>
#include <span>
#include <utility>

#include "base/return_if_error.hpp"

namespace verbena::apps::bench {

std::vector<Key> shuffled_keys(std::uint64_t rows, std::size_t count) {
  std::vector<Key> keys;
  std::mt19937_64 random(1);
  while (keys.size() < count) {
    std::vector<Key> all(rows);
    std::iota(all.begin(), all.end(), Key{0});
    std::shuffle(all.begin(), all.end(), random);
    keys.insert(keys.end(), all.begin(), all.end());
  }
  return keys;
}

std::vector<Key> spread(std::vector<Key> keys) {
  for (Key& key : keys) key = (key + 1) * 0x9e37'79b9'7f4a'7c15;
  return keys;
}

absl::Status make_rows(Session& session, const Table<float>& table, std::uint64_t rows) {
  constexpr std::size_t kKeysAClock = 1000;
  std::vector<Key> all(rows);
  std::iota(all.begin(), all.end(), Key{0});
  const std::vector<Key> keys = spread(std::move(all));
  const std::vector<float> updates(kKeysAClock * table.width(), 0.5F);
  for (std::size_t first = 0; first < keys.size(); first += kKeysAClock) {
    const auto some = std::span(keys).subspan(first, std::min(kKeysAClock, keys.size() - first));
    RETURN_IF_ERROR(table.push(some, std::span(updates).first(some.size() * table.width())));
    RETURN_IF_ERROR(session.clock());
  }
  return session.barrier();
}

}  // namespace verbena::apps::bench
