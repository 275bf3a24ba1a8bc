// `verbena run kge --load --ask`: what is answered is what the formulas of the scores say.
#include "apps/kge/predictions.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "apps/kge/kge.hpp"
#include "tests/apps/job_fixture.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::apps::kge {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using verbena::testing::contents;
using verbena::testing::write_file;

/// Entities a to e and relations r and s, with two numbers each; a folder of known triples.
class KgePredictionsTest : public JobTest {
 protected:
  KgePredictionsTest() {
    write_model("distmult");
    std::filesystem::create_directory(path("known"));
    write_file(path("known/train.txt"), "a\tr\tb\na\tr\tz\n");
    write_file(path("known/valid.txt"), "c\tr\tb\n");
    write_file(path("known/test.txt"), "b\ts\ta\n");
  }
  void write_model(std::string_view model) const {
    write_file(path("model.entities.tsv"),
               fmt::format("# verbena kge 1\tmodel={}\tdimension=2\tentities=5\n"
                           "a\t1\t0.5\nb\t-0.5\t2\nc\t0.25\t0.75\nd\t-1\t-1\ne\t3\t-0.5\n",
                           model));
    const bool has_angles = model == "rotate";
    write_file(path("model.relations.tsv"),
               fmt::format("# verbena kge 1\tmodel={}\tdimension=2\trelations=2\n{}", model,
                           has_angles ? "r\t1.5\ns\t-0.25\n" : "r\t1.5\t-2\ns\t-0.25\t1\n"));
  }
  [[nodiscard]] std::unique_ptr<Application> asking(std::vector<std::string> arguments,
                                                    const std::string& questions) const {
    write_file(path("questions"), questions);
    arguments.insert(arguments.begin(), {"--load", path("model"), "--ask", path("questions")});
    return with_options(make_kge(), std::move(arguments));
  }
  /// The lines that were written: head, relation, tail, score.
  [[nodiscard]] std::vector<std::tuple<std::string, std::string, std::string, double>> answers(
      std::vector<std::string> arguments, const std::string& questions) const {
    arguments.insert(arguments.end(), {"--predict", path("answers")});
    const auto application = asking(std::move(arguments), questions);
    const absl::Status checked = application->check(1);
    EXPECT_TRUE(checked.ok()) << checked;
    EXPECT_EQ(application->iterations(), 0);
    Recorder recorder;
    const absl::Status status = run_baseline(*application, recorder);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_THAT(recorder.lines, ::testing::Each(HasSubstr("are ignored")));
    std::istringstream lines(contents(path("answers")));
    std::vector<std::tuple<std::string, std::string, std::string, double>> result;
    std::string head;
    std::string relation;
    std::string tail;
    for (double score = 0; lines >> head >> relation >> tail >> score;)
      result.emplace_back(head, relation, tail, score);
    return result;
  }
};

TEST_F(KgePredictionsTest, AnswersAreTheBestOnesInTheirOrder) {
  // DistMult; a with r is (1.5, -1): b −2.75, c −0.375, d −0.5, e 5, a 1.
  EXPECT_THAT(answers({"--top-answers", "3"}, "a\tr\t?\n"),
              ElementsAre(std::tuple("a", "r", "e", 5), std::tuple("a", "r", "a", 1),
                          std::tuple("a", "r", "c", -0.375)));
  // b with s is (0.125, 2): a 1.125, b 3.9375, c 1.53125, d −2.125, e −0.625. All, and then a score.
  EXPECT_THAT(answers({}, "?\ts\tb\na\tr\tb\n"),
              ElementsAre(std::tuple("b", "s", "b", 3.9375), std::tuple("c", "s", "b", 1.53125),
                          std::tuple("a", "s", "b", 1.125), std::tuple("e", "s", "b", -0.625),
                          std::tuple("d", "s", "b", -2.125), std::tuple("a", "r", "b", -2.75)));
}

TEST_F(KgePredictionsTest, WhatIsKnownIsNoAnswer) {
  // "a r z" has an entity that the embeddings lack.
  EXPECT_THAT(answers({"--data", path("known"), "--top-answers", "4"}, "a\tr\t?\n"),
              ElementsAre(std::tuple("a", "r", "e", 5), std::tuple("a", "r", "a", 1),
                          std::tuple("a", "r", "c", -0.375), std::tuple("a", "r", "d", -0.5)));
  const auto heads = answers({"--data", path("known")}, "?\tr\tb\n");
  ASSERT_EQ(heads.size(), 3U);
  for (const auto& [head, relation, tail, score] : heads) EXPECT_TRUE(head != "a" && head != "c") << head;
  EXPECT_THAT(answers({"--data", path("known")}, "a\tr\tb\n"), ElementsAre(std::tuple("a", "r", "b", -2.75)))
      << "scores of known triples are told";
}

TEST_F(KgePredictionsTest, SaysWhatItIgnores) {
  Recorder recorder;
  ASSERT_TRUE(run_baseline(*asking({"--data", path("known")}, "a\tr\tb\n"), recorder).ok());
  EXPECT_EQ(recorder.summaries.at("ignored_triples"), 1);
  EXPECT_THAT(
      recorder.lines,
      ::testing::Contains("1 of 4 triples of --data have names that are not in the embeddings, and are "
                          "ignored"));
  for (const char* const name : {"train.txt", "valid.txt", "test.txt"})
    write_file(path("known") + "/" + name, "x\tr\ty\n");
  EXPECT_EQ(asking({"--data", path("known")}, "a\tr\tb\n")->check(1).message(),
            path("known") + ": expected triples of entities and relations of the embeddings " +
                path("model") + ", found 3 triples without any");
}

TEST_F(KgePredictionsTest, EveryModelScoresByItsFormula) {
  using Complex = std::complex<double>;
  const std::array<double, 2> a = {1, 0.5};
  const std::array<double, 2> e = {3, -0.5};
  const std::array<double, 2> r = {1.5, -2};
  const Complex ca(a[0], a[1]);
  const Complex ce(e[0], e[1]);
  const std::map<std::string, double> expected = {
      {"complex", (ca * Complex(r[0], r[1]) * std::conj(ce)).real()},
      {"distmult", a[0] * r[0] * e[0] + a[1] * r[1] * e[1]},
      {"transe", -std::fabs(a[0] + r[0] - e[0]) - std::fabs(a[1] + r[1] - e[1])},
      {"rotate", -std::abs(ca * std::polar(1.0, r[0]) - ce)}};
  for (const auto& [model, score] : expected) {
    SCOPED_TRACE(model);
    write_model(model);
    const auto found = answers({}, "a\tr\te\n");
    ASSERT_EQ(found.size(), 1U);
    EXPECT_NEAR(std::get<3>(found[0]), score, 1e-5);
    // The answer has the same score whichever side is asked for.
    for (const char* const question : {"a\tr\t?\n", "?\tr\te\n"}) {
      const auto all = answers({}, question);
      const auto one = std::ranges::find_if(
          all, [](const auto& answer) { return std::get<0>(answer) == "a" && std::get<2>(answer) == "e"; });
      ASSERT_NE(one, all.end());
      EXPECT_NEAR(std::get<3>(*one), score, 1e-5);
    }
  }
}

TEST_F(KgePredictionsTest, PrintsIfThereIsNoFile) {
  Recorder recorder;
  ASSERT_TRUE(run_baseline(*asking({"--top-answers", "1"}, "a\tr\t?\n?\tr\ta\n"), recorder).ok());
  EXPECT_THAT(recorder.lines, ElementsAre("a r e 5.0000", "e r a 5.0000"));
  EXPECT_EQ(recorder.summaries.at("questions"), 2);
  EXPECT_EQ(recorder.reports.at(0).iteration, 0);
}

TEST_F(KgePredictionsTest, WorkersOfOtherRanksHaveNothingToDo) {
  JobTest::train(*asking({}, "a\tr\tb\n"), {.workers = 2});
  EXPECT_EQ(recorders_[0].lines.size(), 1U);
  EXPECT_EQ(recorders_[1].lines.size(), 0U);
}

TEST_F(KgePredictionsTest, AsksWhatWasTrained) {
  const auto train = with_options(make_kge(), {"--data", path("known"), "--dimension", "4", "--iterations",
                                               "1", "--output", path("new")});
  Recorder recorder;
  ASSERT_TRUE(run_baseline(*train, recorder).ok());
  write_file(path("questions"), "z\ts\t?\n");
  const auto application =
      with_options(make_kge(), {"--load", path("new"), "--ask", path("questions"), "--top-answers", "2"});
  ASSERT_TRUE(application->check(1).ok());
  Recorder answers;
  ASSERT_TRUE(run_baseline(*application, answers).ok());
  EXPECT_EQ(answers.lines.size(), 2U);
}

TEST_F(KgePredictionsTest, WhatDoesNotFitIsRefused) {
  const std::string place = path("questions");
  for (const auto& [questions, expected] : std::to_array<std::pair<std::string, std::string>>({
           {"",
            ":1: expected head<TAB>relation<TAB>tail, of which the head or the tail may be \"?\", found "
            "\"no such line\""},
           {"a\tr\n", ":1: expected head<TAB>relation<TAB>tail"},
           {"a\tr\tb\tc\n", ":1: expected head<TAB>relation<TAB>tail"},
           {"a\tr\tb\n?\tr\t?\n", ":2: expected \"?\" for the head or for the tail, found"},
           {"a\t?\tb\n", ":1: expected the name of a relation of the embeddings, found \"?\""},
           {"a\tr\tx\n", ":1: expected the name of an entity of the embeddings, or \"?\", found \"x\""},
           {"a\tr\tb\n\na\tr\tb\n", ":3: expected head<TAB>relation<TAB>tail"},
       })) {
    const absl::Status status = asking({}, questions)->check(1);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(place + expected));
  }
  const Parsed parsed = [&](std::vector<std::string> arguments) {
    return asking(std::move(arguments), "a\tr\t?\n\n");
  };
  expect_refusals(parsed, {{{"--top-answers", "0"}, "--top-answers: expected 1 or more, found 0"},
                           {{"--model", "transe"}, "--model: expected only without --ask"},
                           {{"--data", path("nothing")}, path("nothing")},
                           {{"--predict", path("missing/answers")}, path("missing")}});
  EXPECT_TRUE(parsed({})->check(1).ok());
  EXPECT_EQ(with_options(make_kge(), {"--ask", place})->check(1).message(),
            "--ask: expected --load, the embeddings that are asked, found none");
  EXPECT_EQ(with_options(make_kge(), {})->check(1).message(),
            "--data: expected a folder of triples, found none");
}

}  // namespace
}  // namespace verbena::apps::kge
