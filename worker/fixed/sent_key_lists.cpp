#include "worker/fixed/sent_key_lists.hpp"

#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"
#include "protocol/random_bits.hpp"

namespace verbena::worker {

namespace {

std::size_t hash_of(std::span<const Key> keys) {
  return absl::HashOf(absl::MakeConstSpan(keys.data(), keys.size()));
}

}  // namespace

SentKeyLists::Naming SentKeyLists::find_or_add(std::span<const Key> keys, std::uint64_t most_keys) {
  using Names = protocol::PackedHeader::Names;
  const std::size_t hash = hash_of(keys);
  if (const auto found = numbers_.find(hash); found != numbers_.end()) {
    if (std::ranges::equal(lists_[found->second], keys)) return {Names::kList, found->second};
    return {};
  }
  auto number = static_cast<std::uint32_t>(lists_.size());
  std::size_t freed = 0;
  if (keys_ + keys.size() > most_keys || number == protocol::kMaxKeyLists) {
    if (lists_.empty()) return {};
    number = static_cast<std::uint32_t>(protocol::random_bits(++draws_) % lists_.size());
    freed = sizes_[number];
    if (keys_ - freed + keys.size() > most_keys) return {};
  }
  std::vector<Key> list(keys.begin(), keys.end());
  if (number == lists_.size()) {
    lists_.emplace_back();
    sizes_.push_back(0);
  }
  drop(number);
  numbers_.emplace(hash, number);
  keys_ += keys.size() - freed;
  sizes_[number] = keys.size();
  lists_[number] = std::move(list);
  return {Names::kNewList, number};
}

void SentKeyLists::drop(std::uint32_t number) {
  if (const auto found = numbers_.find(hash_of(lists_[number]));
      found != numbers_.end() && found->second == number)
    numbers_.erase(found);
  lists_[number].clear();
}

}  // namespace verbena::worker
