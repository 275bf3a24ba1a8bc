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

TEST_F(PeerTest, MalletImportsAndCountsByTens) {
  verbena::testing::write_file(folder_.path("text"), "In the beginning God\ncreated the heaven\n");
  const auto mallet = make_mallet();
  const std::string program = program_that("echo \"$@\" >> '" + folder_.path("arguments") +
                                           "'\n"
                                           "[ $1 = import-file ] && { echo > \"$5\"; exit 0; }\n"
                                           "sleep 0.3\n"
                                           "echo 'max tokens: 4'\necho 'total tokens: 4'\nsleep 0.05\n"
                                           "echo '<10> LL/token: -8.75'\n"
                                           "echo '0 0.1 heaven beginning'\n"
                                           "echo '<20> LL/token: -8.5'\n");
  ASSERT_TRUE(mallet->prepare(folder_.path("text"), 7, folder_.path()).ok());
  EXPECT_EQ(verbena::testing::contents(folder_.path("mallet.txt")),
            "0 - beginning god\n1 - created heaven\n");
  ASSERT_TRUE(run_peer(*mallet, program, {.iterations = 12, .threads = 2, .rank = 50},
                       [&](const PeerIteration& each) { said_.push_back(each); })
                  .ok());
  ASSERT_EQ(said_.size(), 3U);
  EXPECT_EQ(said_[0].iteration, 0) << "from here on it trains";
  EXPECT_EQ(said_[0].seconds, 0);
  EXPECT_EQ(said_[1].iteration, 10);
  EXPECT_EQ(said_[1].items, 40);
  EXPECT_GE(said_[1].seconds, 0.05);
  EXPECT_LT(said_[1].seconds, 0.3) << "without what comes before";
  EXPECT_EQ(said_[2].objective, -8.5);
  const std::string arguments = verbena::testing::contents(folder_.path("arguments"));
  EXPECT_THAT(arguments, HasSubstr("import-file --input " + folder_.path("mallet.txt") + " --output " +
                                   folder_.path("mallet.bin") + " --keep-sequence"));
  EXPECT_THAT(arguments, HasSubstr("--num-topics 50 --num-threads 2 --num-iterations 20 "));
  EXPECT_THAT(arguments, HasSubstr("--random-seed 7\n"));
  ASSERT_TRUE(run_peer(*mallet, program, {.iterations = 10, .rank = 50}, [](const PeerIteration&) {}).ok());
  const std::string both = verbena::testing::contents(folder_.path("arguments"));
  EXPECT_EQ(both.rfind("import-file"), 0U) << "once for all runs";
}

/// Of a program that is there, but does not work, only its own runs fail.
TEST_F(PeerTest, WhatCannotImportFailsWhereItIsRun) {
  verbena::testing::write_file(folder_.path("text"), "In the beginning God\ncreated the heaven\n");
  const auto mallet = make_mallet();
  verbena::testing::write_file(folder_.path("mallet.bin"), "of other data");
  ASSERT_TRUE(mallet->prepare(folder_.path("text"), 0, folder_.path()).ok());
  for (int times = 0; times < 2; ++times) {
    EXPECT_THAT(std::string(run(*mallet, "echo half > \"$5\"; echo 'no memory'; exit 3", {}).message()),
                HasSubstr("ended with status 3: no memory"));
  }
  EXPECT_EQ(mallet->arguments({.threads = 2, .rank = 50}).back(), "1") << "0 would be the time";
}

constexpr int kWordsOfDocument = 401;
/// Of which most words are left out by subsampling, and nearly all that are left are the same.
std::string monotonous_text() {
  std::string text;
  for (int document = 0; document < 200; ++document) {
    text += document % 20 == 0 ? "rare" : "God";
    for (int n = 1; n < kWordsOfDocument; ++n) text += " god";
    text += "\n";
  }
  return text;
}

/// Writes vectors of one number. By them the frequent word comes first in every gap, or the other one.
std::string fasttext_that_finds(bool frequent) {
  const std::string outputs = frequent ? "god 1\nrare 0" : "god -1\nrare 1";
  return "echo \"$@\" > \"$5.arguments\"\n"
         "printf '\\rProgress:  50.0%% words/sec/thread:     999 lr:  0.02'\n"
         "printf '\\rProgress: 100.0%% words/sec/thread:     100 lr:  0.00 ETA:   0h 0m 0s\\n'\n"
         "echo '2 1\ngod 100\nrare 100' > \"$5.vec\"\n"
         "echo '2 1\n" +
         outputs + "' > \"$5.output\"\n";
}

TEST_F(PeerTest, FastTextsOwnSpeedIsTakenAndItsVectorsAreJudged) {
  verbena::testing::write_file(folder_.path("text"), monotonous_text());
  const auto fasttext = make_fasttext();
  ASSERT_TRUE(fasttext->prepare(folder_.path("text"), 1, folder_.path()).ok());
  const std::string train = verbena::testing::contents(folder_.path("fasttext.txt"));
  EXPECT_THAT(train, HasSubstr("god god \n"));
  const auto trained = std::count(train.begin(), train.end(), '\n');
  EXPECT_LT(trained, 200) << "some documents are held out";
  EXPECT_GT(trained, 150);
  const PeerTask task{.iterations = 10, .threads = 2};
  ASSERT_TRUE(run(*fasttext, fasttext_that_finds(true), task).ok());
  ASSERT_EQ(said_.size(), 1U);
  const double items = 10.0 * static_cast<double>(trained) * kWordsOfDocument;
  EXPECT_EQ(said_[0].items, items);
  EXPECT_EQ(said_[0].seconds, items / 200);
  const std::optional<double> right = said_[0].objective;
  EXPECT_GT(right.value_or(0), 0.9);
  ASSERT_TRUE(run(*fasttext, fasttext_that_finds(false), task).ok());
  EXPECT_LT(said_[0].objective.value_or(1), 0.6) << "it finds the other word";
  EXPECT_THAT(verbena::testing::contents(folder_.path("fasttext-model.arguments")),
              HasSubstr("-minCount 1 -minn 0 -maxn 0 -t 0.0001 -lr 0.05 -verbose 2 -saveOutput\n"));
}

TEST_F(PeerTest, FastTextMustWriteItsVectors) {
  verbena::testing::write_file(folder_.path("text"), monotonous_text());
  const std::string speed = "echo 'Progress: 100.0% words/sec/thread: 100 lr: 0.00'\n";
  verbena::testing::write_file(folder_.path("fasttext-model.vec"), "of an earlier run");
  const auto fasttext = make_fasttext();
  ASSERT_TRUE(fasttext->prepare(folder_.path("text"), 1, folder_.path()).ok());
  const absl::Status without = run(*fasttext, speed, {});
  EXPECT_TRUE(absl::IsNotFound(without)) << without;
  EXPECT_THAT(std::string(without.message()), HasSubstr("fasttext-model.vec"));
  EXPECT_TRUE(said_.empty());
  EXPECT_THAT(std::string(run(*fasttext, speed + "echo '1 1\nin 1' > \"$5.vec\"\n", {}).message()),
              HasSubstr("fasttext-model.output"));
  EXPECT_THAT(
      std::string(
          run(*fasttext, speed + "echo '1 1\nin 1' > \"$5.vec\"\necho '1 2\nin 1 2' > \"$5.output\"\n", {})
              .message()),
      HasSubstr("expected vectors of 1 numbers"));
}

TEST_F(PeerTest, LiblinearNumbersTheFeatures) {
  verbena::testing::write_file(folder_.path("examples"), "1 0:5:1 1:7:0.5\n0 0:6:1 1:7:1\n");
  ASSERT_TRUE(make_liblinear()->prepare(folder_.path("examples"), 1, folder_.path()).ok());
  EXPECT_EQ(verbena::testing::contents(folder_.path("liblinear.txt")), "+1 1:1 2:0.5\n-1 2:1 3:1\n");
  verbena::testing::write_file(folder_.path("weighted"), "1 2.5 | a b\n-1 | a\n");
  const absl::Status refused = make_liblinear()->prepare(folder_.path("weighted"), 1, folder_.path());
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("expected examples without weights"));
}

TEST_F(PeerTest, LiblinearsReadingIsNoTraining) {
  verbena::testing::write_file(folder_.path("examples"), "1 0:5:1\n0 0:6:1\n");
  const auto liblinear = make_liblinear();
  ASSERT_TRUE(liblinear->prepare(folder_.path("examples"), 1, folder_.path()).ok());
  // Reading alone takes longer than all of the training's run.
  ASSERT_TRUE(run(*liblinear,
                  "echo \"$@\" >> '" + folder_.path("arguments") +
                      "'\n"
                      "if [ \"$8\" = 1e12 ]; then sleep 0.3; fi\n"
                      "echo 'iter   1  #CD cycles 1'\n"
                      "echo 'Objective value = 74976.077223'\n",
                  {.iterations = 1, .tolerance = 0.01})
                  .ok());
  ASSERT_EQ(said_.size(), 1U) << "of the training";
  EXPECT_EQ(said_[0].objective, 74976.077223);
  EXPECT_EQ(said_[0].seconds, 0);
  EXPECT_EQ(said_[0].items, 0);
  EXPECT_THAT(verbena::testing::contents(folder_.path("arguments")),
              HasSubstr("\n-s 6 -c 1 -B 1 -e 0.01 " + folder_.path("liblinear.txt")));
  // If something disturbs one reading, another one tells.
  ASSERT_TRUE(run(*liblinear,
                  "if [ \"$8\" != 1e12 ]; then sleep 0.2;\n"
                  "elif mkdir '" +
                      folder_.path("seen") +
                      "' 2>&-; then sleep 0.5; fi\n"
                      "echo 'Objective value = 74976.077223'\n",
                  {.iterations = 1, .tolerance = 0.01})
                  .ok());
  EXPECT_GT(said_.front().seconds, 0);
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
