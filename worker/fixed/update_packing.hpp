// Whether and how a static table's updates are packed before they are sent (TableOptions::encoding,
// protocol/packed_updates.hpp).
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/compression.hpp"
#include "protocol/filter_rule.hpp"
#include "protocol/messages.hpp"
#include "protocol/packed_updates.hpp"
#include "protocol/push_encoding.hpp"
#include "worker/fixed/part.hpp"
#include "worker/fixed/update_buffer.hpp"
#include "worker/row_layout.hpp"

namespace verbena::worker {

/// Thread safety: none; belongs to its table.
class UpdatePacking {
 public:
  UpdatePacking(const protocol::PushEncoding& encoding, const protocol::FilterRule& filter,
                const RowLayout& layout);

  /// Chunk i as a packed message, in its `packed` memory; `header` is that of its records. Empty: it is to be
  /// sent as records. REQUIRES: pays(part)
  std::span<const std::byte> pack(Part& part, UpdateBuffer& updates, std::size_t i,
                                  const protocol::BulkHeader& header);

  /// Updates of the part's rows are packed, if there are enough: then it helps to know the rows.
  [[nodiscard]] bool pays(const Part& part) const;

 private:
  void take(const Part& part, const UpdateBuffer& updates, std::size_t i, bool by_keys);

  const protocol::PushEncoding encoding_;
  const bool rounds_;
  const std::size_t row_bytes_;
  protocol::UpdatePacker packer_;
  std::optional<base::Compressor> compressor_;  ///< nullopt: messages are not compressed
  std::vector<Key> keys_;
};

}  // namespace verbena::worker
