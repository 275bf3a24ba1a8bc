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

 private:
  Configurations& all_;
  std::size_t known_ = 0;
  std::optional<TimePoint> hears_at_;  ///< of the next one
  cluster::Configuration newest_;
};

void Configurations::begin(std::vector<cluster::Configuration::Chain> servers) {
  all_.push_back({.at = now_(), .configuration = {.number = 1, .servers = std::move(servers)}});
}

void Configurations::remove(const std::string& address) {
  cluster::Configuration next = newest();
  ++next.number;
  for (cluster::Configuration::Chain& chain : next.servers) std::erase(chain, address);
  all_.push_back({.at = now_(), .configuration = std::move(next)});
}

std::unique_ptr<cluster::ConfigurationSource> Configurations::source() {
  return std::make_unique<Source>(*this);
}

}  // namespace verbena::simulation
