#include "apps/doctor/trial.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>

#include "tests/transport/verbs/fake_fabric.hpp"
#include "transport/shm/shm_transport.hpp"
#include "transport/verbs/verbs_transport.hpp"

namespace verbena::apps::doctor {
namespace {

using ::testing::HasSubstr;
using transport::FakeFabric;

class VerbsTrialTest : public ::testing::Test {
 protected:
  VerbsTrialTest() { fabric_.add_device({.name = "fake0", .address = "10.0.0.1"}); }
  void TearDown() override { EXPECT_EQ(fabric_.leaks(), ""); }

  [[nodiscard]] Trial run(bool address_known = true) {
    return try_transport(
        [this]() -> absl::StatusOr<std::unique_ptr<transport::Transport>> {
          transport::VerbsOptions options;
          options.answer_patience = std::chrono::milliseconds(0);
          options.linger = std::chrono::milliseconds(20);
          return transport::make_verbs_transport(options, fabric_.api());
        },
        "verbs:10.0.0.1:7000",
        [=](const transport::Transport&) { return std::string(address_known ? "verbs:10.0.0.1:7000" : ""); });
  }

  FakeFabric fabric_;
};

TEST_F(VerbsTrialTest, ADeviceThatWorks) {
  const Trial trial = run();
  EXPECT_TRUE(trial.status.ok()) << trial.step << ": " << trial.status;
  EXPECT_THAT(trial.step, HasSubstr("reading 1 MiB"));
}

TEST_F(VerbsTrialTest, WithoutAnAddressItEndsAfterListening) {
  const Trial trial = run(false);
  EXPECT_TRUE(trial.status.ok()) << trial.status;
  EXPECT_EQ(trial.step, "listening");
}

TEST_F(VerbsTrialTest, MemoryThatCannotBeRegistered) {
  fabric_.fail_call("reg_mr", ENOMEM);
  const Trial trial = run();
  EXPECT_TRUE(absl::IsResourceExhausted(trial.status)) << trial.status;
  EXPECT_THAT(trial.step, HasSubstr("registering"));
}

TEST_F(VerbsTrialTest, ADeviceThatDoesNotOpen) {
  fabric_.fail_call("open_device", EACCES);
  const Trial trial = run();
  EXPECT_FALSE(trial.status.ok());
  EXPECT_EQ(trial.step, "opening it");
}

TEST_F(VerbsTrialTest, AReadThatFails) {
  fabric_.fail_request("fake0", IBV_WC_REM_ACCESS_ERR);
  const Trial trial = run();
  EXPECT_FALSE(trial.status.ok());
  EXPECT_THAT(std::string(trial.status.message()), HasSubstr("this process itself"));
}

TEST(ShmTrialTest, SharedMemoryWorks) {
  const std::string address = fmt::format("shm:doctor-test-{}", ::getpid());
  const Trial trial = try_transport([] { return transport::make_shm_transport(); }, address,
                                    [&](const transport::Transport&) { return address; });
  EXPECT_TRUE(trial.status.ok()) << trial.step << ": " << trial.status;
}

}  // namespace
}  // namespace verbena::apps::doctor
