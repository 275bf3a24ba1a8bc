#include "apps/launcher/succession.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "apps/report/run_status.hpp"
#include "cluster/remote_store.hpp"
#include "job/launchers_configuration.hpp"
#include "job/server_place.hpp"

namespace verbena::apps {
namespace {

/// One process that is its own launcher.
class SuccessionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto secret = transport::Secret::random();
    ASSERT_TRUE(secret.ok()) << secret.status();
    secret_ = *secret;
    auto begun = Succession::begin(*secret);
    ASSERT_TRUE(begun.ok()) << begun.status();
    succession_ = *std::move(begun);
    const absl::StatusOr<job::Decided> decided = job::map_decided(::dup(succession_->decided_descriptor()));
    ASSERT_TRUE(decided.ok()) << decided.status();
    configuration_ = job::launchers_configuration(job::place_of_store(::getpid()), *secret, *decided);
  }

  [[nodiscard]] bool comes_to_know(std::uint64_t number) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (configuration_->newest().number < number && std::chrono::steady_clock::now() < end) {
      succession_->poll([](const auto&) {}, [&](const auto& copy) { joined_.push_back(copy); });
      configuration_->poll(std::chrono::steady_clock::now());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return configuration_->newest().number == number;
  }

  std::shared_ptr<const transport::Secret> secret_;
  std::unique_ptr<Succession> succession_;
  std::shared_ptr<cluster::StoredConfiguration> configuration_;
  std::vector<Succession::Copy> joined_;
};

/// In the order of the chain, without the one that joins.
TEST_F(SuccessionTest, WhoIsWhichServerIsToldByCopies) {
  EXPECT_FALSE(succession_->chains().has_value()) << "the processes have not met";
  configuration_->propose({.number = 1, .servers = {{"shm:a", "shm:b"}, {"shm:c", "shm:d"}}});
  ASSERT_TRUE(comes_to_know(1));
  configuration_->join(0, 2, "shm:e");
  ASSERT_TRUE(comes_to_know(2));
  auto chains = succession_->chains();
  ASSERT_TRUE(chains.has_value());
  EXPECT_EQ(chains->number, 2U);
  using Chain = std::vector<Succession::Copy>;
  EXPECT_EQ(chains->servers[0], (Chain{{0, 0}, {0, 1}}));
  EXPECT_EQ(chains->servers[1], (Chain{{1, 0}, {1, 1}}));
  configuration_->has_joined("shm:e");
  ASSERT_TRUE(comes_to_know(3));
  ASSERT_TRUE(succession_->remove({.server = 0, .copy = 0}).ok());
  chains = succession_->chains();
  ASSERT_TRUE(chains.has_value());
  EXPECT_EQ(chains->number, 4U);
  EXPECT_EQ(chains->servers[0], (Chain{{0, 1}, {0, 2}}));
}

TEST_F(SuccessionTest, WhoeverHasTheSecretIsToldHowTheRunIs) {
  succession_->store().publish("fine");
  succession_->store().publish("better");
  cluster::RemoteStore store(job::place_of_store(::getpid()), secret_);
  std::optional<absl::StatusOr<cluster::Snapshot>> got;
  const auto now = [] { return std::chrono::steady_clock::now(); };
  store.get({.key = kStatusKey}, now() + std::chrono::seconds(10), [&](const auto& answer) { got = answer; });
  while (!got) {
    store.poll(now());
    succession_->poll([](const auto&) {}, [](const auto&) {});
  }
  ASSERT_TRUE(got->ok()) << got->status();
  ASSERT_EQ((*got)->entries.size(), 1U);
  EXPECT_EQ((*got)->entries.front().value, "better");
}

TEST_F(SuccessionTest, ProcessesSeeWhatIsDecidedBeforeTheyHearOfIt) {
  configuration_->propose({.number = 1, .servers = {{"shm:a", "shm:b"}}});
  ASSERT_TRUE(comes_to_know(1));
  EXPECT_EQ(configuration_->decided(), 0U);
  ASSERT_TRUE(succession_->remove({.server = 0, .copy = 0}).ok());
  EXPECT_EQ(configuration_->decided(), 2U);
  EXPECT_EQ(configuration_->newest().number, 1U);
  ASSERT_TRUE(comes_to_know(2));
  EXPECT_EQ(configuration_->newest().servers.front().front(), "shm:b");
  // Who joins takes nobody's place, so that nothing needs to be seen before.
  configuration_->join(0, 2, "shm:c");
  ASSERT_TRUE(comes_to_know(3));
  EXPECT_EQ(configuration_->newest().joining_of(0), "shm:c");
  configuration_->has_joined("shm:c");
  ASSERT_TRUE(comes_to_know(4));
  EXPECT_EQ(configuration_->newest().servers.front().back(), "shm:c");
  ASSERT_EQ(joined_.size(), 1U);
  EXPECT_EQ(joined_[0], (Succession::Copy{.server = 0, .copy = 2}));
  EXPECT_EQ(configuration_->decided(), 2U);
}

}  // namespace
}  // namespace verbena::apps
