#include "worker/row_cache.hpp"

namespace verbena::worker {

RowCache::RowCache(protocol::KeyRange keys, std::size_t stride_bytes, LocalMemory& memory)
    : keys_(keys), stride_bytes_(stride_bytes), memory_(memory), index_(make_row_index(keys.size())) {}

RowCache::Row RowCache::insert(protocol::Key key) {
  const auto slot = static_cast<std::uint32_t>(clocks_.size());
  if ((slot >> kSlabShift) == slabs_.size()) {
    auto memory = memory_.allocate((std::size_t{kSlabMask} + 1) * stride_bytes_);
    if (!memory.ok()) return {};
    slabs_.push_back(*memory);
  }
  clocks_.push_back(0);
  index_[key - keys_.first] = slot + 1;
  return {values(slot), &clocks_.back()};
}

}  // namespace verbena::worker
