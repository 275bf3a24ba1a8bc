// mf as workers of a real job.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "apps/data/generate_ratings.hpp"
#include "apps/mf/mf.hpp"
#include "tests/apps/job_fixture.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::apps {
namespace {

constexpr double kRatings = 40'000;
constexpr int kIterations = 20;

class MfWorkersTest : public JobTest {
 protected:
  MfWorkersTest() {
    const GenerateRatingsOptions options{.users = 400, .items = 300, .ratings = 40'000, .rank = 3};
    const absl::Status status = generate_ratings(options, folder_.path("ratings"));
    EXPECT_TRUE(status.ok()) << status;
  }

  /// Trains; what was saved.
  std::string train(const ConsistencyModel& model, std::uint32_t workers) {
    const std::string prefix = folder_.path(consistency::to_string(model));
    const auto application =
        with_options(make_mf(), {"--data", folder_.path("ratings"), "--rank", "3", "--iterations",
                                 std::to_string(kIterations), "--output", prefix});
    objectives_ = JobTest::train(*application, {.consistency = model, .workers = workers});
    return testing::contents(prefix + ".users.tsv") + testing::contents(prefix + ".items.tsv");
  }

  std::map<std::string, double> objectives_;
};

TEST_F(MfWorkersTest, AloneABspIsBsp) {
  const std::string bsp = train(Bsp{}, 1);
  EXPECT_GT(bsp.size(), 1000U);
  EXPECT_EQ(train(ABsp{}, 1), bsp);
}

TEST_F(MfWorkersTest, TrainsThoughIterationsEndEarly) {
  train(Bsp{}, 3);
  const double bsp = objectives_.at("test_rmse");
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    double items = 0;
    for (const Recorder& recorder : recorders_)
      items += recorder.reports[static_cast<std::size_t>(iteration)].items;
    EXPECT_NEAR(items, 0.9 * kRatings, 500) << "without the test ratings";
  }
  train(ABsp{}, 3);
  for (const Recorder& recorder : recorders_) {
    for (const IterationReport& report : recorder.reports) EXPECT_GT(report.items, 0);
  }
  // However late a worker is, each of its blocks moves on by a mini-batch.
  EXPECT_LT(objectives_.at("test_rmse"), 1.5 * bsp);
}

}  // namespace
}  // namespace verbena::apps
