#include "job/network_rendezvous.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "base/signals_blocked.hpp"
#include "job/fence_board.hpp"
#include "job/json_line.hpp"
#include "job/line_stream.hpp"
#include "job/roster.hpp"
#include "transport/message_outbox.hpp"
#include "transport/socket_address.hpp"
#include "transport/tcp/tcp_transport.hpp"

namespace verbena::job {
namespace {

using nlohmann::json;
using transport::Connection;
using transport::Event;
using transport::TimePoint;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::uint32_t kMessageBytes = 65536;
constexpr auto kFenceSlice = milliseconds(50);     // how often a wait checks whether it must end
constexpr auto kFirstAttempt = milliseconds(250);  // to connect; each may take twice as long as the last
constexpr auto kLongestAttempt = milliseconds(4000);
constexpr auto kBetweenReminders = milliseconds(5000);  // that some have not come
constexpr auto kTurn = milliseconds(500);               // at least so often the thread looks at the time
constexpr auto kFarewell = milliseconds(1000);
constexpr auto kPoliteness = milliseconds(10000);  // from SIGTERM to SIGKILL
constexpr std::size_t kMostNamed = 8;              // of those that have not come
/// Of what one process says, and of what all do between two fences.
constexpr std::size_t kMostHeldBytes = std::size_t{16} << 20;
constexpr auto kIntroduction = milliseconds(10000);  // from a connection to its first line
constexpr std::size_t kMostNewcomers = 64;           // in addition to the job's own
constexpr std::uint32_t kAnotherRank = UINT32_MAX;   // of one that joins, and has none yet
constexpr auto kBetweenReturns = milliseconds(250);  // attempts to find another rank 0
constexpr auto kLongestReturn = milliseconds(2000);

/// At all addresses of this host, unless it alone is meant: its own name may mean a loopback address here,
/// and another one elsewhere.
absl::Status listen_at(transport::Transport& transport, transport::HostPort place) {
  const bool is_this_host_alone =
      place.host == "localhost" || place.host == "::1" || place.host.starts_with("127.");
  if (is_this_host_alone) return transport.listen("tcp:" + to_string(place));
  place.host = "::";  // IPv4, too
  const absl::Status listens = transport.listen("tcp:" + to_string(place));
  if (listens.ok() || absl::IsAlreadyExists(listens)) return listens;
  place.host = "0.0.0.0";  // there is no IPv6
  return transport.listen("tcp:" + to_string(place));
}

/// Of a connection that has ended, for people.
std::string how_it_went(const Connection& connection) {
  if (absl::IsDataLoss(connection.status())) return std::string(connection.status().message());
  return "it crashed, was killed, or its host is gone";
}

std::string dismissed_line(const std::string& why) {
  return line_of({{"dismissed", why}});
}

/// Tells this job from others that meet at the same address.
std::string fresh_name() {
  const auto nonce = transport::fresh_nonce();
  return nonce.ok() ? absl::BytesToHexString({reinterpret_cast<const char*>(nonce->data()), nonce->size()})
                    : std::to_string(Clock::now().time_since_epoch().count());
}

/// Why the others may not find rank 0, which listens on this host, at the place that they were told; empty:
/// they will. A place of another host may lead here all the same, as where a router passes on what it gets.
std::string doubt_about(const transport::HostPort& place) {
  const auto addresses = transport::resolve_all({.host = place.host, .port = 0}, to_string(place));
  if (!addresses.ok()) return std::string(addresses.status().message());
  if (std::ranges::any_of(*addresses, transport::is_of_this_host)) return {};
  return fmt::format("{}: this is no address of the host that rank 0 runs on", to_string(place));
}

}  // namespace

/// What one process has to say to another, in messages, and what it hears from it, in lines.
class NetworkRendezvous::Wire {
 public:
  explicit Wire(std::unique_ptr<Connection> connection) : connection_(std::move(connection)) {}

  void say(std::string_view words) {
    for (; !words.empty(); words.remove_prefix(std::min<std::size_t>(words.size(), kMessageBytes)))
      static_cast<void>(outbox_.send(*connection_, std::string(words.substr(0, kMessageBytes))));
  }
  void flush() { outbox_.flush(*connection_); }
  [[nodiscard]] bool has_said_all() const { return outbox_.empty() || !connection_->status().ok(); }
  /// False: it has sent too long a line.
  [[nodiscard]] bool hear(std::span<const std::byte> message,
                          const std::function<void(std::string_view line)>& take) {
    lines_.add({reinterpret_cast<const char*>(message.data()), message.size()}, take);
    return lines_.unread_bytes() <= kMostHeldBytes;
  }
  [[nodiscard]] const Connection& connection() const { return *connection_; }

 private:
  std::unique_ptr<Connection> connection_;
  transport::MessageOutbox outbox_;
  LineStream lines_;
};

/// What this process says and hears, and the thread that carries it. The thread alone uses the transport;
/// what the two share is under the lock.
class NetworkRendezvous::Talk {
 public:
  Talk(const Options& options, std::unique_ptr<transport::Transport> transport)
      : options_(options), transport_(std::move(transport)), notes_(options.size) {}
  virtual ~Talk() = default;
  Talk(const Talk&) = delete;
  Talk& operator=(const Talk&) = delete;

  void start() {
    const base::SignalsBlocked blocked;
    thread_ = std::thread([this] { run(); });
  }
  /// Says goodbye. To be called before the object goes.
  void leave() {
    say(line_of({{"bye", true}}));
    is_leaving_ = true;
    transport_->interrupt();
    thread_.join();
  }

  void say(std::string_view words) {
    {
      const std::lock_guard lock(mutex_);
      words_ += words;
    }
    transport_->interrupt();
  }
  /// Waits until what was said has left, for a short time.
  void wait_until_said() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kFarewell, [&] { return words_.empty() && has_said_all_; });
  }
  absl::Status fence(milliseconds patience, const Stopped& stopped) {
    const auto deadline = Clock::now() + patience;
    std::unique_lock lock(mutex_);
    const std::uint64_t goal = ++fences_begun_;
    words_ += FenceNotes::fence_line();
    lock.unlock();
    transport_->interrupt();
    lock.lock();
    while (fences_passed_ < goal && trouble_.ok()) {
      if (Clock::now() >= deadline) {
        return absl::DeadlineExceededError(
            fmt::format("not all {} processes have come together within {} s{}", options_.size,
                        patience.count() / 1000, missing_.empty() ? "" : ": " + missing_));
      }
      changed_.wait_for(lock, kFenceSlice);
      lock.unlock();  // it may be the caller's
      const bool stop = stopped();
      lock.lock();
      if (stop && fences_passed_ < goal) return absl::CancelledError("stopped");
    }
    return fences_passed_ < goal ? trouble_ : absl::OkStatus();
  }
  /// The rank that rank 0 gives to one that joins. Errors as of fence().
  absl::StatusOr<std::uint32_t> wait_for_place(milliseconds patience, const Stopped& stopped) {
    const auto deadline = Clock::now() + patience;
    std::unique_lock lock(mutex_);
    while (!place_ && trouble_.ok()) {
      if (Clock::now() >= deadline)
        return absl::DeadlineExceededError("rank 0 has not answered whether this process may join its job");
      changed_.wait_for(lock, kFenceSlice);
      lock.unlock();  // it may be the caller's
      const bool stop = stopped();
      lock.lock();
      if (stop) return absl::CancelledError("stopped");
    }
    if (!place_) return trouble_;
    return *place_;
  }
  absl::StatusOr<std::string> get(std::uint32_t rank, const std::string& key) {
    const std::lock_guard lock(mutex_);
    return notes_.get(rank, key);
  }
  [[nodiscard]] bool ends_this_process() const { return ends_this_process_; }
  std::uint32_t incarnation() {
    const std::lock_guard lock(mutex_);
    return incarnation_;
  }
  void listen(PeerNews::Listener listener) {
    const std::lock_guard lock(mutex_);
    listener_ = std::move(listener);
    on_listen();
  }
  void outlive_leader(milliseconds patience) {
    const std::lock_guard lock(mutex_);
    patience_ = patience;
    on_outlive_leader();
  }
  std::vector<PeerNews::Returned> returned() {
    const std::lock_guard lock(mutex_);
    return on_returned();
  }
  /// Carries out what concerns the thread's own.
  void ask(std::function<void()> errand) {
    {
      const std::lock_guard lock(mutex_);
      errands_.push_back(std::move(errand));
    }
    transport_->interrupt();
  }
  virtual void outlive(const std::vector<std::uint32_t>& /*ranks*/) {}
  virtual void tell(const std::string& /*news*/) {}
  virtual void tell_one(std::uint32_t /*rank*/, const std::string& /*news*/) {}
  std::uint32_t keep_place() {
    const std::lock_guard lock(mutex_);
    return on_keep_place();
  }
  virtual void dismiss(std::uint32_t /*rank*/, const std::string& /*why*/) {}
  virtual void release(std::uint32_t /*rank*/) {}

 protected:
  // All of these are called by the thread, with the lock held.
  /// This process says that.
  virtual void on_own_words(std::string_view words) = 0;
  virtual void on_event(const Event& event) = 0;
  virtual void on_time(TimePoint now) = 0;
  /// Also what could not be sent before.
  [[nodiscard]] virtual bool try_to_say_all() = 0;
  /// See PeerNews::keep_place().
  virtual std::uint32_t on_keep_place() { return 0; }
  virtual void on_listen() {}
  virtual void on_outlive_leader() {}
  virtual std::vector<PeerNews::Returned> on_returned() { return {}; }
  /// Without the lock.
  virtual void travel() {}
  [[nodiscard]] virtual milliseconds turn() const { return kTurn; }

  /// This process hears that.
  void hear(std::string_view line) {
    const json object = json::parse(line, nullptr, false);
    if (const auto missing = text_in(object, "missing")) {
      missing_ = *missing;
    } else if (const auto loss = text_in(object, "lost")) {
      trouble_.Update(absl::UnavailableError(*loss));
    } else if (const auto refusal = text_in(object, "refused")) {
      is_watched_ = false;
      trouble_.Update(absl::InvalidArgumentError(*refusal));
    } else if (const auto why = text_in(object, "end")) {
      trouble_.Update(absl::UnavailableError(*why));
      end(*why);
    } else if (const auto news = text_in(object, "news")) {
      if (listener_.on_news) listener_.on_news(*news);
    } else if (const auto reason = text_in(object, "dismissed")) {
      end_this_process(", and its job goes on without it", *reason);
    } else if (const auto place = number_in(object, "place")) {
      place_ = place;
    } else if (const auto before = number_in(object, "late")) {
      incarnation_ = *before;
    } else if (object.is_object() && object.contains("bye")) {
      is_watched_ = false;
      trouble_.Update(absl::UnavailableError("rank 0 has left the job"));
    } else {
      const absl::StatusOr<bool> goes = notes_.take(line);
      trouble_.Update(goes.status());
      if (goes.ok() && *goes) {
        ++fences_passed_;
        missing_.clear();
      }
    }
  }
  /// Somebody is gone who has not said that it ends: this process ends in a while.
  void lose(const std::string& why) {
    if (lost_.empty()) {
      lost_ = why;
      ends_at_ = Clock::now() + options_.grace;
    }
    trouble_.Update(absl::UnavailableError(why));
  }
  void end(const std::string& why) { end_this_process(" with the others of its job", why); }
  void end_this_process(std::string_view how, const std::string& why) {
    if (!is_watched_ || is_leaving_) return;
    is_watched_ = false;
    if (options_.end) return options_.end(why);
    show(fmt::format("verbena: this process ends{}: {}", how, why));
    ends_this_process_ = true;
    ::kill(::getpid(), SIGTERM);
    dies_at_ = Clock::now() + kPoliteness;
  }

  void show(const std::string& line) const {
    if (options_.show) return options_.show(line);
    fmt::print(stderr, "{}\n", line);
  }

  [[nodiscard]] std::uint32_t rank() const { return options_.joins ? place_.value_or(0) : options_.rank; }

  const Options options_;
  const std::unique_ptr<transport::Transport> transport_;
  PeerNews::Listener listener_;
  milliseconds patience_{0};  ///< with the lack of a rank 0
  FenceNotes notes_;
  std::uint32_t incarnation_ = 0;
  std::atomic<bool> is_leaving_ = false;
  bool is_watched_ = true;  ///< the end of another process ends this one
  std::atomic<bool> ends_this_process_ = false;
  std::string lost_;     ///< who is gone, and why; empty: nobody
  TimePoint ends_at_{};  ///< if somebody is lost

 private:
  void run() {
    std::array<Event, 32> events;
    std::optional<TimePoint> leaves_at;
    while (true) {
      travel();
      {
        const std::lock_guard lock(mutex_);
        for (const std::function<void()>& errand : std::exchange(errands_, {})) errand();
        if (const std::string words = std::exchange(words_, {}); !words.empty()) on_own_words(words);
        const std::size_t count = transport_->poll(events);
        for (std::size_t i = 0; i < count; ++i) on_event(events[i]);
        on_time(Clock::now());
        if (dies_at_ && Clock::now() >= *dies_at_) ::kill(::getpid(), SIGKILL);
        has_said_all_ = try_to_say_all();
        if (is_leaving_ && !leaves_at) leaves_at = Clock::now() + kFarewell;
        if (leaves_at && words_.empty() && (has_said_all_ || Clock::now() >= *leaves_at)) return;
      }
      changed_.notify_all();
      transport_->wait(Clock::now() + turn());
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::function<void()>> errands_;
  std::string words_;  ///< that this process has said and the thread has not taken
  bool has_said_all_ = true;
  std::uint64_t fences_begun_ = 0;
  std::uint64_t fences_passed_ = 0;
  std::string missing_;
  std::optional<std::uint32_t> place_;  ///< that rank 0 has given to this process, which joins
  absl::Status trouble_;                ///< why no fence can be passed any more
  std::optional<TimePoint> dies_at_;
  std::thread thread_;
};

/// Rank 0.
class NetworkRendezvous::Host final : public Talk {
 public:
  Host(const Options& options, std::unique_ptr<transport::Transport> transport)
      : Talk(options, std::move(transport)), board_(options.size), seats_(options.size) {
    seats_[0].has_come = true;
  }

  void outlive(const std::vector<std::uint32_t>& ranks) override {
    ask([this, ranks] {
      for (const std::uint32_t rank : ranks) {
        if (rank < seats_.size()) seats_[rank].is_outlived = true;
      }
      takes_others_ = true;
    });
  }
  void tell(const std::string& news) override {
    ask([this, news] {
      const std::string line = line_of({{"news", news}});
      tell_all(line);
      hear(line);
    });
  }
  void tell_one(std::uint32_t rank, const std::string& news) override {
    ask([this, rank, news] {
      const std::string line = line_of({{"news", news}});
      if (rank == 0) return hear(line);
      if (seats_[rank].wire && !seats_[rank].is_dismissed) seats_[rank].wire->say(line);
    });
  }
  void dismiss(std::uint32_t rank, const std::string& why) override {
    ask([this, rank, why] {
      if (rank == 0 || rank >= seats_.size()) return;
      Seat& seat = seats_[rank];
      if (std::exchange(seat.is_dismissed, true) || !seat.wire) return;
      seat.wire->say(dismissed_line(why));
    });
  }
  void release(std::uint32_t rank) override {
    ask([this, rank] {
      if (rank != 0) seats_[rank].is_dismissed = true;
    });
  }

 private:
  struct Seat {
    std::optional<Wire> wire;  ///< rank 0 has none
    bool has_come = false;
    bool has_left = false;      ///< or is lost
    bool is_outlived = false;   ///< its end is not that of all
    bool is_dismissed = false;  ///< and is not heard any more
    bool has_spoken = false;    ///< a word of it was heard
    bool has_said_goodbye = false;
    std::uint32_t incarnation = 0;  ///< how many have come as this rank before
    /// What it has said before all have met, for the case that another job goes on instead.
    std::vector<std::string> said = {};

    /// It has come in the place of one that was dismissed.
    [[nodiscard]] bool is_late() const { return incarnation > 0; }
  };
  struct Newcomer {
    Wire wire;
    TimePoint deadline;
    bool is_refused = false;
    std::optional<std::uint32_t> waits_for = std::nullopt;  ///< until that rank's place is free
    std::vector<std::string> lines = {};                    ///< that it has said while it waits
  };
  /// A process of a job that runs, and whose rank 0 is gone.
  struct Returned {
    Wire wire;
    std::uint32_t rank = 0;
    std::uint32_t incarnation = 0;
    std::string job;
    std::uint32_t led_by = 0;  ///< which rank 0 it has followed: how many had been before that one
    Roster roster;             ///< the newest one that it knows
    std::string word;
  };

  void on_own_words(std::string_view words) override {
    LineStream lines;
    lines.add(words, [&](std::string_view line) { on_line(0, line); });
  }

  void on_event(const Event& event) override {
    switch (event.kind) {
      case Event::Kind::kAccepted:
        if (auto connection = transport_->take_accepted()) take_in(std::move(connection));
        return;
      case Event::Kind::kMessage:
        return on_message(event);
      case Event::Kind::kDisconnected:
        return on_gone(*event.connection);
      case Event::Kind::kCompletion:
      case Event::Kind::kNotification:
        return;
    }
  }

  void take_in(std::unique_ptr<Connection> connection) {
    if (newcomers_.size() >= seats_.size() + kMostNewcomers) newcomers_.pop_front();
    newcomers_.push_back({Wire(std::move(connection)), Clock::now() + kIntroduction});
  }

  void on_message(const Event& event) {
    for (std::uint32_t rank = 1; rank < seats_.size(); ++rank) {
      if (!seats_[rank].wire || &seats_[rank].wire->connection() != event.connection) continue;
      const bool is_possible =
          seats_[rank].wire->hear(event.message, [&](std::string_view line) { on_line(rank, line); });
      if (!is_possible || board_.news_bytes() > kMostHeldBytes)
        end_all(rank, fmt::format("rank {} has said more than there can be to say", rank));
      return;
    }
    if (const auto back = find_returned(*event.connection); back != returned_.end())
      return on_message_of_returned(*back, event);
    const auto newcomer = find_newcomer(*event.connection);
    if (newcomer == newcomers_.end() || newcomer->is_refused) return;
    std::size_t bytes = 0;
    const bool is_possible = newcomer->wire.hear(
        event.message, [&](std::string_view line) { newcomer->lines.emplace_back(line); });
    for (const std::string& line : newcomer->lines) bytes += line.size();
    if (!is_possible || bytes > kMostHeldBytes) {
      newcomers_.erase(newcomer);
      return;
    }
    if (!newcomer->lines.empty() && !newcomer->waits_for && introduce(*newcomer)) newcomers_.erase(newcomer);
  }

  /// By its first line. False: it stays a newcomer, until it goes, or has a place.
  bool introduce(Newcomer& newcomer) {
    const json object = json::parse(newcomer.lines.front(), nullptr, false);
    if (object.is_object() && object.contains("back")) return take_back(newcomer, object);
    const bool joins = object.is_object() && object.contains("joins");
    const std::optional<std::uint32_t> rank = joins ? kAnotherRank : number_in(object, "rank");
    const std::string why = obstacle(rank, number_in(object, "size"));
    if (!why.empty()) {
      refuse(newcomer, why);
      return false;
    }
    newcomer.lines.erase(newcomer.lines.begin());
    if (!is_free(*rank)) {
      newcomer.waits_for = rank;
      newcomer.deadline = Clock::now() + options_.before_place_is_free;
      return false;
    }
    seat(newcomer, *rank);
    return true;
  }

  /// A place of one that is gone is free when the run goes on without it: what is decided about that one must
  /// not be taken for a decision about this one.
  [[nodiscard]] bool is_free(std::uint32_t rank) const {
    if (rank == kAnotherRank) return takes_others_;
    return !seats_[rank].has_come || seats_[rank].is_dismissed;
  }

  std::uint32_t on_keep_place() override {
    // As one whose process is gone: another one may come.
    seats_.push_back({.wire = std::nullopt,
                      .has_come = true,
                      .has_left = true,
                      .is_outlived = true,
                      .is_dismissed = true});
    return static_cast<std::uint32_t>(seats_.size() - 1);
  }

  void seat(Newcomer& newcomer, std::uint32_t rank) {
    const bool joins = rank == kAnotherRank;
    if (joins) rank = on_keep_place();
    Seat& seat = seats_[rank];
    const std::uint32_t incarnation = seat.has_come ? seat.incarnation + 1 : 0;
    if (seat.wire)
      former_.push_back(*std::move(seat.wire));  // it may not have heard yet that it is dismissed
    seat = Seat{.wire = std::move(newcomer.wire),
                .has_come = true,
                .is_outlived = seat.is_outlived,
                .incarnation = incarnation};
    seat.wire->say(line_of({{"job", job_}}));
    if (joins) seat.wire->say(line_of({{"place", rank}}));
    if (seat.is_late()) seat.wire->say(line_of({{"late", incarnation}}));
    seat.wire->say(last_words_);
    for (const std::string& line : newcomer.lines) on_line(rank, line);
  }

  // ---- when this process takes the place of a rank 0 that is gone

  /// False: it stays a newcomer, which is sent away.
  bool take_back(Newcomer& newcomer, const json& object) {
    const auto rank = number_in(object, "back");
    const auto incarnation = number_in(object, "incarnation");
    const auto job = text_in(object, "job");
    const auto led_by = number_in(object, "led_by");
    const auto word = text_in(object, "word");
    const auto roster = object.contains("roster") ? roster_in(object["roster"]) : std::nullopt;
    const bool is_possible = rank && *rank > 0 && incarnation && job && led_by && word && roster &&
                             number_in(object, "size") == options_.size &&
                             (roster->places.empty() || roster->places.size() >= options_.size);
    if (!is_possible || board_.have_met()) {
      const std::string why = !is_possible ? "rank 0 does not understand what it is"
                              : *job == job_
                                  ? "rank 0 goes on without it, since the connection between them has ended"
                                  : "another job has begun where its rank 0 was";
      newcomer.wire.say(last_words_ + dismissed_line(why));
      newcomer.is_refused = true;
      newcomer.deadline = Clock::now() + kIntroduction;
      return false;
    }
    const auto same = std::ranges::find_if(returned_, [&](const Returned& one) {
      return one.job == *job && one.rank == *rank && one.incarnation == *incarnation;
    });
    if (same != returned_.end()) forget_returned(same->wire.connection());
    if (returned_.size() >= seats_.size() + kMostNewcomers)
      forget_returned(returned_.front().wire.connection());
    returned_.push_back({.wire = std::move(newcomer.wire),
                         .rank = *rank,
                         .incarnation = *incarnation,
                         .job = *job,
                         .led_by = *led_by,
                         .roster = *roster,
                         .word = *word});
    return true;
  }

  /// One that has come with what all of its job know best, if those are enough of whom that knows; nullptr:
  /// they are not.
  [[nodiscard]] Returned* find_who_knows_best() {
    for (Returned& one : returned_) {
      const bool is_behind = std::ranges::any_of(returned_, [&](const Returned& other) {
        return other.job == one.job && other.roster.is_newer_than(one.roster);
      });
      if (!is_behind && 2 * count_returned(one) > one.roster.count()) return &one;
    }
    return nullptr;
  }
  /// Of those on its roster.
  [[nodiscard]] std::size_t count_returned(const Returned& one) const {
    return static_cast<std::size_t>(std::ranges::count_if(returned_, [&](const Returned& other) {
      return other.job == one.job && one.roster.has(other.rank, other.incarnation);
    }));
  }

  /// More than half of a job's processes have come to this rank 0, which has been started anew: it leads that
  /// job. Nobody else can (roster.hpp).
  void consider_returned(TimePoint now) {
    if (returned_.empty() || board_.have_met() || !board_.is_at_fence(0)) return;
    Returned* const best = find_who_knows_best();
    if (best == nullptr) {
      are_enough_since_.reset();
      return;
    }
    if (!are_enough_since_) are_enough_since_ = now;
    const bool are_all =
        count_returned(*best) + 1 >= best->roster.count();  // the former rank 0 is on it, too
    if (recalls_from_ != nullptr || (!are_all && now < *are_enough_since_ + options_.for_stragglers)) return;
    recalls_from_ = &best->wire.connection();
    recalled_.clear();
    best->wire.say(line_of({{"recall", true}}));
  }

  void on_message_of_returned(Returned& back, const Event& event) {
    bool has_told_all = false;
    const bool is_asked = event.connection == recalls_from_;
    const bool is_possible = back.wire.hear(event.message, [&](std::string_view line) {
      if (!is_asked || has_told_all) return;
      const json object = json::parse(line, nullptr, false);
      has_told_all = object.is_object() && object.contains("go");
      if (!has_told_all) recalled_.append(line).append("\n");
    });
    if (!is_possible || recalled_.size() > kMostHeldBytes) {
      forget_returned(*event.connection);
    } else if (has_told_all) {
      take_over();
    }
  }

  void forget_returned(const Connection& connection) {
    if (&connection == recalls_from_) recalls_from_ = nullptr;
    const auto found = find_returned(connection);
    if (found != returned_.end()) returned_.erase(found);
  }

  void take_over() {
    recalls_from_ = nullptr;
    const Returned* const best = find_who_knows_best();
    if (best == nullptr) return;  // some have gone again
    const Roster roster = best->roster;
    job_ = best->job;
    board_.take_over(recalled_);
    is_waited_for_ = false;
    // Who has come as for a first start waits for the place of one that is gone, as it would have before.
    for (std::uint32_t rank = 1; rank < seats_.size(); ++rank) {
      Seat& seat = seats_[rank];
      if (!seat.wire) continue;
      newcomers_.push_back({.wire = *std::move(seat.wire),
                            .deadline = Clock::now() + options_.before_place_is_free,
                            .waits_for = rank,
                            .lines = std::move(seat.said)});
    }
    seats_ = std::vector<Seat>(roster.places.size());
    for (std::uint32_t rank = 0; rank < seats_.size(); ++rank) {
      // Of processes that were added nobody knows here but themselves.
      seats_[rank] = {.has_come = true,
                      .has_left = true,
                      .is_outlived = true,
                      .is_dismissed = !roster.places[rank].is_taken || rank >= options_.size,
                      .incarnation = roster.places[rank].incarnation};
    }
    // One that has led for a moment only may have told nobody of its roster, but more than half of it.
    std::uint32_t last_leader = roster.places[0].incarnation;
    for (const Returned& one : returned_) {
      if (one.job == job_) last_leader = std::max(last_leader, one.led_by);
    }
    seats_[0] = {.has_come = true, .has_spoken = true, .incarnation = last_leader + 1};
    for (Returned& one : returned_) {
      if (one.job != job_ || !roster.has(one.rank, one.incarnation)) {
        send_away(std::move(one.wire), "rank 0 goes on without it");
        continue;
      }
      Seat& seat = seats_[one.rank];
      seat.has_left = seat.is_dismissed = false;
      seat.has_spoken = true;
      seat.wire = std::move(one.wire);
      seat.wire->say(line_of({{"leads", seats_[0].incarnation}}));
      have_returned_.push_back({.rank = one.rank, .described = std::move(one.word)});
    }
    returned_.clear();
    keeper_.emplace(roster);
    hear(line_of({{"late", seats_[0].incarnation}}));
    hear_all(board_.let_go_late());
  }

  void send_away(Wire wire, const std::string& why) {
    wire.say(dismissed_line(why));
    former_.push_back(std::move(wire));
  }
  void hear_all(const std::string& words) {
    LineStream lines;
    lines.add(words, [&](std::string_view each) { hear(each); });
  }

  void on_listen() override {
    if (!listener_.on_gone || !seats_[0].is_late() || std::exchange(has_told_who_is_gone_, true)) return;
    for (std::uint32_t rank = 1; rank < seats_.size(); ++rank) {
      if (seats_[rank].has_left)
        listener_.on_gone(rank, fmt::format("rank {} is gone: it has not come back", rank));
    }
    if (!listener_.on_word) return;
    for (const auto& [rank, word] : std::exchange(held_words_, {})) listener_.on_word(rank, word);
  }
  std::vector<PeerNews::Returned> on_returned() override { return have_returned_; }

  /// This rank 0 has taken over, and says something. Until it leads, nobody else is told of its end: there
  /// may be another one.
  void on_own_line_when_late(const json& object) {
    if (object.contains("fence")) return hear_all(board_.let_go_late());
    const bool leads = takes_others_;
    const auto key = text_in(object, "put");
    const auto value = text_in(object, "value");
    if (key && value && !leads) {
      board_.tell_late(0, *key, *value);
    } else if (const auto why = text_in(object, "abort")) {
      end_all(0, *why);
    } else if (object.contains("bye") && leads) {
      seats_[0].has_left = seats_[0].has_said_goodbye = true;
      tell_all_for_good(line_of({{"bye", true}}));
    }
  }

  // ---- who is of the job

  void on_outlive_leader() override {
    if (patience_.count() > 0 && !keeper_) keeper_.emplace(Roster::of_beginning(options_.size));
  }

  void tell_roster(TimePoint now) {
    if (!keeper_ || !takes_others_ || has_ended_ || has_lacked_ || is_leaving_) return;
    std::vector<Roster::Place> places;
    for (const Seat& seat : seats_)
      places.push_back({.incarnation = seat.incarnation, .is_taken = seat.has_come && !seat.is_dismissed});
    if (const std::optional<Roster> next = keeper_->next(places)) {
      tell_all(line_of({{"roster", json_of(*next)}}));
      unsettled_since_ = now;
    }
    if (!keeper_->is_settled() && now >= unsettled_since_ + options_.before_giving_up) {
      end_all(
          kAnotherRank,
          "rank 0 has lost more than half of the job's processes at once, which may have another rank 0 by "
          "now");
    }
  }

  // ----

  void refuse(Newcomer& newcomer, const std::string& why) {
    spdlog::warn("a process at the rendezvous is refused ({}): {}", newcomer.wire.connection().peer_name(),
                 why);
    newcomer.wire.say(line_of({{"refused", fmt::format("rank 0 refuses this process: {}", why)}}));
    newcomer.is_refused = true;
    newcomer.waits_for.reset();
    newcomer.deadline = Clock::now() + kIntroduction;
  }

  /// Why no such process can be let in; empty: one can.
  [[nodiscard]] std::string obstacle(std::optional<std::uint32_t> rank,
                                     std::optional<std::uint32_t> size) const {
    if (!rank || !size) return "it did not say which process it is";
    if (*size != options_.size)
      return fmt::format("it was told of {} processes, and rank 0 of {}", *size, options_.size);
    const bool ends = has_lacked_ || has_ended_;
    if (*rank == kAnotherRank) return ends ? "the job ends" : "";
    if (*rank == 0 || *rank >= seats_.size())
      return fmt::format("its rank is {}, of {} processes", *rank, *size);
    if (!seats_[*rank].has_come) return {};
    if (!seats_[*rank].is_outlived) return another_has_come(*rank);
    if (seats_[*rank].has_said_goodbye) return fmt::format("rank {} has left the job", *rank);
    return ends ? "the job ends" : "";
  }
  [[nodiscard]] std::string another_has_come(std::uint32_t rank) const {
    if (rank == kAnotherRank) {
      return "the job has not begun, or takes no other processes: expected its processes to be started with "
             "--elastic or --replicas";
    }
    return fmt::format("another process has come as rank {} ({})", rank, name_of(rank));
  }

  void on_line(std::uint32_t rank, std::string_view line) {
    if (seats_[rank].is_dismissed) return;
    const json object = json::parse(line, nullptr, false);
    if (!board_.have_met()) seats_[rank].said.emplace_back(line);
    if (const auto known = number_in(object, "knows")) {
      if (keeper_) keeper_->hear(rank, *known);
      return;
    }
    if (const std::optional<std::string> word = text_in(object, "word")) {
      seats_[rank].has_spoken = true;
      if (listener_.on_word) {
        listener_.on_word(rank, *word);
      } else if (seats_[0].is_late()) {  // those who are back have something to say before it listens
        held_words_.emplace_back(rank, *word);
      }
      return;
    }
    if (seats_[rank].is_late()) return on_line_of_late(rank, object);
    if (object.is_object() && object.contains("bye")) {
      seats_[rank].has_left = seats_[rank].has_said_goodbye = true;
      if (rank == 0) {
        tell_all_for_good(line_of({{"bye", true}}));
      } else if (!seats_[rank].is_outlived) {  // else the others, too, have been at all fences
        lack(fmt::format("rank {} ({}) has left the job", rank, name_of(rank)));
      }
      return;
    }
    if (const std::optional<std::string> why = text_in(object, "abort")) return end_all(rank, *why);
    if (const absl::Status said = board_.take(rank, line); !said.ok())
      return end_all(rank, std::string(said.message()));
    if (const std::optional<std::string> heard = board_.let_go()) {
      tell_all(*heard);
      hear_all(*heard);
      is_waited_for_ = false;
      for (Seat& seat : seats_) seat.said.clear();
      for (Returned& one : std::exchange(returned_, {}))
        send_away(std::move(one.wire), "another job has begun where its rank 0 was");
    } else if (!is_waited_for_ && board_.is_at_fence(rank)) {
      is_waited_for_ = true;
      next_reminder_ = Clock::now() + kBetweenReminders;
    }
  }

  /// It meets nobody any more, and what it has to tell all are words. The job goes on without it, whatever
  /// becomes of it.
  void on_line_of_late(std::uint32_t rank, const json& object) {
    if (!object.is_object()) return;
    if (rank == 0) return on_own_line_when_late(object);
    if (object.contains("fence")) seats_[rank].wire->say(board_.let_go_late());
    if (object.contains("bye"))
      lose_outlived(rank, fmt::format("rank {} is gone: it has left the job", rank));
  }

  void lose_outlived(std::uint32_t rank, const std::string& why) {
    Seat& seat = seats_[rank];
    if (std::exchange(seat.has_left, true) || seat.is_dismissed) return;
    if (seat.is_late() && !seat.has_spoken) {
      seat.is_dismissed = true;  // nobody knows of it
    } else if (listener_.on_gone) {
      listener_.on_gone(rank, why);
    }
  }

  void on_gone(const Connection& connection) {
    std::erase_if(former_, [&](const Wire& wire) { return &wire.connection() == &connection; });
    forget_returned(connection);
    if (const auto newcomer = find_newcomer(connection); newcomer != newcomers_.end()) {
      newcomers_.erase(newcomer);
      return;
    }
    for (std::uint32_t rank = 1; rank < seats_.size(); ++rank) {
      Seat& seat = seats_[rank];
      if (!seat.wire || &seat.wire->connection() != &connection) continue;
      const std::string who = name_of(rank);
      const std::string how = how_it_went(connection);
      seat.wire.reset();
      const std::string why = fmt::format("rank {} ({}) is gone: {}", rank, who, how);
      if (seat.is_outlived) return lose_outlived(rank, why);
      if (std::exchange(seat.has_left, true) || seat.is_dismissed) return;
      lack(why);
      lose(why);
      return;
    }
  }

  /// No fence can be passed any more. All hear of the first one who is not there: at the end of a job all
  /// leave.
  void lack(const std::string& why) {
    if (std::exchange(has_lacked_, true)) return;
    const std::string line = line_of({{"lost", why}});
    tell_all_for_good(line);
    hear(line);
  }

  void on_time(TimePoint now) override {
    consider_returned(now);
    give_places();
    for (Newcomer& each : newcomers_) {
      if (each.waits_for && now >= each.deadline) refuse(each, another_has_come(*each.waits_for));
    }
    std::erase_if(newcomers_, [&](const Newcomer& each) { return now >= each.deadline; });
    if (is_waited_for_ && now >= next_reminder_) {
      next_reminder_ = now + kBetweenReminders;
      remind();
    }
    if (!lost_.empty() && now >= ends_at_ && !has_ended_) end_all(0, lost_);
    tell_roster(now);
  }

  void give_places() {
    std::erase_if(newcomers_, [&](Newcomer& each) {
      if (!each.waits_for || !is_free(*each.waits_for)) return false;
      seat(each, *each.waits_for);
      return true;
    });
  }

  void remind() {
    std::string missing;
    std::size_t count = 0;
    for (std::uint32_t rank = 0; rank < board_.size(); ++rank) {
      if (board_.is_at_fence(rank)) continue;
      if (++count <= kMostNamed) missing += fmt::format("{}rank {}", missing.empty() ? "" : ", ", rank);
    }
    if (count > kMostNamed) missing += fmt::format(" and {} more", count - kMostNamed);
    missing += count == 1 ? " is" : " are";
    missing += " missing";
    if (!returned_.empty()) {
      missing += fmt::format("; of a job that runs {} of {} have come back: more than half are needed",
                             count_returned(returned_.front()), returned_.front().roster.count());
    }
    spdlog::warn("waiting for the other processes of the job: {}", missing);
    const std::string line = line_of({{"missing", missing}});
    tell_all(line);
    hear(line);
  }

  /// But not `by`, which ends by itself.
  void end_all(std::uint32_t by, const std::string& why) {
    if (std::exchange(has_ended_, true)) return;
    const std::string line = line_of({{"end", why}});
    for (std::uint32_t rank = 1; rank < seats_.size(); ++rank) {
      if (rank != by && seats_[rank].wire) seats_[rank].wire->say(line);
    }
    last_words_ += line;
    if (by != 0 || why == lost_) hear(line);
  }

  /// Also those who are still to come.
  void tell_all_for_good(const std::string& words) {
    tell_all(words);
    last_words_ += words;
  }
  void tell_all(const std::string& words) {
    for (Seat& seat : seats_) {
      if (seat.wire) seat.wire->say(words);
    }
  }

  bool try_to_say_all() override {
    bool has_said_all = true;
    const auto flush = [&](Wire& wire) {
      wire.flush();
      has_said_all = has_said_all && wire.has_said_all();
    };
    for (Seat& seat : seats_) {
      if (seat.wire) flush(*seat.wire);
    }
    for (Newcomer& newcomer : newcomers_) flush(newcomer.wire);
    for (Returned& one : returned_) flush(one.wire);
    for (Wire& wire : former_) wire.flush();  // it may be stopped, and never hear it
    return has_said_all;
  }

  [[nodiscard]] std::string name_of(std::uint32_t rank) const {
    return seats_[rank].wire ? seats_[rank].wire->connection().peer_name() : "that has left";
  }
  [[nodiscard]] std::deque<Newcomer>::iterator find_newcomer(const Connection& connection) {
    return std::ranges::find_if(newcomers_,
                                [&](const Newcomer& each) { return &each.wire.connection() == &connection; });
  }

  [[nodiscard]] std::deque<Returned>::iterator find_returned(const Connection& connection) {
    return std::ranges::find_if(returned_,
                                [&](const Returned& each) { return &each.wire.connection() == &connection; });
  }

  FenceBoard board_;
  std::vector<Seat> seats_;  ///< by rank; also of processes that are added
  std::deque<Newcomer> newcomers_;
  std::string job_ = fresh_name();
  std::optional<RosterKeeper> keeper_;  ///< if the job may go on when this process is gone
  TimePoint unsettled_since_{};
  // Until all have met, or this rank 0 has taken over:
  std::deque<Returned> returned_;
  std::optional<TimePoint> are_enough_since_;
  const Connection* recalls_from_ = nullptr;  ///< who tells what was told at fences
  std::string recalled_;
  // If it has taken over:
  std::vector<PeerNews::Returned> have_returned_;
  bool has_told_who_is_gone_ = false;
  std::vector<std::pair<std::uint32_t, std::string>> held_words_;  ///< by whom
  std::deque<Wire> former_;     ///< of those that were dismissed, and whose places others have
  bool is_waited_for_ = false;  ///< some are at a fence, and not all
  TimePoint next_reminder_{};
  bool takes_others_ = false;  ///< processes may be added
  bool has_lacked_ = false;
  bool has_ended_ = false;  ///< all were told to
  std::string last_words_;  ///< about the end, for those who come later
};

/// Any other rank.
class NetworkRendezvous::Guest final : public Talk {
 public:
  Guest(const Options& options, std::unique_ptr<transport::Transport> transport,
        std::unique_ptr<Connection> connection)
      : Talk(options, std::move(transport)), wire_(std::in_place, std::move(connection)) {
    say(options.joins ? line_of({{"joins", true}, {"size", options.size}})
                      : line_of({{"rank", options.rank}, {"size", options.size}}));
    if (!options.joins) roster_ = Roster::of_beginning(options.size);
  }

 private:
  void on_own_words(std::string_view words) override {
    if (!away_since_) return wire_->say(words);
    if (unsaid_.size() + words.size() <= kMostHeldBytes) unsaid_ += words;
  }
  void on_event(const Event& event) override {
    if (event.connection != &wire_->connection()) return;
    if (event.kind == Event::Kind::kMessage)
      static_cast<void>(wire_->hear(event.message, [&](std::string_view line) { take(line); }));
    if (event.kind == Event::Kind::kDisconnected && is_watched_) lose_leader();
  }
  void take(std::string_view line) {
    const json object = json::parse(line, nullptr, false);
    if (const auto job = text_in(object, "job")) {
      job_ = *job;
    } else if (object.is_object() && object.contains("roster")) {
      const std::optional<Roster> roster = roster_in(object["roster"]);
      if (!roster) return;
      roster_ = *roster;
      wire_->say(line_of({{"knows", roster_.number}}));
    } else if (object.is_object() && object.contains("recall")) {
      wire_->say(notes_.lines());
    } else if (const auto leader = number_in(object, "leads")) {
      led_by_ = *leader;
      away_since_.reset();
      is_connected_again_ = false;
      wire_->say(std::exchange(unsaid_, {}));
    } else {
      if (number_in(object, "late")) roster_ = {};  // it is on none that this process could know
      hear(line);
    }
  }

  // ---- when rank 0 is gone

  void lose_leader() {
    if (!away_since_) {
      const std::string why = fmt::format("rank 0 ({}) is gone: {}", wire_->connection().peer_name(),
                                          how_it_went(wire_->connection()));
      const bool waits =
          patience_.count() > 0 && lost_.empty() && listener_.describe && !listener_.describe().empty();
      if (!waits) return lose(why);
      show(fmt::format(
          "verbena: {}: this process waits {} s for another one in its place: start it again, with "
          "the same command line",
          why, patience_.count() / 1000));
      away_since_ = Clock::now();
      lost_leader_ = why;
      if (listener_.on_leader_gone) listener_.on_leader_gone();
    }
    is_connected_again_ = false;
    attempt_ = kFirstAttempt;
    next_attempt_ = Clock::now() + kBetweenReturns;
  }
  void travel() override {
    if (!away_since_ || is_connected_again_ || is_leaving_ || Clock::now() < next_attempt_) return;
    // Each attempt may take twice as long as the last: who answers may be slow.
    auto connection = transport_->connect("tcp:" + to_string(options_.place),
                                          std::min(Clock::now() + attempt_, *away_since_ + patience_));
    attempt_ = std::min(2 * attempt_, kLongestReturn);
    next_attempt_ = Clock::now() + kBetweenReturns;
    if (!connection.ok()) return;
    wire_.emplace(*std::move(connection));
    is_connected_again_ = true;
    has_introduced_itself_ = false;
  }
  [[nodiscard]] milliseconds turn() const override { return away_since_ ? kBetweenReturns : kTurn; }

  void on_time(TimePoint now) override {
    if (away_since_ && is_connected_again_ && !std::exchange(has_introduced_itself_, true)) {
      wire_->say(line_of({{"back", rank()},
                          {"size", options_.size},
                          {"incarnation", incarnation_},
                          {"job", job_},
                          {"led_by", led_by_},
                          {"roster", json_of(roster_)},
                          {"word", listener_.describe ? listener_.describe() : std::string()}}));
    }
    if (away_since_ && now >= *away_since_ + patience_) {
      away_since_.reset();
      lose(fmt::format("{}; no other process has led the job in its place within {} s (--leader-patience)",
                       lost_leader_, patience_.count() / 1000));
    }
    if (!lost_.empty() && now >= ends_at_) end(lost_);
  }
  bool try_to_say_all() override {
    if (away_since_ && !is_connected_again_) return true;
    wire_->flush();
    return wire_->has_said_all();
  }

  std::optional<Wire> wire_;
  std::string job_;
  std::uint32_t led_by_ = 0;  ///< which rank 0 this is: how many have been before it
  Roster roster_;             ///< the newest that rank 0 has told; empty: none
  // While there is no rank 0:
  std::optional<TimePoint> away_since_;
  std::string lost_leader_;   ///< who is gone, and why
  TimePoint next_attempt_{};  ///< to find another one
  milliseconds attempt_ = kFirstAttempt;
  bool is_connected_again_ = false;  ///< to a process that may become it
  bool has_introduced_itself_ = false;
  std::string unsaid_;
};

// ---- joining

absl::StatusOr<std::unique_ptr<NetworkRendezvous>> NetworkRendezvous::join(const Options& options,
                                                                           milliseconds patience,
                                                                           const Stopped& stopped) {
  absl::StatusOr<std::unique_ptr<transport::Transport>> made = transport::make_tcp_transport(
      {.secret = options.secret, .tls = options.tls, .max_message_bytes = kMessageBytes});
  if (!made.ok()) return made.status();
  std::unique_ptr<Talk> talk;
  if (options.rank == 0 && !options.joins) {
    const absl::Status listens = listen_at(**made, options.place);
    if (!listens.ok()) return listens;
    talk = std::make_unique<Host>(options, *std::move(made));
  } else {
    const std::string address = "tcp:" + to_string(options.place);
    const auto deadline = Clock::now() + patience;
    auto next_reminder = Clock::now() + kBetweenReminders;
    absl::StatusOr<std::unique_ptr<Connection>> connection = absl::CancelledError("stopped");
    for (auto attempt = kFirstAttempt;; attempt = std::min(2 * attempt, kLongestAttempt)) {
      if (stopped()) return absl::CancelledError("stopped");
      connection = (*made)->connect(address, std::min({deadline, next_reminder, Clock::now() + attempt}));
      // Kubernetes knows a name only when what has it is there.
      const bool is_unknown = absl::IsNotFound(connection.status());
      if ((!is_unknown && !absl::IsDeadlineExceeded(connection.status())) || Clock::now() >= deadline) break;
      if (Clock::now() >= next_reminder) {
        next_reminder += kBetweenReminders;
        spdlog::warn("waiting for rank 0: {}", std::string(connection.status().message()));
      }
      if (is_unknown) std::this_thread::sleep_for(kFirstAttempt);
    }
    if (!connection.ok()) {
      return absl::Status(
          connection.status().code(),
          fmt::format("rank 0 cannot be reached: {}", std::string(connection.status().message())));
    }
    talk = std::make_unique<Guest>(options, *std::move(made), *std::move(connection));
  }
  talk->start();
  absl::StatusOr<std::uint32_t> rank = options.rank;
  if (options.joins) rank = talk->wait_for_place(patience, stopped);
  if (!rank.ok()) {
    talk->leave();
    return rank.status();
  }
  std::unique_ptr<NetworkRendezvous> joined(new NetworkRendezvous(options, *rank, std::move(talk)));
  if (*rank == 0) {
    // Beside the rest: the system may ask servers of names that do not answer.
    joined->doubting_.begin([place = options.place] {
      if (const std::string doubt = doubt_about(place); !doubt.empty())
        spdlog::warn("the other processes may not find rank 0: {}", doubt);
      return absl::OkStatus();
    });
  }
  return joined;
}

NetworkRendezvous::NetworkRendezvous(const Options& options, std::uint32_t rank, std::unique_ptr<Talk> talk)
    : PeerRendezvous(rank, options.size), secret_(options.secret), talk_(std::move(talk)) {}

NetworkRendezvous::~NetworkRendezvous() {
  talk_->leave();
}

absl::Status NetworkRendezvous::put(const std::string& key, const std::string& value) {
  talk_->say(FenceNotes::put_line(key, value));
  return absl::OkStatus();
}

absl::Status NetworkRendezvous::fence(milliseconds patience, const Stopped& stopped) {
  return talk_->fence(patience, stopped);
}

absl::StatusOr<std::string> NetworkRendezvous::get(std::uint32_t rank, const std::string& key) {
  return talk_->get(rank, key);
}

bool NetworkRendezvous::ends_this_process() const {
  return talk_->ends_this_process();
}

std::uint32_t NetworkRendezvous::incarnation() const {
  return talk_->incarnation();
}

void NetworkRendezvous::listen(Listener listener) {
  talk_->listen(std::move(listener));
}

void NetworkRendezvous::outlive(const std::vector<std::uint32_t>& ranks) {
  talk_->outlive(ranks);
}

void NetworkRendezvous::outlive_leader(milliseconds patience) {
  talk_->outlive_leader(patience);
}

std::vector<PeerNews::Returned> NetworkRendezvous::returned() {
  return talk_->returned();
}

void NetworkRendezvous::tell(const std::string& news) {
  talk_->tell(news);
}

void NetworkRendezvous::tell_one(std::uint32_t rank, const std::string& news) {
  talk_->tell_one(rank, news);
}

std::uint32_t NetworkRendezvous::keep_place() {
  return talk_->keep_place();
}

void NetworkRendezvous::say(const std::string& word) {
  talk_->say(line_of({{"word", word}}));
}

void NetworkRendezvous::dismiss(std::uint32_t rank, const std::string& why) {
  talk_->dismiss(rank, why);
}

void NetworkRendezvous::release(std::uint32_t rank) {
  talk_->release(rank);
}

void NetworkRendezvous::abort(int /*exit_status*/, const std::string& why) {
  talk_->say(line_of({{"abort", fmt::format("rank {}: {}", rank(), why)}}));
  talk_->wait_until_said();
}

}  // namespace verbena::job
