#include "worker/moving/home_census.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "worker/moving/moving_rows.hpp"

namespace verbena::worker {

using protocol::KeyAnswers;
using protocol::KeyRequests;

HomeCensus::HomeCensus(MovingRows& rows, const protocol::Census& census, ServerLink& heir)
    : MovingOperation(rows, "census of a home's rows"),
      census_(census),
      heir_(heir),
      range_(rows.directory.home_keys(census.server)),
      next_(range_.first),
      open_(rows.nodes.size(), 0) {}

bool HomeCensus::is_in_vain() const {
  return heir_.is_dead || rows_.session.has_left();
}

bool HomeCensus::do_own() {
  if (rows_.censuses.front() != this) return false;
  if (!is_in_vain()) {
    const bool has_asked_all = ask();
    const bool has_passed_all_on = pass_on();
    if (!has_asked_all || !has_passed_all_on || waits_for_answers()) return false;
    if (!rows_.session.try_tell(heir_, census_)) return false;
  }
  // Otherwise answers would come that nobody knows anything about.
  if (waits_for_answers()) return false;
  rows_.censuses.pop_front();
  ++rows_.generation;
  return true;
}

bool HomeCensus::waits_for_answers() const {
  return std::any_of(open_.begin(), open_.end(), [](std::size_t open) { return open > 0; });
}

bool HomeCensus::ask() {
  for (; asked_ < rows_.nodes.size(); ++asked_, next_ = range_.first) {
    while (next_ < range_.last && !rows_.nodes[asked_].is_dead) {
      std::vector<KeyRequests::Row> some;
      const Key end = std::min<Key>(range_.last, next_ + protocol::MessageRoom<KeyRequests::Row>::kMaxItems);
      for (Key key = next_; key < end; ++key) some.push_back({.key = key});
      const std::size_t sent = rows_.send_some(asked_, KeyRequests::Kind::kFind, some);
      if (sent == 0) return false;
      open_[asked_] += sent;
      next_ += sent;
    }
  }
  return true;
}

bool HomeCensus::pass_on() {
  while (!found_.empty()) {
    KeyAnswers message{.table = rows_.table};
    protocol::MessageRoom<KeyAnswers::Answer> room;
    for (const KeyAnswers::Answer& answer : found_) {
      if (!room.take(answer)) break;
      message.answers.push_back(answer);
    }
    if (!rows_.session.try_tell(heir_, message)) return false;
    found_.erase(found_.begin(), found_.begin() + static_cast<std::ptrdiff_t>(message.answers.size()));
  }
  return true;
}

absl::Status HomeCensus::on_answer(const ServerLink& link, const KeyAnswers::Answer& answer) {
  // An image is of the node where the row was.
  const bool is_image = answer.kind == KeyAnswers::Kind::kHasImage;
  const bool is_of_link = is_image ? rows_.nodes[answer.node].is_dead : answer.node == link.server;
  if (!is_of_link || open_[link.server] == 0 || !range_.contains(answer.key)) {
    return absl::InvalidArgumentError(
        fmt::format("found key {} on server {}, which nobody asked", answer.key, answer.node));
  }
  --open_[link.server];
  if (answer.kind == KeyAnswers::Kind::kHas || is_image) found_.push_back(answer);
  return absl::OkStatus();
}

}  // namespace verbena::worker
