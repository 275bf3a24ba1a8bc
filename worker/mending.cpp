#include "worker/mending.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/return_if_error.hpp"
#include "transport/attempt_limit.hpp"
#include "worker/joining.hpp"
#include "worker/session_core.hpp"
#include "worker/table_core.hpp"

namespace verbena::worker {
namespace {

constexpr auto kBetweenAttempts = std::chrono::milliseconds(5);
/// To the process that was lost, if another one may have its place.
constexpr auto kBeforeTheFirstAttempt = std::chrono::milliseconds(20);
/// To where a server was lost that has copies: a configuration may come meanwhile in which another one
/// serves.
constexpr transport::Duration kLongestAttemptToTheSame = std::chrono::milliseconds(100);
/// To the process that was lost, if it has copies: most likely it is gone for good.
constexpr auto kBetweenAttemptsToTheSame = std::chrono::milliseconds(100);

/// Of the time between two steps. More shows that this worker did something else.
constexpr transport::Duration kMostBetweenSteps = 2 * transport::kBeatInterval;

/// What it reads from the process before must not arrive when there is another one.
bool is_still_reading(const ServerLink& link) {
  return link.connection->status().ok() && link.reads.has_any();
}

/// In the place of a connection that this worker has ended.
class EndedConnection final : public transport::Connection {
 public:
  EndedConnection(std::string name, const std::string& why)
      : status_(absl::UnavailableError(fmt::format("{}: {}", name, why))) {
    set_peer_name(std::move(name));
  }
  absl::StatusOr<transport::RemoteDescriptor> grant(const transport::MemoryRegion& /*region*/) override {
    return status_;
  }
  const std::byte* mapped(const transport::RemoteDescriptor& /*remote*/) override { return nullptr; }
  [[nodiscard]] const absl::Status& status() const override { return status_; }

 private:
  std::size_t do_post(std::span<const transport::WorkRequest> /*requests*/) override { return 0; }

  const absl::Status status_;
};

}  // namespace

absl::Status Mending::begin(transport::TimePoint deadline) {
  if (source_ == nullptr) {
    addresses_ = session_.options().servers;
    read_ = addresses_;
    return absl::OkStatus();
  }
  transport::Transport& transport = *session_.transport_;
  while (source_->newest().number == 0) {
    const transport::TimePoint now = transport.now();
    source_->poll(now);
    if (now >= deadline) return absl::DeadlineExceededError("waited for the job's configuration");
    if (source_->newest().number == 0) transport.wait(std::min(deadline, now + kBetweenAttempts));
  }
  const cluster::Configuration& newest = source_->newest();
  const std::size_t servers = session_.options().servers.size();
  if (newest.servers.size() != servers) {
    return absl::InvalidArgumentError(fmt::format("configuration {} is of {} servers, not of {}",
                                                  newest.number, newest.servers.size(), servers));
  }
  addresses_.resize(servers);
  read_.resize(servers);
  serving_.resize(servers);
  take_newest();
  return absl::OkStatus();
}

/// From now on this worker goes by what its source knows.
void Mending::adopt_newest() {
  const cluster::Configuration& newest = source_->newest();
  if (newest.number == number_) return;
  number_ = newest.number;
  for (std::size_t server = 0; server < serving_.size(); ++server) {
    const std::string before = serving_[server];
    serving_[server] = newest.servers[server].empty() ? std::string() : newest.servers[server].front();
    if (serving_[server] == before) continue;
    for (const std::unique_ptr<ServerLink>& link : session_.links_) {
      if (link->server == server) link->unanswered_for = {};
    }
  }
  suspects_ = false;
  is_in_doubt_ = false;    // the next read heeds what was decided since
  session_.start_epoch();  // what was known of which servers may be read is not so any more
}

/// For links that are still to be made.
void Mending::take_newest() {
  adopt_newest();
  for (std::size_t server = session_.links_.size(); server < addresses_.size(); ++server)
    addresses_[server] = serving_[server];
}

void Mending::doubt() {
  if (std::exchange(is_in_doubt_, true)) return;
  source_->expect_change();
  session_.start_epoch();
}

absl::StatusOr<std::unique_ptr<transport::Connection>> Mending::connect_to(std::uint32_t server,
                                                                           transport::TimePoint deadline) {
  transport::Transport& transport = *session_.transport_;
  transport::AttemptLimit attempt;
  for (;;) {
    source_->poll(transport.now());
    take_newest();
    if (addresses_[server].empty()) return absl::DataLossError("no copy of it is left");
    const transport::TimePoint now = transport.now();
    auto connection =
        transport.connect(addresses_[server], std::min<transport::TimePoint>(deadline, now + attempt.next()));
    if (connection.ok()) read_[server] = addresses_[server];
    if (!connection.ok()) attempt.failed(connection.status());
    if (connection.ok() || now >= deadline) return connection;
    transport.wait(std::min<transport::TimePoint>(deadline, now + kBetweenAttempts));
  }
}

bool Mending::lose(ServerLink& link) {
  return lose(link, std::string(link.connection->status().message()), /*has_ended=*/true);
}

/// `has_ended`: the connection, and all that was under way over it.
bool Mending::lose(ServerLink& link, const std::string& why, bool has_ended) {
  if (!is_possible() || session_.has_rows_that_move() || !session_.status().ok()) return false;
  // A copy may take its place; itself, it has been waited for long enough.
  if (!has_copies() && absl::IsDeadlineExceeded(link.connection->status())) return false;
  // One that it has left may have ended only now.
  if (has_ended) link.reads.end_all();
  if (link.state == ServerLink::State::kLost) return true;
  spdlog::warn("worker {}: {}; {}", session_.options().rank, why,
               has_copies() ? "waits for a copy that takes its place" : "connects again");
  if (link.state == ServerLink::State::kUp) {
    link.lost_at = session_.now();
    link.lost_for = link.unanswered_for = {};
  }
  link.state = ServerLink::State::kLost;
  link.has_welcome = false;
  link.lost_address = addresses_[link.server];
  // One that has stepped aside may be there for a moment, and answer nobody. Word of that comes soon.
  const bool may_have_left = servers_may_move();
  link.next_attempt = may_have_left ? session_.now() + kBeforeTheFirstAttempt : transport::TimePoint::min();
  link.attempt = {};
  // The checkpoint that it asks for fails with the link.
  std::erase_if(link.unsaid, [](const protocol::ControlMessage& message) {
    return std::holds_alternative<protocol::SaveRows>(message);
  });
  session_.running_.on_lost_server(link);
  session_.checkpointing_.on_lost_server(link.server);
  if (has_copies()) source_->expect_change();
  return true;
}

void Mending::suspect(const ServerLink& link, const absl::Status& why) {
  if (link.state == ServerLink::State::kLost) return;
  source_->suspect(addresses_[link.server], std::string(why.message()));
  suspects_ = true;
}

/// They may say something as long as they are heard, and wait for their copies for ever. This worker may go
/// by the configuration already: whoever connects to a server looks for the newest one.
void Mending::leave_who_is_left_out() {
  if (source_->decided() != number_) {
    source_->poll(session_.now());
    adopt_newest();
  }
  if (std::exchange(has_left_for_, number_) == number_) return;
  for (const std::unique_ptr<ServerLink>& link : session_.links_) {
    const bool is_left_out =
        link->state != ServerLink::State::kLost && addresses_[link->server] != serving_[link->server];
    if (is_left_out && !link->said_goodbye && session_.status().ok()) leave(*link);
    if (addresses_[link->server] != serving_[link->server]) link->next_attempt = transport::TimePoint::min();
  }
}

/// What is mapped may be read until the worker's clock ends, so its connection stays; but what was read
/// otherwise must not arrive when somebody else has told of newer clocks: see reconnect().
void Mending::leave(ServerLink& link) {
  if (!link.connection->status().ok()) {
    static_cast<void>(lose(link));
    return;
  }
  const std::string why = fmt::format("it has no place in configuration {}", number_);
  // Before there is a table, nothing is read, and the clock board may be mapped.
  const bool is_mapped = link.shards.empty() || link.reads_in_place ||
                         std::any_of(link.shards.begin(), link.shards.end(), [&](const auto& shard) {
                           return link.connection->mapped(shard) != nullptr;
                         });
  if (!is_mapped) {
    SessionCore::add_posted(*link.connection, session_.counters());
    auto ended = std::make_unique<EndedConnection>(link.connection->peer_name(), why);
    ended->user_data = reinterpret_cast<std::uintptr_t>(&link);
    // It ends here, and what was of it says nothing more.
    link.connection = std::move(ended);
    former_.push_back({std::move(link.watch), std::move(link.inbox), std::move(link.push_ring), nullptr});
  }
  static_cast<void>(lose(link, fmt::format("{}: {}", link.connection->peer_name(), why), !is_mapped));
}

void Mending::step() {
  if (!is_possible()) return;
  if (servers_may_move()) leave_who_is_left_out();
  if (suspects_ || is_in_doubt_) {
    source_->poll(session_.now());
    adopt_newest();
  }
  if (all_are_up()) {  // as it is nearly always: the clock is not read
    last_step_ = transport::TimePoint::max();
    return;
  }
  const transport::TimePoint now = session_.now();
  // This worker may have computed since.
  const auto since =
      std::clamp(now - std::exchange(last_step_, now), transport::Duration::zero(), kMostBetweenSteps);
  for (const std::unique_ptr<ServerLink>& link : session_.links_) {
    if (link->state == ServerLink::State::kUp) continue;
    // By what was before this step: what has come since has not been taken yet.
    if (is_overdue(*link)) return;
    suspect_who_does_not_serve(*link);
    link->lost_for += since;
    if (is_to_be_served_by_another(*link)) link->unanswered_for += since;
    if (link->state == ServerLink::State::kLost) {
      static_cast<void>(reconnect(*link));
    } else if (link->state == ServerLink::State::kJoining) {
      say_again(*link);
    }
  }
}

void Mending::forget_former() {
  if (!former_.empty() && all_are_up()) former_.clear();
}

bool Mending::all_are_up() const {
  return std::all_of(session_.links_.begin(), session_.links_.end(),
                     [](const auto& link) { return link->state == ServerLink::State::kUp; });
}

transport::TimePoint Mending::next_step() const {
  transport::TimePoint next = transport::TimePoint::max();
  if (!is_possible()) return next;
  if (suspects_ || is_in_doubt_) next = source_->next_poll();
  for (const std::unique_ptr<ServerLink>& link : session_.links_) {
    if (link->state == ServerLink::State::kUp) continue;
    next = std::min(next, session_.now() + kBetweenAttempts);
    if (has_copies()) next = std::min(next, source_->next_poll());
  }
  return next;
}

/// That one has not answered, although it can have been asked.
bool Mending::is_to_be_served_by_another(const ServerLink& link) const {
  if (!has_copies() || link.has_welcome || serving_[link.server].empty() ||
      serving_[link.server] == link.lost_address)
    return false;
  return link.state == ServerLink::State::kJoining || !is_still_reading(link);
}

/// One that is to serve now may have been stopped before, and nobody else may be watching it. It may be busy
/// with one that joins. It waits for those after it (server/chain.hpp) less long than it is waited for.
void Mending::suspect_who_does_not_serve(const ServerLink& link) {
  const std::uint64_t times = source_ == nullptr || source_->newest().joining_of(link.server).empty() ? 3 : 5;
  const std::chrono::milliseconds most(times * session_.options().silence_timeout_ms);
  if (!is_to_be_served_by_another(link) || source_->ends_who_is_left_out() || most.count() == 0) return;
  // Of a process that takes a worker's place the hello may wait until all others have come.
  if (session_.options().incarnation > 0 && link.lanes.empty()) return;
  if (link.unanswered_for > most)
    source_->suspect(serving_[link.server], "it is to serve, and does not answer");
}

/// How long a link may be lost. A server without copies waits no longer for its worker, either.
std::chrono::milliseconds Mending::patience() const {
  if (!has_copies()) return transport::mending_time(session_.options().silence_timeout_ms);
  const std::chrono::milliseconds usual(session_.options().timeout_ms);
  // One after another may be found silent.
  const std::chrono::milliseconds all_silent(std::uint64_t{8} * session_.options().silence_timeout_ms);
  return source_->ends_who_is_left_out() ? usual : std::max(usual, all_silent);
}

/// Then the session has failed.
bool Mending::is_overdue(const ServerLink& link) {
  if (link.lost_for <= patience()) return false;
  const std::string why(link.connection->status().message());
  session_.fail(absl::UnavailableError(
      has_copies()
          ? fmt::format("{}; no copy has taken the place of server {} for {} ms", why, link.server,
                        patience().count())
          : fmt::format(
                "{}; it could not be reached again for {} ms{}", why, patience().count(),
                session_.left_ ? ", so that nobody knows whether this worker's goodbye was heard" : "")));
  return true;
}

/// Empty: none, for now.
std::string Mending::address_to_try(ServerLink& link) {
  const transport::TimePoint now = session_.now();
  if (!has_copies()) {
    if (now < link.next_attempt) return "";
    link.next_attempt = now + kBetweenAttempts;
    return addresses_[link.server];
  }
  source_->poll(now);
  const cluster::Configuration& newest = source_->newest();
  const cluster::Configuration::Chain& chain = newest.servers[link.server];
  if (chain.empty()) {
    session_.fail(absl::DataLossError(
        fmt::format("server {} is lost with all its copies (configuration {})", link.server, newest.number)));
    return "";
  }
  const bool is_the_same = chain.front() == link.lost_address;
  if (now < link.next_attempt || (is_the_same && !connections_may_break_)) return "";
  adopt_newest();
  link.next_attempt = now + (is_the_same ? kBetweenAttemptsToTheSame : kBetweenAttempts);
  return chain.front();
}

/// False: not now.
bool Mending::reconnect(ServerLink& link) {
  if (is_still_reading(link)) return false;
  const std::string address = address_to_try(link);
  if (address.empty()) return false;
  if (std::exchange(link.attempted_address, address) != address) link.attempt = {};
  auto connection = session_.transport_->connect(address, session_.now() + link.attempt.next());
  if (!connection.ok()) {
    const bool is_the_same = has_copies() && address == link.lost_address;
    link.attempt.failed(connection.status(),
                        is_the_same ? kLongestAttemptToTheSame : transport::AttemptLimit::kLongest);
    link.next_attempt = std::max(link.next_attempt, session_.now() + kBetweenAttempts);
    return false;
  }
  addresses_[link.server] = address;
  SessionCore::add_posted(*link.connection, session_.counters());
  // What came from there late is for nobody.
  link.connection->user_data = 0;
  former_.push_back(
      {std::move(link.watch), std::move(link.inbox), std::move(link.push_ring), std::move(link.connection)});
  link.connection = *std::move(connection);
  link.connection->set_peer_name(fmt::format("server {}", link.server));
  link.connection->user_data = reinterpret_cast<std::uintptr_t>(&link);
  link.control = {};
  link.shards.clear();
  link.regions.clear();
  link.small.begin_anew();
  link.is_refused = false;
  link.owes_word = false;
  link.has_welcome = false;
  link.state = ServerLink::State::kJoining;
  absl::StatusOr<protocol::Hello> hello = prepare_hello(link, session_.ground());
  if (!hello.ok() && !link.connection->status().ok()) {  // it has broken again
    link.state = ServerLink::State::kLost;
    return false;
  }
  if (!hello.ok()) {
    link.is_refused = true;
    session_.fail(hello.status());
    return false;
  }
  hello->is_back = true;
  session_.say(link, *hello);
  return true;
}

absl::Status Mending::on_welcome(ServerLink& link, const protocol::Welcome& welcome) {
  link.has_welcome = true;
  for (LaneView& view : link.lanes) {
    view.subscriptions = 0;
    view.lookups = {};
  }
  return link.sent->begin_again(welcome.messages);
}

absl::Status Mending::on_table(ServerLink& link, const protocol::TableOpened& opened) {
  absl::Status status =
      session_.tables()[opened.table]->on_server_back(link, opened.shard.as<transport::RemoteDescriptor>());
  link.regions.clear();
  session_.start_epoch();  // what was known of where rows are read is not so any more
  return status;
}

void Mending::say_again(ServerLink& link) {
  if (!link.has_welcome) return;
  while (KeptMessage* const next = link.sent->next_again()) {
    if (session_.try_send_kept(link, *next) != transport::SendResult::kSent) return;
    link.sent->said_again();
  }
  if (link.shards.size() >= session_.tables().size()) end(link);
}

void Mending::end(ServerLink& link) {
  link.state = ServerLink::State::kUp;
  read_[link.server] = addresses_[link.server];
  const auto lost_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(session_.now() - link.lost_at).count();
  if (addresses_[link.server] == link.lost_address) {
    spdlog::info("worker {}: {} is connected again after {} ms", session_.options().rank,
                 link.connection->peer_name(), lost_ms);
  } else {
    spdlog::info("worker {}: {} has taken the place of server {} after {} ms (configuration {})",
                 session_.options().rank, link.connection->peer_name(), link.server, lost_ms, number_);
  }
  session_.say_what_may_be_lost(link);
  session_.start_epoch();
}

}  // namespace verbena::worker
