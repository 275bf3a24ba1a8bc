#include "tests/simulation/configurations.hpp"

#include <fmt/format.h>

#include <cassert>
#include <cstddef>
#include <utility>
#include <variant>

#include "cluster/stored_configuration.hpp"

namespace verbena::simulation {

class Configurations::Source final : public cluster::ConfigurationSource {
 public:
  Source(Configurations& all, const bool* is_cut_off) : all_(all), is_cut_off_(is_cut_off) {}

  [[nodiscard]] const cluster::Configuration& newest() const override { return newest_; }
  [[nodiscard]] std::uint64_t decided() const override {
    if (all_.ends_who_is_left_out_) return all_.decided_;
    hear(all_.now_());
    return known_ == 0 ? 0 : all_.all_[known_ - 1].configuration.number;
  }
  [[nodiscard]] bool ends_who_is_left_out() const override { return all_.ends_who_is_left_out_; }
  void poll(TimePoint now) override {
    hear(now);
    if (known_ > 0) newest_ = all_.all_[known_ - 1].configuration;
  }
  [[nodiscard]] TimePoint next_poll() const override {
    // As a store's client, which is woken by a socket.
    return hears_at_ && !is_cut_off() ? *hears_at_ : all_.now_() + std::chrono::milliseconds(1);
  }
  void expect_change() override {}
  void suspect(const std::string& address, const std::string& /*why*/) override {
    if (all_.on_suspicion_ && !is_cut_off()) all_.on_suspicion_(address);
  }
  void has_joined(const std::string& address) override { all_.has_joined(address); }

 private:
  [[nodiscard]] bool is_cut_off() const { return is_cut_off_ != nullptr && *is_cut_off_; }
  void hear(TimePoint now) const {
    if (is_cut_off()) return;
    all_.look();
    for (; known_ < all_.all_.size(); ++known_) {
      if (!hears_at_) hears_at_ = all_.all_[known_].at + (known_ == 0 ? Duration(0) : all_.time_of_news());
      if (now < *hears_at_) return;
      hears_at_.reset();
    }
  }

  Configurations& all_;
  const bool* const is_cut_off_;
  mutable std::size_t known_ = 0;              ///< so many it has heard of
  mutable std::optional<TimePoint> hears_at_;  ///< of the next one
  cluster::Configuration newest_;
};

Duration Configurations::some_time() {
  return Duration(random_() % (static_cast<std::uint64_t>(slowest_.count()) + 1));
}

/// Where others may go on without it, some hear of it long before others.
Duration Configurations::time_of_news() {
  const Duration time = some_time();
  return !ends_who_is_left_out_ && random_() % 2 == 0 ? time / 64 : time;
}

/// Takes what is new in the store.
void Configurations::look() {
  if (state_.revision() == seen_) return;
  seen_ = state_.revision();
  const auto found = state_.execute(cluster::KeyRange{.key = cluster::kConfigurationKey}, now_());
  const auto& entries = std::get<cluster::Snapshot>(*found).entries;
  if (entries.empty()) return;
  all_.push_back(
      {.at = now_(), .configuration = cluster::decode_configuration(entries.front().value).value()});
}

void Configurations::begin(std::vector<cluster::Configuration::Chain> servers) {
  put(cluster::kConfigurationKey,
      cluster::encode({.number = 1, .servers = std::move(servers), .joining = {}}));
  look();
}

void Configurations::put(const std::string& key, const std::string& value) {
  const auto done = state_.execute(
      cluster::Transaction{.conditions = {}, .puts = {{.key = key, .value = value}}, .deletes = {}}, now_());
  assert(done.ok());
}

void Configurations::join(const cluster::Controller::Copy& copy, const std::string& address) {
  put(fmt::format("{}{}/{}", cluster::kNewcomersPrefix, copy.server, copy.copy), address);
  admit();
}

void Configurations::has_joined(const std::string& address) {
  put(cluster::kJoinedPrefix + address, "");
  admit();
}

/// Who decides does one thing after the other.
void Configurations::admit() {
  if (!is_deciding_) joins_ += controller_.take_joined(now_()).size();
}

/// Whoever decides may be slow before and after it, slower than others are who may know it already.
void Configurations::decide(std::uint64_t number) {
  sleep_(2 * some_time());
  decided_ = number;
  sleep_(2 * some_time());
}

void Configurations::remove(const cluster::Controller::Copy& ended) {
  while (is_deciding_) sleep_(std::chrono::microseconds(20));
  is_deciding_ = true;
  const auto next = controller_.remove(ended, now_());
  assert(next.ok() || absl::IsFailedPrecondition(next.status()));  // it was to join, and had no turn yet
  is_deciding_ = false;
  admit();
}

const cluster::Configuration& Configurations::newest() {
  look();
  return all_.back().configuration;
}

std::unique_ptr<cluster::ConfigurationSource> Configurations::source(const bool* is_cut_off) {
  return std::make_unique<Source>(*this, is_cut_off);
}

}  // namespace verbena::simulation
