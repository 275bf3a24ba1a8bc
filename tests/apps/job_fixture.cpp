#include "tests/apps/job_fixture.hpp"

#include <chrono>
#include <cmath>
#include <future>

namespace verbena::apps {

std::map<std::string, double> JobTest::train_alone(Application& application) {
  Recorder recorder;
  const absl::Status status = run_baseline(application, recorder);
  EXPECT_TRUE(status.ok()) << status;
  if (recorder.reports.empty()) return {};
  return application.objectives(recorder.reports.back().sums);
}

std::map<std::string, double> JobTest::train(Application& application, const Job& job) {
  recorders_ = std::vector<Recorder>(job.workers);
  statistics_ = std::vector<SessionStatistics>(job.workers);
  verbena::testing::ClusterOptions options = verbena::testing::over(job.maps, job.servers, job.workers);
  options.lanes = job.lanes;
  if (job.maps == verbena::testing::Maps::kAll) options.read_path = job.read_path;
  const verbena::testing::ClusterResult result =
      verbena::testing::run_cluster(options, [&](Session& session) {
        const std::uint32_t rank = session.rank();
        Recorder& recorder = recorders_[rank];
        if (job.after_iteration)
          recorder.after_iteration = [&](std::int64_t iteration) { job.after_iteration(rank, iteration); };
        Slowdown slowdown(job.slow, rank);
        WorkerContext context{session, job.consistency, recorder, recorder.stop, slowdown};
        absl::Status status = application.run_worker(context);
        statistics_[rank] = session.statistics();
        return status;
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
  std::map<std::string, double> sums;
  for (const Recorder& recorder : recorders_) {
    if (recorder.reports.empty()) continue;
    for (const auto& [name, value] : recorder.reports.back().sums) sums[name] += value;
  }
  return application.objectives(sums);
}

double JobTest::items(std::size_t iteration) const {
  double items = 0;
  for (const Recorder& recorder : recorders_) items += recorder.reports.at(iteration - 1).items;
  return items;
}

void JobTest::expect_to_learn_under_every_model(const Parsed& parsed, const std::string& objective,
                                                double least) {
  for (const ConsistencyModel& model :
       {ConsistencyModel(Ssp{.staleness = 1}), ConsistencyModel(Essp{.staleness = 1}),
        ConsistencyModel(ABsp{}), ConsistencyModel(Asp{}), ConsistencyModel(Sequential{})}) {
    const auto found = train(*parsed({"--output", path("model")}), {.consistency = model, .workers = 3});
    EXPECT_GT(found.at(objective), least) << to_string(model);
  }
}

void JobTest::expect_to_learn_with_rows_that_move(const Parsed& parsed, const Moving& moving,
                                                  const std::string& objective, double least) {
  std::vector<std::string> lookaheads = moving.lookaheads;
#ifdef VERBENA_SANITIZED
  lookaheads = {lookaheads.back()};  // the others wait for each move, which takes minutes
#endif
  for (const std::string& lookahead : lookaheads) {
    SCOPED_TRACE("lookahead " + lookahead);
    std::vector<std::string> arguments = {"--allocation", moving.allocation, "--lookahead", lookahead};
    arguments.insert(arguments.end(), moving.arguments.begin(), moving.arguments.end());
    const auto application = parsed(arguments);
    ASSERT_TRUE(application->check_consistency(moving.consistency).ok());
    ASSERT_TRUE(application->check(3).ok());
    const auto found = train(*application, {.consistency = moving.consistency, .workers = 3});
    EXPECT_GT(found.at(objective), least);
    if (moving.allocation != "localize") continue;
    EXPECT_GT(statistics_[0].rows_localized + statistics_[2].rows_localized, 0U)
        << "workers 0 and 2 are on one node";
    EXPECT_GT(statistics_[1].rows_localized, 0U);
  }
}

void JobTest::expect_the_same_bits_however_read(
    const Parsed& parsed, const std::function<std::string(const std::string& path)>& saved,
    const std::vector<std::string>& arguments) {
  std::vector<std::string> all = arguments;
  all.insert(all.end(), {"--output", path("read")});
  const auto saved_by = [&](const Job& job) {
    train(*parsed(all), job);
    return saved(path("read"));
  };
  const std::string in_place = saved_by({.workers = 3, .read_path = ReadPath::kInPlace});
  EXPECT_GT(in_place.size(), 100U);
  EXPECT_TRUE(in_place == saved_by({.workers = 3, .read_path = ReadPath::kInPlace, .servers = 1, .lanes = 3}))
      << "other servers and lanes";
  EXPECT_TRUE(in_place == saved_by({.workers = 3, .read_path = ReadPath::kCached})) << "cached";
  EXPECT_TRUE(in_place == saved_by({.workers = 3, .read_path = ReadPath::kCached, .servers = 3, .lanes = 2}))
      << "cached, from other servers and lanes";
  EXPECT_TRUE(in_place == saved_by({.workers = 3, .maps = verbena::testing::Maps::kNone}))
      << "from a network";
}

void JobTest::expect_idle_workers_to_change_little(const Parsed& parsed, const std::string& objective,
                                                   double tolerance) {
  for (const ConsistencyModel& model :
       {ConsistencyModel(Bsp{}), ConsistencyModel(ABsp{}), ConsistencyModel(Ssp{.staleness = 1}),
        ConsistencyModel(Essp{.staleness = 1}), ConsistencyModel(BoundedDelay{.delay = 1}),
        ConsistencyModel(Asp{}), ConsistencyModel(Sequential{})}) {
    SCOPED_TRACE(to_string(model));
    const double alone = train(*parsed({}), {.consistency = model, .workers = 1}).at(objective);
    const double with_three = train(*parsed({}), {.consistency = model, .workers = 4}).at(objective);
    EXPECT_NEAR(with_three, alone, tolerance * std::abs(alone));
    int idle = 0;
    for (const Recorder& recorder : recorders_) idle += recorder.reports.back().items == 0 ? 1 : 0;
    EXPECT_EQ(idle, 3);
  }
}

void JobTest::expect_to_meet(const Parsed& parsed) {
  for (const bool meets : {true, false}) {
    // Worker 1 waits after the first of three iterations. Does worker 0 finish its second one meanwhile?
    std::promise<void> reached_second;
    std::future<void> second = reached_second.get_future();
    bool is_ahead = false;
    const Job job{.consistency = Asp{},
                  .workers = 2,
                  .after_iteration = [&](std::uint32_t rank, std::int64_t iteration) {
                    if (rank == 0 && iteration == 2) reached_second.set_value();
                    if (rank == 1 && iteration == 1) {
                      const auto patience = meets ? std::chrono::milliseconds(300) : std::chrono::minutes(1);
                      is_ahead = second.wait_for(patience) == std::future_status::ready;
                    }
                  }};
    train(*parsed({"--iterations", "3", "--evaluate-every", "0", "--barrier-every", meets ? "1" : "0"}), job);
    EXPECT_EQ(is_ahead, !meets);
  }
}

}  // namespace verbena::apps
