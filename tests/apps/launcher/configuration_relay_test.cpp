#include "apps/launcher/configuration_relay.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cluster/word.hpp"
#include "job/launchers_configuration.hpp"

namespace verbena::apps {
namespace {

/// What this process says is noted, and what it is told is what the test says.
class NotedNews final : public job::PeerNews {
 public:
  void listen(Listener listener) override { listener_ = std::move(listener); }
  void outlive(const std::vector<std::uint32_t>& /*ranks*/) override {}
  void outlive_leader(std::chrono::milliseconds /*patience*/) override {}
  [[nodiscard]] std::vector<Returned> returned() override { return {}; }
  void tell(const std::string& news) override { listener_.on_news(news); }
  void tell_one(std::uint32_t /*rank*/, const std::string& /*news*/) override {}
  std::uint32_t keep_place() override { return 0; }
  void give_place(std::uint32_t /*added*/, std::uint32_t /*rank*/) override {}
  void say(const std::string& word) override { said.push_back(word); }
  void dismiss(std::uint32_t /*rank*/, const std::string& /*why*/) override {}
  void release(std::uint32_t /*rank*/) override {}

  std::vector<std::string> said;

 private:
  Listener listener_;
};

/// A process that is its own program.
class ConfigurationRelayTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto secret = transport::Secret::random();
    ASSERT_TRUE(secret.ok()) << secret.status();
    told_.begin({"tcp:a", "tcp:b", "tcp:c"});
    auto relay = ConfigurationRelay::begin(*secret, told_);
    ASSERT_TRUE(relay.ok()) << relay.status();
    relay_ = *std::move(relay);
    const absl::StatusOr<job::Decided> decided = job::map_decided(::dup(relay_->decided_descriptor()));
    ASSERT_TRUE(decided.ok()) << decided.status();
    program_ = job::launchers_configuration(
        relay_->place(), *secret, *decided,
        {.ends_who_is_left_out = false, .longest_absence = std::chrono::milliseconds(7)});
  }

  [[nodiscard]] bool wait_until(const std::function<bool()>& holds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!holds() && std::chrono::steady_clock::now() < end) {
      relay_->poll();
      program_->poll(std::chrono::steady_clock::now());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return holds();
  }

  NotedNews news_;
  ToldConfiguration told_{{{0, 2}, {1}}, news_};
  std::unique_ptr<ConfigurationRelay> relay_;
  std::shared_ptr<cluster::StoredConfiguration> program_;
};

TEST_F(ConfigurationRelayTest, WhatIsToldTheProgramHears) {
  ASSERT_TRUE(wait_until([&] { return program_->newest().number == 1; }));
  using Chain = cluster::Configuration::Chain;
  EXPECT_EQ(program_->newest().servers[0], (Chain{"tcp:a", "tcp:c"}));
  EXPECT_FALSE(program_->ends_who_is_left_out());
  EXPECT_EQ(program_->longest_absence(), std::chrono::milliseconds(7));
  news_.tell(encode(cluster::Configuration{.number = 4, .servers = {{"tcp:c"}, {"tcp:b"}}}));
  ASSERT_TRUE(wait_until([&] { return program_->newest().number == 4; }));
  EXPECT_EQ(program_->newest().servers[0], Chain{"tcp:c"});
  EXPECT_EQ(program_->decided(), 4U);
}

/// Once for each configuration, since another one may have a copy for the one that had none.
TEST_F(ConfigurationRelayTest, WhomTheProgramSuspectsRank0IsTold) {
  ASSERT_TRUE(wait_until([&] { return program_->newest().number == 1; }));
  const std::string word = cluster::encode(cluster::Suspicion{.address = "tcp:b", .why = "it is silent"});
  for (const std::uint64_t next : {2U, 3U}) {
    program_->suspect("tcp:b", "it is silent");
    program_->suspect("tcp:b", "it is silent");
    ASSERT_TRUE(wait_until([&] { return news_.said.size() >= next - 1; }));
    news_.tell(encode(cluster::Configuration{.number = next, .servers = {{"tcp:a"}, {"tcp:b", "tcp:d"}}}));
    ASSERT_TRUE(wait_until([&] { return program_->newest().number == next; }));
    EXPECT_EQ(news_.said, std::vector<std::string>(next - 1, word));
  }
}

}  // namespace
}  // namespace verbena::apps
