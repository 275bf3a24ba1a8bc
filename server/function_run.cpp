#include "server/function_run.hpp"

#include <cstring>

#include "server/sparse_part.hpp"

namespace verbena::server {

FunctionRun::FunctionRun(std::uint32_t worker, std::uint32_t table, consistency::Clock clock,
                         protocol::CallMessage message,
                         const absl::StatusOr<protocol::BoundFunction>& function)
    : worker_(worker),
      table_(table),
      clock_(clock),
      message_(std::move(message)),
      status_(function.status()),
      changes_rows_(function.ok() && function->changes_rows()),
      makes_rows_(function.ok() && function->makes_rows()) {
  if (!function.ok()) return;
  bound_ = *function;
  function_ = bound_->make();
}

TableMemory FunctionRun::memory_of(const LanePart& part) {
  if (part.sparse != nullptr) return part.sparse->memory();
  TableMemory memory{.rows = part.keys.size()};
  part.rows->count_bytes(memory, memory.rows);
  return memory;
}

void FunctionRun::begin_range(const LanePart& part) {
  if (part.sparse != nullptr) {
    end_ = part.sparse->rows_made();
    return;
  }
  const KeyRange all = part.keys;
  const Key first = std::clamp(message_.range.first, all.first, all.last);
  const Key last = std::clamp(message_.range.last, first, all.last);
  next_ = first == last ? 0 : index_of(part.range.row_of(first));
  end_ = next_ + (last - first);
}

void FunctionRun::finish() {
  protocol::CallAnswer answer{.status = status_};
  if (function_ != nullptr) answer.result = function_->result();
  words_ = protocol::encode_answer(answer);
  function_.reset();
  std::vector<Key>().swap(message_.keys);
  std::vector<double>().swap(message_.numbers);
}

std::size_t FunctionRun::write_piece(protocol::BulkHeader header, std::span<std::byte> to) {
  protocol::ResultPiece piece{.tag = message_.tag};
  const std::size_t room = (to.size() - sizeof header - sizeof piece) / sizeof(std::uint64_t);
  const std::size_t words = std::min(room, words_.size() - told_);
  header.kind = protocol::BulkKind::kResult;
  header.table = table_;
  header.count = static_cast<std::uint32_t>(words);
  piece.words_left = words_.size() - told_ - words;
  std::memcpy(to.data(), &header, sizeof header);
  std::memcpy(to.data() + sizeof header, &piece, sizeof piece);
  std::memcpy(to.data() + sizeof header + sizeof piece, words_.data() + told_, words * sizeof(std::uint64_t));
  told_ += words;
  return sizeof header + sizeof piece + words * sizeof(std::uint64_t);
}

}  // namespace verbena::server
