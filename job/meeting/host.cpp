#include "job/meeting/host.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "job/line_stream.hpp"
#include "job/meeting/leader_watch.hpp"
#include "job/meeting/messages.hpp"

namespace verbena::job {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using transport::Event;
using transport::TimePoint;

constexpr auto kBetweenReminders = milliseconds(5000);  // that some have not come
constexpr std::size_t kMostNamed = 8;                   // of those that have not come
constexpr std::uint32_t kAnotherRank = UINT32_MAX;      // of one that joins, and has none yet

/// Between two turns of the thread. More shows that this process was stopped, or nearly so; others who know
/// no better hear nothing of it for that time, and for one beat more.
constexpr auto kLongestTurn = 2 * LeaderWatch::kBetweenBeats;

constexpr const char* kAnotherJob = "another job has begun where its rank 0 was";

}  // namespace

MeetingHost::MeetingHost(const MeetingOptions& options, transport::Transport& transport, std::string mark,
                         Hearing& hearing, SharedEnd& end, Clock clock)
    : size_(options.size),
      before_place_is_free_(options.before_place_is_free),
      before_giving_up_(options.before_giving_up),
      mark_(std::move(mark)),
      clock_(std::move(clock)),
      own_time_(clock_()),
      transport_(transport),
      hearing_(hearing),
      end_(end),
      job_(fresh_name()),
      board_(options.size),
      seats_(options.size),
      returned_(options.for_stragglers) {}

// ---- what this process asks for

void MeetingHost::outlive(const std::vector<std::uint32_t>& ranks) {
  for (const std::uint32_t rank : ranks) {
    if (rank < seats_.size()) seats_[rank].is_outlived = true;
  }
  outlives_others_ = true;
}

void MeetingHost::tell(const std::string& news) {
  if (is_not_to_tell([this, news] { tell(news); })) return;
  const std::string line = line_of({{says::kNews, news}});
  seats_.tell_all(line);
  hearing_.hear(line);
}

void MeetingHost::tell_one(std::uint32_t rank, const std::string& news) {
  if (is_not_to_tell([this, rank, news] { tell_one(rank, news); })) return;
  const std::string line = line_of({{says::kNews, news}});
  if (rank == 0) return hearing_.hear(line);
  if (seats_[rank].wire && !seats_[rank].is_dismissed) seats_[rank].wire->say(line);
}

void MeetingHost::dismiss(std::uint32_t rank, const std::string& why) {
  if (rank == 0 || rank >= seats_.size()) return;
  if (is_not_to_tell([this, rank, why] { dismiss(rank, why); })) return;
  RankSeat& seat = seats_[rank];
  if (std::exchange(seat.is_dismissed, true) || !seat.wire) return;
  seat.wire->say(dismissed_line(why));
}

void MeetingHost::release(std::uint32_t rank) {
  if (is_not_to_tell([this, rank] { release(rank); })) return;
  if (rank != 0) seats_[rank].is_dismissed = true;
}

void MeetingHost::give_place(std::uint32_t added, std::uint32_t rank) {
  if (is_not_to_tell([this, added, rank] { give_place(added, rank); })) return;
  RankSeat& before = seats_[added];
  if (!before.wire || before.is_dismissed) return;
  if (!seats_.is_free(rank)) return dismiss(added, another_has_come(rank));
  before.is_gone = before.is_dismissed = true;
  RankSeat& seat = seats_.seat(rank, *std::exchange(before.wire, std::nullopt));
  seat.has_spoken = true;
  seat.wire->say(line_of({{says::kPlace, rank}}) + line_of({{says::kLate, seat.incarnation}}));
}

void MeetingHost::on_listen() {
  const PeerNews::Listener& listener = hearing_.listener();
  if (!listener.on_gone || !seats_[0].is_late() || std::exchange(has_told_who_is_gone_, true)) return;
  for (std::uint32_t rank = 1; rank < seats_.size(); ++rank) {
    if (seats_[rank].is_gone)
      listener.on_gone(rank, fmt::format("rank {} is gone: it has not come back", rank));
  }
  if (!listener.on_word) return;
  for (const auto& [rank, word] : std::exchange(held_words_, {})) listener.on_word(rank, word);
}

/// Before anything is heard: what others have said and done meanwhile is to be taken in the light of that.
void MeetingHost::begin_turn(TimePoint now) {
  const bool was_stopped = seems_stopped(now);
  turn_began_at_ = now;
  own_time_.look(now);
  if (was_stopped && keeper_ && outlives_others_ && !leads_no_more_) begin_doubt();
}

void MeetingHost::on_own_words(std::string_view words) {
  if (has_to_wait([this, said = std::string(words)] { on_own_words(said); })) return;
  LineStream lines;
  lines.add(words, [&](std::string_view line) { on_line(0, line); });
}

void MeetingHost::on_event(const Event& event) {
  switch (event.kind) {
    case Event::Kind::kAccepted:
      if (auto connection = transport_.take_accepted())
        newcomers_.take_in(std::move(connection), most_without_seat(), own_time_.now());
      return;
    case Event::Kind::kMessage:
      return on_message(event);
    case Event::Kind::kDisconnected:
      return on_gone(event.connection);
    case Event::Kind::kCompletion:
    case Event::Kind::kNotification:
      return;
  }
}

void MeetingHost::on_message(const Event& event) {
  if (const std::optional<std::uint32_t> rank = seats_.find(event.connection)) {
    const bool is_possible =
        seats_[*rank].wire->hear(event.message, [&](std::string_view line) { on_line(*rank, line); });
    if (!is_possible || board_.news_bytes() > Wire::kMostHeldBytes)
      end_all(*rank, fmt::format("rank {} has said more than there can be to say", *rank));
    return;
  }
  switch (returned_.hear(event)) {
    case ReturnedProcesses::Heard::kAll:
      return take_over();
    case ReturnedProcesses::Heard::kSomething:
      return;
    case ReturnedProcesses::Heard::kNobodyHere:
      return newcomers_.hear(event, [&](Newcomer& newcomer) { return introduce(newcomer); });
  }
}

void MeetingHost::on_time(TimePoint now) {
  if (!board_.have_met() && board_.is_at_fence(0)) returned_.consider(own_time_.now());
  give_seats();
  newcomers_.on_time(own_time_.now(), [&](std::uint32_t rank) { return another_has_come(rank); });
  if (is_waited_for_ && now >= next_reminder_) {
    next_reminder_ = now + kBetweenReminders;
    remind();
  }
  if (end_.is_due() && !has_ended_ && !doubt_) end_all(0, end_.lost());
  tell_roster(now);
  settle_doubt(now);
  if (now >= next_beat_) {
    next_beat_ = now + LeaderWatch::kBetweenBeats;
    seats_.tell_all(line_of({{says::kBeat, true}}));
  }
}

bool MeetingHost::try_to_say_all() {
  const bool all_of_seats = seats_.try_to_say_all();
  const bool all_of_newcomers = newcomers_.try_to_say_all();
  const bool all_of_returned = returned_.try_to_say_all();
  const bool all_orders = !doubt_ || doubt_->orders.empty();
  return all_of_seats && all_of_newcomers && all_of_returned && all_orders;
}

// ---- who comes

/// By its first line. False: it stays a newcomer, until it goes, or has a seat.
bool MeetingHost::introduce(Newcomer& newcomer) {
  const json object = json::parse(newcomer.lines.front(), nullptr, false);
  const std::optional<std::string> mark = text_in(object, says::kLooksFor);
  if (mark && !std::exchange(newcomer.has_looked, true)) return answer_whether_it_is(newcomer, *mark);
  const bool says_who_it_is =
      has(object, says::kRank) || has(object, says::kJoins) || has(object, says::kBack);
  const std::string other = says_who_it_is ? obstacle_of_version(object, "it", "rank 0") : "";
  if (!other.empty()) return refuse_version_of(newcomer, object, other);
  if (has(object, says::kBack)) return take_back(newcomer, object);
  const std::optional<std::uint32_t> rank =
      has(object, says::kJoins) ? kAnotherRank : number_in(object, says::kRank);
  const std::string why = obstacle(rank, number_in(object, says::kSize));
  if (!why.empty()) {
    newcomer.refuse(why, own_time_.now());
    return false;
  }
  newcomer.lines.erase(newcomer.lines.begin());
  if (!is_free(*rank)) {
    newcomer.waits_for = rank;
    newcomer.deadline = own_time_.now() + before_place_is_free_;
    return false;
  }
  seat(newcomer, *rank);
  return true;
}

/// It introduces itself next, or goes.
bool MeetingHost::answer_whether_it_is(Newcomer& newcomer, const std::string& mark) {
  newcomer.wire.say(line_of({{says::kIsIt, mark == mark_}}));
  newcomer.lines.erase(newcomer.lines.begin());
  return !newcomer.lines.empty() && introduce(newcomer);
}

/// One that is back is of a job that runs, and must not end by this: it looks on for a rank 0 that it
/// understands. False: it stays a newcomer, which is sent away.
bool MeetingHost::refuse_version_of(Newcomer& newcomer, const json& object, const std::string& why) {
  const bool is_back = has(object, says::kBack);
  if (!is_back) {
    newcomer.refuse(why, own_time_.now());
    return false;
  }
  if (clock_() >= next_warning_) {
    next_warning_ = clock_() + kBetweenReminders;
    spdlog::warn("a process of a job that runs is refused, and waits for another rank 0 ({}): {}",
                 newcomer.wire.peer_name(), why);
  }
  if (!has(object, says::kVersion)) return true;  // it would take it for the end of the job
  newcomer.send_away(refused_line(why), own_time_.now());
  return false;
}

/// It is of a job whose rank 0 is gone. False: it stays a newcomer, which is sent away, and ends by what it
/// hears. So that is said only if no other rank 0 can need it: else its connection ends, and it comes again.
bool MeetingHost::take_back(Newcomer& newcomer, const json& object) {
  std::optional<Back> back = back_in(object, size_);
  if (back && back->job == job_ && board_.have_met() && !is_certainly_without(*back)) return true;
  if (!back || board_.have_met()) {
    const std::string why =
        !back ? "rank 0 does not understand what it is"
        : back->job == job_
            ? std::string("rank 0 goes on without it, since the connection between them has ended")
            : kAnotherJob;
    newcomer.send_away(last_words_ + dismissed_line(why), own_time_.now());
    return false;
  }
  returned_.add(std::move(newcomer.wire), *std::move(back), most_without_seat());
  return true;
}

/// Why no such process can be let in; empty: one can.
std::string MeetingHost::obstacle(std::optional<std::uint32_t> rank,
                                  std::optional<std::uint32_t> size) const {
  if (!rank || !size) return "it did not say which process it is";
  if (*size != size_) return fmt::format("it was told of {} processes, and rank 0 of {}", *size, size_);
  const bool ends = has_lacked_ || has_ended_;
  if (*rank == kAnotherRank) return ends ? "the job ends" : "";
  if (*rank == 0 || *rank >= seats_.size())
    return fmt::format("its rank is {}, of {} processes", *rank, *size);
  if (!seats_[*rank].has_come) return {};
  if (!seats_[*rank].is_outlived) return another_has_come(*rank);
  if (seats_[*rank].has_said_goodbye) return fmt::format("rank {} has left the job", *rank);
  return ends ? "the job ends" : "";
}

std::string MeetingHost::another_has_come(std::uint32_t rank) const {
  if (rank == kAnotherRank) {
    return "the job has not begun, or takes no other processes: expected its processes to be started with "
           "--elastic or --replicas";
  }
  return fmt::format("another process has come as rank {} ({})", rank, seats_.name_of(rank));
}

/// A seat of one that is gone is free when the run goes on without it: what is decided about that one must
/// not be taken for a decision about this one.
bool MeetingHost::is_free(std::uint32_t rank) const {
  return rank == kAnotherRank ? outlives_others_ : seats_.is_free(rank);
}

void MeetingHost::seat(Newcomer& newcomer, std::uint32_t rank) {
  const bool joins = rank == kAnotherRank;
  if (joins) rank = seats_.add();
  RankSeat& seat = seats_.seat(rank, std::move(newcomer.wire));
  std::string words = line_of({{says::kJob, job_}, {says::kVersion, kMeetingVersion}});
  if (joins) words += line_of({{says::kPlace, rank}});
  if (seat.is_late()) words += line_of({{says::kLate, seat.incarnation}});
  seat.wire->say(words + last_words_);
  for (const std::string& line : newcomer.lines) on_line(rank, line);
}

void MeetingHost::give_seats() {
  newcomers_.remove_if([&](Newcomer& each) {
    if (!each.waits_for || !is_free(*each.waits_for)) return false;
    seat(each, *each.waits_for);
    return true;
  });
}

// ---- what they say

void MeetingHost::on_line(std::uint32_t rank, std::string_view line) {
  if (seats_[rank].is_dismissed) return;
  const json object = json::parse(line, nullptr, false);
  if (!board_.have_met()) seats_[rank].said.emplace_back(line);
  if (const auto known = number_in(object, says::kKnows)) {
    if (keeper_) keeper_->hear(rank, *known);
    return;
  }
  if (const auto question = number_in(object, says::kFollows)) {
    if (doubt_ && doubt_->question == *question) doubt_->have_answered.insert(rank);
    return;
  }
  if (const std::optional<std::string> word = text_in(object, says::kWord)) return on_word(rank, *word);
  if (seats_[rank].is_late()) return on_line_of_late(rank, object);
  if (has(object, says::kBye)) return on_goodbye(rank);
  if (const std::optional<std::string> why = text_in(object, says::kAbort)) return end_all(rank, *why);
  if (const absl::Status said = board_.take(rank, line); !said.ok())
    return end_all(rank, std::string(said.message()));
  if (const std::optional<std::string> heard = board_.let_go()) {
    let_go(*heard);
  } else if (!is_waited_for_ && board_.is_at_fence(rank)) {
    is_waited_for_ = true;
    next_reminder_ = clock_() + kBetweenReminders;
  }
}

void MeetingHost::on_word(std::uint32_t rank, const std::string& word) {
  seats_[rank].has_spoken = true;
  if (hearing_.listener().on_word) {
    hearing_.listener().on_word(rank, word);
  } else if (seats_[0].is_late()) {  // those who are back have something to say before it listens
    held_words_.emplace_back(rank, word);
  }
}

void MeetingHost::on_goodbye(std::uint32_t rank) {
  seats_[rank].is_gone = seats_[rank].has_said_goodbye = seats_[rank].has_ended = true;
  if (rank == 0) {
    tell_all_for_good(line_of({{says::kBye, true}}));
  } else if (!seats_[rank].is_outlived) {  // else the others, too, have been at all fences
    lack(fmt::format("rank {} ({}) has left the job", rank, seats_.name_of(rank)));
  }
}

/// All have come to a fence, and hear this. Nobody can begin as a process of another job any more.
void MeetingHost::let_go(const std::string& heard) {
  seats_.tell_all(heard);
  hearing_.hear_all(heard);
  is_waited_for_ = false;
  for (std::uint32_t rank = 0; rank < seats_.size(); ++rank) seats_[rank].said.clear();
  for (ReturnedProcess& one : returned_.take_all()) seats_.send_away(std::move(one.wire), kAnotherJob);
}

/// It meets nobody any more, and what it has to tell all are words. The job goes on without it, whatever
/// becomes of it.
void MeetingHost::on_line_of_late(std::uint32_t rank, const json& object) {
  if (!object.is_object()) return;
  if (rank == 0) return on_own_line_when_late(object);
  if (is_fence(object)) seats_[rank].wire->say(board_.let_go_late());
  if (!has(object, says::kBye)) return;
  seats_[rank].has_ended = true;
  lose_outlived(rank, fmt::format("rank {} is gone: it has left the job", rank));
}

/// This rank 0 has taken over, and says something. Until it leads, nobody else is told of its end: there may
/// be another one.
void MeetingHost::on_own_line_when_late(const json& object) {
  if (is_fence(object)) return hearing_.hear_all(board_.let_go_late());
  const bool leads = outlives_others_;
  const std::optional<FencePut> put = put_in(object);
  if (put && !leads) {
    board_.tell_late(0, put->key, put->value);
  } else if (const auto why = text_in(object, says::kAbort)) {
    end_all(0, *why);
  } else if (has(object, says::kBye) && leads) {
    seats_[0].is_gone = seats_[0].has_said_goodbye = true;
    tell_all_for_good(line_of({{says::kBye, true}}));
  }
}

void MeetingHost::remind() {
  if (!returned_.empty()) return remind_with(returned_.progress());
  std::string missing;
  std::size_t count = 0;
  for (std::uint32_t rank = 0; rank < board_.size(); ++rank) {
    if (board_.is_at_fence(rank)) continue;
    if (++count <= kMostNamed) missing += fmt::format("{}rank {}", missing.empty() ? "" : ", ", rank);
  }
  if (count > kMostNamed) missing += fmt::format(" and {} more", count - kMostNamed);
  missing += count == 1 ? " is" : " are";
  missing += " missing";
  remind_with(missing);
}

void MeetingHost::remind_with(const std::string& missing) {
  spdlog::warn("waiting for the other processes of the job: {}", missing);
  const std::string line = line_of({{says::kMissing, missing}});
  seats_.tell_all(line);
  hearing_.hear(line);
}

// ---- who is gone

void MeetingHost::on_gone(const transport::Connection* connection) {
  seats_.forget_former(connection);
  returned_.forget(connection);
  if (newcomers_.forget(connection)) return;
  const std::optional<std::uint32_t> rank = seats_.find(connection);
  if (!rank) return;
  RankSeat& seat = seats_[*rank];
  const std::string why =
      fmt::format("rank {} ({}) is gone: {}", *rank, seats_.name_of(*rank), seat.wire->how_it_ended());
  seat.wire.reset();
  begin_turn(clock_());  // it may have been stopped in this one
  note({.rank = *rank, .incarnation = seat.incarnation, .why = why});
}

void MeetingHost::lose(std::uint32_t rank, const std::string& why) {
  RankSeat& seat = seats_[rank];
  if (seat.is_outlived) return lose_outlived(rank, why);
  if (std::exchange(seat.is_gone, true) || seat.is_dismissed) return;
  lack(why);
  hearing_.lose(why);
}

void MeetingHost::lose_outlived(std::uint32_t rank, const std::string& why) {
  RankSeat& seat = seats_[rank];
  if (std::exchange(seat.is_gone, true) || seat.is_dismissed) return;
  if (seat.is_late() && !seat.has_spoken) {
    seat.is_dismissed = true;  // nobody knows of it
  } else if (hearing_.listener().on_gone) {
    hearing_.listener().on_gone(rank, why);
  }
}

/// No fence can be passed any more. All hear of the first one who is not there: at the end of a job all
/// leave.
void MeetingHost::lack(const std::string& why) {
  if (std::exchange(has_lacked_, true)) return;
  const std::string line = line_of({{says::kLost, why}});
  tell_all_for_good(line);
  hearing_.hear(line);
}

/// But not `by`, which ends by itself.
void MeetingHost::end_all(std::uint32_t by, const std::string& why) {
  if (std::exchange(has_ended_, true)) return;
  const std::string line = line_of({{says::kEnd, why}});
  seats_.tell_all(line, by);
  last_words_ += line;
  if (by != 0 || why == end_.lost()) hearing_.hear(line);
}

/// Also those who are still to come.
void MeetingHost::tell_all_for_good(const std::string& words) {
  seats_.tell_all(words);
  last_words_ += words;
}

// ---- of a job whose rank 0 is gone

/// This process, which has been started anew, leads that job. What it has begun itself never was.
void MeetingHost::take_over() {
  std::optional<InheritedJob> inherited = returned_.inherit();
  if (!inherited) return;
  job_ = inherited->name;
  board_.take_over(std::move(inherited->told));
  is_waited_for_ = false;
  // Who has come as for a first start waits for the place of one that is gone, as it would have before.
  for (std::uint32_t rank = 1; rank < seats_.size(); ++rank) {
    RankSeat& seat = seats_[rank];
    if (!seat.wire) continue;
    newcomers_.add({.wire = *std::move(seat.wire),
                    .deadline = own_time_.now() + before_place_is_free_,
                    .waits_for = rank,
                    .lines = std::move(seat.said)});
  }
  seats_.begin_again(inherited->roster, size_, inherited->leaders_before);
  for (ReturnedProcess& one : inherited->outsiders)
    seats_.send_away(std::move(one.wire), "rank 0 goes on without it");
  for (ReturnedProcess& one : inherited->members) {
    RankSeat& seat = seats_[one.says.rank];
    seat.is_gone = seat.is_dismissed = false;
    seat.has_spoken = true;
    seat.wire = std::move(one.wire);
    seat.wire->say(line_of({{says::kLeads, inherited->leaders_before}, {says::kVersion, kMeetingVersion}}));
    have_returned_.push_back({.rank = one.says.rank, .described = std::move(one.says.word)});
  }
  keeper_.emplace(std::move(inherited->roster));
  hearing_.hear(line_of({{says::kLate, inherited->leaders_before}}));
  hearing_.hear_all(board_.let_go_late());
}

void MeetingHost::outlive_leader(milliseconds patience) {
  if (patience.count() > 0 && !keeper_) keeper_.emplace(Roster::of_beginning(size_));
}

void MeetingHost::tell_roster(TimePoint now) {
  if (!keeper_ || !outlives_others_ || has_ended_ || has_lacked_ || doubt_ || end_.is_leaving()) return;
  tell_names();
  if (const std::optional<Roster> next = keeper_->next(seats_.places())) {
    seats_.tell_all(line_of({{says::kRoster, json_of(*next)}}));
    unsettled_since_ = now;
  }
  if (!keeper_->is_settled() && now >= unsettled_since_ + before_giving_up_) {
    const std::string why =
        "rank 0 has lost more than half of the job's processes at once, which may have another rank 0 by now";
    seats_.tell_all(line_of({{says::kEnd, why}}));
    give_up(why);
  }
}

/// If this process is gone, another rank 0 can say by that whom it misses.
void MeetingHost::tell_names() {
  std::vector<std::string> names(seats_.size());
  for (std::uint32_t rank = 1; rank < seats_.size(); ++rank) {
    if (seats_[rank].wire) {
      names[rank] = seats_.name_of(rank);
    } else if (rank < names_.size() && !seats_[rank].is_dismissed) {
      names[rank] = names_[rank];
    }
  }
  if (names == names_) return;
  names_ = std::move(names);
  seats_.tell_all(line_of({{says::kNames, names_}}));
}

/// The job goes on without it, and no other rank 0 can: too few are left for that.
bool MeetingHost::is_certainly_without(const Back& back) const {
  if (!keeper_) return true;
  if (leads_no_more_ || doubt_) return false;
  if (has_ended_ || has_lacked_) return keeper_->is_backed_by(places_of_followers(nullptr));
  return keeper_->is_settled() && !keeper_->told().has(back.rank, back.incarnation);
}

/// Who is connected to it, has ended, or has answered in `doubt`, if that is given.
std::vector<Roster::Place> MeetingHost::places_of_followers(const Doubt* doubt) const {
  std::vector<Roster::Place> places;
  for (std::uint32_t rank = 0; rank < seats_.size(); ++rank) {
    const RankSeat& seat = seats_[rank];
    const bool follows =
        doubt == nullptr ? seat.wire && !seat.is_dismissed : doubt->have_answered.contains(rank);
    places.push_back({.incarnation = seat.incarnation, .is_taken = rank == 0 || seat.has_ended || follows});
  }
  return places;
}

// ---- of one that may have been stopped

/// Any thread: also before this one's thread has found it out.
PeerNews::Standing MeetingHost::standing() {
  using Leads = PeerNews::Standing::Leads;
  const TimePoint now = clock_();
  const bool may_be_stopped = keeper_ && seems_stopped(now);
  if (doubt_ || may_be_stopped) doubted_at_ = now;
  return {.leads = leads_no_more_             ? Leads::kNoMore
                   : doubt_ || may_be_stopped ? Leads::kPerhaps
                                              : Leads::kYes,
          .doubted_at = doubted_at_};
}

bool MeetingHost::seems_stopped(TimePoint now) const {
  return turn_began_at_ && now > *turn_began_at_ + kLongestTurn;
}

/// What this process has asked for before it was stopped, perhaps a moment before, is as what it would decide
/// now. True: it is carried out when the doubt ends, or never.
bool MeetingHost::has_to_wait(std::function<void()> order) {
  begin_turn(clock_());  // it may have been stopped in this one
  if (!doubt_) return false;
  doubt_->orders.push_back(std::move(order));
  return true;
}

/// The same of what others are to hear, which they never do once they have left this process for good.
bool MeetingHost::is_not_to_tell(std::function<void()> order) {
  return leads_no_more_ || has_to_wait(std::move(order));
}

void MeetingHost::begin_doubt() {
  if (!doubt_) doubt_.emplace(Doubt{.since = {}});
  doubt_->since = clock_();  // if it was stopped again, all have to answer anew
  doubted_at_ = clock_();
  doubt_->question = ++questions_;
  doubt_->have_answered.clear();
  seats_.tell_all(line_of({{says::kAsks, questions_}}));
}

void MeetingHost::settle_doubt(TimePoint now) {
  if (!doubt_) return;
  doubted_at_ = now;
  // Who is connected still after so long has not left, though it does not answer.
  const bool is_over = has_ended_ || now >= doubt_->since + before_giving_up_;
  const bool may_be_backed = keeper_->is_backed_by(places_of_followers(nullptr));
  const bool is_backed = keeper_->is_backed_by(places_of_followers(&*doubt_));
  if (is_backed || (may_be_backed && is_over)) return end_doubt();
  if (may_be_backed) return;
  // Those who have not left it look for another one, too.
  for (std::uint32_t rank = 1; rank < seats_.size(); ++rank) seats_[rank].wire.reset();
  give_up(
      "rank 0 was stopped, or its host hung, for so long that more than half of the job's processes have "
      "left it: they have another rank 0, or wait for one that is started with the same command line");
}

/// Orders come first: they were given before anybody knew of the losses. If this process was stopped again,
/// what is left waits for the next end of a doubt.
void MeetingHost::end_doubt() {
  const Doubt past = *std::exchange(doubt_, std::nullopt);
  unsettled_since_ = clock_();  // while this process was stopped, nobody could answer it
  for (const std::function<void()>& order : past.orders) order();
  for (const Loss& loss : past.lost) note(loss);
}

/// By then another process may have the seat of one that was dismissed.
void MeetingHost::note(Loss loss) {
  if (doubt_) {
    doubt_->lost.push_back(std::move(loss));
  } else if (seats_[loss.rank].incarnation == loss.incarnation) {
    lose(loss.rank, loss.why);
  }
}

/// Another rank 0 may lead: nobody hears what this one was about to tell.
void MeetingHost::give_up(const std::string& why) {
  leads_no_more_ = has_ended_ = true;
  doubt_.reset();
  hearing_.hear(dismissed_line(why));
}

}  // namespace verbena::job
