#include "apps/launcher/told_configuration.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>
#include <variant>

namespace verbena::apps {
namespace {

/// Until a process looks for another configuration, which it has in its memory by then.
constexpr auto kUsualInterval = std::chrono::milliseconds(50);
constexpr auto kShortInterval = std::chrono::milliseconds(2);

}  // namespace

class ToldConfiguration::Source final : public cluster::ConfigurationSource {
 public:
  Source(ToldConfiguration& told, std::chrono::milliseconds longest_absence)
      : told_(told), longest_absence_(longest_absence) {}

  [[nodiscard]] const cluster::Configuration& newest() const override { return newest_; }
  [[nodiscard]] std::uint64_t decided() const override {
    return told_.number_.load(std::memory_order_acquire);
  }
  [[nodiscard]] bool ends_who_is_left_out() const override { return false; }
  [[nodiscard]] std::chrono::milliseconds longest_absence() const override { return longest_absence_; }
  void poll(transport::TimePoint now) override {
    if (decided() != newest_.number) {
      const std::lock_guard lock(told_.mutex_);
      newest_ = told_.newest_;
      expects_change_ = false;
      changed_at_ = now;
      suspects_.clear();  // one that had no other copy may have one now
    }
    const bool waits = expects_change_ || newest_.number == 0 || now < changed_at_ + cluster::kTimeOfChange;
    next_poll_ = now + (waits ? kShortInterval : kUsualInterval);
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
  void has_joined(const std::string& address) override {
    told_.news_.say(cluster::encode(cluster::HasJoined{.address = address}));
  }

 private:
  ToldConfiguration& told_;
  const std::chrono::milliseconds longest_absence_;
  cluster::Configuration newest_;
  bool expects_change_ = false;
  std::set<std::string> suspects_;  ///< that were told since the newest configuration
  transport::TimePoint changed_at_ = transport::TimePoint::min();
  transport::TimePoint next_poll_ = transport::TimePoint::min();
};

ToldConfiguration::ToldConfiguration(RankChains chains, job::PeerNews& news, job::PeerNews::Listener rest,
                                     std::function<void(const cluster::Configuration& first)> on_begin)
    : chains_(std::move(chains)), news_(news), on_begin_(std::move(on_begin)) {
  rest.on_news = [this](std::string_view text) {
    if (const absl::StatusOr<cluster::Order> order = cluster::decode_order(text); order.ok())
      return take(*order);
    const absl::StatusOr<cluster::Configuration> told = cluster::decode_configuration(text);
    if (told.ok() && told->servers.size() == chains_.size()) return take(*told);
    spdlog::warn("rank 0 has told a configuration that cannot be understood: {}",
                 told.ok() ? "it is of other servers" : std::string(told.status().message()));
  };
  rest.describe = [this] { return describe(); };
  rest.on_leader_gone = [this] { lose_leader(); };
  rest.on_place = [this](std::uint32_t /*rank*/) { take_place(); };
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
  wake_();
}

void ToldConfiguration::take(const cluster::Order& order) {
  const std::lock_guard lock(mutex_);
  if (const auto* const copy = std::get_if<cluster::BecomesCopy>(&order)) {
    task_ = copy->server < chains_.size()
                ? absl::StatusOr<Task>(*copy)
                : absl::InvalidArgumentError(fmt::format("rank 0 says that this process becomes a copy of "
                                                         "server {}, of {}",
                                                         copy->server, chains_.size()));
  } else if (const auto* const workers = std::get_if<cluster::BecomesWorkers>(&order)) {
    task_ = *workers;
  } else if (const auto* const idle = std::get_if<cluster::IsNotNeeded>(&order)) {
    task_ = absl::InvalidArgumentError(fmt::format("this process is not needed: {}", idle->why));
  } else if (const auto* const start = std::get_if<cluster::StartsAnother>(&order)) {
    start_other_(start->rank);
  } else if (const auto* const leader = std::get_if<cluster::HasLeader>(&order)) {
    if (leader_change_) leader_change_->on_next(*leader);
  } else {
    steps_aside_ = std::holds_alternative<cluster::StepsAside>(order);  // or it stays
  }
  told_.notify_all();
}

void ToldConfiguration::take_place() {
  const std::lock_guard lock(mutex_);
  has_workers_place_ = true;
  told_.notify_all();
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
  const std::lock_guard lock(mutex_);
  return std::make_shared<Source>(*this,
                                  leader_change_ ? leader_change_->patience : std::chrono::milliseconds(0));
}

void ToldConfiguration::outlive_leader(LeaderChange change) {
  const std::chrono::milliseconds patience = change.patience;
  {
    const std::lock_guard lock(mutex_);
    leader_change_ = std::move(change);
  }
  news_.outlive_leader(patience);
}

/// Empty as long as there is no configuration by which others could go on, and when nobody is to.
std::string ToldConfiguration::describe() {
  const std::lock_guard lock(mutex_);
  if (!leader_change_ || newest_.number == 0) return "";
  if (leader_change_->ends_with_it && leader_change_->ends_with_it()) return "";
  cluster::Account account = leader_change_->own;
  account.address = own_address_;
  account.configuration = newest_;
  return cluster::encode(account);
}

void ToldConfiguration::lose_leader() {
  const std::lock_guard lock(mutex_);
  // The next one does not know of it. Of a server it is so once a configuration says so.
  if (own_address_.empty()) steps_aside_ = false;
  if (leader_change_) leader_change_->on_gone();
}

absl::StatusOr<ToldConfiguration::Task> ToldConfiguration::wait_for_task(
    const std::function<bool()>& stopped) {
  constexpr auto kSlice = std::chrono::milliseconds(50);
  constexpr auto kPatience = std::chrono::seconds(30);  // rank 0 answers at once
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  std::unique_lock lock(mutex_);
  while (!task_) {
    told_.wait_for(lock, kSlice);
    if (task_) break;
    if (stopped()) return absl::CancelledError("stopped");
    if (std::chrono::steady_clock::now() >= deadline)
      return absl::DeadlineExceededError("rank 0 does not say what this process is to do");
  }
  return *task_;
}

void ToldConfiguration::has_read() {
  news_.say(cluster::encode(cluster::HasRead{}));
}

absl::StatusOr<bool> ToldConfiguration::wait_for_place(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  told_.wait_for(lock, patience, [this] { return has_workers_place_ || !task_->ok(); });
  if (!has_workers_place_ && !task_->ok()) return task_->status();
  return has_workers_place_;
}

void ToldConfiguration::start_others_by(std::function<void(std::uint32_t rank)> start) {
  const std::lock_guard lock(mutex_);
  start_other_ = std::move(start);
}

void ToldConfiguration::listens_at(const std::string& address) {
  const std::lock_guard lock(mutex_);
  own_address_ = address;
}

void ToldConfiguration::wake_by(std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  wake_ = std::move(wake);
}

void ToldConfiguration::join() {
  std::string own;
  {
    const std::lock_guard lock(mutex_);
    own = own_address_;
  }
  news_.say(cluster::encode(cluster::WantsToJoin{.address = own}));
}

void ToldConfiguration::leave() {
  news_.say(cluster::encode(cluster::WantsToLeave{}));
}

bool ToldConfiguration::has_place() {
  const std::lock_guard lock(mutex_);
  for (std::uint32_t server = 0; server < newest_.servers.size(); ++server) {
    const cluster::Configuration::Chain all = newest_.all_of(server);
    if (std::find(all.begin(), all.end(), own_address_) != all.end()) return true;
  }
  return false;
}

}  // namespace verbena::apps
