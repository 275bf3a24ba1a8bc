#include "server/function_run.hpp"

#include <cstring>

#include "server/image_bytes.hpp"
#include "server/sparse_part.hpp"

namespace verbena::server {

FunctionRun::FunctionRun(std::uint32_t worker, std::uint32_t table, consistency::Clock clock,
                         protocol::CallMessage message,
                         const absl::StatusOr<protocol::BoundFunction>& function, const Window& window)
    : worker_(worker),
      table_(table),
      clock_(clock),
      message_(std::move(message)),
      window_(window),
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
    rows_ = part.sparse->rows_made();
  } else {
    const KeyRange all = part.keys;
    const Key first = std::clamp(message_.range.first, all.first, all.last);
    const Key last = std::clamp(message_.range.last, first, all.last);
    next_ = first == last ? 0 : index_of(part.range.row_of(first));
    rows_ = last - first;
  }
  const std::uint64_t first = std::min(window_.first, rows_);
  next_ += first;
  end_ = next_ + std::min(window_.most, rows_ - first);
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
  const std::span<const std::uint64_t> words = take_words(room);
  header.kind = protocol::BulkKind::kResult;
  header.table = table_;
  header.count = static_cast<std::uint32_t>(words.size());
  piece.words_left = words_left();
  std::memcpy(to.data(), &header, sizeof header);
  std::memcpy(to.data() + sizeof header, &piece, sizeof piece);
  std::memcpy(to.data() + sizeof header + sizeof piece, words.data(), words.size_bytes());
  return sizeof header + sizeof piece + words.size_bytes();
}

std::span<const std::uint64_t> FunctionRun::take_words(std::size_t most) {
  const std::span<const std::uint64_t> words = std::span(words_).subspan(told_, std::min(most, words_left()));
  told_ += words.size();
  return words;
}

FunctionRun::FunctionRun(std::uint32_t worker, const Call& call, std::vector<std::uint64_t> words)
    : worker_(worker),
      table_(call.table),
      clock_(call.clock),
      message_(call.message),
      is_logged_(true),
      words_(std::move(words)) {}

void FunctionRun::write_call(ImageWriter& out) const {
  out.put(table_);
  out.put(clock_);
  out.put(message_.tag);
  out.put(message_.range);
  out.put_all(message_.keys);
  out.put(message_.numbers_a_key);
  out.put_all(message_.numbers);
  out.put_text(message_.text);
}

FunctionRun::Call FunctionRun::read_call(ImageReader& in) {
  Call call;
  call.table = in.get<std::uint32_t>();
  call.clock = in.get<consistency::Clock>();
  call.message.tag = in.get<protocol::Tag>();
  call.message.range = in.get<KeyRange>();
  call.message.keys = in.get_all<Key>();
  call.message.numbers_a_key = in.get<std::uint32_t>();
  call.message.numbers = in.get_all<double>();
  call.message.text = in.get_text();
  return call;
}

void FunctionRun::write_result(ImageWriter& out) const {
  out.put(table_);
  out.put(message_.tag);
  out.put_all(words_);
}

std::shared_ptr<FunctionRun> FunctionRun::read_result(std::uint32_t worker, ImageReader& in) {
  Call call;
  call.table = in.get<std::uint32_t>();
  call.message.tag = in.get<protocol::Tag>();
  return std::shared_ptr<FunctionRun>(new FunctionRun(worker, call, in.get_all<std::uint64_t>()));
}

}  // namespace verbena::server
