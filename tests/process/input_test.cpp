// Impossible input and options of the real applications: one line that says where the error is, status 2, and
// nothing written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "tests/process/program.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::process_test {
namespace {

using ::testing::HasSubstr;

struct Bad {
  std::string application;
  std::string name;  ///< the file's; it may say which format it has
  std::string text;
  std::string error;  ///< what follows the file's name in the message
  std::vector<std::string> more = {};
};

class InputTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      const std::string name = entry.path().filename().string();
      if (!name.starts_with(".streams")) names.insert(name);
    }
    return names;
  }
  /// Runs the program with all outputs, and expects one line, status 2 and no output.
  void expect_refused(std::vector<std::string> arguments, const std::string& error) const {
    const std::set<std::string> before = files();
    arguments.insert(arguments.end(), {"--output", folder_.path("model"), "--metrics",
                                       folder_.path("metrics"), "--report", folder_.path("report")});
    const Ended ended = run(VERBENA_PROGRAM, arguments, folder_.path());
    EXPECT_EQ(ended.status, 2);
    EXPECT_THAT(ended.err, HasSubstr("verbena: error: " + error));
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
    EXPECT_EQ(files(), before);
  }

  verbena::testing::TemporaryFolder folder_;
};

TEST_F(InputTest, AMalformedLineOfEachFormat) {
  const std::vector<Bad> all = {
      {"lda", "text", "Genesis 1\tIn the beginning\nno title\n", ":2: expected title<TAB>text"},
      {"lda", "text", "word\nw\xE9\n", ":2: expected text in UTF-8"},
      {"lda", "docword.x.txt", "2\n2\n2\n1 1 1\n1 3 1\n", ":5: expected a word from 1 to 2"},
      {"lda", "ids.ldac", "2 0:1 7:2\n2 0:1\n", ":2: expected 2 id:count pairs"},
      {"lda", "text", "\x1F\x8B\x08 not gzip", ":1: expected text or whole gzip data"},
      {"mf", "u.data", "1\t2\t3\t4\n1\t2\n", ":2: expected user, item, rating and 1 more, separated by tabs"},
      {"mf", "ratings.dat", "1::2::3\n1::2::good\n", ":2: expected a number as the rating"},
      {"mf", "ratings.csv", "userId,movieId,rating\n1,2,3\n1,\"2,3\n", ":3: expected a closing quote"},
      {"mf", "ratings", "user|item|rating\n1|2|3\n1||3\n", ":3: expected a user and an item"},
      {"mf", "nan_first.csv", "1,2,NaN\n1,3,4\n2,2,3\n", ":1: expected a number as the rating"},
      {"mf", "ids", "1\t2\t16777217\n", ":1: expected a rating that single precision holds"},
      {"mf", "svm", "5 0:1 7:1\n", ":1: expected a table of ratings, found LIBSVM or SVMlight"},
      {"lda", "array.mtx", "%%MatrixMarket matrix array real general\n1 1\n1\n",
       ":1: expected \"coordinate\""},
      {"lda", "x.svm", "+1 1:0.5\n", ":1: expected id:count with a whole number"},
      {"ctr", "x.svm", "1 1:1\n0 2:1\n2 3:1\n", ":3: expected a label 1, 0 or -1"},
      {"ctr", "docword.txt", "2\n3\n1\n1 2 3\n", ":1: expected"},
      {"word2vec", "x.vw", "1 |text ark:2\n",
       ": expected running text, found a bag of words, which has no order"},
  };
  for (const Bad& bad : all) {
    SCOPED_TRACE(bad.name + bad.error);
    const std::string path = folder_.path(bad.name);
    verbena::testing::write_file(path, bad.text);
    expect_refused({"run", bad.application, "--data", path, "--servers", "2", "--workers", "2"},
                   path + bad.error);
    expect_refused({"run", bad.application, "--data", path, "--baseline"}, path + bad.error);
    std::filesystem::remove(path);
  }
  expect_refused({"run", "lda", "--data", folder_.path("none")}, folder_.path("none") + ": cannot be read");
}

TEST_F(InputTest, ExamplesOfTwoFormats) {
  const std::string train = folder_.path("train");
  const std::string test = folder_.path("test");
  verbena::testing::write_file(train, "1 1:1\n0 2:1\n");
  verbena::testing::write_file(test, "1 0:1:1\n0 0:2:1\n");
  expect_refused({"run", "ctr", "--data", train, "--test-data", test},
                 test + ":1: expected LIBSVM, as in " + train + ", found LIBFFM");
}

TEST_F(InputTest, OptionsThatWouldDoNothing) {
  const std::string path = folder_.path("examples");
  verbena::testing::write_file(path, "1 1:1\n0 2:1\n");
  expect_refused({"run", "ctr", "--data", path, "--solver", "block", "--alpha", "0.1"},
                 "--alpha: expected only with --solver ftrl");
  expect_refused({"run", "ctr", "--data", path, "--baseline", "--filter", "int8"},
                 "--filter: expected none with --baseline");
}

TEST_F(InputTest, TriplesAndEmbeddings) {
  for (const char* const name : {"train.txt", "valid.txt", "test.txt"}) {
    verbena::testing::write_file(folder_.path(name), "a\tr\tb\nb\tr\ta\n");
  }
  const std::vector<std::string> kge = {"run", "kge", "--data", folder_.path().string(), "--dimension", "2"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), kge.begin(), kge.end());
    return more;
  };
  verbena::testing::write_file(folder_.path("old.entities.tsv"), "a\t1\t2\n");
  expect_refused(with({"--load", folder_.path("old"), "--baseline"}),
                 folder_.path("old.entities.tsv") + ":1: expected");
  expect_refused(with({"--model", "transh"}),
                 "--model: expected complex, distmult, rescal, transe or rotate, found transh");
  expect_refused(with({"--output-format", "openke"}),
                 "--output: " + folder_.path("entity2id.txt") + " would be written over");
  expect_refused(with({"--output-format", "dgl-ke"}),
                 "--output: " + folder_.path("entities.tsv") + " would be written over");
  verbena::testing::write_file(folder_.path("valid.txt"), "a\tr\tb\na r b\n");
  expect_refused(with({"--baseline"}), folder_.path("valid.txt") + ":2: expected head<TAB>relation<TAB>tail");
  expect_refused(with({"--servers", "2", "--workers", "2"}), folder_.path("valid.txt") + ":2: expected");
  expect_refused({"run", "kge", "--data", folder_.path("none")},
                 folder_.path("none") + ": expected a folder");
}

TEST_F(InputTest, RowsAreTrainedWhereTheyLieOnlyOnOneNode) {
  verbena::testing::write_file(folder_.path("ratings"), "1\t2\t3\n1\t3\t4\n2\t2\t5\n2\t3\t1\n");
  const auto chosen = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"run", "mf", "--data", folder_.path("ratings"), "--test-fraction", "0",
                               "--iterations", "2", "--metrics", folder_.path("metrics")});
    const Ended ended = run(VERBENA_PROGRAM, more, folder_.path());
    EXPECT_EQ(ended.status, 0) << ended.err;
    std::ifstream file(folder_.path("metrics"));
    std::string line;
    std::getline(file, line);
    const nlohmann::json start = nlohmann::json::parse(line);
    return std::pair(start["options"]["allocation"].get<std::string>(),
                     start["consistency"].get<std::string>());
  };
  EXPECT_EQ(chosen({"--workers", "2"}), std::pair(std::string("localize"), std::string("sequential")));
  const std::pair stays(std::string("static"), std::string("bsp"));
  EXPECT_EQ(chosen({"--workers", "2", "--servers", "2"}), stays);
  EXPECT_EQ(chosen({"--workers", "2", "--network", "latency=1us"}), stays);
  EXPECT_EQ(chosen({"--workers", "2", "--consistency", "bsp"}), stays);
}

TEST_F(InputTest, RowsThatMove) {
  verbena::testing::write_file(folder_.path("ratings"), "1\t2\t3\n1\t3\t4\n2\t2\t5\n2\t3\t1\n");
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(),
                {"run", "mf", "--data", folder_.path("ratings"), "--test-fraction", "0", "--workers", "3"});
    return more;
  };
  expect_refused(with({"--allocation", "dynamic"}),
                 "--allocation: expected auto, static, localize or intent, found dynamic");
  expect_refused(with({"--allocation", "localize", "--consistency", "bsp"}),
                 "--allocation localize needs --consistency sequential, found bsp");
  expect_refused(with({"--allocation", "intent", "--consistency", "essp:2"}),
                 "--allocation intent needs --consistency asp, found essp:2");
  expect_refused(
      with({"--allocation", "localize", "--consistency", "sequential", "--clocks-per-iteration", "2"}),
      "--clocks-per-iteration: where rows move, expected a block of items for each of the 3 workers, found "
      "2");
}

TEST_F(InputTest, WordVectors) {
  const std::string text = folder_.path("text");
  verbena::testing::write_file(
      text, "in the beginning the earth was the lord's the the the the lord's lord's lord's lord's\n");
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"run", "word2vec", "--data", text, "--held-out", "0", "--subsample", "0"});
    return more;
  };
  expect_refused(with({"--dimension", "0", "--baseline"}), "--dimension: expected 1 to 65535, found 0");
  expect_refused(with({"--min-count", "9"}),
                 text + ": expected text of two words or more that come at least 9 times");
  expect_refused(with({"--neighbours", "whale"}), "--neighbours: expected words of the vocabulary");
  expect_refused({"run", "word2vec", "--data", folder_.path("none")},
                 folder_.path("none") + ": cannot be read");
  const std::string vectors = folder_.path("vectors");
  verbena::testing::write_file(vectors, "2 3\nthe 1 2 3\nearth 1 2\n");
  expect_refused(with({"--load", vectors, "--dimension", "3"}),
                 vectors + ":3: expected 3 numbers after the word");
  expect_refused({"run", "word2vec", "--load", vectors, "--iterations", "0"},
                 vectors + ":3: expected 3 numbers after the word");
  const Ended shown =
      run(VERBENA_PROGRAM, {"run", "word2vec", "--load", vectors, "--iterations", "0"}, folder_.path());
  EXPECT_EQ(shown.status, 2);
  EXPECT_THAT(shown.err, HasSubstr("verbena: error: " + vectors + ":3: expected 3 numbers"));
}

TEST_F(InputTest, WordVectorsAreSavedAndLookedAt) {
  const std::string text = folder_.path("text");
  std::string words;
  for (int n = 0; n < 50; ++n) words += "in the beginning god created the heaven and the earth\n";
  verbena::testing::write_file(text, words);
  const std::string vectors = folder_.path("vectors");
  const Ended trained =
      run(VERBENA_PROGRAM,
          {"run",        "word2vec", "--data",      text,    "--servers",    "2",    "--workers",   "2",
           "--threads",  "2",        "--dimension", "8",     "--iterations", "3",    "--subsample", "0",
           "--held-out", "0.2",      "--output",    vectors, "--neighbours", "earth"},
          folder_.path());
  EXPECT_EQ(trained.status, 0) << trained.err;
  EXPECT_THAT(trained.out, ::testing::ContainsRegex("held_out_mrr +[0-9]"));
  const Ended shown = run(VERBENA_PROGRAM,
                          {"run", "word2vec", "--load", vectors, "--iterations", "0", "--neighbours", "earth",
                           "--servers", "1", "--workers", "2"},
                          folder_.path());
  EXPECT_EQ(shown.status, 0) << shown.err;
  const auto first_line = [](const std::string& out) { return out.substr(0, out.find('\n')); };
  EXPECT_TRUE(shown.out.starts_with("earth  ")) << shown.out;
  EXPECT_EQ(first_line(shown.out), first_line(trained.out));
}

/// Small files as users have them. The job must train what they contain.
TEST_F(InputTest, SmallFilesOfManyKinds) {
  const auto file = [&](const std::string& name, std::string_view text) {
    verbena::testing::write_file(folder_.path(name), text);
    return folder_.path(name);
  };
  const auto trained = [&](std::vector<std::string> arguments) {
    std::filesystem::remove(folder_.path("metrics"));
    arguments.insert(arguments.begin(), "run");
    arguments.insert(arguments.end(), {"--metrics", folder_.path("metrics")});
    const Ended ended = run(VERBENA_PROGRAM, arguments, folder_.path());
    EXPECT_EQ(ended.status, 0) << ended.err;
    const std::string lines = verbena::testing::contents(folder_.path("metrics"));
    const std::size_t summary = lines.rfind('{', lines.rfind("\"model_summary\""));
    EXPECT_NE(summary, std::string::npos) << lines;
    return lines;
  };
  const std::string matrix =
      file("matrix.mtx",
           "%%MatrixMarket matrix coordinate real general\n%\n3 4 6\n1 1 2.0\n1 2 1.0\n2 2 "
           "3.0\n2 3 1.0\n3 3 2.0\n3 4 5.0\n");
  std::string summary = trained({"lda", "--data", matrix, "--topics", "2", "--iterations", "2"});
  EXPECT_THAT(summary, HasSubstr("\"documents\":3"));
  EXPECT_THAT(summary, HasSubstr("\"vocabulary\":4"));
  EXPECT_THAT(summary, HasSubstr("\"tokens\":14"));
  const std::string empty = file("first_empty.dat", "0\n2 0:1 3:2\n1 2:4\n");
  EXPECT_THAT(trained({"lda", "--data", empty, "--topics", "2", "--iterations", "2"}),
              HasSubstr("\"documents\":3"));
  const std::string emoji = file("emoji", "I ❤\uFE0F tea\nsun ☀\uFE0F and ❤\uFE0F\n");
  EXPECT_THAT(trained({"lda", "--data", emoji, "--topics", "1", "--iterations", "1"}),
              HasSubstr("[[\"and\",\"i\",\"sun\",\"tea\"]]"));
  EXPECT_THAT(trained({"word2vec", "--data", emoji, "--min-count", "1", "--dimension", "2", "--held-out", "0",
                       "--subsample", "0", "--iterations", "1"}),
              HasSubstr("\"vocabulary\":4"));
  const std::string modules =
      file("cpan.tsv", "alice\tData::Dumper\t5\nbob\tMoose::Role\t4\nalice\tTry::Tiny\t3\n");
  EXPECT_THAT(trained({"mf", "--data", modules, "--test-fraction", "0", "--iterations", "2"}),
              HasSubstr("\"train_ratings\":3"));
  const std::string tiny = file("tiny.csv", "u,i,r\n1,2,1e-50\n1,3,2\n2,2,3\n");
  EXPECT_THAT(trained({"mf", "--data", tiny, "--test-fraction", "0", "--iterations", "2"}),
              HasSubstr("\"train_ratings\":3"));
  const std::string base = file("u1.base", "1\t1\t5\t874965758\n1\t2\t3\t876893171\n2\t1\t4\t878542960\n");
  const std::string test = file("u1.test", "2\t2\t3\t889751712\n");
  summary = trained({"mf", "--train-data", base, "--test-data", test, "--iterations", "2", "--workers", "2"});
  EXPECT_THAT(summary, HasSubstr("\"train_ratings\":3"));
  EXPECT_THAT(summary, HasSubstr("\"test_ratings\":1"));
  const std::string vectors = file("tiny.vec", "3 2\na 1e-50 0.5\nb +0.5 1\nc 1 2\n");
  const std::string abc = file("abc.txt", "a b c a b c\n");
  EXPECT_THAT(trained({"word2vec", "--data", abc, "--min-count", "1", "--dimension", "2", "--load", vectors,
                       "--iterations", "0"}),
              HasSubstr("\"vocabulary\":3"));
}

TEST_F(InputTest, MoreRowsThanMemory) {
  // 2^16 words × 65535 topics × 4 bytes are 16 GiB in the table, and up to twice as much in each worker.
  std::string text;
  for (int word = 0; word < 1 << 16; ++word) text += "1 " + std::to_string(word) + ":1\n";
  verbena::testing::write_file(folder_.path("words.ldac"), text);
  expect_refused(
      {"run", "lda", "--data", folder_.path("words.ldac"), "--topics", "65535", "--workers", "1000"},
      "--topics 65535: 65536 words in 65536 documents then need about");
}

TEST_F(InputTest, OutputsThatCannotBeWritten) {
  const std::string missing = folder_.path("no/such/folder");
  verbena::testing::write_file(folder_.path("text"), "an ark of gopher wood\n");
  verbena::testing::write_file(folder_.path("ratings"), "1\t2\t3\n1\t3\t4\n2\t2\t5\n2\t3\t1\n");
  for (const std::vector<std::string>& application :
       {std::vector<std::string>{"lda", "--data", folder_.path("text")},
        {"mf", "--data", folder_.path("ratings"), "--test-fraction", "0"}}) {
    std::vector<std::string> arguments = {"run"};
    arguments.insert(arguments.end(), application.begin(), application.end());
    // The error must come before the training begins.
    arguments.insert(arguments.end(), {"--output", missing, "--iterations", "100000000"});
    const Ended ended = run(VERBENA_PROGRAM, arguments, folder_.path());
    EXPECT_EQ(ended.status, 2);
    EXPECT_THAT(ended.err, HasSubstr("verbena: error: " + missing));
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
  }
}

}  // namespace
}  // namespace verbena::process_test
