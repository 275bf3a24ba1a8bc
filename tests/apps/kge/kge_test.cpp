// kge in the plain loop, and with the workers of a real job.
#include "apps/kge/kge.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/apps/job_fixture.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::apps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using verbena::testing::contents;

constexpr int kEntities = 60;
constexpr int kIterations = 30;

/// A circle of 60 numbers with the relations "+1", "+2", "+5" and "-1" from each number. One fact in ten is
/// held out, half of them as valid and half as test triples. They follow from the other facts.
class KgeTest : public JobTest {
 protected:
  KgeTest() {
    std::ofstream train(path("train.txt"));
    std::ofstream valid(path("valid.txt"));
    std::ofstream test(path("test.txt"));
    int number = 0;
    for (const int distance : {1, 2, 5, -1}) {
      for (int n = 0; n < kEntities; ++n, ++number) {
        std::ofstream& file = number % 20 == 7 ? valid : number % 20 == 17 ? test : train;
        file << fmt::format("n{}\t{:+}\tn{}\n", n, distance, (n + distance + kEntities) % kEntities);
      }
    }
  }

  /// An application with these options. Options that are left out get values that suit a small graph.
  [[nodiscard]] std::unique_ptr<Application> parsed(std::vector<std::string> arguments) const {
    const std::vector<std::pair<std::string, std::string>> small = {
        {"--data", folder_.path().string()},
        {"--dimension", "32"},
        {"--iterations", std::to_string(kIterations)},
        {"--regularization", "0.05"},
        {"--clocks-per-iteration", "4"},
        {"--batch", "8"}};
    return with_options(make_kge(), std::move(arguments), small);
  }
  const Parsed parsed_ = [this](std::vector<std::string> arguments) { return parsed(std::move(arguments)); };
  [[nodiscard]] std::map<std::string, double> objectives(const std::vector<std::string>& arguments) const {
    return train_alone(*parsed(arguments));
  }
  static std::string saved(const std::string& prefix) {
    return contents(prefix + ".entities.tsv") + contents(prefix + ".relations.tsv");
  }
  /// Trains with some workers, and returns what was saved.
  std::string train(const ConsistencyModel& model, std::uint32_t workers, const std::string& name) {
    const auto application = parsed({"--output", path(name)});
    objectives_ = JobTest::train(*application, {.consistency = model, .workers = workers});
    return saved(path(name));
  }

  std::map<std::string, double> objectives_;
};

TEST_F(KgeTest, LearnsWhatFollows) {
  EXPECT_GT(objectives({}).at("test_mrr"), 0.8);
  EXPECT_GT(objectives({"--loss", "logistic", "--regularization", "0.01"}).at("test_mrr"), 0.6);
  EXPECT_GT(objectives({"--share-negatives", "8"}).at("test_mrr"), 0.8);
  EXPECT_GT(objectives({"--model", "rescal", "--dimension", "20"}).at("test_mrr"), 0.6);
}

TEST_F(KgeTest, DistMultKnowsNoDirection) {
  // DistMult gives a triple and its reverse the same score.
  EXPECT_LT(objectives({"--model", "distmult"}).at("test_mrr"), 0.8);
}

TEST_F(KgeTest, LearnsWithDistances) {
  // A circle is what RotatE can say best, and TransE not at all: for it the circle is cut.
  std::filesystem::create_directory(path("line"));
  for (const char* const name : {"train.txt", "valid.txt", "test.txt"}) {
    std::ifstream circle(path(name));
    std::ofstream line(path("line") + "/" + name);
    std::string head;
    std::string relation;
    std::string tail;
    while (circle >> head >> relation >> tail) {
      const int way = std::stoi(tail.substr(1)) - std::stoi(head.substr(1));
      if (way == std::stoi(relation)) line << head << '\t' << relation << '\t' << tail << '\n';
    }
  }
  constexpr double kKnowsNothing = 0.08;
  const std::vector<std::string> transe = {"--data",       path("line"), "--model",          "transe",
                                           "--iterations", "60",         "--regularization", "0"};
  const std::vector<std::string> rotate = {"--model", "rotate",           "--iterations",
                                           "60",      "--regularization", "0"};
  const auto with = [](std::vector<std::string> arguments, const std::vector<std::string>& more) {
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  const std::vector<std::string> logistic = {"--loss", "logistic", "--margin", "4"};
  EXPECT_GT(objectives(transe).at("test_mrr"), 3 * kKnowsNothing);
  EXPECT_GT(objectives(with(transe, logistic)).at("test_mrr"), 3 * kKnowsNothing);
  EXPECT_GT(objectives(rotate).at("test_mrr"), 0.7);
  EXPECT_GT(objectives(with(rotate, logistic)).at("test_mrr"), 0.5);
  const double of_job =
      JobTest::train(*parsed(with(rotate, {"--output", path("rotate")})), {.workers = 2}).at("test_mrr");
  EXPECT_GT(of_job, 0.6);
  EXPECT_DOUBLE_EQ(
      objectives({"--iterations", "0", "--load", path("rotate"), "--model", "rotate"}).at("test_mrr"),
      of_job);
}

TEST_F(KgeTest, EvaluatesWhenAsked) {
  Recorder recorder;
  expect_evaluations_when_due(parsed_, recorder, "valid_mrr", {"train_loss"});
  for (const IterationReport& report : recorder.reports) {
    EXPECT_EQ(report.items, 216);
    EXPECT_EQ(parsed({})->objectives(report.sums).count("test_mrr"), report.iteration == 7 ? 1U : 0U);
  }
  EXPECT_EQ(objectives({"--iterations", "2"}).count("valid_mrr"), 0U);
}

TEST_F(KgeTest, ObjectivesAreMeansOverQuestions) {
  const auto found = parsed({})->objectives({{"loss", 6},
                                             {"questions", 3},
                                             {"test_reciprocal_ranks", 1},
                                             {"test_hits_at_1", 0},
                                             {"test_hits_at_3", 2},
                                             {"test_hits_at_10", 4},
                                             {"test_ranked_questions", 4}});
  EXPECT_EQ(found, (std::map<std::string, double>{{"train_loss", 2},
                                                  {"test_mrr", 0.25},
                                                  {"test_hits_at_1", 0},
                                                  {"test_hits_at_3", 0.5},
                                                  {"test_hits_at_10", 1}}));
}

TEST_F(KgeTest, GoesOnFromWhatWasSaved) {
  const double mrr = objectives({"--output", path("model")}).at("test_mrr");
  const std::vector<std::string> little = {"--iterations", "1", "--learning-rate", "1e-9"};
  EXPECT_LT(objectives(little).at("test_mrr"), 0.5 * mrr);
  std::vector<std::string> loaded = little;
  loaded.insert(loaded.end(), {"--load", path("model")});
  EXPECT_NEAR(objectives(loaded).at("test_mrr"), mrr, 1e-3);
  EXPECT_EQ(objectives({"--iterations", "0", "--load", path("model")}).at("test_mrr"), mrr);
  // Each worker ranks its share of the test triples, and reports that as iteration 0.
  EXPECT_DOUBLE_EQ(
      JobTest::train(*parsed({"--iterations", "0", "--load", path("model")}), {.workers = 2}).at("test_mrr"),
      mrr);
  EXPECT_EQ(recorders_[1].reports.at(0).iteration, 0);
  ASSERT_TRUE(parsed(loaded)->check(2).ok());
  loaded.insert(loaded.end(), {"--dimension", "30"});  // not the dimension of the file
  EXPECT_THAT(std::string(parsed(loaded)->check(2).message()), HasSubstr("model.entities.tsv:1: expected"));
}

TEST_F(KgeTest, CountsAndSaysWhatNothingTrains) {
  Recorder none;
  ASSERT_TRUE(run_baseline(*parsed({"--iterations", "1"}), none).ok());
  EXPECT_EQ(none.summaries.at("untrained_entities"), 0);
  EXPECT_EQ(none.summaries.at("untrained_relations"), 0);
  EXPECT_THAT(none.lines, IsEmpty());
  std::ofstream(path("test.txt"), std::ios::app) << "n0\t+1\tstranger\nstranger\t+7\tn1\n";
  std::ofstream(path("valid.txt"), std::ios::app) << "n0\t+8\tn1\n";
  verbena::testing::write_file(path("entity2id.txt"), "1\nn0\t0\n");
  Recorder recorder;
  ASSERT_TRUE(run_baseline(*parsed({"--iterations", "1"}), recorder).ok());
  EXPECT_EQ(recorder.summaries.at("entities"), kEntities + 1);
  EXPECT_EQ(recorder.summaries.at("untrained_entities"), 1);
  EXPECT_EQ(recorder.summaries.at("relations"), 6);
  EXPECT_EQ(recorder.summaries.at("untrained_relations"), 2);
  EXPECT_THAT(recorder.lines,
              ElementsAre("1 of 61 entities and 2 of 6 relations are in no triple of train: nothing "
                          "is learnt of them",
                          "entity2id.txt: not used, because not each of the three files of triples begins "
                          "with a line with their number"));
}

/// Its programs number rows, so that each entity has one, also one that is in no triple.
TEST_F(KgeTest, ExportsAllRowsOfAFolderOfOpenKe) {
  std::filesystem::create_directory(path("openke"));
  const auto write = [&](std::string_view name, std::string_view text) {
    verbena::testing::write_file(path("openke") + "/" + std::string(name), text);
  };
  write("train2id.txt", "2\n4 1 1\n1 2 1\n");
  write("valid2id.txt", "1\n1 4 1\n");
  write("test2id.txt", "1\n1 4 1\n");
  write("entity2id.txt", "6\na\t0\nb\t1\nc\t2\nd\t3\ne\t4\nf\t5\n");
  write("relation2id.txt", "3\nr\t0\ns\t1\nt\t2\n");
  std::filesystem::create_directory(path("out"));
  const std::vector<std::string> arguments = {"--data", path("openke"),    "--dimension", "4",       "--seed",
                                              "7",      "--output-format", "openke",      "--output"};
  const auto to = [&](const std::string& prefix) {
    std::vector<std::string> with = arguments;
    with.push_back(prefix);
    return with;
  };
  const auto application = parsed(to(path("out/model")));
  ASSERT_TRUE(application->check(1).ok()) << application->check(1);
  Recorder recorder;
  ASSERT_TRUE(run_baseline(*application, recorder).ok());
  EXPECT_EQ(recorder.summaries.at("entities"), 6);
  EXPECT_EQ(recorder.summaries.at("untrained_entities"), 3);
  EXPECT_EQ(recorder.summaries.at("untrained_relations"), 2);
  const nlohmann::json parameters = nlohmann::json::parse(contents(path("out/model.json")));
  EXPECT_THAT(parameters.at("ent_re_embeddings.weight"), ::testing::SizeIs(6));
  EXPECT_THAT(parameters.at("rel_re_embeddings.weight"), ::testing::SizeIs(3));
  EXPECT_EQ(contents(path("out/entity2id.txt")), contents(path("openke/entity2id.txt")));
  EXPECT_EQ(contents(path("out/relation2id.txt")), contents(path("openke/relation2id.txt")));
  // The rows are in the order of the numbers: as text, each has its name.
  std::vector<std::string> as_text = {"--data", path("openke"), "--dimension",    "4",       "--seed",
                                      "7",      "--output",     path("out/text"), "--model", "complex"};
  ASSERT_FALSE(objectives(as_text).empty());
  std::istringstream lines(contents(path("out/text.entities.tsv")));
  std::string line;
  std::getline(lines, line);
  for (std::size_t n = 0; n < 6; ++n) {
    std::string entity;
    double first = 0;
    std::getline(lines, line);
    std::istringstream(line) >> entity >> first;
    EXPECT_EQ(entity, std::string(1, "abcdef"[n]));
    EXPECT_NEAR(parameters.at("ent_re_embeddings.weight").at(n).at(0).get<double>(), first, 1e-6);
  }
  // The data set has files of the same names.
  const std::string refused = "--output: expected another folder than that of --data";
  EXPECT_THAT(std::string(parsed(to(path("openke") + "/model"))->check(1).message()), HasSubstr(refused));
  EXPECT_THAT(std::string(parsed(to(path("out/../openke/model")))->check(1).message()), HasSubstr(refused));
  EXPECT_EQ(contents(path("openke/entity2id.txt")).substr(0, 5), "6\na\t0");
  EXPECT_TRUE(parsed({"--data", path("openke"), "--output", path("openke/model")})->check(1).ok());
}

TEST_F(KgeTest, TwoRunsGiveTheSameFiles) {
  expect_runs_to_be_equal(parsed_, saved, 60U * 32 * 5);
}

TEST_F(KgeTest, TwoWorkersUnderBspGiveTheSameFilesTwice) {
  const std::string first = train(Bsp{}, 2, "a");
  EXPECT_GT(first.size(), 60U * 32 * 5);
  EXPECT_EQ(objectives_.count("test_hits_at_10"), 1U);
  EXPECT_GT(objectives_.at("test_mrr"), 0.6);
  EXPECT_TRUE(first == train(Bsp{}, 2, "b"));
}

TEST_F(KgeTest, TheSameBitsHoweverRowsAreRead) {
  expect_the_same_bits_however_read(parsed_, saved, {"--iterations", "3"});
  expect_the_same_bits_however_read(parsed_, saved, {"--iterations", "3", "--lookahead", "0"});
}

TEST_F(KgeTest, TheSameBitsInTwoHalves) {
  expect_the_same_bits_in_two_halves(parsed_, saved, {"--iterations", "3"}, {"--iterations", "6"});
}

TEST_F(KgeTest, TheSameBitsWhenResumed) {
  expect_the_same_bits_when_resumed(parsed_, saved, {"--iterations", "8", "--evaluate-every", "3"}, 2);
}

/// As many as the job's workers and model need, but no more than its 216 triples have room for.
TEST_F(KgeTest, DataAndWorkersDecideTheClocks) {
  const auto clocks = [&](const ConsistencyModel& model, const std::string& given) {
    const auto application = parsed({"--iterations", "2", "--clocks-per-iteration", given});
    JobTest::train(*application, {.consistency = model, .workers = 2});
    return recorders_[0].summaries.at("clocks_per_iteration");
  };
  EXPECT_EQ(clocks(Bsp{}, "0"), 1);
  EXPECT_EQ(clocks(Ssp{.staleness = 40}, "0"), 2);
  EXPECT_EQ(clocks(Ssp{.staleness = 1'000}, "0"), 3) << "32 triples of each worker in a clock";
  EXPECT_EQ(clocks(Bsp{}, "9"), 9);
  EXPECT_TRUE(parsed({"--clocks-per-iteration", "0"})->leaves_open("clocks-per-iteration"));
  EXPECT_FALSE(parsed({})->leaves_open("clocks-per-iteration")) << "4, by hand";
}

/// Of those that were saved it has where it is in each.
TEST_F(KgeTest, GoesOnWithTheClocksThatWereSaved) {
  const Job job{.consistency = Bsp{}, .workers = 2, .checkpoints = {.folder = path("saved"), .every = 1}};
  Job first = job;
  first.stop_after = 2;
  JobTest::train(*parsed({"--clocks-per-iteration", "7"}), first);
  const absl::StatusOr<CheckpointSummary> saved = newest_checkpoint(path("saved"));
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(saved->notes.at("--clocks-per-iteration"), "7");
  const auto application = parsed({"--clocks-per-iteration", "0"});
  EXPECT_EQ(application->chosen("clocks-per-iteration"), std::nullopt);
  ASSERT_TRUE(application->goes_on_from(saved->notes).ok());
  EXPECT_EQ(application->chosen("clocks-per-iteration"), "7");
  EXPECT_FALSE(application->may_change_on_resume("clocks-per-iteration"));
  Job second = job;
  second.resume = saved->path;
  EXPECT_GT(JobTest::train(*application, second).at("test_mrr"), 0.6);
  EXPECT_EQ(recorders_[0].summaries.at("clocks_per_iteration"), 7);
  EXPECT_EQ(newest_checkpoint(path("saved"))->notes.at("--clocks-per-iteration"), "7");
}

TEST_F(KgeTest, RowsThatMoveGoOn) {
  for (const auto& [allocation, model] :
       {std::pair<const char*, ConsistencyModel>("localize", Sequential{}), {"intent", Asp{}}}) {
    SCOPED_TRACE(allocation);
    const auto application = parsed({"--allocation", allocation});
    const auto found = stop_and_resume(*application, {.consistency = model, .workers = 3}, 4);
    EXPECT_GT(found.at("test_mrr"), 0.5);
  }
}

TEST_F(KgeTest, OneWorkerLearnsWhatThePlainLoopDoes) {
  const double alone = objectives({}).at("test_mrr");
  train(Bsp{}, 1, "worker");
  EXPECT_NEAR(objectives_.at("test_mrr"), alone, 0.1);
  EXPECT_GT(objectives_.at("test_mrr"), 0.7);
}

TEST_F(KgeTest, TrainsUnderEveryModel) {
  expect_to_learn_under_every_model(parsed_, "test_mrr", 0.3);
}

TEST_F(KgeTest, WorkersMeetAsOftenAsTheyAreToldTo) {
  expect_to_meet(parsed_);
}

TEST_F(KgeTest, LearnsWithRowsThatMove) {
  // The mini-batches are small. With larger ones, all nodes would need all of these few rows all the time.
  expect_to_learn_with_rows_that_move(
      parsed_,
      {.allocation = "localize",
       .consistency = Sequential{},
       .lookaheads = {"0", "1", "3"},
       .arguments = {"--batch", "1", "--negatives", "1", "--iterations", "60"}},
      "test_mrr", 0.3);
  // With a single worker, each row comes once.
  JobTest::train(*parsed({"--allocation", "localize"}), {.consistency = Sequential{}, .workers = 1});
  EXPECT_EQ(statistics_[0].rows_localized, 32U)
      << "the rows of the second server: 30 entities and 2 relations";
}

TEST_F(KgeTest, SharesOutWhatLeavesLessToMove) {
  const auto shared_out = [&](std::vector<std::string> arguments, const ConsistencyModel& model) {
    arguments.insert(arguments.end(), {"--iterations", "1"});
    JobTest::train(*parsed(std::move(arguments)), {.consistency = model, .workers = 2});
    return recorders_[0].summaries.at("shared_out");
  };
  EXPECT_EQ(shared_out({"--allocation", "localize"}, Sequential{}), "entities");
  EXPECT_EQ(shared_out({"--allocation", "intent"}, Asp{}), "entities");
  // In RESCAL a relation is a matrix, so its row is much longer than an entity's.
  EXPECT_EQ(shared_out({"--allocation", "localize", "--model", "rescal"}, Sequential{}), "relations");
  EXPECT_EQ(shared_out({}, Asp{}), "relations") << "rows do not move";
  EXPECT_EQ(shared_out({"--allocation", "localize", "--share-out", "relations"}, Sequential{}), "relations");
  EXPECT_EQ(shared_out({"--share-out", "entities"}, Asp{}), "entities");
}

TEST_F(KgeTest, LearnsWithIntents) {
  expect_to_learn_with_rows_that_move(
      parsed_, {.allocation = "intent", .consistency = Asp{}, .lookaheads = {"0", "1", "6"}}, "test_mrr",
      0.3);
  // With a single worker, each row comes once.
  JobTest::train(*parsed({"--allocation", "intent"}), {.consistency = Asp{}, .workers = 1});
  EXPECT_EQ(statistics_[0].rows_moved_by_intent, 32U)
      << "the rows of the second server: 30 entities and 2 relations";
}

TEST_F(KgeTest, WrongAnswersMayBeNearOnes) {
  // With several workers, timing decides which rows are near. With one worker it does not, since rows only
  // come.
  const auto saved_with = [&](const std::string& share) {
    const auto application = parsed(
        {"--allocation", "localize", "--lookahead", "0", "--near-negatives", share, "--output", path(share)});
    EXPECT_TRUE(application->check(1).ok());
    EXPECT_GT(JobTest::train(*application, {.consistency = Sequential{}, .workers = 1}).at("test_mrr"), 0.3)
        << share;
    return saved(path(share));
  };
  const std::string with_none = saved_with("0");
  EXPECT_EQ(saved_with("0"), with_none) << "the same options must save the same bytes";
  EXPECT_NE(saved_with("1"), with_none);
}

TEST_F(KgeTest, RowsMoveWhereTheModelLetsThem) {
  expect_allocations_to_need_their_model(parsed_);
  EXPECT_EQ(parsed({"--allocation", "wander"})->check_consistency(Bsp{}).message(),
            "--allocation: expected auto, static, localize or intent, found wander");
}

TEST_F(KgeTest, EachWorkerTrainsItsRelations) {
  train(Bsp{}, 3, "model");
  EXPECT_EQ(items(1), 216);
}

TEST_F(KgeTest, IdleWorkersChangeLittle) {
  // With one fact, only one worker has data.
  std::ofstream(path("train.txt")) << "a\tr\tb\n";
  std::ofstream(path("valid.txt")) << "b\tr\tc\n";
  std::ofstream(path("test.txt")) << "c\tr\ta\n";
  const Parsed on_one = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--iterations", "20", "--clocks-per-iteration", "1"});
    return parsed(std::move(arguments));
  };
  // The negatives that are drawn depend on the worker.
  expect_idle_workers_to_change_little(on_one, "train_loss", 0.1);
}

TEST_F(KgeTest, StopsWhenAskedAndWritesNothing) {
  expect_to_stop_without_files(parsed_);
}

TEST_F(KgeTest, SaysWhenItDiverges) {
  expect_to_say_that_it_diverges(*parsed({"--learning-rate", "1e30", "--loss", "logistic"}));
}

TEST_F(KgeTest, RefusesImpossibleOptions) {
  const Refusals refusals = {
      {{"--model", "transh"}, "--model: expected complex, distmult, rescal, transe or rotate, found transh"},
      {{"--model", "rotate", "--dimension", "31"},
       "--dimension: expected an even number for rotate, found 31"},
      {{"--model", "transe", "--margin", "3"},
       "--margin: expected only with --model transe or rotate and --loss logistic"},
      {{"--loss", "logistic", "--margin", "3"}, "--margin: expected only with --model transe or rotate"},
      {{"--model", "transe", "--loss", "logistic", "--margin", "-1"},
       "--margin: expected 0 to 10000, found -1"},
      {{"--model", "rotate", "--loss", "logistic", "--margin", "1e30"},
       "--margin: expected 0 to 10000, found"},
      {{"--output-format", "npy"}, "--output-format: expected only with --output"},
      {{"--output", path("model"), "--output-format", "pickle"},
       "--output-format: expected text, npy, safetensors, openke or dgl-ke, found pickle"},
      {{"--output", path("model"), "--output-format", "dgl-ke"},
       "--output: expected another folder than that of --data, whose files of names --output-format dgl-ke"},
      {{"--predict", path("answers")}, "--predict: expected only with --ask"},
      {{"--top-answers", "3"}, "--top-answers: expected only with --ask"},
      {{"--ask", path("questions")},
       "--batch, --clocks-per-iteration, --dimension, --iterations, --regularization: expected only without "
       "--ask, which trains nothing"},
      {{"--loss", "hinge"}, "--loss: expected softmax or logistic, found hinge"},
      {{"--dimension", "0"}, "--dimension: expected 1 to 65535, found 0"},
      {{"--dimension", "31"}, "--dimension: expected an even number for complex, found 31"},
      {{"--model", "rescal", "--dimension", "2000"}, "--dimension: expected 1 to 1024, found 2000"},
      {{"--negatives", "0"}, "--negatives: expected 1 to 65535, found 0"},
      {{"--share-negatives", "0"}, "--share-negatives: expected 1 or more, found 0"},
      {{"--share-out", "none"}, "--share-out: expected auto, relations or entities, found none"},
      {{"--iterations", "0"}, "--iterations: expected 1 or more, or with --load 0, found 0"},
      {{"--iterations", "0", "--load", path("none"), "--output", path("model")},
       path("none.entities.tsv") + ": cannot be read"},
      {{"--learning-rate", "nan"}, "--learning-rate: a number is expected"},
      {{"--regularization", "-1"}, "--regularization: expected 0 or more, found -1"},
      {{"--relation-regularization", "inf"}, "--relation-regularization: a number is expected, not \"inf\""},
      {{"--batch", "0"}, "--batch: expected 1 to 65535, found 0"},
      {{"--clocks-per-iteration", "-1"}, "--clocks-per-iteration: expected 0 to 100000, found -1"},
      {{"--evaluate-every", "-1"}, "--evaluate-every: expected 0 or more, found -1"},
      {{"--barrier-every", "-1"}, "--barrier-every: expected 0 or more, found -1"},
      {{"--near-negatives", "1.5", "--allocation", "intent"}, "--near-negatives: expected 0 to 1, found 1.5"},
      {{"--near-negatives", "1"}, "--near-negatives needs rows that move"},
      {{"--lookahead", "2"}, "--lookahead: expected 0 to 1 with --allocation static, found 2"},
      {{"--lookahead", "-1", "--allocation", "localize"}, "--lookahead: expected 0 to 1000 with"},
      {{"--output", path("missing/model")}, path("missing")},
      {{"--load", path("missing")}, path("missing.entities.tsv")},
  };
  expect_refusals(parsed_, refusals);
  EXPECT_TRUE(parsed({"--model", "distmult", "--dimension", "31"})->check(4).ok());
}

}  // namespace
}  // namespace verbena::apps
