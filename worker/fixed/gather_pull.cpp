#include "worker/fixed/gather_pull.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "protocol/server_function.hpp"
#include "worker/fixed/sparse_table.hpp"

namespace verbena::worker {
namespace {

/// In a message; a lane needs some tenths of a millisecond for them.
constexpr std::size_t kMostKeys = 8192;
constexpr std::size_t kWordBits = 64;

/// What a lane says, as the function "gather" writes it.
class GatheredRows {
 public:
  /// `keys`: how many were asked for.
  GatheredRows(std::span<const std::uint64_t> words, std::size_t keys, std::size_t row_bytes)
      : row_bytes_(row_bytes) {
    if (words.empty() || words.front() > words.size() - 1) return;
    has_row_ = words.subspan(1, words.front());
    const auto bytes = std::as_bytes(words.subspan(1 + has_row_.size()));
    const std::uint64_t last = has_row_.empty() ? 0 : has_row_.back();
    // Of a last word that is not needed, nothing would be set.
    const std::size_t end = has_row_.size() * kWordBits - static_cast<std::size_t>(std::countl_zero(last));
    std::size_t rows = 0;
    for (const std::uint64_t word : has_row_) rows += static_cast<std::size_t>(std::popcount(word));
    const std::size_t needed = rows * row_bytes;
    is_whole_ =
        (has_row_.empty() || last != 0) && end <= keys &&
        bytes.size() == (needed + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t) * sizeof(std::uint64_t);
    left_ = bytes;
  }
  /// It is what it should be.
  [[nodiscard]] bool is_whole() const { return is_whole_; }
  /// The row of the next key; nullptr: it has none. REQUIRES: is_whole()
  const std::byte* next() {
    const std::size_t index = next_++;
    const bool has_row =
        index / kWordBits < has_row_.size() && (has_row_[index / kWordBits] >> index % kWordBits & 1) != 0;
    if (!has_row) return nullptr;
    return std::exchange(left_, left_.subspan(row_bytes_)).data();
  }

 private:
  const std::size_t row_bytes_;
  std::span<const std::uint64_t> has_row_;
  std::span<const std::byte> left_;  ///< of the rows
  std::size_t next_ = 0;
  bool is_whole_ = false;
};

}  // namespace

GatherPull::GatherPull(SparseTable& table, const Keys& of, std::size_t next, std::byte* out)
    : Operation("pull"), table_(table), out_(out), open_(of.size() - next) {
  set_keys(of);
  std::iota(open_.begin(), open_.end(), next);
}

std::string GatherPull::other_wait() const {
  return table_.session_.clocks_awaited(what);
}

bool GatherPull::advance() {
  while (ask()) {
    if (!call_->step()) {
      awaited = call_->awaited;
      return false;
    }
    status = call_->status;
    if (!status.ok()) return true;
    take_answers();
    if (!table_.session_.status().ok()) return false;
    call_.reset();
  }
  return true;
}

/// What is at hand is pulled; there is a call for the rest. False: there is no rest.
bool GatherPull::ask() {
  if (call_ != nullptr) return true;
  std::vector<Key> asked;
  std::erase_if(open_, [&](std::size_t index) {
    const Key key = keys[index];
    const protocol::KeyHash hash(key);
    std::byte* const out = out_ + index * table_.layout_.row_bytes;
    if (table_.pull_now(table_.part_of(hash), hash, key, out)) return true;
    asked.push_back(key);
    return false;
  });
  if (open_.empty()) return false;
  const std::size_t most_rows = kMaxFunctionResults / 2 * sizeof(std::uint64_t) / table_.layout_.row_bytes;
  call_ = std::make_shared<FunctionCallOperation>(
      table_, "gather", protocol::BoundFunction::find("gather", table_.layout_.rule, 0).value(), asked,
      std::span<const double>(), std::clamp<std::size_t>(most_rows, 1, kMostKeys));
  return true;
}

void GatherPull::take_answers() {
  std::vector<std::size_t> again;
  call_->for_each_answer([&](const FunctionCallOperation::Answer& answer) {
    const Part& part = answer.part;
    if (part.awaits_own && part.updates->shipped != answer.shipped) {
      // Updates that were shipped meanwhile are neither in the answer nor in the update buffer.
      for (const std::size_t at : answer.indexes) again.push_back(open_[at]);
      return;
    }
    take(answer);
  });
  open_ = std::move(again);
}

void GatherPull::take(const FunctionCallOperation::Answer& answer) {
  Part& part = answer.part;
  const std::size_t row_bytes = table_.layout_.row_bytes;
  GatheredRows rows(answer.result.keys, answer.keys.size(), row_bytes);
  if (!rows.is_whole()) {
    table_.session_.fail(absl::InvalidArgumentError(
        fmt::format("{} gathered other rows than it was asked for", part.link->connection->peer_name())));
    return;
  }
  for (std::size_t i = 0; i < answer.keys.size(); ++i) {
    const Key key = answer.keys[i];
    std::byte* const out = out_ + open_[answer.indexes[i]] * row_bytes;
    if (const std::byte* const row = rows.next()) {
      table_.take_fetched(part, part.range.row_of(key), row, answer.clock, out);
    } else {
      table_.take_absent(part, key, answer.clock, out);
    }
  }
}

}  // namespace verbena::worker
