#include "apps/options/transport_options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

#include "apps/launcher/job_options.hpp"
#include "tests/transport/loopback.hpp"

namespace verbena::apps {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A backend that the applications do not know.
class AddedBackendTest : public ::testing::Test {
 protected:
  AddedBackendTest() {
    // An earlier test may have registered it.
    transport::register_backend(transport::loopback_backend()).IgnoreError();
    add_transport_options(command_, job_.transport, "Processes");
    command_.parse("--transport loopback");
    job_.job = "demo";
  }
  CLI::App command_;
  JobOptions job_;
};

TEST_F(AddedBackendTest, IsOfferedAndCanBeChosen) {
  EXPECT_THAT(command_.help(),
              AllOf(HasSubstr("auto|shm|verbs|tcp|loopback"), HasSubstr("loopback is this")));
  EXPECT_TRUE(check(job_.transport).ok());
  EXPECT_TRUE(take_secret(job_.transport).ok())
      << "on one host no secret is needed: the kernel says who a peer is";
  const auto made = make_transport(job_.transport);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ((*made)->name(), "loopback");
}

TEST_F(AddedBackendTest, HasItsOwnAddresses) {
  EXPECT_TRUE(check_by_hand(job_).ok());
  EXPECT_THAT(server_addresses(job_), ElementsAre("loopback:demo/server-0"));
  EXPECT_THAT(*fresh_address(job_.transport, 4711, 0), StartsWith("loopback:"));
}

TEST_F(AddedBackendTest, IsToldWhatItCannotDoByItsName) {
  job_.transport.device = "mlx5_0";
  EXPECT_EQ(check(job_.transport).message(), "--device is for --transport verbs; loopback needs no device");
  job_.transport.device.clear();
  job_.addresses = {"a:1"};
  EXPECT_EQ(check_by_hand(job_).message(),
            "--addresses is for --transport verbs|tcp; over loopback --job is enough");
}

TEST(TransportOptionsTest, EncryptionIsRefusedWhereItCannotBeHad) {
  const auto refusal = [](const TransportOptions& options) { return std::string(check(options).message()); };
  EXPECT_EQ(refusal({.transport = "verbs", .tls = true}),
            "--tls is for --transport tcp; verbs does not encrypt what travels");
  EXPECT_THAT(refusal({.transport = "tcp", .tls = true, .no_secret = true}), HasSubstr("needs a secret"));
  EXPECT_EQ(refusal({.transport = "tcp", .tls = true}), "");
  EXPECT_EQ(refusal({.transport = "shm", .tls = true}), "") << "nothing leaves the host";
  EXPECT_THAT(refusal({.device = "mlx5_0", .tls = true}), HasSubstr("one of the two"));
  EXPECT_EQ(decided({.tls = true}, transport::Reach::kHosts).transport, "tcp");
  EXPECT_EQ(decided({}, transport::Reach::kHosts).transport, "verbs");
  EXPECT_FALSE((*transport::find_backend("verbs"))->make({.tls = true}).ok());
}

TEST(TransportOptionsTest, AnUnknownTransportIsRefusedWithTheKnownOnes) {
  TransportOptions options;
  EXPECT_TRUE(check(options).ok()) << "no transport has been chosen yet";
  options.transport = "pigeon";
  const absl::Status status = check(options);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("one of shm, verbs"));
}

}  // namespace
}  // namespace verbena::apps
