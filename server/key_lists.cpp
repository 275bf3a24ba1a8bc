#include "server/key_lists.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/return_if_error.hpp"
#include "protocol/packed_updates.hpp"
#include "server/image_bytes.hpp"

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

void KeyLists::write_image(ImageWriter& out) const {
  out.put(std::uint64_t{lists_.size()});
  for (const KeyList& list : lists_) {
    out.put(list != nullptr);
    if (list != nullptr) out.put_all(*list);
  }
}

absl::Status KeyLists::read_image(ImageReader& in) {
  const std::uint64_t lists = in.get_count(sizeof(bool));
  lists_.resize(lists);
  for (std::uint32_t number = 0; number < lists && in.is_good(); ++number) {
    if (in.get<bool>())
      RETURN_IF_ERROR(set(number, std::make_shared<const std::vector<Key>>(in.get_all<Key>())));
  }
  return absl::OkStatus();
}

}  // namespace verbena::server
