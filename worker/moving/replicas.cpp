#include "worker/moving/replicas.hpp"

#include <cstring>

namespace verbena::worker {

Replica* Replicas::make(Key key) {
  const auto [row, is_fresh] = rows_.try_emplace(key);
  if (!is_fresh) return nullptr;
  row->second.memory = std::make_unique<std::byte[]>(2 * layout_.stride_bytes);
  return &row->second;
}

void Replicas::push(Key key, Replica& replica, const std::byte* update) {
  std::byte* const values = replica.memory.get();
  layout_.rule.predict(values, update);
  if (replica.is_dirty) {
    layout_.rule.combine(values + layout_.stride_bytes, update);
    return;
  }
  std::memcpy(values + layout_.stride_bytes, update, layout_.row_bytes);
  replica.is_dirty = true;
  dirty_.push_back(key);
}

void Replicas::put(Replica& replica, const std::byte* row) {
  std::byte* const values = replica.memory.get();
  std::memcpy(values, row, layout_.row_bytes);
  if (replica.is_dirty) layout_.rule.predict(values, values + layout_.stride_bytes);
}

void Replicas::take_updates(Replica& replica, std::vector<std::byte>& to) {
  const std::byte* const updates = replica.memory.get() + layout_.stride_bytes;
  to.insert(to.end(), updates, updates + layout_.row_bytes);
  replica.is_dirty = false;
}

}  // namespace verbena::worker
