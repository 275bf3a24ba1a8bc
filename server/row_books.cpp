#include "server/row_books.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/return_if_error.hpp"

namespace verbena::server {

RowBooks::Needs::Needs(const FixedShard& shard, std::uint32_t workers, bool has_push_budget)
    : bits_bytes(shard.rules.pushes_eagerly ? worker_bits_bytes(workers) : 0),
      has_changes(shard.rules.pushes_eagerly && has_push_budget),
      state_bytes(shard.rule.state_bytes()),
      has_steps(shard.rules.holds_updates_back && !shard.rule.is_addition()),
      has_uses(shard.table.eviction != protocol::kEvictNever) {}

std::size_t RowBooks::Needs::book_bytes() const {
  return 2 * bits_bytes + (has_changes ? sizeof(double) : 0);
}

std::size_t RowBooks::Needs::kept_bytes() const {
  return book_bytes() + (has_steps ? sizeof(std::uint32_t) : 0) + (has_uses ? sizeof(protocol::RowUse) : 0);
}

absl::StatusOr<RowBooks> RowBooks::create(transport::Transport& transport, const FixedShard& shard,
                                          const Needs& needs, std::uint64_t rows) {
  RowBooks books;
  books.rows_ = std::max<std::uint64_t>(rows, 1);
  books.bits_bytes_ = needs.bits_bytes;
  books.has_changes_ = needs.has_changes;
  const auto allocate = [&](std::size_t row_bytes, std::string what,
                            std::unique_ptr<transport::MemoryRegion>& region) -> absl::Status {
    if (row_bytes == 0) return absl::OkStatus();
    auto allocated = transport.allocate_region(books.rows_ * row_bytes, transport::Access::kLocal);
    if (!allocated.ok()) {
      return absl::Status(
          allocated.status().code(),
          fmt::format("table \"{}\" needs {} bytes here {}: {}", shard.table.name, books.rows_ * row_bytes,
                      what, std::string(allocated.status().message())));
    }
    region = std::move(*allocated);
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(allocate(needs.book_bytes(), "to know who has which row", books.books_));
  RETURN_IF_ERROR(
      allocate(needs.state_bytes, fmt::format("for the rule \"{}\"", shard.table.rule), books.states_));
  RETURN_IF_ERROR(allocate(needs.has_steps ? sizeof(std::uint32_t) : 0,
                           fmt::format("for the steps of the rule \"{}\"", shard.table.rule), books.steps_));
  RETURN_IF_ERROR(
      allocate(needs.has_uses ? sizeof(protocol::RowUse) : 0, "to know when rows are used", books.uses_));
  return books;
}

StoredRows::Chunk RowBooks::chunk(std::byte* values) const {
  StoredRows::Chunk chunk{.values = values};
  if (states_ != nullptr) chunk.states = states_->bytes().data();
  if (steps_ != nullptr) chunk.step_of = reinterpret_cast<std::uint32_t*>(steps_->bytes().data());
  if (uses_ != nullptr) chunk.uses = reinterpret_cast<protocol::RowUse*>(uses_->bytes().data());
  if (books_ == nullptr) return chunk;
  std::byte* const books = books_->bytes().data();
  if (has_changes_) chunk.changes = reinterpret_cast<double*>(books);
  chunk.subscribed = reinterpret_cast<std::uint8_t*>(books + (has_changes_ ? rows_ * sizeof(double) : 0));
  chunk.dirty = chunk.subscribed + rows_ * bits_bytes_;
  return chunk;
}

}  // namespace verbena::server
