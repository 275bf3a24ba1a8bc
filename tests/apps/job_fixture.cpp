#include "tests/apps/job_fixture.hpp"

#include <gmock/gmock.h>

#include <chrono>
#include <cmath>
#include <filesystem>
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
  options.resume = job.resume;
  if (job.maps == verbena::testing::Maps::kAll) options.read_path = job.read_path;
  const bool saves = !job.checkpoints.folder.empty();
  const std::atomic<bool> never = false;
  std::atomic<std::uint64_t> agreement = 0;
  const verbena::testing::ClusterResult result =
      verbena::testing::run_cluster(options, [&](Session& session) -> absl::Status {
        const std::uint32_t rank = session.rank();
        Recorder& recorder = recorders_[rank];
        if (job.stop_after >= 0) recorder.stop_after = job.stop_after + rank;
        if (job.after_iteration)
          recorder.after_iteration = [&](std::int64_t iteration) { job.after_iteration(rank, iteration); };
        Slowdown slowdown(job.slow, rank);
        Checkpoints checkpoints(session, recorder, job.checkpoints);
        if (saves) checkpoints.save_at_stop(recorder.stop, agreement);
        WorkerContext context{session,  job.consistency, recorder, saves ? never : recorder.stop,
                              slowdown, checkpoints};
        absl::Status status = checkpoints.load();
        if (status.ok()) status = application.run_worker(context);
        statistics_[rank] = session.statistics();
        if (checkpoints.has_stopped()) return absl::OkStatus();
        if (status.ok()) checkpoints.finish();
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

void JobTest::expect_the_same_bits_when_resumed(
    const Parsed& parsed, const std::function<std::string(const std::string& path)>& saved,
    const std::vector<std::string>& arguments, std::int64_t stop_after) {
  const auto saved_by = [&](const std::string& name, Job job) {
    std::vector<std::string> all = arguments;
    all.insert(all.end(), {"--output", path(name)});
    job.workers = 3;
    train(*parsed(all), job);
    return saved(path(name));
  };
  for (const char* const folder : {"at a stop", "by turns"}) std::filesystem::remove_all(path(folder));
  const std::string whole = saved_by("whole", {});
  EXPECT_GT(whole.size(), 100U);
  const auto iterations = static_cast<std::int64_t>(recorders_[0].reports.size());

  EXPECT_EQ(saved_by("stopped", {.checkpoints = {.folder = path("at a stop"), .every = iterations + 1},
                                 .stop_after = stop_after}),
            "");
  EXPECT_THAT(recorders_[0].lines,
              ::testing::Contains(::testing::HasSubstr("saved as " + path("at a stop"))));
  const auto done = static_cast<std::int64_t>(recorders_[0].reports.size());
  EXPECT_GE(done, stop_after + 2) << "the last worker to be asked";
  EXPECT_LT(done, iterations);
  for (const Recorder& recorder : recorders_) EXPECT_EQ(recorder.reports.back().iteration, done);
  absl::StatusOr<CheckpointSummary> checkpoint = newest_checkpoint(path("at a stop"));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(checkpoint->notes.at(kIterationNote), std::to_string(done));
  EXPECT_TRUE(whole == saved_by("resumed", {.resume = checkpoint->path})) << "after a stop";
  EXPECT_EQ(recorders_[0].reports.front().iteration, done + 1);
  EXPECT_EQ(recorders_[0].reports.back().iteration, iterations);

  EXPECT_TRUE(whole == saved_by("saved", {.checkpoints = {.folder = path("by turns"), .every = stop_after}}))
      << "saved from time to time";
  checkpoint = newest_checkpoint(path("by turns"));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(checkpoint->notes.at(kIterationNote), std::to_string((iterations - 1) / stop_after * stop_after));
  EXPECT_TRUE(whole == saved_by("resumed", {.servers = 1, .lanes = 3, .resume = checkpoint->path}))
      << "on another number of servers";
}

void JobTest::expect_the_same_bits_in_two_halves(
    const Parsed& parsed, const std::function<std::string(const std::string& path)>& saved,
    const std::vector<std::string>& once, const std::vector<std::string>& twice) {
  std::filesystem::remove_all(path("half"));
  const auto saved_by = [&](std::vector<std::string> arguments, Job job) {
    arguments.insert(arguments.end(), {"--output", path("halves")});
    job.workers = 3;
    train(*parsed(arguments), job);
    return saved(path("halves"));
  };
  const std::string whole = saved_by(twice, {});
  const std::int64_t half = parsed(once)->iterations();
  EXPECT_EQ(parsed(twice)->iterations(), 2 * half);
  const Job first{.checkpoints = {.folder = path("half"), .every = half, .after_last = true}};
  EXPECT_FALSE(whole == saved_by(once, first));
  const absl::StatusOr<CheckpointSummary> checkpoint = newest_checkpoint(path("half"));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_TRUE(whole == saved_by(twice, {.resume = checkpoint->path}));
}

std::map<std::string, double> JobTest::stop_and_resume(Application& application, Job job,
                                                       std::int64_t stop_after) {
  std::filesystem::remove_all(path("checkpoints"));
  job.checkpoints = {.folder = path("checkpoints"), .every = stop_after};
  job.stop_after = stop_after;
  train(application, job);
  const std::int64_t done = recorders_[0].reports.back().iteration;
  EXPECT_LT(done, application.iterations());
  for (const Recorder& recorder : recorders_) EXPECT_EQ(recorder.reports.back().iteration, done);
  const absl::StatusOr<CheckpointSummary> checkpoint = newest_checkpoint(path("checkpoints"));
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
  if (!checkpoint.ok()) return {};
  job.stop_after = -1;
  job.resume = checkpoint->path;
  std::map<std::string, double> objectives = train(application, job);
  EXPECT_EQ(recorders_[0].reports.front().iteration, done + 1);
  return objectives;
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
