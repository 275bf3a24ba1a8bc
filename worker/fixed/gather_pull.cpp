#include "worker/fixed/gather_pull.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "protocol/server_function.hpp"
#include "worker/fixed/gathered_rows.hpp"
#include "worker/fixed/sparse_table.hpp"

namespace verbena::worker {
namespace {

/// In a message; a lane needs some tenths of a millisecond for them.
constexpr std::size_t kMostKeys = 8192;

}  // namespace

GatherPull::GatherPull(SparseTable& table, const Keys& of, std::size_t next, std::byte* out,
                       const std::optional<PullWays::Trip>& trip)
    : Operation("pull"), table_(table), out_(out), open_(of.size() - next), trip_(trip) {
  set_keys(of);
  std::iota(open_.begin(), open_.end(), next);
}

std::string GatherPull::other_wait() const {
  return table_.session_.clocks_awaited(what);
}

bool GatherPull::advance() {
  // Updates that are being sent count as sent already, but a message of this pull could overtake them.
  if (table_.session_.is_sending()) return false;
  while (ask()) {
    if (!call_->step()) {
      awaited = call_->awaited;
      return false;
    }
    const std::shared_ptr<FunctionCallOperation> call = std::move(call_);
    status = call->status;
    if (!status.ok()) return true;
    take_answers(*call);
    if (!table_.session_.status().ok()) return false;
  }
  table_.note_end(trip_);
  return true;
}

/// What is at hand is pulled; there is a call for the rest. False: there is no rest.
bool GatherPull::ask() {
  if (call_ != nullptr) return true;
  std::vector<Key> asked;
  asks_for_rows_ = false;
  table_.heed_decisions();
  std::erase_if(open_, [&](std::size_t index) {
    const Key key = keys[index];
    const protocol::KeyHash hash(key);
    Part& part = table_.part_of(hash);
    if (table_.pull_now(part, hash, key, out_ + index * table_.layout_.row_bytes)) return true;
    asks_for_rows_ |= table_.shipping_.packs(part) && !part.sparse->known_row(key);
    asked.push_back(key);
    return false;
  });
  if (open_.empty()) return false;
  const std::string function = asks_for_rows_ ? "gather(rows=1)" : "gather";
  const std::size_t most_keys = kMostRowBytes / table_.layout_.row_bytes / (asks_for_rows_ ? 2 : 1);
  call_ = std::make_shared<FunctionCallOperation>(
      table_, function, protocol::BoundFunction::find(function, table_.layout_.rule, 0).value(), asked,
      std::span<const double>(), std::clamp<std::size_t>(most_keys, 1, kMostKeys));
  return true;
}

void GatherPull::take_answers(const FunctionCallOperation& call) {
  std::vector<std::size_t> again;
  call.for_each_answer([&](const FunctionCallOperation::Answer& answer) {
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
  GatheredRows rows(answer.result.keys, answer.keys.size(), row_bytes, asks_for_rows_);
  if (!rows.is_whole()) {
    table_.session_.fail(absl::InvalidArgumentError(
        fmt::format("{} gathered other rows than it was asked for", part.link->connection->peer_name())));
    return;
  }
  // What was told to be gone meanwhile may be among these, and is not to be remembered any more.
  const bool is_newest = part.view->lookups.heard() == answer.heard;
  for (std::size_t i = 0; i < answer.keys.size(); ++i) {
    const Key key = answer.keys[i];
    std::byte* const out = out_ + open_[answer.indexes[i]] * row_bytes;
    const std::optional<GatheredRows::Found> found = rows.next();
    ++table_.session_.counters().rows_gathered;
    if (!found) {
      table_.take_absent(part, key, answer.clock, out);
    } else if (is_newest) {
      if (found->row && !part.sparse->is_mapped()) part.sparse->know_row(key, *found->row);
      table_.take_fetched(part, part.range.row_of(key), found->values, answer.clock, out);
    } else {
      table_.take_uncached(part, part.range.row_of(key), found->values, answer.clock, out);
    }
  }
}

}  // namespace verbena::worker
