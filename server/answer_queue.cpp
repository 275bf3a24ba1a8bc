#include "server/answer_queue.hpp"

#include <fmt/format.h>

#include <utility>

namespace verbena::server {

absl::Status AnswerQueue::expect(std::size_t more) {
  expected_ += more;
  if (expected_ <= protocol::kMaxOpenRequests) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("asks about {} rows at a time, expected at most {}",
                                                expected_, protocol::kMaxOpenRequests));
}

void AnswerQueue::add(std::variant<protocol::PushAnswer, protocol::InstallAnswer> answer) {
  std::visit([&](auto& one) { waiting_.emplace_back(std::move(one)); }, answer);
}

std::optional<protocol::ControlMessage> AnswerQueue::take_message() {
  if (waiting_.empty()) return std::nullopt;
  std::optional<protocol::ControlMessage> message;
  if (auto* const pushed = std::get_if<protocol::PushAnswer>(&waiting_.front())) {
    expected_ -= std::size_t{pushed->records} + 1;
    message = std::move(*pushed);
    waiting_.pop_front();
    return message;
  }
  if (const auto* const installed = std::get_if<protocol::InstallAnswer>(&waiting_.front())) {
    --expected_;
    message = *installed;
    waiting_.pop_front();
    return message;
  }
  protocol::KeyAnswers answers{.table = std::get<KeyAnswer>(waiting_.front()).table};
  protocol::MessageRoom<protocol::KeyAnswers::Answer> room;
  while (!waiting_.empty()) {
    const auto* const next = std::get_if<KeyAnswer>(&waiting_.front());
    if (next == nullptr || next->table != answers.table || !room.take(next->answer)) break;
    if (next->answer.kind != protocol::KeyAnswers::Kind::kAlone) --expected_;
    answers.answers.push_back(next->answer);
    waiting_.pop_front();
  }
  message = std::move(answers);
  return message;
}

}  // namespace verbena::server
