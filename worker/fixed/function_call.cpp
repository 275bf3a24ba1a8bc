#include "worker/fixed/function_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/printable.hpp"
#include "base/return_if_error.hpp"
#include "worker/fixed/fixed_table.hpp"

namespace verbena::worker {

namespace {

/// The rest of what a lane takes is for functions that only look, which must end before the clock does.
constexpr std::size_t kMostHeldCalls = protocol::kMaxOpenCalls / 2;

}  // namespace

FunctionCallOperation::FunctionCallOperation(FixedTable& table, std::string text,
                                             const protocol::BoundFunction& function, const Keys& of,
                                             std::span<const double> numbers, std::size_t most_keys)
    : Operation("call of a function"),
      table_(table),
      text_(std::move(text)),
      function_(function),
      numbers_a_key_(numbers.empty() ? 0 : static_cast<std::uint32_t>(numbers.size() / of.size())),
      range_(of.is_range() ? of.range() : KeyRange{}) {
  add_messages(of, numbers, most_keys);
}

void FunctionCallOperation::add_messages(const Keys& of, std::span<const double> numbers,
                                         std::size_t most_keys) {
  if (of.is_range()) {
    for (const std::unique_ptr<Part>& part : table_.parts_) {
      const KeyRange has = part->range.keys();  // of a sparse table all keys
      // Not to a part without rows, either: its server may not be told of clocks.
      if (std::max(range_.first, has.first) < std::min(range_.last, has.last))
        messages_.push_back({.part = part.get()});
    }
    return;
  }
  std::vector<std::pair<std::size_t, std::size_t>> order(of.size());  // part, index
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = {table_.place_of(table_.part_of(of[i])), i};
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [part_index, index] : order) {
    Part& part = *table_.parts_[part_index];
    const std::size_t room =
        protocol::max_bulk_bytes(part.link->inbox_bytes) - protocol::call_bytes(text_.size());
    const std::size_t most = std::clamp<std::size_t>(room / protocol::call_bytes_a_key(numbers_a_key_), 1,
                                                     most_keys);  // see check()
    if (messages_.empty() || messages_.back().part != &part || messages_.back().count == most)
      messages_.push_back({.part = &part, .first = keys_.size()});
    ++messages_.back().count;
    keys_.push_back(of[index]);
    indexes_.push_back(index);
    const std::span<const double> own = numbers.subspan(index * numbers_a_key_, numbers_a_key_);
    numbers_.insert(numbers_.end(), own.begin(), own.end());
  }
}

bool FunctionCallOperation::is_held_back() const {
  return function_.changes_rows() && table_.rules().holds_updates_back;
}

absl::Status FunctionCallOperation::check() const {
  std::size_t of_part = 0;
  for (std::size_t i = 0; i < messages_.size(); ++i) {
    const Message& message = messages_[i];
    const std::size_t most = protocol::max_bulk_bytes(message.part->link->inbox_bytes);
    if (bytes_of(message) > most) {
      return absl::ResourceExhaustedError(
          fmt::format("a message of {} bytes for one key of \"{}\", expected at most {}: a larger inbox has "
                      "room for it (inbox_bytes)",
                      bytes_of(message), text_, most));
    }
    of_part = i > 0 && messages_[i - 1].part == message.part ? of_part + 1 : 1;
    if (is_held_back() && message.part->view->open_calls + of_part > kMostHeldCalls) {
      return absl::ResourceExhaustedError(
          fmt::format("a lane takes {} messages to functions that change rows in a clock, and \"{}\" needs "
                      "more: call it for fewer keys",
                      kMostHeldCalls, text_));
    }
  }
  return absl::OkStatus();
}

std::size_t FunctionCallOperation::bytes_of(const Message& message) const {
  return protocol::call_bytes(text_.size()) + message.count * protocol::call_bytes_a_key(numbers_a_key_);
}

std::string FunctionCallOperation::other_wait() const {
  return table_.session_.clocks_awaited(what);
}

/// One that changes rows is like a push, which waits for nobody.
bool FunctionCallOperation::may_send(std::size_t index) const {
  return function_.changes_rows() || messages_[index].part->view->min_clock >= table_.needed_min_clock();
}

bool FunctionCallOperation::advance() {
  while (!again_.empty() && may_send(again_.back()) && send(again_.back())) again_.pop_back();
  while (!is_sent() && may_send(sent_) && send(sent_)) ++sent_;
  awaited = nullptr;
  const auto first = std::find_if(messages_.begin(), messages_.end(),
                                  [](const Message& message) { return !message.is_answered; });
  if (first == messages_.end()) return true;
  const bool is_under_way = first < messages_.begin() + static_cast<std::ptrdiff_t>(sent_);
  if (is_under_way ? !is_held_back() : may_send(sent_)) awaited = first->part->link;
  return false;
}

FunctionResult FunctionCallOperation::result() const {
  FunctionResult all = messages_.empty() ? function_.make()->result() : messages_.front().result;
  for (std::size_t i = 1; i < messages_.size(); ++i) function_.merge(all, messages_[i].result);
  return all;
}

/// False: not now, or memory is short, which ends the session.
bool FunctionCallOperation::send(std::size_t index) {
  Message& message = messages_[index];
  Part& part = *message.part;
  SessionCore& session = table_.session_;
  if (part.view->open_calls == protocol::kMaxOpenCalls) return false;
  if (!message.memory) {
    const absl::StatusOr<LocalSpan> memory = session.staging().take(bytes_of(message));
    if (!memory.ok()) {
      session.fail(memory.status());
      return false;
    }
    message.memory = *memory;
    message.bytes = protocol::encode_call(
        {.kind = function_.changes_rows() ? protocol::BulkKind::kCall : protocol::BulkKind::kLook,
         .table = table_.number(),
         .lane = part.lane,
         .count = static_cast<std::uint32_t>(message.count),
         .clock = session.current_clock()},
        {.tag = table_.awaited_calls_.add(shared_from_this(), index),
         .range = range_,
         .keys = std::span(keys_).subspan(message.first, message.count),
         .numbers_a_key = numbers_a_key_,
         .numbers =
             std::span(numbers_).subspan(message.first * numbers_a_key_, message.count * numbers_a_key_),
         .text = text_},
        message.memory->bytes);
  }
  message.clock = part.view->min_clock;
  message.shipped = part.updates->shipped;
  message.heard = part.view->lookups.heard();
  if (!session.try_send(*part.link, message.memory->bytes.first(message.bytes), *message.memory->region))
    return false;
  ++part.view->open_calls;
  return true;
}

void FunctionCallOperation::on_lost_server(const ServerLink& link) {
  for (std::size_t index = 0; index < sent_; ++index) {
    Message& message = messages_[index];
    const bool is_asked = std::find(again_.begin(), again_.end(), index) == again_.end();
    if (message.part->link != &link || message.is_answered || !is_asked) continue;
    message.words.clear();
    if (function_.changes_rows()) continue;
    --message.part->view->open_calls;
    again_.push_back(index);
  }
}

absl::StatusOr<bool> FunctionCallOperation::on_piece(const ServerLink& link, std::size_t index,
                                                     const protocol::BulkMessage& piece) {
  Message& message = messages_[index];
  if (message.part->link != &link || message.part->lane != piece.header.lane)
    return absl::InvalidArgumentError("answered a call that another lane was asked");
  const absl::StatusOr<protocol::ResultPiece> taken = protocol::take_piece(piece, message.words);
  if (!taken.ok()) return taken.status();
  if (index >= sent_) return absl::InvalidArgumentError("answered a call before it was made");
  if (taken->words_left > 0) return false;
  absl::StatusOr<protocol::CallAnswer> answer = protocol::decode_answer(message.words);
  if (!answer.ok()) return answer.status();
  --message.part->view->open_calls;
  table_.session_.staging().give(*message.memory);
  message.is_answered = true;
  message.result = std::move(answer->result);
  std::vector<std::uint64_t>().swap(message.words);
  if (!answer->status.ok() && status.ok()) {
    status = absl::Status(answer->status.code(),
                          fmt::format("{}: {}", message.part->link->connection->peer_name(),
                                      base::printable(std::string(answer->status.message()))));
  }
  return true;
}

absl::Status AwaitedCalls::on_piece(const ServerLink& link, const protocol::BulkMessage& message) {
  protocol::BulkMessage tagged = message;
  const absl::StatusOr<protocol::Tag> tag = protocol::take_tag(tagged);
  if (!tag.ok()) return tag.status();
  const auto found = calls_.find(*tag);
  // A copy of a server does not know which answers have come from the one before it.
  if (found == calls_.end() && link.sent != nullptr && *tag < next_) return absl::OkStatus();
  if (found == calls_.end()) return absl::InvalidArgumentError("answered a call that nobody has made");
  const std::shared_ptr<FunctionCallOperation> call = found->second.call.lock();
  if (call == nullptr) return absl::OkStatus();
  const absl::StatusOr<bool> was_last = call->on_piece(link, found->second.index, message);
  if (was_last.ok() && *was_last) calls_.erase(found);
  return was_last.status();
}

}  // namespace verbena::worker
