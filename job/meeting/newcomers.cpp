#include "job/meeting/newcomers.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "job/meeting/messages.hpp"

namespace verbena::job {
namespace {

/// From a connection to its first line, and from the last word to one that has to go to its end.
constexpr auto kIntroduction = std::chrono::milliseconds(10000);

}  // namespace

void Newcomer::refuse(const std::string& why, transport::TimePoint now) {
  spdlog::warn("a process at the rendezvous is refused ({}): {}", wire.peer_name(), why);
  waits_for.reset();
  send_away(refused_line(why), now);
}

void Newcomer::send_away(const std::string& words, transport::TimePoint now) {
  wire.say(words);
  is_refused = true;
  deadline = now + kIntroduction;
}

void Newcomers::take_in(std::unique_ptr<transport::Connection> connection, std::size_t most,
                        transport::TimePoint now) {
  if (newcomers_.size() >= most) newcomers_.pop_front();
  newcomers_.push_back({.wire = Wire(std::move(connection)), .deadline = now + kIntroduction});
}

void Newcomers::hear(const transport::Event& event,
                     const std::function<bool(Newcomer& newcomer)>& introduce) {
  const auto newcomer = find(event.connection);
  if (newcomer == newcomers_.end() || newcomer->is_refused) return;
  std::size_t bytes = 0;
  const bool is_possible =
      newcomer->wire.hear(event.message, [&](std::string_view line) { newcomer->lines.emplace_back(line); });
  for (const std::string& line : newcomer->lines) bytes += line.size();
  if (!is_possible || bytes > Wire::kMostHeldBytes) {
    newcomers_.erase(newcomer);
    return;
  }
  if (!newcomer->lines.empty() && !newcomer->waits_for && introduce(*newcomer)) newcomers_.erase(newcomer);
}

bool Newcomers::forget(const transport::Connection* connection) {
  const auto newcomer = find(connection);
  if (newcomer == newcomers_.end()) return false;
  newcomers_.erase(newcomer);
  return true;
}

void Newcomers::remove_if(const std::function<bool(Newcomer& newcomer)>& has_seat) {
  std::erase_if(newcomers_, has_seat);
}

void Newcomers::on_time(transport::TimePoint now,
                        const std::function<std::string(std::uint32_t rank)>& why_refused) {
  for (Newcomer& each : newcomers_) {
    if (each.waits_for && now >= each.deadline) each.refuse(why_refused(*each.waits_for), now);
  }
  std::erase_if(newcomers_, [&](const Newcomer& each) { return now >= each.deadline; });
}

bool Newcomers::try_to_say_all() {
  bool has_said_all = true;
  for (Newcomer& each : newcomers_) {
    each.wire.flush();
    has_said_all = has_said_all && each.wire.has_said_all();
  }
  return has_said_all;
}

std::deque<Newcomer>::iterator Newcomers::find(const transport::Connection* connection) {
  return std::ranges::find_if(newcomers_, [&](const Newcomer& each) { return each.wire.uses(connection); });
}

}  // namespace verbena::job
