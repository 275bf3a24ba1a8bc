#include "server/key_lists.hpp"

#include <fmt/format.h>

#include <utility>

#include "protocol/packed_updates.hpp"

namespace verbena::server {

absl::Status KeyLists::set(std::uint32_t number, KeyList keys) {
  if (lists_.size() <= number) lists_.resize(number + 1);
  KeyList& list = lists_[number];
  const std::uint64_t all = keys_ + keys->size() - (list == nullptr ? 0 : list->size());
  if (all > protocol::kMaxListedKeys)
    return absl::InvalidArgumentError(fmt::format("lists of {} keys in all", all));
  keys_ = all;
  list = std::move(keys);
  return absl::OkStatus();
}

absl::StatusOr<KeyList> KeyLists::find(std::uint32_t number, std::uint32_t count) const {
  if (number >= lists_.size() || lists_[number] == nullptr)
    return absl::InvalidArgumentError(fmt::format("updates of list {}, which was never sent", number));
  if (lists_[number]->size() != count) {
    return absl::InvalidArgumentError(
        fmt::format("{} updates of list {}, which has {} keys", count, number, lists_[number]->size()));
  }
  return lists_[number];
}

}  // namespace verbena::server
