// word2vec in the plain loop, and with the workers of a real job.
#include "apps/word2vec/word2vec.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "apps/data/corpus.hpp"
#include "apps/word2vec/merging.hpp"
#include "apps/word2vec/trainer.hpp"
#include "apps/word2vec/vectors.hpp"
#include "tests/apps/job_fixture.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::apps {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;
using verbena::testing::contents;

constexpr int kDocuments = 120;
constexpr int kWordsOfDocument = 40;
constexpr int kGroups = 4;
constexpr int kWordsOfGroup = 8;

/// Each document has words of one group only, "a0" to "a7", "b0" to "b7" and so on, in random order. So one
/// word of a document tells which eight words may come next.
class Word2VecTest : public JobTest {
 protected:
  Word2VecTest() {
    std::ofstream text(path("text"));
    std::mt19937_64 random(1);
    for (int d = 0; d < kDocuments; ++d) {
      for (int n = 0; n < kWordsOfDocument; ++n) {
        text << static_cast<char>('a' + d % kGroups) << random() % kWordsOfGroup << ' ';
      }
      text << '\n';
    }
  }

  /// An application with these options. Options that are left out get values that suit a small text.
  [[nodiscard]] std::unique_ptr<Application> parsed(std::vector<std::string> arguments) const {
    const std::vector<std::pair<std::string, std::string>> small = {
        {"--data", path("text")}, {"--dimension", "10"},
        {"--iterations", "20"},   {"--clocks-per-iteration", "4"},
        {"--batch", "200"},       {"--held-out", "0.2"},
        {"--subsample", "0"},     {"--neighbours", "a0,c7"}};
    return with_options(make_word2vec(), std::move(arguments), small);
  }
  const Parsed parsed_ = [this](std::vector<std::string> arguments) { return parsed(std::move(arguments)); };
  [[nodiscard]] std::map<std::string, double> objectives(const std::vector<std::string>& arguments) const {
    return train_alone(*parsed(arguments));
  }
  /// Trains with some workers, and returns what was saved.
  std::string train(const ConsistencyModel& model, std::uint32_t workers, const std::string& name,
                    const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = more;
    arguments.insert(arguments.end(), {"--output", path(name)});
    objectives_ = JobTest::train(*parsed(arguments), {.consistency = model, .workers = workers});
    return contents(path(name));
  }
  /// The nearest neighbours of "a0" and "c7" must be the seven other words of their groups.
  static void expect_groups(const Recorder& recorder) {
    ASSERT_THAT(recorder.lines, SizeIs(2));
    const nlohmann::json& all = recorder.summaries.at("neighbours");
    for (const std::string word : {"a0", "c7"}) {
      const auto nearest = all.at(word).get<std::vector<std::string>>();
      EXPECT_THAT(nearest, SizeIs(8));
      EXPECT_THAT(std::vector<std::string>(nearest.begin(), nearest.begin() + 7),
                  Each(StartsWith(word.substr(0, 1))));
    }
  }

  std::map<std::string, double> objectives_;
};

/// The least MRR of a model that knows the groups. The mean of 1 / rank over 32 words is 0.13 by chance, a
/// little more since some are more frequent; over the 8 words of a group it is 0.34.
constexpr double kGroupKnown = 0.27;

TEST_F(Word2VecTest, LearnsWhichWordsStandTogether) {
  const auto application = parsed({});
  Recorder recorder;
  ASSERT_TRUE(run_baseline(*application, recorder).ok());
  const auto found = application->objectives(recorder.reports.back().sums);
  EXPECT_GT(found.at("held_out_mrr"), kGroupKnown);
  EXPECT_GT(found.at("held_out_hits_at_10"), 0.95);
  EXPECT_LT(found.at("train_loss"),
            0.9 * application->objectives(recorder.reports.front().sums).at("train_loss"));
  expect_groups(recorder);
  EXPECT_EQ(recorder.summaries.at("vocabulary"), 32);
  EXPECT_EQ(recorder.summaries.at("words"), kDocuments * kWordsOfDocument);
  EXPECT_EQ(recorder.summaries.at("documents"), kDocuments);
}

TEST_F(Word2VecTest, KnowsNothingAtFirst) {
  const auto found = objectives({"--iterations", "1", "--learning-rate", "1e-9"});
  EXPECT_LT(found.at("held_out_mrr"), 0.17);
  EXPECT_NEAR(found.at("train_loss"), 6 * std::log(2), 0.2)
      << "a little less, since a few negatives equal the right word";
}

TEST_F(Word2VecTest, EvaluatesWhenAsked) {
  Recorder recorder;
  expect_evaluations_when_due(parsed_, recorder, "held_out_mrr", {"train_loss"});
  EXPECT_EQ(objectives({"--held-out", "0"}).count("held_out_mrr"), 0U);
  EXPECT_EQ(parsed({"--held-out", "0"})->main_objective(), "train_loss");
  EXPECT_EQ(parsed({})->main_objective(), "held_out_mrr");
}

TEST_F(Word2VecTest, CountsWordsBeforeSubsampling) {
  const auto items = [&](const std::vector<std::string>& arguments) {
    Recorder recorder;
    EXPECT_TRUE(run_baseline(*parsed(arguments), recorder).ok());
    return recorder.reports.back();
  };
  const IterationReport all = items({"--held-out", "0"});
  const IterationReport some = items({"--held-out", "0", "--subsample", "0.001"});
  EXPECT_EQ(all.items, kDocuments * kWordsOfDocument);
  EXPECT_EQ(some.items, all.items);
  EXPECT_LT(some.sums.at("pairs"), 0.5 * all.sums.at("pairs"));
}

TEST_F(Word2VecTest, VectorsGoFromFormatToFormat) {
  ASSERT_FALSE(objectives({"--output", path("model.bin")}).empty());
  EXPECT_TRUE(contents(path("model.bin")).starts_with("32 10\n"));
  const auto converted = [&](const std::string& from, const std::string& to, const std::string& format) {
    const auto application =
        with_options(make_word2vec(), {"--load", path(from), "--iterations", "0", "--output", path(to),
                                       "--output-format", format, "--neighbours", "a0"});
    EXPECT_TRUE(application->check(1).ok()) << application->check(1);
    Recorder recorder;
    EXPECT_TRUE(run_baseline(*application, recorder).ok());
    return recorder.summaries.at("load_format");
  };
  EXPECT_EQ(converted("model.bin", "glove", "glove"), "binary");
  EXPECT_EQ(converted("glove", "text", "auto"), "glove");
  EXPECT_EQ(converted("text", "again.bin", "auto"), "text");
  EXPECT_EQ(contents(path("again.bin")), contents(path("model.bin")));
  converted("text", "a.npy", "auto");
  EXPECT_EQ(contents(path("a.npy")).size(), 128 + 32 * 10 * sizeof(float));
  EXPECT_EQ(contents(path("a.words.txt")).substr(0, 3), contents(path("text")).substr(6, 2) + "\n");
}

TEST_F(Word2VecTest, GoesOnFromWhatWasSaved) {
  EXPECT_GT(objectives({"--output", path("model")}).at("held_out_mrr"), kGroupKnown);
  const std::vector<std::string> little = {"--iterations", "1", "--learning-rate", "1e-9"};
  std::vector<std::string> loaded = little;
  loaded.insert(loaded.end(), {"--load", path("model"), "--output", path("again")});
  ASSERT_TRUE(parsed(loaded)->check(2).ok());
  EXPECT_FALSE(objectives(loaded).empty());
  const absl::StatusOr<word2vec::Vectors> before = word2vec::load(path("model"));
  const absl::StatusOr<word2vec::Vectors> after = word2vec::load(path("again"));
  ASSERT_TRUE(before.ok() && after.ok());
  EXPECT_EQ(before->words(), after->words());
  for (std::size_t id = 0; id < 32; ++id) {
    for (std::size_t k = 0; k < 10; ++k) EXPECT_NEAR(before->row(id)[k], after->row(id)[k], 1e-5);
  }
  loaded.insert(loaded.end(), {"--dimension", "12"});  // not the dimension of the file
  EXPECT_THAT(std::string(parsed(loaded)->check(2).message()),
              HasSubstr("model:1: expected vectors of 12 numbers, as --dimension says, found 10"));
}

TEST_F(Word2VecTest, WordsThatTheFileLacksBeginAsWithoutIt) {
  verbena::testing::write_file(path("few"), "2 2\na0 5 6\nunknown 7 8\n");
  const std::vector<std::string> hardly = {"--dimension",     "2",   "--iterations", "1",
                                           "--learning-rate", "1e-9"};
  std::vector<std::string> with = hardly;
  with.insert(with.end(), {"--load", path("few"), "--output", path("with")});
  std::vector<std::string> without = hardly;
  without.insert(without.end(), {"--output", path("without")});
  ASSERT_TRUE(parsed(with)->check(1).ok());
  EXPECT_FALSE(objectives(with).empty());
  EXPECT_FALSE(objectives(without).empty());
  const absl::StatusOr<word2vec::Vectors> loaded = word2vec::load(path("with"));
  const absl::StatusOr<word2vec::Vectors> random = word2vec::load(path("without"));
  ASSERT_TRUE(loaded.ok() && random.ok());
  ASSERT_EQ(loaded->words(), random->words());
  for (std::size_t id = 0; id < loaded->words().size(); ++id) {
    const bool known = loaded->words()[id] == "a0";
    EXPECT_NEAR(loaded->row(id)[0], known ? 5 : random->row(id)[0], 1e-5);
    EXPECT_NEAR(loaded->row(id)[1], known ? 6 : random->row(id)[1], 1e-5);
  }
  Recorder recorder;
  ASSERT_TRUE(run_baseline(*parsed(with), recorder).ok());
  EXPECT_EQ(recorder.summaries.at("loaded_words"), 1);
  verbena::testing::write_file(path("few"), "1 2\nunknown 7 8\n");
  EXPECT_THAT(std::string(parsed(with)->check(1).message()),
              HasSubstr("few: expected vectors of words that are in"));
}

TEST_F(Word2VecTest, OnlyShowsWhatWasLoaded) {
  verbena::testing::write_file(path("points"), "4 2\nark 1 0\nflood 2 0.5\ndove 1 1\nraven 0 1\n");
  const std::vector<std::string> arguments = {"--data",       path("none"), "--load",       path("points"),
                                              "--iterations", "0",          "--neighbours", "ark,raven",
                                              "--top-words",  "2"};
  const auto application = parsed(arguments);
  ASSERT_TRUE(application->check(2).ok());
  Recorder recorder;
  ASSERT_TRUE(run_baseline(*application, recorder).ok());
  EXPECT_THAT(recorder.lines, ::testing::ElementsAre("ark          flood 0.97 dove 0.71",
                                                     "raven        dove 0.71 flood 0.24"));
  JobTest::train(*application, {.workers = 2});
  EXPECT_EQ(recorders_[0].lines, recorder.lines);
  EXPECT_THAT(recorders_[1].lines, SizeIs(0));
  verbena::testing::write_file(path("points"), "ark 1 0\na dove 1 1\nraven 0 1\nark 2 2\n");
  Recorder some;
  ASSERT_TRUE(run_baseline(*parsed(arguments), some).ok());
  EXPECT_EQ(some.summaries.at("ignored_words"), 2);
  EXPECT_EQ(some.lines.at(0),
            "2 words of --load had come before, or have blanks, and were left out: first line 2");
}

TEST_F(Word2VecTest, WordsFromElsewhereAreReadAsTheText) {
  verbena::testing::write_file(path("points"), "3 2\nark 1 0\ncafé 2 0.5\nNew_York 0 1\n");
  const auto lines = [&](const std::string& tokens, const std::string& neighbours) {
    Recorder recorder;
    const auto application = parsed({"--data", path("none"), "--load", path("points"), "--iterations", "0",
                                     "--top-words", "1", "--tokens", tokens, "--neighbours", neighbours});
    const absl::Status status = application->check(1);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_TRUE(run_baseline(*application, recorder).ok());
    return recorder.lines;
  };
  EXPECT_THAT(lines("words", "ARK,CAFE\u0301,New_York"), SizeIs(3));
  EXPECT_THAT(lines("whitespace", "New_York"), SizeIs(1));
  EXPECT_THAT(std::string(parsed({"--tokens", "letters"})->check(1).message()),
              HasSubstr("--tokens: expected words or whitespace, found letters"));
  std::string text;
  for (int n = 0; n < 10; ++n) text += "new_york ark New_York ark 7\n";
  verbena::testing::write_file(path("text"), text);
  Recorder recorder;
  ASSERT_TRUE(run_baseline(*parsed({"--data", path("text"), "--load", path("points"), "--dimension", "2",
                                    "--min-count", "1", "--iterations", "1", "--tokens", "whitespace",
                                    "--neighbours", "7"}),
                           recorder)
                  .ok());
  EXPECT_EQ(recorder.summaries.at("vocabulary"), 4);
  EXPECT_EQ(recorder.summaries.at("loaded_words"), 2) << "New_York is not new_york";
}

TEST_F(Word2VecTest, SaysThatSomeWorkersHaveNoDocument) {
  verbena::testing::write_file(path("two"), "ark dove ark dove ark dove\nark dove ark dove ark dove\n");
  const auto application = parsed({"--data", path("two"), "--held-out", "0", "--iterations", "1",
                                   "--neighbours", "ark", "--subsample", "0"});
  const std::string line = path("two") + " has 2 documents for 3 workers: the others train nothing";
  JobTest::train(*application, {.workers = 3});
  EXPECT_THAT(recorders_[0].lines, ::testing::Contains(line));
  JobTest::train(*application, {.workers = 2});
  EXPECT_THAT(recorders_[0].lines, ::testing::Not(::testing::Contains(line)));
}

TEST_F(Word2VecTest, ChoosesWordsToShow) {
  Recorder recorder;
  ASSERT_TRUE(run_baseline(*parsed({"--neighbours", ""}), recorder).ok());
  EXPECT_GE(recorder.lines.size(), 4U);
  Recorder nothing;
  ASSERT_TRUE(run_baseline(*parsed({"--top-words", "0"}), nothing).ok());
  EXPECT_THAT(nothing.lines, SizeIs(0));
}

TEST_F(Word2VecTest, TwoRunsGiveTheSameFile) {
  expect_runs_to_be_equal(parsed_, contents, 32U * 10 * 5);
}

TEST_F(Word2VecTest, WorkersUnderBspGiveTheSameFileTwice) {
  for (const std::uint32_t workers : {2U, 3U}) {
    const std::string first = train(Bsp{}, workers, "a");
    EXPECT_GT(first.size(), 32U * 10 * 5);
    EXPECT_GT(objectives_.at("held_out_mrr"), kGroupKnown);
    expect_groups(recorders_[0]);
    EXPECT_TRUE(first == train(Bsp{}, workers, "b"));
  }
}

TEST_F(Word2VecTest, TheSameBitsHoweverRowsAreRead) {
  // The mini-batches are small, so that rows are pulled again in the clock in which they have been pushed
  // twice.
  for (const char* lookahead : {"0", "1"}) {
    expect_the_same_bits_however_read(
        parsed_, contents,
        {"--iterations", "2", "--batch", "4", "--negatives", "1", "--lookahead", lookahead});
  }
}

TEST_F(Word2VecTest, TheDataDecidesTheClocksUnlessTheyWereSaved) {
  const auto application = parsed({"--iterations", "2", "--clocks-per-iteration", "0"});
  EXPECT_TRUE(application->leaves_open("clocks-per-iteration"));
  EXPECT_EQ(application->chosen("clocks-per-iteration"), std::nullopt);
  JobTest::train(*application, {.consistency = Bsp{}, .workers = 2});
  EXPECT_EQ(recorders_[0].summaries.at("clocks_per_iteration"), 1) << "a small text";
  ASSERT_TRUE(application->goes_on_from({{"--clocks-per-iteration", "3"}}).ok());
  EXPECT_EQ(application->chosen("clocks-per-iteration"), "3");
  JobTest::train(*application, {.consistency = Bsp{}, .workers = 2});
  EXPECT_EQ(recorders_[0].summaries.at("clocks_per_iteration"), 3);
  JobTest::train(*parsed({"--iterations", "2"}), {.consistency = Bsp{}, .workers = 2});
  EXPECT_EQ(recorders_[0].summaries.at("clocks_per_iteration"), 4) << "by hand";
}

TEST_F(Word2VecTest, TheSameBitsWhenResumed) {
  expect_the_same_bits_when_resumed(parsed_, contents, {"--iterations", "8", "--batch", "50"}, 2);
}

/// Where two workers exchange what they add to rows in a clock.
struct Meeting {
  explicit Meeting(std::size_t numbers) : added(2, std::vector<float>(numbers)) {}
  std::vector<std::vector<float>> added;  ///< by worker
  std::barrier<> all{2};
};

/// Each of two workers has its rows in an array. At the end of a clock, they exchange their shares of what
/// they have trained.
class PartlyPushedRows final : public RowStore {
 public:
  PartlyPushedRows(std::span<const RowSource> first, const word2vec::PushedShares& shares, std::size_t rank,
                   Meeting& meeting)
      : first_(first), shares_{shares.inputs, shares.outputs}, rank_(rank), meeting_(meeting), rows_(first) {
    for (std::size_t table = 0; table < first_.size(); ++table) seen_.push_back(all(table));
  }
  [[nodiscard]] std::size_t lookahead() const override { return 1; }
  void request(std::span<const NeededRows> needed) override { rows_.request(needed); }
  absl::StatusOr<std::span<const RowPointers>> open() override { return rows_.open(); }
  absl::Status close(std::uint64_t items) override { return rows_.close(items); }
  absl::Status clock() override {
    const auto rows = rows_.open();
    EXPECT_TRUE(rows.ok()) << rows.status();
    const auto for_each_number = [&](const auto& use) {
      for (std::size_t table = 0, at = 0; table < first_.size(); ++table) {
        const std::size_t width = first_[table].width;
        for (std::size_t n = 0; n < seen_[table].size(); ++n, ++at)
          use(seen_[table][n], (*rows)[table][n / width][n % width], shares_[table][n / width], at);
      }
    };
    for_each_number([&](float seen, float trained, float share, std::size_t at) {
      meeting_.added[rank_][at] = share * (trained - seen);
    });
    meeting_.all.arrive_and_wait();
    for_each_number([&](float& seen, float& trained, float /*share*/, std::size_t at) {
      seen = trained = seen + meeting_.added[0][at] + meeting_.added[1][at];
    });
    meeting_.all.arrive_and_wait();
    return rows_.close(0);
  }
  absl::Status barrier() override { return absl::OkStatus(); }
  absl::Status read(std::size_t table, std::size_t numbers, float* to) override {
    return rows_.read(table, numbers, to);
  }
  [[nodiscard]] std::vector<float> all(std::size_t table) {
    std::vector<float> values(first_[table].rows * first_[table].width);
    EXPECT_TRUE(rows_.read(table, first_[table].width, values.data()).ok());
    return values;
  }

 private:
  std::span<const RowSource> first_;
  std::array<std::vector<float>, 2> shares_;
  std::size_t rank_;
  Meeting& meeting_;
  LocalRows rows_;
  std::vector<std::vector<float>> seen_;
};

TEST_F(Word2VecTest, PushesOfEachTableTheShareThatIsItsOwn) {
  constexpr std::size_t kDimension = 10;
  constexpr std::array<int, 2> kWords = {600, 200};
  std::string text;
  std::mt19937_64 random(1);
  for (const int count : kWords) {
    for (int n = 0; n < count; ++n) text += fmt::format("w{} ", std::min(random() % 12, random() % 12));
    text += '\n';
  }
  verbena::testing::write_file(path("two"), text);
  // More than one clock: only then do pushed outputs have an effect on the vectors.
  const std::vector<std::string> arguments = {
      "--data",     path("two"), "--iterations", "3", "--batch",      "1000", "--clocks-per-iteration", "1",
      "--held-out", "0",         "--min-count",  "1", "--neighbours", ""};
  train(Bsp{}, 2, "model", arguments);
  for (std::size_t rank = 0; rank < 2; ++rank)
    EXPECT_EQ(recorders_[rank].reports.back().items, kWords[rank])
        << "each worker has one of the two documents";
  const absl::StatusOr<word2vec::Vectors> found = word2vec::load(path("model"));
  ASSERT_TRUE(found.ok()) << found.status();

  const auto read = [&](std::uint32_t part) {
    return *read_corpus({.path = path("two"), .needs_order = true, .part = part, .parts = 2});
  };
  const Corpus corpus = read(0);
  ASSERT_EQ(corpus.vocabulary, found->words());
  const std::size_t words = corpus.counts.size();
  const word2vec::Subsampling subsampling(corpus.counts, 0);
  const word2vec::NoiseDistribution noise(corpus.counts);
  word2vec::TrainingOptions options;
  options.iterations = 3;
  options.batch = 1000;
  options.clocks_per_iteration = 1;
  const word2vec::PushedShares shares = pushed_shares(
      corpus.counts, subsampling, noise,
      {.words = {kWords[0], kWords[1]}, .clocks_per_iteration = 1, .learning_rate = options.learning_rate});
  EXPECT_GT(shares.inputs[0], shares.outputs[0] + 0.1)
      << "otherwise the test could not tell one table's shares from the other's";
  const auto inputs = [&](std::size_t id, std::span<float> row) {
    for (std::size_t k = 0; k < kDimension; ++k)
      row[k] = static_cast<float>(random_number(options.seed, id, k) / (2 * static_cast<double>(kDimension)));
  };
  const auto outputs = [](std::size_t /*id*/, std::span<float> /*row*/) {};
  const std::array<RowSource, 2> first = {
      RowSource{.rows = words, .width = padded(kDimension), .make = inputs},
      RowSource{.rows = words, .width = padded(kDimension), .make = outputs}};
  Meeting meeting(2 * words * padded(kDimension));
  std::array<std::vector<float>, 2> expected;
  const auto train_as = [&](std::uint32_t rank) {
    Corpus part = read(rank);
    PartlyPushedRows rows(first, shares, rank, meeting);
    word2vec::TrainingData data{.chances = std::vector<float>(words), .dimension = kDimension, .rank = rank};
    data.text = word2vec::split(part, 0, options.seed).train;
    const word2vec::WindowMaker windows(subsampling, noise, {});
    Recorder recorder;
    word2vec::Trainer trainer(options, data, windows, rows, 1);
    EXPECT_TRUE(trainer.run(recorder, recorder.stop).ok());
    expected[rank] = rows.all(word2vec::kInputTable);
  };
  std::thread other([&] { train_as(1); });
  train_as(0);
  other.join();
  EXPECT_EQ(expected[0], expected[1]);
  for (std::size_t id = 0; id < words; ++id) {
    for (std::size_t k = 0; k < kDimension; ++k)
      EXPECT_NEAR(found->row(id)[k], expected[0][id * padded(kDimension) + k], 1e-5) << found->words()[id];
  }
}

/// Workers without a document must not hold back what the other worker learns.
TEST_F(Word2VecTest, IdleWorkersChangeNothing) {
  std::string text;
  std::mt19937_64 random(1);
  for (int n = 0; n < 4'000; ++n) text += fmt::format("w{} ", std::min(random() % 30, random() % 30));
  verbena::testing::write_file(path("one"), text + "\n");
  const std::vector<std::string> arguments = {"--data",       path("one"), "--held-out",   "0",
                                              "--neighbours", "",          "--iterations", "5"};
  for (const ConsistencyModel& model : {ConsistencyModel(Bsp{}), ConsistencyModel(ABsp{})}) {
    const std::string alone = train(model, 1, "alone", arguments);
    EXPECT_TRUE(alone == train(model, 4, "with three", arguments)) << to_string(model);
  }
  const Parsed on_one = [&](std::vector<std::string> more) {
    more.insert(more.end(), arguments.begin(), arguments.end());
    return parsed(std::move(more));
  };
  expect_idle_workers_to_change_little(on_one, "train_loss", 0.002);
}

TEST_F(Word2VecTest, CountsWordsThatNothingTrains) {
  std::ofstream file(path("strangers"));
  int strangers = 0;
  for (std::uint64_t document = 0; document < 30; ++document) {
    file << "some words of all some words of all";
    if (word2vec::is_held_out(document, 0.3, 1)) file << " stranger" << strangers++;
    file << '\n';
  }
  file.close();
  ASSERT_GT(strangers, 1);
  const std::vector<std::string> arguments = {
      "--data", path("strangers"), "--held-out", "0.3",          "--min-count",
      "1",      "--neighbours",    "",           "--iterations", "1"};
  const std::string said = fmt::format("{} of {} words are not trained", strangers, strangers + 4);
  Recorder alone;
  ASSERT_TRUE(run_baseline(*parsed(arguments), alone).ok());
  EXPECT_EQ(alone.summaries.at("untrained_words"), strangers);
  EXPECT_THAT(alone.lines, ::testing::Contains(HasSubstr(said)));
  train(Bsp{}, 2, "model", arguments);
  EXPECT_EQ(recorders_[0].summaries.at("untrained_words"), strangers);
  EXPECT_THAT(recorders_[0].lines, ::testing::Contains(HasSubstr(said)));
}

TEST_F(Word2VecTest, OneWorkerTrainsAsThePlainLoopDoes) {
  const auto alone = objectives({"--output", path("alone")});
  train(Bsp{}, 1, "worker");
  EXPECT_NEAR(objectives_.at("held_out_mrr"), alone.at("held_out_mrr"), 1e-3);
  EXPECT_NEAR(objectives_.at("train_loss"), alone.at("train_loss"), 1e-3);
  const absl::StatusOr<word2vec::Vectors> a = word2vec::load(path("alone"));
  const absl::StatusOr<word2vec::Vectors> b = word2vec::load(path("worker"));
  ASSERT_TRUE(a.ok() && b.ok());
  for (std::size_t id = 0; id < 32; ++id) {
    for (std::size_t k = 0; k < 10; ++k)
      EXPECT_NEAR(a->row(id)[k], b->row(id)[k], 1e-3) << "equal but for rounding";
  }
}

TEST_F(Word2VecTest, TrainsUnderEveryModel) {
  expect_to_learn_under_every_model(parsed_, "held_out_mrr", 0.2);
}

TEST_F(Word2VecTest, WorkersMeetAsOftenAsTheyAreToldTo) {
  expect_to_meet(parsed_);
}

TEST_F(Word2VecTest, LearnsWithRowsThatMove) {
  // The mini-batches are small. With larger ones, all nodes would need all of these few rows all the time.
  expect_to_learn_with_rows_that_move(parsed_,
                                      {.allocation = "localize",
                                       .consistency = Sequential{},
                                       .lookaheads = {"0", "1"},
                                       .arguments = {"--batch", "4", "--negatives", "1"}},
                                      "held_out_mrr", 0.2);
}

TEST_F(Word2VecTest, LearnsWithIntents) {
  expect_to_learn_with_rows_that_move(parsed_,
                                      {.allocation = "intent",
                                       .consistency = Asp{},
                                       .lookaheads = {"0", "1", "6"},
                                       .arguments = {"--batch", "4", "--negatives", "1"}},
                                      "held_out_mrr", 0.2);
}

TEST_F(Word2VecTest, SaysOnceThatItUsesWhatAllUse) {
  JobTest::train(*parsed_({"--allocation", "intent"}), {.consistency = Asp{}, .workers = 2});
  // Moves are not counted: in the end, rows may move to the last worker.
  for (const SessionStatistics& statistics : statistics_)
    EXPECT_EQ(statistics.rows_replicated, 32U) << "the rows of the other server: half of each table";
}

TEST_F(Word2VecTest, RowsMoveWhereTheModelLetsThem) {
  expect_allocations_to_need_their_model(parsed_);
  // Several workers on one node would wait for one another's rows.
  EXPECT_EQ(parsed_({})->default_consistency(/*is_one_node=*/true, /*workers=*/2), "ssp:1");
  EXPECT_EQ(parsed_({"--allocation", "localize"})->default_consistency(/*is_one_node=*/true, /*workers=*/2),
            "sequential");
}

TEST_F(Word2VecTest, EachWorkerTrainsItsDocuments) {
  train(Bsp{}, 3, "model", {"--held-out", "0"});
  EXPECT_EQ(items(1), kDocuments * kWordsOfDocument);
}

TEST_F(Word2VecTest, ManyWorkersMayHaveNothingToDo) {
  verbena::testing::write_file(path("short"), "in the beginning\nthe earth\n");
  train(Bsp{}, 4, "model",
        {"--data", path("short"), "--min-count", "1", "--held-out", "0", "--neighbours", "the"});
  EXPECT_TRUE(contents(path("model")).starts_with("4 10\nthe "));
}

TEST_F(Word2VecTest, StopsWhenAskedAndWritesNothing) {
  expect_to_stop_without_files(parsed_);
}

TEST_F(Word2VecTest, SaysWhenItDiverges) {
  expect_to_say_that_it_diverges(*parsed({"--learning-rate", "1e30"}));
}

TEST_F(Word2VecTest, RefusesImpossibleOptionsAndInput) {
  verbena::testing::write_file(path("empty"), "");
  verbena::testing::write_file(path("bag.ldac"), "2 0:7 1:8\n");
  verbena::testing::write_file(path("one"), "alone alone alone alone alone\n");
  verbena::testing::write_file(path("apart"), "ark\nark\nark\nark\nark\ndove\ndove\ndove\ndove\ndove\n");
  verbena::testing::write_file(path("line"), "ark dove ark dove ark dove ark dove ark dove\n");
  verbena::testing::write_file(path("damaged"), "1 2\nark 1\n");
  const Refusals refusals = {
      {{"--data", path("none")}, "none: cannot be read"},
      {{"--data", path("empty")}, "empty: expected text of two words or more that come at least 5 times"},
      {{"--data", path("bag.ldac")}, "bag.ldac: expected running text, found a bag of words"},
      {{"--data", path("one")}, "one: expected text of two words"},
      {{"--data", path("apart")}, "apart: expected text of two words"},
      {{"--min-count", "100000"}, "(--min-count), found 120 documents with 0 such words"},
      {{"--min-count", "0"}, "--min-count: expected 1 or more, found 0"},
      {{"--dimension", "0"}, "--dimension: expected 1 to 65535, found 0"},
      {{"--dimension", "65536"}, "--dimension: expected 1 to 65535, found 65536"},
      {{"--window", "0"}, "--window: expected 1 to 1000, found 0"},
      {{"--negatives", "0"}, "--negatives: expected 1 to 1000, found 0"},
      {{"--subsample", "-1"}, "--subsample: expected 0 to 1, found -1"},
      {{"--subsample", "nan"}, "--subsample: a number is expected"},
      {{"--iterations", "0"}, "--iterations: expected 1 or more, or with --load 0, found 0"},
      {{"--iterations", "-1", "--load", path("damaged")}, "--iterations: expected 1 or more"},
      {{"--output-format", "npy"}, "--output-format: expected only with --output"},
      {{"--output", path("model"), "--output-format", "json"},
       "--output-format: expected auto, text, binary, glove, npy or safetensors, found json"},
      {{"--iterations", "0", "--load", path("damaged"), "--output", path("missing/model")},
       "damaged:2: expected 2 numbers after the word"},
      {{"--learning-rate", "0"}, "--learning-rate: expected a number above 0, found 0"},
      {{"--batch", "0"}, "--batch: expected 1 to"},
      {{"--clocks-per-iteration", "-1"}, "--clocks-per-iteration: expected 0 to 100000, found -1"},
      {{"--data", path("line"), "--held-out", "1e-9"},
       "line: expected documents enough for some to be held out"},
      {{"--data", path("line"), "--held-out", "0.9999"}, "besides those held out"},
      {{"--subsample", "1e-30"}, "--subsample: expected a share that leaves some of the"},
      {{"--held-out", "1"}, "--held-out: expected 0 or more and less than 1, found 1"},
      {{"--evaluate-every", "-1"}, "--evaluate-every: expected 0 or more, found -1"},
      {{"--barrier-every", "-1"}, "--barrier-every: expected 0 or more, found -1"},
      {{"--lookahead", "2"}, "--lookahead: expected 0 to 1 with --allocation static, found 2"},
      {{"--top-words", "-1"}, "--top-words: expected 0 or more, found -1"},
      {{"--neighbours", "a0,whale"},
       "--neighbours: expected words of the vocabulary, separated by commas, found \"whale\""},
      {{"--neighbours", "a0,"},
       "--neighbours: expected words of the vocabulary, separated by commas, found \"\""},
      {{"--output", path("missing/model")}, path("missing")},
      {{"--load", path("missing")}, path("missing")},
      {{"--load", path("damaged")}, "damaged:2: expected 2 numbers after the word"},
      {{"--load", path("damaged"), "--iterations", "0"}, "damaged:2: expected 2 numbers after the word"},
  };
  expect_refusals(parsed_, refusals);
  EXPECT_TRUE(parsed({})->check(4).ok());
}

}  // namespace
}  // namespace verbena::apps
