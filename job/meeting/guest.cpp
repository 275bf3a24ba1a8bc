#include "job/meeting/guest.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "job/meeting/messages.hpp"

namespace verbena::job {

using nlohmann::json;
using transport::Event;
using transport::TimePoint;

MeetingGuest::MeetingGuest(const MeetingOptions& options, transport::Transport& transport,
                           std::unique_ptr<transport::Connection> leader, Hearing& hearing, SharedEnd& end)
    : rank_(options.joins ? std::nullopt : std::optional(options.rank)),
      size_(options.size),
      is_led_by_etcd_(options.etcd.has_value()),
      transport_(transport),
      hearing_(hearing),
      end_(end),
      wire_(std::move(leader)),
      search_(options),
      watch_(options.leader_silence) {
  wire_->say(rank_
                 ? line_of({{says::kRank, *rank_}, {says::kSize, size_}, {says::kVersion, kMeetingVersion}})
                 : line_of({{says::kJoins, true}, {says::kSize, size_}, {says::kVersion, kMeetingVersion}}));
  if (rank_) roster_ = Roster::of_beginning(size_);
}

void MeetingGuest::on_own_words(std::string_view words) {
  if (!search_.is_on() && wire_) return wire_->say(words);
  if (unsaid_.size() + words.size() <= Wire::kMostHeldBytes) unsaid_ += words;
}

void MeetingGuest::on_event(const Event& event) {
  if (!wire_ || !wire_->uses(event.connection)) return;
  if (event.kind == Event::Kind::kMessage) {
    watch_.hear();
    static_cast<void>(wire_->hear(event.message, [&](std::string_view line) { take(line); }));
    return leave_who_refuses();
  }
  if (event.kind == Event::Kind::kDisconnected && end_.is_watching()) lose_leader();
}

/// Another one may come that can be.
void MeetingGuest::leave_who_refuses() {
  if (!refusal_) return;
  wire_.reset();
  search_.be_refused(std::chrono::steady_clock::now(), *std::exchange(refusal_, std::nullopt));
}

void MeetingGuest::take(std::string_view line) {
  if (refusal_) return;
  const json object = json::parse(line, nullptr, false);
  const auto obstacle = [&] { return obstacle_of_version(object, "rank 0", "this process"); };
  if (const auto job = text_in(object, says::kJob)) {
    job_ = *job;
    if (const std::string why = obstacle(); !why.empty()) hearing_.hear(line_of({{says::kRefused, why}}));
  } else if (has(object, says::kRoster)) {
    const std::optional<Roster> roster = roster_in(object[says::kRoster]);
    if (!roster) return;
    roster_ = *roster;
    wire_->say(line_of({{says::kKnows, roster_.number}}));
  } else if (has(object, says::kNames)) {
    names_ = names_in(object);
  } else if (has(object, says::kBeat)) {
    watch_.hear_beat(std::chrono::steady_clock::now());
  } else if (const auto question = number_in(object, says::kAsks)) {
    wire_->say(line_of({{says::kFollows, *question}}));
  } else if (has(object, says::kRecall)) {
    wire_->say(hearing_.notes().lines());
  } else if (const auto refused = text_in(object, says::kRefused); refused && search_.is_on()) {
    refusal_ = *refused;
  } else if (has(object, says::kLeads) && !obstacle().empty()) {
    refusal_ = obstacle();
  } else if (const auto leader = number_in(object, says::kLeads)) {
    led_by_ = *leader;
    search_.end();
    wire_->say(std::exchange(unsaid_, {}));
  } else {
    if (number_in(object, says::kLate)) roster_ = {};  // it is on none that this process could know
    hearing_.hear(line);
  }
}

/// Its connection has ended.
void MeetingGuest::lose_leader() {
  const std::string why = fmt::format("rank 0 ({}) is gone: {}", wire_->peer_name(), wire_->how_it_ended());
  do_without_leader(why, "start it again");
}

/// It is as good as gone. If it goes on, it is to find that it was left, and nothing that it says then is
/// heard: so its connection ends here.
void MeetingGuest::leave_leader() {
  const std::string name = wire_->peer_name();
  const std::string why =
      fmt::format("rank 0 ({}) has shown no sign of life for {:.1f} s: it is stopped, or its host hangs",
                  name, watch_.silent_seconds());
  do_without_leader(why, fmt::format("end {} (kill -9), and start it again", name));
}

void MeetingGuest::do_without_leader(const std::string& why, const std::string& what_to_do) {
  const TimePoint now = std::chrono::steady_clock::now();
  watch_.end();
  if (!search_.is_on()) {
    const PeerNews::Listener& listener = hearing_.listener();
    const bool waits =
        patience_.count() > 0 && !end_.has_lost() && listener.describe && !listener.describe().empty();
    if (!waits) return hearing_.lose(why);
    end_.show(fmt::format(
        "verbena: {}: this process waits {} s for another one in its place: {}, with the same command line{}",
        why, patience_.count() / 1000, what_to_do, is_led_by_etcd_ ? ", on any host" : ""));
    search_.begin(now, patience_, why);
    if (listener.on_leader_gone) listener.on_leader_gone();
  }
  wire_.reset();
  search_.go_on(now);
}

void MeetingGuest::travel() {
  if (end_.is_leaving()) return;
  if (std::unique_ptr<transport::Connection> found = search_.try_to_connect(transport_))
    wire_.emplace(std::move(found));
}

std::chrono::milliseconds MeetingGuest::turn() const {
  return search_.is_on() ? LeaderSearch::turn() : MeetingRole::turn();
}

void MeetingGuest::on_time(TimePoint now) {
  if (search_.takes_introduction()) wire_->say(introduction());
  if (const std::optional<std::string> why = search_.take_failure(now)) hearing_.lose(*why);
  const bool needs_leader = !search_.is_on() && end_.is_watching() && !end_.is_leaving();
  if (needs_leader && watch_.look(now)) leave_leader();
  if (end_.is_due()) end_.end(end_.lost());
}

std::string MeetingGuest::introduction() const {
  const PeerNews::Listener& listener = hearing_.listener();
  return back_line({.rank = hearing_.place().value_or(rank_.value_or(0)),
                    .size = size_,
                    .incarnation = hearing_.incarnation(),
                    .job = job_,
                    .led_by = led_by_,
                    .roster = roster_,
                    .word = listener.describe ? listener.describe() : std::string(),
                    .names = names_});
}

bool MeetingGuest::try_to_say_all() {
  if (!wire_) return true;
  wire_->flush();
  return wire_->has_said_all();
}

}  // namespace verbena::job
