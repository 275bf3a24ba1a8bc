// `verbena run lda --load`, and the topics of documents.
#include "apps/lda/document_topics.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "apps/data/generate_corpus.hpp"
#include "apps/enough_memory.hpp"
#include "apps/lda/lda.hpp"
#include "apps/lda/model.hpp"
#include "tests/apps/job_fixture.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::apps::lda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using verbena::testing::contents;
using verbena::testing::write_file;

constexpr const char* kModel =
    "# verbena lda 1\ttopics=3\talpha=0.5\tbeta=0.25\twords=4\ttokens=20\n"
    "ark\t0:7 2:1\ndove\t1:5\nlord's\t0:2 1:2 2:2\nolive\t2:1\n";
/// The counts of that model, by word and topic.
constexpr std::array<std::array<double, 3>, 4> kCounts = {{{7, 0, 1}, {0, 5, 0}, {2, 2, 2}, {0, 0, 1}}};
constexpr double kSavedAlpha = 0.5;
constexpr double kSavedBeta = 0.25;
constexpr std::size_t kSavedTopics = 3;

/// Shares of the topics in a document of words with these counts: thirty steps of expectation maximization,
/// from equal shares, with alpha as if each topic had so many words more.
std::array<double, kSavedTopics> shares_of(const std::map<std::size_t, int>& document) {
  std::array<double, kSavedTopics> totals = {};
  for (const auto& row : kCounts) {
    for (std::size_t k = 0; k < kSavedTopics; ++k) totals[k] += row[k];
  }
  const auto probability = [&](std::size_t word, std::size_t k) {
    return (kCounts[word][k] + kSavedBeta) / (totals[k] + kSavedBeta * kCounts.size());
  };
  std::array<double, kSavedTopics> shares = {1.0 / 3, 1.0 / 3, 1.0 / 3};
  for (int step = 0; step < 30; ++step) {
    std::array<double, kSavedTopics> next = {kSavedAlpha, kSavedAlpha, kSavedAlpha};
    double all = kSavedAlpha * kSavedTopics;
    for (const auto& [word, count] : document) {
      double sum = 0;
      for (std::size_t k = 0; k < kSavedTopics; ++k) sum += shares[k] * probability(word, k);
      for (std::size_t k = 0; k < kSavedTopics; ++k)
        next[k] += count * shares[k] * probability(word, k) / sum;
      all += count;
    }
    for (std::size_t k = 0; k < kSavedTopics; ++k) shares[k] = next[k] / all;
  }
  return shares;
}

class DocumentTopicsTest : public JobTest {
 protected:
  DocumentTopicsTest() {
    write_file(path("model"), kModel);
    write_file(path("new.txt"),
               "First\tThe ark, the Ark and a dove.\nSecond\tOlive! The LORD’S olive\nNone\tunicorn\n");
  }
  [[nodiscard]] std::unique_ptr<Application> using_model(std::vector<std::string> arguments) const {
    return with_options(make_lda(), std::move(arguments),
                        {{"--load", path("model")}, {"--data", path("new.txt")}});
  }
  /// Checks and runs it.
  std::map<std::string, double> use(const std::vector<std::string>& arguments, Recorder& recorder) const {
    const auto application = using_model(arguments);
    EXPECT_EQ(application->iterations(), 0);
    const absl::Status checked = application->check(1);
    EXPECT_TRUE(checked.ok()) << checked;
    const absl::Status status = run_baseline(*application, recorder);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(recorder.reports.size(), 1U);
    return application->objectives(recorder.reports.at(0).sums);
  }
};

TEST_F(DocumentTopicsTest, SharesAreThoseOfTheFormula) {
  Recorder recorder;
  use({"--document-topics", path("topics")}, recorder);
  std::istringstream lines(contents(path("topics")));
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, "document\ttitle\ttopic0\ttopic1\ttopic2");
  const std::array<std::map<std::size_t, int>, 3> documents = {{{{0, 2}, {1, 1}}, {{2, 1}, {3, 2}}, {}}};
  const std::array<std::string, 3> titles = {"First", "Second", "None"};
  for (std::size_t d = 0; d < documents.size(); ++d) {
    std::size_t number = 0;
    std::string title;
    lines >> number >> title;
    EXPECT_EQ(number, d);
    EXPECT_EQ(title, titles[d]);
    const auto expected = shares_of(documents[d]);
    double sum = 0;
    for (const double share : expected) {
      double found = 0;
      lines >> found;
      EXPECT_NEAR(found, share, 1e-5) << title;
      sum += found;
    }
    EXPECT_NEAR(sum, 1, 1e-5);
  }
  EXPECT_FALSE(lines >> line) << "more than three documents";
  EXPECT_EQ(recorder.summaries.at("documents"), 3);
  EXPECT_EQ(recorder.summaries.at("tokens"), 6);
  EXPECT_EQ(recorder.summaries.at("unknown_tokens"), 6) << "the, the, and, a; the; unicorn: not in the model";
}

TEST_F(DocumentTopicsTest, AnArrayHasTheSameShares) {
  Recorder recorder;
  use({"--document-topics", path("topics.npy")}, recorder);
  const std::string bytes = contents(path("topics.npy"));
  std::string header("\x93NUMPY\x01\x00\x76\x00", 10);
  header += "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 3), }";
  header.resize(127, ' ');
  header += '\n';
  ASSERT_EQ(bytes.size(), header.size() + 9 * sizeof(float));
  EXPECT_EQ(bytes.substr(0, header.size()), header);
  std::array<float, 9> shares = {};
  std::memcpy(shares.data(), bytes.data() + header.size(), sizeof shares);
  const auto expected = shares_of({{2, 1}, {3, 2}});
  for (std::size_t k = 0; k < kSavedTopics; ++k) EXPECT_NEAR(shares[3 + k], expected[k], 1e-5);
  EXPECT_FLOAT_EQ(shares[6], 1.0F / 3);
}

TEST_F(DocumentTopicsTest, TellsHowWellItPredicts) {
  // One of two words is given. Whichever it is, the same one is predicted.
  write_file(path("two.txt"), "dove dove\n");
  Recorder recorder;
  const double perplexity = use({"--data", path("two.txt")}, recorder).at("held_out_perplexity");
  const auto shares = shares_of({{1, 1}});
  // Topic totals are 9, 7 and 4.
  const double probability = shares[0] * kSavedBeta / (9 + 4 * kSavedBeta) +
                             shares[1] * (5 + kSavedBeta) / (7 + 4 * kSavedBeta) +
                             shares[2] * kSavedBeta / (4 + 4 * kSavedBeta);
  EXPECT_NEAR(perplexity, 1 / probability, 1e-4);
  EXPECT_THAT(recorder.lines, IsEmpty());
}

TEST_F(DocumentTopicsTest, ABagOfWordsIsReadAsAText) {
  write_file(path("docword.txt"), "2\n3\n4\n1 1 2\n1 3 1\n2 2 2\n2 3 5\n");
  write_file(path("words"), "ark\nolive\ndove\n");
  write_file(path("text.txt"), "ark dove ark\nolive dove dove dove olive dove dove\n");
  Recorder recorder;
  use({"--data", path("docword.txt"), "--vocabulary", path("words"), "--document-topics", path("a")},
      recorder);
  use({"--data", path("text.txt"), "--document-topics", path("b")}, *std::make_unique<Recorder>());
  EXPECT_EQ(contents(path("a")), contents(path("b")));
}

/// Asks it to stop when it says that it has begun with something.
class Stopper final : public Reporter {
 public:
  explicit Stopper(std::string when) : when_(std::move(when)) {}
  void iteration(const IterationReport& /*report*/) override { ++iterations; }
  void print(std::string_view /*line*/) override {}
  void progress(std::string_view what, double done, double total) override {
    EXPECT_LE(done, total);
    ++said[std::string(what)];
    if (what == when_) stop = true;
  }
  void summary(const std::string& /*name*/, nlohmann::json /*value*/) override {}

  std::map<std::string, int> said;  ///< how often
  int iterations = 0;
  std::atomic<bool> stop = false;

 private:
  std::string when_;
};

TEST_F(DocumentTopicsTest, StopsWhenAskedAndWritesNothing) {
  const InferenceOptions options{
      .load = path("model"), .corpus = {.path = path("new.txt")}, .document_topics = path("topics")};
  for (const char* const when : {"predicting words", "finding topics of documents"}) {
    Stopper stopper(when);
    EXPECT_TRUE(absl::IsCancelled(infer(options, stopper, stopper.stop))) << when;
    EXPECT_EQ(stopper.said[when], 1) << "it stops at once";
    EXPECT_TRUE(stopper.said.contains("predicting words"));
    EXPECT_EQ(stopper.iterations, 0);
    EXPECT_FALSE(std::filesystem::exists(path("topics")));
  }
}

TEST_F(DocumentTopicsTest, AModelThatIsTooLargeIsRefused) {
  if (check_memory(1e11, "this test's model needs", "less memory").ok())
    GTEST_SKIP() << "this machine has room for it";
  constexpr int kWords = 500'000;
  std::string text =
      fmt::format("# verbena lda 1\ttopics=65535\talpha=0.5\tbeta=0.25\twords={}\ttokens=1\n", kWords);
  text += "w0\t0:1\n";
  for (int word = 1; word < kWords; ++word) text += fmt::format("w{}\n", word);
  write_file(path("model"), text);
  const absl::Status status = using_model({})->check(1);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(path("model") + ": 500000 words and 65535 topics need about 122.1 GiB, the machine"));
}

TEST_F(DocumentTopicsTest, WorkersOfOtherRanksHaveNothingToDo) {
  JobTest::train(*using_model({"--document-topics", path("topics")}), {.workers = 2});
  EXPECT_TRUE(std::filesystem::exists(path("topics")));
  EXPECT_TRUE(recorders_[1].reports.at(0).sums.empty());
}

TEST_F(DocumentTopicsTest, TrainingWritesWhatItsModelSays) {
  GenerateCorpusOptions options;
  options.documents = 100;
  options.topics = 4;
  options.words_per_topic = 20;
  options.mean_length = 50;
  ASSERT_TRUE(generate_corpus(options, path("documents")).ok());
  const auto train = with_options(
      make_lda(), {"--data", path("documents"), "--topics", "6", "--iterations", "20", "--held-out", "0.1",
                   "--output", path("trained"), "--document-topics", path("topics")});
  ASSERT_TRUE(train->check(3).ok());
  JobTest::train(*train, {.workers = 3});
  const std::string by_training = contents(path("topics"));
  EXPECT_EQ(std::ranges::count(by_training, '\n'), 101);
  Recorder recorder;
  use({"--load", path("trained"), "--data", path("documents"), "--document-topics", path("topics")},
      recorder);
  EXPECT_EQ(by_training, contents(path("topics")));
  // So it is with words that are left out.
  const auto alone = with_options(
      make_lda(), {"--data", path("documents"), "--topics", "3", "--iterations", "2", "--min-count", "5",
                   "--output", path("trained"), "--document-topics", path("some")});
  ASSERT_TRUE(run_baseline(*alone, recorder).ok());
  use({"--load", path("trained"), "--data", path("documents"), "--document-topics", path("again")},
      *std::make_unique<Recorder>());
  EXPECT_EQ(contents(path("some")), contents(path("again")));
}

TEST_F(DocumentTopicsTest, LoadsWhatWasSaved) {
  absl::StatusOr<SavedModel> model = load_model(path("model"));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->words, ElementsAre("ark", "dove", "lord's", "olive"));
  std::vector<std::int32_t> totals(model->counts.totals().begin(), model->counts.totals().end());
  EXPECT_THAT(totals, ElementsAre(9, 7, 4));
  std::string text = format_header(model->header, model->words.size());
  ASSERT_TRUE(
      for_each_row(model->words.size(), model->counts, [&](Key word, std::span<const std::int32_t> row) {
        text += format_row(model->words[word], row);
      }).ok());
  EXPECT_EQ(text, kModel);
}

TEST_F(DocumentTopicsTest, WhatIsNoModelIsRefused) {
  const std::string head = "# verbena lda 1\ttopics=2\talpha=0.5\tbeta=0.25\twords=2\ttokens=3\n";
  for (const auto& [text, expected] : std::to_array<std::pair<std::string, std::string>>({
           {"",
            ":1: expected \"# verbena lda 1\", topics=, alpha=, beta=, words= and tokens=, separated by "
            "tabs"},
           {"ark dove\n", ":1: expected \"# verbena lda 1\""},
           {"# verbena lda 1\ttopics=0\talpha=0.5\tbeta=0.25\twords=2\ttokens=3\n", ":1: expected"},
           {"# verbena lda 1\ttopics=65536\talpha=0.5\tbeta=0.25\twords=2\ttokens=3\n", ":1: expected"},
           {"# verbena lda 1\ttopics=2\talpha=0\tbeta=0.25\twords=2\ttokens=3\n", ":1: expected"},
           {"# verbena lda 1\ttopics=2\talpha=1\tbeta=0.25\twords=2\ttokens=3000000000\n", ":1: expected"},
           {head + "ark\t0:3\n", ":3: expected 1 more words, as line 1 says, found the end of the file"},
           {head + "ark\t0:3\ndove\nolive\n", ":4: expected the end of the file after 2 words"},
           {head + "ark\t0:3\nark\n", ":3: expected another word"},
           {head + "ark\t0:3\n\n", ":3: expected another word"},
           {head + "ark\t2:3\ndove\n",
            ":2: expected a word, a tab, and topic:count of rising topics below 2, found \"ark\\t2:3\""},
           {head + "ark\t1:2 0:1\ndove\n", ":2: expected a word, a tab"},
           {head + "ark\t1:2 1:1\ndove\n", ":2: expected a word, a tab"},
           {head + "ark\t1:0\ndove\t0:3\n", ":2: expected a word, a tab"},
           {head + "ark\t1\ndove\t0:3\n", ":2: expected a word, a tab"},
           {head + "ark\t0:2147483647\ndove\t0:1\n", ":3: expected counts of fewer tokens"},
           {head + "ark\t0:2\ndove\n", ":1: expected the counts of 3 tokens, as this line says, found 2"},
       })) {
    write_file(path("model"), text);
    const absl::Status status = load_model(path("model")).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path("model") + expected)) << text;
  }
  EXPECT_EQ(load_model(path("missing")).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(DocumentTopicsTest, RefusesWhatDoesNothing) {
  write_file(path("strange.txt"), "unicorn\n");
  const Parsed parsed = [&](std::vector<std::string> arguments) { return using_model(std::move(arguments)); };
  expect_refusals(parsed, {{{"--topics", "3", "--held-out", "0.1"},
                            "--held-out, --topics: expected only without --load, which trains nothing"},
                           {{"--min-count", "2"}, "--min-count: expected only without --load"},
                           {{"--output", path("out")}, "--output: expected only without --load"},
                           {{"--data", path("strange.txt")}, "expected documents with words of the model"},
                           {{"--data", path("missing")}, path("missing")},
                           {{"--load", path("missing")}, path("missing")},
                           {{"--document-topics", path("missing/file")}, path("missing")}});
}

}  // namespace
}  // namespace verbena::apps::lda
