#include "apps/launcher/hosts_replacement.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <variant>

#include "base/printable.hpp"

namespace verbena::apps {

namespace {

/// For one that rank 0 knows of: longer than it takes to start it, or until it has to say that it is there.
constexpr auto kLeastForOneThatIsExpected = std::chrono::seconds(20);

}  // namespace

absl::StatusOr<std::unique_ptr<HostsReplacement>> HostsReplacement::make(const Options& options,
                                                                         job::PeerNews& news) {
  base::FileDescriptor bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell.valid()) return absl::ErrnoToStatus(errno, "no eventfd");
  return std::unique_ptr<HostsReplacement>(new HostsReplacement(options, news, std::move(bell)));
}

HostsReplacement::HostsReplacement(const Options& options, job::PeerNews& news, base::FileDescriptor bell)
    : options_(options),
      news_(news),
      bell_(std::move(bell)),
      time_(options.clock()),
      lives_(options.processes) {
  for (Life& life : lives_) life.came_at = time_.now();
}

job::PeerNews::Listener HostsReplacement::listener() {
  return {.on_news = {},
          .on_word =
              [this](std::uint32_t rank, std::string_view text) {
                absl::StatusOr<cluster::Word> word = cluster::decode_word(text);
                if (!word.ok()) return;
                if (auto* const arrival = std::get_if<cluster::Arrival>(&*word))
                  add({.rank = rank, .arrival = std::move(*arrival)});
              },
          .on_gone = [this](std::uint32_t rank,
                            const std::string& /*why*/) { add({.rank = rank, .arrival = std::nullopt}); }};
}

job::PeerNews::Listener both(job::PeerNews::Listener one, job::PeerNews::Listener other) {
  return {.on_news = {},
          .on_word =
              [first = std::move(one.on_word), second = std::move(other.on_word)](std::uint32_t rank,
                                                                                  std::string_view word) {
                first(rank, word);
                second(rank, word);
              },
          .on_gone =
              [first = std::move(one.on_gone), second = std::move(other.on_gone)](std::uint32_t rank,
                                                                                  const std::string& why) {
                first(rank, why);
                second(rank, why);
              }};
}

void HostsReplacement::begin() {
  {
    const std::lock_guard lock(mutex_);
    has_begun_ = true;
  }
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t process = 0; process < options_.processes; ++process)
    ranks.push_back(options_.first_rank + process);
  news_.outlive(ranks);
}

void HostsReplacement::add(Heard heard) {
  if (life_of(heard.rank) == nullptr) return;  // a server's
  {
    const std::lock_guard lock(mutex_);
    heard_.push_back(std::move(heard));
  }
  const std::uint64_t one = 1;
  (void)!::write(bell_.get(), &one, sizeof one);
}

HostsReplacement::Life* HostsReplacement::life_of(std::uint32_t rank) {
  const std::uint32_t process = rank - options_.first_rank;
  return rank < options_.first_rank || process >= lives_.size() ? nullptr : &lives_[process];
}

void HostsReplacement::add_descriptors(std::vector<pollfd>& wanted) const {
  wanted.push_back({bell_.get(), POLLIN, 0});
}

/// In order: of a rank a process goes before another one comes.
void HostsReplacement::tell(Host& host) {
  time_.look(options_.clock());
  std::uint64_t rings = 0;
  (void)!::read(bell_.get(), &rings, sizeof rings);
  std::vector<Heard> all;
  {
    const std::lock_guard lock(mutex_);
    all = std::exchange(heard_, {});
  }
  for (const Heard& heard : all) take(heard, host);
}

void HostsReplacement::take(const Heard& heard, Host& host) {
  if (!heard.arrival) return host.lose(heard.rank, "is gone: it crashed, was killed, or its host is gone");
  Life& life = *life_of(heard.rank);
  if (!std::exchange(life.kept_until, std::nullopt)) return;
  life.came_at = time_.now();
  const std::uint32_t process = heard.rank - options_.first_rank;
  const std::string where = fmt::format("(rank {}, pid {} on {})", heard.rank, heard.arrival->pid,
                                        std::string(base::printable(heard.arrival->host)));
  host.replace(heard.rank, {.name = fmt::format("worker {} {}", process, where), .pid = heard.arrival->pid},
               {.process = process, .first = process * options_.workers, .count = options_.workers},
               fmt::format("worker {}: another process {} takes its place", process, where));
}

absl::StatusOr<std::string> HostsReplacement::await(std::uint32_t rank, const std::string& why,
                                                    bool is_expected) {
  Life* const life = life_of(rank);
  if (life == nullptr) return absl::FailedPreconditionError("it is no worker");
  {
    const std::lock_guard lock(mutex_);
    if (!has_begun_) return absl::FailedPreconditionError("not all processes had met");
  }
  if (options_.patience.count() == 0 && !is_expected)
    return absl::FailedPreconditionError("nobody waits for another one (--worker-patience 0)");
  if (++life->deaths > RunMonitor::kMostDeathsOfWorker) {
    return absl::FailedPreconditionError(fmt::format(
        "nobody waits for yet another one: {} processes in its place have died before they had finished "
        "iteration {}",
        RunMonitor::kMostDeathsOfWorker, life->newest_iteration + 1));
  }
  news_.dismiss(rank, why);
  return keep(*life,
              is_expected ? std::max(options_.patience, kLeastForOneThatIsExpected) : options_.patience);
}

std::string HostsReplacement::keep_place(std::uint32_t rank) {
  Life* const life = life_of(rank);
  if (life == nullptr) return "";
  news_.release(rank);
  return keep(*life, std::max(options_.patience, kLeastForOneThatIsExpected));
}

/// Not if it has been taken meanwhile.
void HostsReplacement::keep_longer(std::uint32_t rank) {
  Life* const life = life_of(rank);
  if (life == nullptr || !life->kept_until) return;
  keep(*life, std::max(options_.patience, kLeastForOneThatIsExpected));
}

std::string HostsReplacement::keep(Life& life, std::chrono::seconds how_long) {
  life.kept_until = time_.now() + how_long;
  life.kept_for = how_long;
  return fmt::format("the run waits {} s for another process in its place", how_long.count());
}

bool HostsReplacement::note_iteration(std::uint32_t rank, std::int64_t iteration) {
  Life* const life = life_of(rank);
  if (life == nullptr || iteration <= life->newest_iteration) return false;
  life->newest_iteration = iteration;
  life->deaths = 0;
  return true;
}

/// What a server says may be late, and of the process before.
std::optional<std::uint32_t> HostsReplacement::rank_of_silent(std::uint32_t worker) const {
  const std::uint32_t process = worker / options_.workers;
  if (process >= lives_.size() || time_.now() < lives_[process].came_at + options_.silence_timeout)
    return std::nullopt;
  return options_.first_rank + process;
}

std::optional<std::pair<std::uint32_t, std::string>> HostsReplacement::overdue() const {
  for (std::uint32_t process = 0; process < lives_.size(); ++process) {
    const Life& life = lives_[process];
    if (!life.kept_until || time_.now() < *life.kept_until) continue;
    return std::pair(options_.first_rank + process,
                     fmt::format("no other process has taken its place within {} s (--worker-patience)",
                                 life.kept_for.count()));
  }
  return std::nullopt;
}

}  // namespace verbena::apps
