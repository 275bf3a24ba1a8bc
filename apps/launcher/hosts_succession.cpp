#include "apps/launcher/hosts_succession.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "apps/launcher/succession.hpp"
#include "base/printable.hpp"
#include "cluster/stored_configuration.hpp"
#include "cluster/suspicion.hpp"

namespace verbena::apps {
namespace {

/// Until a process looks for another configuration, which it has in its memory by then.
constexpr auto kUsualInterval = std::chrono::milliseconds(50);
constexpr auto kShortInterval = std::chrono::milliseconds(2);

cluster::TimePoint this_moment() {
  return std::chrono::steady_clock::now();
}

/// Gives servers copies on hosts on which they have none, as many as can be: a maximum matching by augmenting
/// paths (Kuhn, 1955) of places in chains and processes.
class Matching {
 public:
  Matching(std::span<const std::string> hosts, std::uint32_t servers, std::uint32_t replicas)
      : hosts_(hosts), servers_(servers), taken_by_(hosts.size()) {
    for (std::uint32_t place = 0; place < servers * replicas; ++place) {
      std::set<std::uint32_t> seen;
      if (!give(place % servers, seen)) lacks_.push_back(place % servers);
    }
  }
  /// By rank: the server whose copy it is; nullopt: none yet.
  [[nodiscard]] const std::vector<std::optional<std::uint32_t>>& taken_by() const { return taken_by_; }
  /// Servers for which no place was found, once for each that is missing.
  [[nodiscard]] const std::vector<std::uint32_t>& lacks() const { return lacks_; }

 private:
  [[nodiscard]] bool is_on(std::uint32_t server, const std::string& host) const {
    if (hosts_[server] == host) return true;
    for (std::uint32_t rank = servers_; rank < hosts_.size(); ++rank) {
      if (taken_by_[rank] == server && hosts_[rank] == host) return true;
    }
    return false;
  }
  /// One of a host's processes stands for all of them: which it is makes no difference.
  bool give(std::uint32_t server, std::set<std::uint32_t>& seen) {
    for (std::uint32_t rank = servers_; rank < hosts_.size(); ++rank) {
      if (seen.contains(rank) || taken_by_[rank] == server || is_on(server, hosts_[rank])) continue;
      seen.insert(rank);
      const std::optional<std::uint32_t> before = taken_by_[rank];
      taken_by_[rank] = server;
      if (!before || give(*before, seen)) return true;
      taken_by_[rank] = before;
    }
    return false;
  }

  const std::span<const std::string> hosts_;
  const std::uint32_t servers_;
  std::vector<std::optional<std::uint32_t>> taken_by_;
  std::vector<std::uint32_t> lacks_;
};

}  // namespace

FormedChains form_chains(std::span<const std::string> hosts, std::uint32_t servers, std::uint32_t replicas) {
  const std::span<const std::string> of_servers = hosts.first(std::size_t{servers} * (1 + replicas));
  const Matching matching(of_servers, servers, replicas);
  std::vector<std::optional<std::uint32_t>> taken_by = matching.taken_by();
  for (const std::uint32_t server : matching.lacks())
    *std::find(taken_by.begin() + servers, taken_by.end(), std::nullopt) = server;
  FormedChains formed{.ranks = RankChains(servers), .are_apart = matching.lacks().empty()};
  for (std::uint32_t server = 0; server < servers; ++server) formed.ranks[server].push_back(server);
  for (std::uint32_t rank = servers; rank < of_servers.size(); ++rank)
    formed.ranks[*taken_by[rank]].push_back(rank);
  return formed;
}

// ---- each process

class ToldConfiguration::Source final : public cluster::ConfigurationSource {
 public:
  explicit Source(ToldConfiguration& told) : told_(told) {}

  [[nodiscard]] const cluster::Configuration& newest() const override { return newest_; }
  [[nodiscard]] std::uint64_t decided() const override {
    return told_.number_.load(std::memory_order_acquire);
  }
  [[nodiscard]] bool ends_who_is_left_out() const override { return false; }
  void poll(transport::TimePoint now) override {
    if (decided() != newest_.number) {
      const std::lock_guard lock(told_.mutex_);
      newest_ = told_.newest_;
      expects_change_ = false;
    }
    next_poll_ = now + (expects_change_ || newest_.number == 0 ? kShortInterval : kUsualInterval);
  }
  [[nodiscard]] transport::TimePoint next_poll() const override { return next_poll_; }
  void expect_change() override {
    expects_change_ = true;
    next_poll_ = transport::TimePoint::min();
  }
  void suspect(const std::string& address, const std::string& why) override {
    expect_change();
    if (suspects_.insert(address).second)
      told_.news_.say(cluster::encode(cluster::Suspicion{.address = address, .why = why}));
  }
  void has_joined(const std::string& /*address*/) override {}  // nobody joins

 private:
  ToldConfiguration& told_;
  cluster::Configuration newest_;
  bool expects_change_ = false;
  std::set<std::string> suspects_;  ///< that were told
  transport::TimePoint next_poll_ = transport::TimePoint::min();
};

ToldConfiguration::ToldConfiguration(RankChains chains, job::PeerNews& news, job::PeerNews::Listener rest,
                                     std::function<void(const cluster::Configuration& first)> on_begin)
    : chains_(std::move(chains)), news_(news), on_begin_(std::move(on_begin)) {
  rest.on_news = [this](std::string_view text) {
    const absl::StatusOr<cluster::Configuration> told = cluster::decode_configuration(text);
    if (told.ok() && told->servers.size() == chains_.size()) return take(*told);
    spdlog::warn("rank 0 has told a configuration that cannot be understood: {}",
                 told.ok() ? "it is of other servers" : std::string(told.status().message()));
  };
  news_.listen(std::move(rest));
}

ToldConfiguration::~ToldConfiguration() {
  news_.listen({});
}

void ToldConfiguration::take(const cluster::Configuration& configuration) {
  const std::lock_guard lock(mutex_);
  if (configuration.number <= newest_.number) return;
  newest_ = configuration;
  number_.store(newest_.number, std::memory_order_release);
}

void ToldConfiguration::begin(const std::vector<std::string>& addresses) {
  cluster::Configuration first{.number = 1, .servers = {}, .joining = {}};
  for (const std::vector<std::uint32_t>& ranks : chains_) {
    cluster::Configuration::Chain& chain = first.servers.emplace_back();
    for (const std::uint32_t rank : ranks) chain.push_back(addresses[rank]);
  }
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(has_begun_, true)) return;
  }
  if (on_begin_) on_begin_(first);
  take(first);
}

std::shared_ptr<cluster::ConfigurationSource> ToldConfiguration::source() {
  return std::make_shared<Source>(*this);
}

// ---- rank 0

absl::StatusOr<std::unique_ptr<HostsSuccession>> HostsSuccession::make(RankChains chains,
                                                                       job::PeerNews& news) {
  base::FileDescriptor bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell.valid()) return absl::ErrnoToStatus(errno, "no eventfd");
  return std::unique_ptr<HostsSuccession>(new HostsSuccession(std::move(chains), news, std::move(bell)));
}

job::PeerNews::Listener HostsSuccession::listener() {
  return {.on_news = {},
          .on_word = [this](std::uint32_t rank, std::string_view word) { hear(rank, word); },
          .on_gone =
              [this](std::uint32_t rank, const std::string& /*why*/) {
                add({.loss = {.rank = rank, .why = "is gone: it crashed, was killed, or its host is gone"}});
              }};
}

void HostsSuccession::begin(const cluster::Configuration& first) {
  std::vector<std::uint32_t> others;
  for (const std::vector<std::uint32_t>& ranks : ranks_) {
    for (const std::uint32_t rank : ranks) {
      if (rank != 0) others.push_back(rank);
    }
  }
  {
    const std::lock_guard lock(mutex_);
    first_ = first;
  }
  news_.outlive(others);
}

void HostsSuccession::add(Word word) {
  {
    const std::lock_guard lock(mutex_);
    words_.push_back(std::move(word));
  }
  const std::uint64_t one = 1;
  (void)!::write(bell_.get(), &one, sizeof one);
}

void HostsSuccession::hear(std::uint32_t /*rank*/, std::string_view word) {
  const absl::StatusOr<cluster::Suspicion> suspicion = cluster::decode_suspicion(word);
  if (!suspicion.ok()) return;
  if (const std::optional<std::uint32_t> rank = rank_at(suspicion->address)) {
    const std::string why = std::string(base::printable(suspicion->why));
    add({.loss = {.rank = *rank, .why = fmt::format("shows no sign of life ({})", why)},
         .is_suspicion = true});
  }
}

/// In the first configuration, which has all that there ever are.
std::optional<std::uint32_t> HostsSuccession::rank_at(const std::string& address) const {
  const std::lock_guard lock(mutex_);
  for (std::size_t server = 0; first_ && server < ranks_.size(); ++server) {
    for (std::size_t copy = 0; copy < ranks_[server].size(); ++copy) {
      if (first_->servers[server][copy] == address) return ranks_[server][copy];
    }
  }
  return std::nullopt;
}

void HostsSuccession::add_descriptors(std::vector<pollfd>& wanted) const {
  wanted.push_back({bell_.get(), POLLIN, 0});
}

/// A suspicion may be wrong, or late: it never costs the last copy of a server, and says nothing of one that
/// has no place any more. Who is surely gone comes first.
std::vector<HostsSuccession::Loss> HostsSuccession::take_losses() {
  std::uint64_t rings = 0;
  (void)!::read(bell_.get(), &rings, sizeof rings);
  std::vector<Word> words;
  {
    const std::lock_guard lock(mutex_);
    words = std::exchange(words_, {});
  }
  if (words.empty()) return {};
  std::stable_partition(words.begin(), words.end(), [](const Word& word) { return !word.is_suspicion; });
  const std::optional<Chains> known = chains();
  std::vector<std::vector<Copy>> left = known ? known->servers : std::vector<std::vector<Copy>>();
  std::vector<Loss> losses;
  for (Word& word : words) {
    const auto is_it = [&](const Copy& copy) { return copy.rank == word.loss.rank; };
    const auto its_chain = std::find_if(left.begin(), left.end(), [&](const std::vector<Copy>& chain) {
      return std::any_of(chain.begin(), chain.end(), is_it);
    });
    if (word.is_suspicion && (its_chain == left.end() || its_chain->size() == 1)) continue;
    if (its_chain != left.end()) std::erase_if(*its_chain, is_it);
    losses.push_back(std::move(word.loss));
  }
  return losses;
}

void HostsSuccession::take_first() {
  if (has_begun_) return;
  const std::lock_guard lock(mutex_);
  if (!first_) return;
  const std::string value = cluster::encode(*first_);
  has_begun_ =
      state_
          .execute(cluster::Transaction{.conditions = {},
                                        .puts = {{.key = cluster::kConfigurationKey, .value = value}},
                                        .deletes = {}},
                   this_moment())
          .ok();
}

absl::StatusOr<std::string> HostsSuccession::go_on_without(std::uint32_t rank, const std::string& why) {
  take_first();
  if (rank == 0) return absl::FailedPreconditionError("it leads the run");
  for (std::uint32_t server = 0; server < ranks_.size(); ++server) {
    const auto found = std::find(ranks_[server].begin(), ranks_[server].end(), rank);
    if (found == ranks_[server].end()) continue;
    const auto copy = static_cast<std::uint32_t>(found - ranks_[server].begin());
    const absl::StatusOr<cluster::Configuration> next =
        controller_.remove({.server = server, .copy = copy}, this_moment());
    if (!next.ok()) return next.status();
    news_.dismiss(rank, why);
    news_.tell(cluster::encode(*next));
    return what_follows(*next, server);
  }
  return absl::FailedPreconditionError("it is no server");
}

std::optional<HostsSuccession::Chains> HostsSuccession::chains() {
  take_first();
  const std::optional<cluster::Controller::Chains> known = controller_.chains(this_moment());
  if (!known) return std::nullopt;
  Chains chains{.number = known->number, .servers = {}};
  for (const std::vector<cluster::Controller::Copy>& copies : known->servers) {
    auto& server = chains.servers.emplace_back();
    for (const cluster::Controller::Copy& copy : copies)
      server.push_back({.copy = copy.copy, .rank = ranks_[copy.server][copy.copy]});
  }
  return chains;
}

}  // namespace verbena::apps
