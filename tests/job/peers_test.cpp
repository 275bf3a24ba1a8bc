#include "job/peers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace verbena::job {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

Environment environment(const Variables& variables) {
  return [variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

absl::StatusOr<Meeting> meeting(const Variables& variables, const PeerOptions& options = {}) {
  return find_meeting(options, environment(variables));
}
std::string refusal(const Variables& variables, const PeerOptions& options = {}) {
  const absl::StatusOr<Meeting> found = meeting(variables, options);
  EXPECT_TRUE(absl::IsInvalidArgument(found.status())) << found.status();
  return std::string(found.status().message());
}
::testing::AssertionResult is_alone(const Variables& variables, const PeerOptions& options = {}) {
  const absl::StatusOr<Meeting> found = meeting(variables, options);
  if (!found.ok()) return ::testing::AssertionFailure() << found.status();
  return found->way == Meeting::Way::kNone ? ::testing::AssertionSuccess() : ::testing::AssertionFailure();
}

const Variables kTorchrun = {{"RANK", "3"},
                             {"WORLD_SIZE", "8"},
                             {"LOCAL_RANK", "1"},
                             {"MASTER_ADDR", "node1"},
                             {"MASTER_PORT", "29500"}};

Variables torchrun_without(const char* name) {
  Variables variables = kTorchrun;
  variables.erase(name);
  return variables;
}

TEST(MeetingTest, TorchrunsVariablesSayAll) {
  const absl::StatusOr<Meeting> found = meeting(kTorchrun);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->way, Meeting::Way::kNetwork);
  EXPECT_EQ(transport::to_string(found->place), "node1:29501") << "the next port";
  EXPECT_EQ(found->rank, 3U);
  EXPECT_EQ(found->processes, 8U);
}

TEST(MeetingTest, WhatIsMissingIsNamed) {
  EXPECT_THAT(refusal(torchrun_without("RANK")),
              AllOf(HasSubstr("MASTER_ADDR and WORLD_SIZE are set, and RANK"), HasSubstr("is not")));
  EXPECT_THAT(refusal(torchrun_without("WORLD_SIZE")), HasSubstr("and WORLD_SIZE, how many processes"));
  EXPECT_THAT(refusal(torchrun_without("MASTER_PORT")),
              HasSubstr("MASTER_ADDR and WORLD_SIZE are set, and MASTER_PORT, the port before that where"));
  EXPECT_THAT(refusal(torchrun_without("MASTER_ADDR")),
              HasSubstr("MASTER_PORT and WORLD_SIZE are set, and MASTER_ADDR, the host of rank 0, is not"));
  EXPECT_THAT(refusal({{"RANK", "0"}, {"WORLD_SIZE", "2"}}), HasSubstr("MASTER_ADDR and MASTER_PORT"));
  EXPECT_THAT(refusal({}, {.rendezvous = "node1:1", .processes = 2}), HasSubstr("--process R"));
  EXPECT_THAT(refusal({}, {.rendezvous = "node1:1", .rank = 1}), HasSubstr("--processes N"));
  EXPECT_THAT(refusal({}, {.rank = 1, .processes = 2}), HasSubstr("--rendezvous HOST:PORT"));
}

TEST(MeetingTest, NonsenseIsRefused) {
  const auto with = [](const char* name, const char* value) {
    Variables variables = kTorchrun;
    variables[name] = value;
    return variables;
  };
  EXPECT_THAT(refusal(with("RANK", "three")), HasSubstr("RANK=three: a number is expected"));
  EXPECT_THAT(refusal(with("RANK", "8")), HasSubstr("rank 8 of 8 processes"));
  EXPECT_THAT(refusal(with("MASTER_PORT", "http")), HasSubstr("node1:http"));
  EXPECT_THAT(refusal(with("MASTER_PORT", "0")), HasSubstr("node1:0"));
  EXPECT_THAT(refusal(with("MASTER_PORT", "65535")), HasSubstr("node1:65535"));
  EXPECT_THAT(refusal(with("MASTER_ADDR", "")), HasSubstr("no place where rank 0 can be found"));
  EXPECT_THAT(refusal({}, {.rendezvous = "node1", .rank = 0, .processes = 2}), HasSubstr("--rendezvous"));
}

TEST(MeetingTest, OneProcessMeetsNobody) {
  EXPECT_TRUE(is_alone({}));
  EXPECT_TRUE(is_alone({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", "node1"}, {"MASTER_PORT", "1"}}));
  EXPECT_TRUE(is_alone({{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "1"}})) << "that alone says nothing";
  EXPECT_TRUE(is_alone({{"WORLD_SIZE", "4"}})) << "nor does that";
  EXPECT_TRUE(is_alone({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", "node1"}}));
  EXPECT_TRUE(is_alone({}, {.rendezvous = "node1:1", .processes = 1}));
}

TEST(MeetingTest, TheCommandLineComesFirst) {
  Variables variables = kTorchrun;
  variables["PMIX_RANK"] = "0";
  EXPECT_EQ(meeting(variables)->way, Meeting::Way::kPmix) << "a script for srun may export the others";
  variables["TORCHELASTIC_RUN_ID"] = "none";
  EXPECT_EQ(meeting(variables)->way, Meeting::Way::kNetwork) << "srun has started torchrun";
  const absl::StatusOr<Meeting> found =
      meeting(variables, {.rendezvous = "[::1]:7", .rank = 1, .processes = 2});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->way, Meeting::Way::kNetwork);
  EXPECT_EQ(found->place.host, "::1");
  EXPECT_EQ(found->rank, 1U);
  EXPECT_EQ(found->processes, 2U);
}

TEST(MeetingTest, WhatHasStartedThemSaysWhichIsWhich) {
  const std::pair<const char*, const char*> numbers[] = {{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
                                                         {"PMI_RANK", "PMI_SIZE"},
                                                         {"FLUX_TASK_RANK", "FLUX_JOB_SIZE"},
                                                         {"PALS_RANKID", "PALS_SIZE"},
                                                         {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                                         {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"}};
  for (const auto& [rank, size] : numbers) {
    SCOPED_TRACE(rank);
    const Variables variables = {{rank, "2"}, {size, "4"}};
    const absl::StatusOr<Meeting> found = meeting(variables, {.rendezvous = "node1:1"});
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->rank, 2U);
    EXPECT_EQ(found->processes, 4U);
    EXPECT_THAT(refusal(variables), HasSubstr("--rendezvous HOST:PORT"));
    EXPECT_THAT(refusal({{size, "4"}}, {.rendezvous = "node1:1"}), HasSubstr("which of the processes"));
  }
}

TEST(MeetingTest, TheyMayMeetByEtcd) {
  const char* const place = "etcd://a:2379,[::1]:2380/team/job-1";
  const auto found = meeting({}, {.rendezvous = place, .rank = 1, .processes = 2});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->way, Meeting::Way::kNetwork);
  ASSERT_TRUE(found->etcd.has_value());
  EXPECT_THAT(found->etcd->etcd.endpoints, ::testing::ElementsAre("http://a:2379", "http://[::1]:2380"));
  EXPECT_EQ(found->etcd->job, "team/job-1");
  EXPECT_EQ(to_string(*found->etcd), place);
  EXPECT_FALSE(meeting({}, {.rendezvous = "a:1", .rank = 1, .processes = 2})->etcd.has_value());
}

TEST(MeetingTest, EtcdIsAskedAsEtcdctlWouldAskIt) {
  const PeerOptions options = {.rendezvous = "etcd+https://a:1/job", .rank = 1, .processes = 2};
  const auto with = [&](const Variables& variables) { return meeting(variables, options)->etcd->etcd; };
  EXPECT_THAT(with({}).endpoints, ::testing::ElementsAre("https://a:1"));
  EXPECT_EQ(with({}).user, "");
  const cluster::EtcdOptions etcd = with({{"ETCDCTL_CACERT", "ca.pem"},
                                          {"ETCDCTL_CERT", "own.pem"},
                                          {"ETCDCTL_KEY", "key.pem"},
                                          {"ETCDCTL_USER", "name:pass:word"}});
  EXPECT_EQ(etcd.ca_file, "ca.pem");
  EXPECT_EQ(etcd.certificate_file, "own.pem");
  EXPECT_EQ(etcd.key_file, "key.pem");
  EXPECT_EQ(etcd.user, "name");
  EXPECT_EQ(etcd.password, "pass:word");
  EXPECT_EQ(with({{"ETCDCTL_USER", "name"}, {"ETCDCTL_PASSWORD", "word"}}).password, "word");
}

TEST(MeetingTest, WhatIsNoPlaceInEtcdIsRefused) {
  const auto says = [](const char* place) {
    return refusal({}, {.rendezvous = place, .rank = 0, .processes = 2});
  };
  const auto expected = HasSubstr("expected etcd://HOST:PORT[,HOST:PORT...]/JOB");
  EXPECT_THAT(says("consul://a:1/job"), AllOf(HasSubstr("--rendezvous"), HasSubstr("consul://"), expected));
  for (const char* const place : {"etcd://a:1", "etcd://a:1/"})
    EXPECT_THAT(says(place), AllOf(HasSubstr("the name of the job is missing"), expected));
  for (const char* const name : {"a b", "/a", "a/", "a\n", "a?b"})
    EXPECT_THAT(says((std::string("etcd://a:1/") + name).c_str()), HasSubstr("is no name of a job"));
  for (const char* const hosts : {"", "a", "a:1,", ",a:1", "a:0", ":1", "me:secret@a:1", "http://a:1"})
    EXPECT_THAT(says((std::string("etcd://") + hosts + "/job").c_str()),
                HasSubstr("is no host and port of etcd"));
}

TEST(MeetingTest, AVariableSaysThePlaceForVerbenaAlone) {
  Variables variables = kTorchrun;
  variables["VERBENA_RENDEZVOUS"] = "etcd://a:1/job";
  const auto found = meeting(variables);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_TRUE(found->etcd.has_value()) << "torchrun's is where torch's own store is";
  EXPECT_EQ(found->rank, 3U);
  variables["PMIX_RANK"] = "0";
  EXPECT_EQ(meeting(variables)->way, Meeting::Way::kNetwork);
  EXPECT_EQ(meeting(variables, {.rendezvous = "b:7"})->place.host, "b") << "the command line comes first";
  variables["VERBENA_RENDEZVOUS"] = "b:8";
  EXPECT_EQ(transport::to_string(meeting(variables)->place), "b:8") << "the port itself";
  variables["VERBENA_RENDEZVOUS"] = "b";
  EXPECT_THAT(refusal(variables), HasSubstr("VERBENA_RENDEZVOUS: \"b\" is no place"));
  EXPECT_THAT(refusal({{"VERBENA_RENDEZVOUS", "b:8"}}), HasSubstr("--processes N"));
}

TEST(MeetPeersTest, OverANetworkASecretIsNeeded) {
  const auto meet = [](const Variables& variables, const PeerOptions& options = {}) {
    const auto never = [] { return true; };
    return std::string(
        meet_peers(*meeting(variables), options, environment(variables), std::chrono::milliseconds(1), never)
            .status()
            .message());
  };
  Variables variables = kTorchrun;
  EXPECT_THAT(meet(variables), HasSubstr("--secret-file"));
  variables["VERBENA_SECRET_FILE"] = "/no such file";
  EXPECT_THAT(meet(variables), HasSubstr("/no such file"));
  variables.erase("VERBENA_SECRET_FILE");
  variables["VERBENA_NO_SECRET"] = "yes";
  EXPECT_THAT(meet(variables), HasSubstr("VERBENA_NO_SECRET=yes"));
  variables["VERBENA_NO_SECRET"] = "1";
  EXPECT_THAT(meet(variables), HasSubstr("stopped"));
  EXPECT_THAT(meet(variables, {.tls = true}), HasSubstr("TLS needs a secret"));
  variables["VERBENA_SECRET_FILE"] = "/no such file";
  EXPECT_THAT(meet(variables), HasSubstr("exclude each other"));
}

TEST(MeetingTest, OneThatJoinsHasNoRankYetOrOneAfterTheOthers) {
  const auto joining = meeting({}, {.rendezvous = "a:1", .processes = 4, .joins = true});
  ASSERT_TRUE(joining.ok()) << joining.status();
  EXPECT_TRUE(joining->joins);
  EXPECT_EQ(joining->processes, 4U);
  const auto called = meeting({}, {.rendezvous = "a:1", .rank = 5, .processes = 4, .joins = true});
  ASSERT_TRUE(called.ok()) << called.status();
  EXPECT_FALSE(called->joins);
  EXPECT_EQ(called->rank, 5U);
  // Whatever started it.
  const auto of_torchrun = meeting(
      {{"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}, {"RANK", "2"}, {"WORLD_SIZE", "4"}}, {.joins = true});
  ASSERT_TRUE(of_torchrun.ok()) << of_torchrun.status();
  EXPECT_TRUE(of_torchrun->joins);
  EXPECT_THAT(refusal({}, {.rendezvous = "a:1", .rank = 3, .processes = 4, .joins = true}),
              HasSubstr("--join and --process 3"));
  EXPECT_THAT(refusal({}, {.rendezvous = "a:1", .rank = 4, .processes = 4}), HasSubstr("counted from 0"));
  EXPECT_THAT(refusal({}, {.joins = true}), HasSubstr("expected --rendezvous HOST:PORT"));
  EXPECT_THAT(refusal({{"PMIX_RANK", "1"}}, {.joins = true}), HasSubstr("expected --rendezvous HOST:PORT"));
}

}  // namespace
}  // namespace verbena::job
