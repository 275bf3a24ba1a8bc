#include "worker/moving/replicas.hpp"

#include <cstring>

#include "base/word_copy.hpp"

namespace verbena::worker {

Replicas::Replicas(protocol::ValueType type, std::uint32_t width)
    : type_(type),
      width_(width),
      row_bytes_(protocol::value_bytes(type) * width),
      stride_bytes_(protocol::row_stride_bytes(type, width)) {}

Replica* Replicas::make(protocol::Key key) {
  const auto [row, is_fresh] = rows_.try_emplace(key);
  if (!is_fresh) return nullptr;
  row->second.memory = std::make_unique<std::byte[]>(2 * stride_bytes_);
  return &row->second;
}

void Replicas::add(std::byte* to, const std::byte* update) const {
  protocol::visit_value_type(type_, [&]<class Value>() {
    base::add_words(reinterpret_cast<Value*>(to), reinterpret_cast<const Value*>(update), width_);
  });
}

void Replicas::push(protocol::Key key, Replica& replica, const std::byte* update) {
  std::byte* const values = replica.memory.get();
  add(values, update);
  if (replica.is_dirty) {
    add(values + stride_bytes_, update);
    return;
  }
  std::memcpy(values + stride_bytes_, update, row_bytes_);
  replica.is_dirty = true;
  dirty_.push_back(key);
}

void Replicas::put(Replica& replica, const std::byte* row) {
  std::memcpy(replica.memory.get(), row, row_bytes_);
  if (replica.is_dirty) add(replica.memory.get(), replica.memory.get() + stride_bytes_);
}

void Replicas::take_updates(Replica& replica, std::vector<std::byte>& to) {
  const std::byte* const updates = replica.memory.get() + stride_bytes_;
  to.insert(to.end(), updates, updates + row_bytes_);
  replica.is_dirty = false;
}

}  // namespace verbena::worker
