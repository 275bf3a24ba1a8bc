// Peers, with a shell script in the place of each program.
#include "apps/peers/peer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/temporary_folder.hpp"

namespace verbena::apps {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class PeerTest : public ::testing::Test {
 protected:
  /// A program that says this.
  std::string program_that(const std::string& does) {
    std::string path = folder_.path("program");
    verbena::testing::write_file(path, "#!/bin/sh\n" + does);
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }
  absl::Status run(const Peer& peer, const std::string& does, const PeerTask& task) {
    said_.clear();
    return run_peer(peer, program_that(does), task,
                    [&](const PeerIteration& each) { said_.push_back(each); });
  }

  verbena::testing::TemporaryFolder folder_;
  std::vector<PeerIteration> said_;
};

TEST_F(PeerTest, LibmfsLinesAreTimed) {
  std::string ratings;
  for (int n = 0; n < 200; ++n)
    ratings += "u" + std::to_string(n % 20) + "\ti" + std::to_string(n / 20) + "\t3.5\n";
  verbena::testing::write_file(folder_.path("ratings"), ratings);
  const auto libmf = make_libmf();
  ASSERT_TRUE(libmf->prepare(folder_.path("ratings"), 1, folder_.path()).ok());
  const std::string train = verbena::testing::contents(folder_.path("libmf-train.txt"));
  const std::string test = verbena::testing::contents(folder_.path("libmf-test.txt"));
  EXPECT_THAT(train, HasSubstr("0 0 3.5\n"));
  EXPECT_EQ(std::count(train.begin(), train.end(), '\n') + std::count(test.begin(), test.end(), '\n'), 200);
  const PeerTask task{.iterations = 2, .threads = 3, .rank = 16};
  EXPECT_THAT(libmf->arguments(task), Contains(folder_.path("libmf-train.txt")));
  ASSERT_TRUE(run(*libmf,
                  "echo 'iter      tr_rmse      va_rmse          obj'\n"
                  "echo '   0       1.5649       1.1233   2.5902e+06'\nsleep 0.05\n"
                  "echo '   1       1.0983       1.0991   1.4570e+06'\necho \"$@\" > '" +
                      folder_.path("arguments") + "'",
                  task)
                  .ok());
  ASSERT_EQ(said_.size(), 2U);
  EXPECT_EQ(said_[1].iteration, 2);
  EXPECT_EQ(said_[1].objective, 1.0991);
  EXPECT_GE(said_[1].seconds, 0.05);
  EXPECT_EQ(said_[1].items, static_cast<double>(std::count(train.begin(), train.end(), '\n')));
  EXPECT_THAT(verbena::testing::contents(folder_.path("arguments")), HasSubstr("-k 16 -t 2 -s 3 -p "));
}

TEST_F(PeerTest, FastTextsOwnSpeedIsTaken) {
  verbena::testing::write_file(folder_.path("text"), "In the beginning God\ncreated the heaven\n");
  const auto fasttext = make_fasttext();
  ASSERT_TRUE(fasttext->prepare(folder_.path("text"), 1, folder_.path()).ok());
  EXPECT_EQ(verbena::testing::contents(folder_.path("fasttext.txt")),
            "in the beginning god \ncreated the heaven \n");
  ASSERT_TRUE(run(*fasttext,
                  "printf '\\rProgress:  50.0%% words/sec/thread:     999 lr:  0.02'\n"
                  "printf '\\rProgress: 100.0%% words/sec/thread:     140 lr:  0.00 ETA:   0h 0m 0s\\n'",
                  {.iterations = 10, .threads = 2})
                  .ok());
  ASSERT_EQ(said_.size(), 1U);
  EXPECT_EQ(said_[0].items, 70) << "7 words, 10 times";
  EXPECT_EQ(said_[0].seconds, 0.25);
  EXPECT_FALSE(said_[0].objective.has_value());
}

TEST_F(PeerTest, WhatGoesWrongIsSaid) {
  const auto libmf = make_libmf();
  EXPECT_THAT(std::string(run(*libmf, "echo 'too many ratings' >&2; exit 4", {}).message()),
              HasSubstr("ended with status 4: too many ratings"));
  EXPECT_THAT(std::string(run(*libmf, "echo hello", {}).message()),
              HasSubstr("nothing that it printed is known"));
  EXPECT_TRUE(absl::IsNotFound(run_peer(*libmf, folder_.path("nothing"), {}, [](const PeerIteration&) {})));
  EXPECT_TRUE(absl::IsNotFound(libmf->prepare(folder_.path("nothing"), 1, folder_.path())));
}

}  // namespace
}  // namespace verbena::apps
