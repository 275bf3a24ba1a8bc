#include "tests/apps/job_fixture.hpp"

#include "tests/cluster/cluster.hpp"

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
  const verbena::testing::ClusterResult result = verbena::testing::run_cluster(
      {.servers = job.servers, .workers = job.workers, .read_path = job.read_path}, [&](Session& session) {
        Recorder& recorder = recorders_[session.rank()];
        WorkerContext context{session, job.consistency, recorder, recorder.stop,
                              Slowdown(job.slow, session.rank())};
        absl::Status status = application.run_worker(context);
        statistics_[session.rank()] = session.statistics();
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

}  // namespace verbena::apps
