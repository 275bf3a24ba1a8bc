#include "tests/simulation/configurations.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace verbena::simulation {

class Configurations::Source final : public cluster::ConfigurationSource {
 public:
  explicit Source(Configurations& all) : all_(all) {}

  [[nodiscard]] const cluster::Configuration& newest() const override { return newest_; }
  void poll(TimePoint now) override {
    for (; known_ < all_.all_.size(); ++known_) {
      const Decided& next = all_.all_[known_];
      if (!hears_at_) {
        const auto most = static_cast<std::uint64_t>(all_.slowest_.count());
        hears_at_ = next.at + Duration(known_ == 0 ? 0 : all_.random_() % (most + 1));
      }
      if (now < *hears_at_) return;
      newest_ = next.configuration;
      hears_at_.reset();
    }
  }
  [[nodiscard]] TimePoint next_poll() const override {
    // As a store's client, which is woken by a socket.
    return hears_at_ ? *hears_at_ : all_.now_() + std::chrono::milliseconds(1);
  }
  void expect_change() override {}
  void suspect(const std::string& /*address*/, const std::string& /*why*/) override {}
  void has_joined(const std::string& address) override { all_.has_joined(address); }

 private:
  Configurations& all_;
  std::size_t known_ = 0;
  std::optional<TimePoint> hears_at_;  ///< of the next one
  cluster::Configuration newest_;
};

void Configurations::begin(std::vector<cluster::Configuration::Chain> servers) {
  waiting_.resize(servers.size());
  const std::size_t count = servers.size();
  all_.push_back(
      {.at = now_(),
       .configuration = {
           .number = 1, .servers = std::move(servers), .joining = std::vector<std::string>(count)}});
}

void Configurations::remove(const std::string& address) {
  cluster::Configuration next = newest();
  for (std::uint32_t server = 0; server < next.servers.size(); ++server) {
    cluster::Configuration::Chain& chain = next.servers[server];
    std::string& joining = next.joining[server];
    // Who follows the one that is gone may have a part of what that one had.
    if (joining == address || (!chain.empty() && chain.back() == address)) joining.clear();
    std::erase(chain, address);
    std::erase(waiting_[server], address);
  }
  decide(std::move(next));
}

void Configurations::join(std::uint32_t server, const std::string& address) {
  waiting_[server].push_back(address);
  if (newest().joining[server].empty()) decide(newest());
}

void Configurations::has_joined(const std::string& address) {
  cluster::Configuration next = newest();
  for (std::uint32_t server = 0; server < next.servers.size(); ++server) {
    if (next.joining[server] != address) continue;
    next.servers[server].push_back(std::exchange(next.joining[server], ""));
    ++joins_;
    return decide(std::move(next));
  }
}

void Configurations::decide(cluster::Configuration next) {
  ++next.number;
  for (std::uint32_t server = 0; server < next.servers.size(); ++server) {
    if (!next.joining[server].empty() || waiting_[server].empty() || next.servers[server].empty()) continue;
    next.joining[server] = waiting_[server].front();
    waiting_[server].pop_front();
  }
  all_.push_back({.at = now_(), .configuration = std::move(next)});
}

std::unique_ptr<cluster::ConfigurationSource> Configurations::source() {
  return std::make_unique<Source>(*this);
}

}  // namespace verbena::simulation
