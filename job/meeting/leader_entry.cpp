#include "job/meeting/leader_entry.hpp"

#include <fmt/format.h>
#include <netdb.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "base/return_if_error.hpp"
#include "job/json_line.hpp"
#include "job/line_stream.hpp"
#include "job/meeting/messages.hpp"
#include "transport/message_outbox.hpp"

namespace verbena::job {
namespace {

using nlohmann::json;
using transport::Connection;
using transport::Event;
using transport::TimePoint;
using Clock = std::chrono::steady_clock;

constexpr const char* kEntryPlace = "place";
constexpr const char* kEntryMark = "mark";
constexpr std::size_t kMostEntryBytes = 1024;
/// A process that has been connected to answers, unless it is stopped.
constexpr auto kEntryAnswer = std::chrono::seconds(2);

bool is_address(const std::string& host) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return false;
  ::freeaddrinfo(found);
  return !host.empty();
}

/// Whether the other end has that mark, as soon as it says so. nullopt: it does not.
std::optional<bool> ask_whether(const std::string& mark, transport::Transport& transport,
                                Connection& connection, TimePoint latest) {
  const TimePoint deadline = std::min<TimePoint>(latest, Clock::now() + kEntryAnswer);
  transport::MessageOutbox outbox;
  static_cast<void>(outbox.send(connection, line_of({{says::kLooksFor, mark}})));
  LineStream lines;
  std::optional<bool> answer;
  std::array<Event, 8> events;
  while (!answer && connection.status().ok() && Clock::now() < deadline) {
    outbox.flush(connection);
    for (const Event& event : std::span(events).first(transport.poll(events))) {
      if (event.connection != &connection || event.kind != Event::Kind::kMessage) continue;
      lines.add({reinterpret_cast<const char*>(event.message.data()), event.message.size()},
                [&](std::string_view line) {
                  const json object = json::parse(line, nullptr, false);
                  if (has(object, says::kIsIt) && object[says::kIsIt].is_boolean())
                    answer = object[says::kIsIt].get<bool>();
                });
    }
    if (!answer) transport.wait(std::min<TimePoint>(deadline, Clock::now() + std::chrono::milliseconds(50)));
  }
  return answer;
}

}  // namespace

std::string encode(const LeaderEntry& entry) {
  return json({{kEntryPlace, to_string(entry.place)}, {kEntryMark, entry.mark}}).dump();
}

std::optional<LeaderEntry> decode_leader_entry(std::string_view value) {
  if (value.size() > kMostEntryBytes) return std::nullopt;
  const json object = json::parse(value, nullptr, false);
  const std::optional<std::string> text = text_in(object, kEntryPlace);
  std::optional<std::string> mark = text_in(object, kEntryMark);
  if (!text || !mark || mark->empty()) return std::nullopt;
  absl::StatusOr<transport::HostPort> place = transport::parse_host_port(*text);
  // A name would have to be asked for, without a bound, and rank 0 writes none.
  if (!place.ok() || !is_address(place->host) || place->port == 0) return std::nullopt;
  return LeaderEntry{.place = *std::move(place), .mark = *std::move(mark)};
}

absl::StatusOr<std::unique_ptr<Connection>> connect_to(const LeaderEntry& entry,
                                                       transport::Transport& transport, TimePoint deadline) {
  absl::StatusOr<std::unique_ptr<Connection>> connection =
      transport.connect("tcp:" + to_string(entry.place), deadline);
  if (!connection.ok()) return connection;
  const std::optional<bool> is_it = ask_whether(entry.mark, transport, **connection, deadline);
  if (is_it == true) return connection;
  const std::string place = to_string(entry.place);
  if (is_it == false)
    return absl::NotFoundError(fmt::format("{}: another process listens there by now", place));
  return absl::DeadlineExceededError(fmt::format("{}: who listens there does not answer", place));
}

}  // namespace verbena::job
