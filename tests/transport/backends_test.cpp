#include "transport/backends.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

#include "transport/host_port.hpp"
#include "transport/shm/shm_transport.hpp"

namespace verbena::transport {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> schemes() {
  std::vector<std::string> all;
  for (const Backend* backend : backends()) all.push_back(backend->scheme);
  return all;
}

/// Shared memory by another name.
Backend made_up(const std::string& scheme) {
  return {.scheme = scheme, .summary = "made up", .make = [](const BackendOptions& options) {
            return make_shm_transport({.secret = options.secret});
          }};
}

TEST(BackendsTest, TheBuiltInOnesAreThereWithoutAnybodysHelp) {
  const std::vector<std::string> all = schemes();
  ASSERT_GE(all.size(), 3U);
  EXPECT_EQ(all[0], "shm");
  EXPECT_EQ(all[1], "verbs");
  EXPECT_EQ(all[2], "tcp");
  EXPECT_EQ(default_backend(Reach::kHost).scheme, "shm");
  EXPECT_EQ(default_backend(Reach::kHosts).scheme, "verbs");
  EXPECT_FALSE((*find_backend("shm"))->find_device);
  EXPECT_TRUE((*find_backend("verbs"))->find_device);
}

TEST(BackendsTest, EachSaysWhatItDoesOnItsHost) {
  const auto said = [](const char* scheme) {
    const Backend& backend = **find_backend(scheme);
    return std::array{backend.maps_own_host, backend.over_sockets};
  };
  EXPECT_EQ(said("shm"), (std::array{true, false}));
  EXPECT_EQ(said("verbs"), (std::array{true, false}));
  EXPECT_EQ(said("tcp"), (std::array{false, true}));
}

TEST(BackendsTest, WhatIsAddedIsFoundAndListedLast) {
  ASSERT_TRUE(register_backend(made_up("backends_test")).ok());
  EXPECT_EQ(schemes().back(), "backends_test");
  const auto found = find_backend("backends_test");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ((*found)->summary, "made up");
  EXPECT_EQ(*backend_of("backends_test:a:b"), *found);
  EXPECT_TRUE((*found)->make({}).ok());
  EXPECT_EQ(default_backend(Reach::kHost).scheme, "shm") << "the first one stays the default";
}

TEST(BackendsTest, ASchemeIsOneBackends) {
  const Backend* const first = *find_backend("verbs");
  const absl::Status status = register_backend(made_up("verbs"));
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(status.message()), HasSubstr("verbs"));
  EXPECT_EQ(*find_backend("verbs"), first);
  EXPECT_NE(first->summary, "made up");
}

TEST(BackendsTest, WhatCanBeNoBackendIsRefused) {
  for (const char* scheme : {"", "a:b", "Shm", "a b"})
    EXPECT_EQ(register_backend(made_up(scheme)).code(), absl::StatusCode::kInvalidArgument) << scheme;
  EXPECT_EQ(register_backend({.scheme = "unmade"}).code(), absl::StatusCode::kInvalidArgument);
}

TEST(BackendsTest, AnUnknownSchemeIsRefusedWithTheKnownOnes) {
  for (const absl::Status& status :
       {find_backend("pigeon").status(), backend_of("pigeon:7").status(), backend_of("pigeon").status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("\"pigeon\""), HasSubstr("shm, verbs, tcp")));
  }
}

TEST(BackendsTest, AddressesAreTheirs) {
  const Backend& shm = default_backend(Reach::kHost);
  const Backend& verbs = default_backend(Reach::kHosts);
  EXPECT_EQ(shm.fresh_address("mine"), "shm:mine");
  EXPECT_EQ(verbs.fresh_address("mine"), "verbs::0") << "any port";
  EXPECT_EQ(verbs.address("node2:7471"), "verbs:node2:7471");
  EXPECT_EQ(place_of("shm:a:b"), "a:b");
  EXPECT_EQ(place_of("shm"), "");
  EXPECT_EQ(host_of("verbs:[fe80::1]:7471"), "[fe80::1]");
  EXPECT_EQ(host_of("verbs:node2:7471"), "node2");
  EXPECT_EQ(host_of("verbs::7471"), "");
  EXPECT_EQ(host_of("verbs:7471"), "");
  EXPECT_EQ(host_of("shm:node2:7471"), "");
  EXPECT_EQ(host_of("pigeon:node2:7471"), "");
}

TEST(BackendsTest, AJobTakesTheFirstThatAllItsHostsCanUse) {
  const auto chosen = [](const std::vector<std::string>& usable) {
    const absl::StatusOr<const Backend*> backend = common_backend(Reach::kHosts, usable);
    return backend.ok() ? (*backend)->scheme : std::string(backend.status().message());
  };
  EXPECT_EQ(chosen({"verbs,tcp", "verbs,tcp"}), "verbs");
  EXPECT_EQ(chosen({"verbs,tcp", "tcp", "verbs,tcp"}), "tcp");
  EXPECT_EQ(chosen({"tcp,verbs", "verbs,tcp"}), "verbs") << "the order of the table counts";
  EXPECT_THAT(chosen({"verbs", "tcp"}), HasSubstr("no transport"));
  EXPECT_THAT(usable_schemes(Reach::kHosts, {}), HasSubstr("tcp")) << "it needs no device";
  EXPECT_EQ(usable_schemes(Reach::kHosts, {.device = "no_such_device"}), "verbs")
      << "which says what it lacks";
  EXPECT_EQ(usable_schemes(Reach::kHosts, {.tls = true}), "tcp") << "it encrypts";
}

TEST(BackendsTest, WhoListensOnThisHostIsKnown) {
  const Backend& shm = default_backend(Reach::kHost);
  const std::string address = shm.fresh_address(fmt::format("listening-{}", ::getpid()));
  EXPECT_THAT(shm.listening(), Not(Contains(address)));
  {
    const auto transport = shm.make({});
    ASSERT_TRUE(transport.ok()) << transport.status();
    ASSERT_TRUE((*transport)->listen(address).ok());
    EXPECT_THAT(shm.listening(), Contains(address));
  }
  EXPECT_THAT(shm.listening(), Not(Contains(address)));
  EXPECT_FALSE(default_backend(Reach::kHosts).listening);
}

TEST(HostPortTest, IsParsed) {
  const auto place = parse_host_port("[fe80::1]:7471");
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(place->host, "fe80::1");
  EXPECT_EQ(place->port, 7471);
  EXPECT_TRUE(parse_host_port(":0").ok());
  for (const char* wrong : {"", "node2", "node2:", "node2:x", "node2:70000", "1:2:3", "[a:1", "a]b:1"})
    EXPECT_EQ(parse_host_port(wrong).status().code(), absl::StatusCode::kInvalidArgument) << wrong;
}

}  // namespace
}  // namespace verbena::transport
