#include "apps/launcher/run_outputs.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <cstring>

#include "apps/data/distinct_files.hpp"
#include "apps/data/output_file.hpp"
#include "apps/report/console.hpp"
#include "apps/report/exit_status.hpp"
#include "apps/report/html_report.hpp"
#include "apps/report/provenance.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps {

absl::Status check_all(Application& application, const RunOptions& run) {
  RETURN_IF_ERROR(check(run.job));
  if (run.baseline && !run.job.slow.empty()) {
    return absl::InvalidArgumentError("--slow is for workers; --baseline has none");
  }
  if (run.baseline && !run.job.transport.network.empty()) {
    return absl::InvalidArgumentError("--network is for servers and workers; --baseline has none");
  }
  if (!run.monitoring.port && run.monitoring.address != MonitoringOptions::kLoopback) {
    return absl::InvalidArgumentError(
        "--metrics-address: expected with --metrics-port PORT, which says that there is something to see");
  }
  Files files = application.files();
  files.writes("--checkpoint", run.job.checkpoints.folder);
  files.writes("--metrics", run.metrics);
  files.writes("--report", run.report);
  RETURN_IF_ERROR(check_distinct(files));
  for (const std::string& output : {run.metrics, run.report}) {
    if (output.empty()) continue;
    RETURN_IF_ERROR(OutputFile::check(output));
  }
  return check_application(application, run.job, run.baseline);
}

absl::StatusOr<std::unique_ptr<RunOutputs>> RunOutputs::create(const RunOptions& run,
                                                               const Application& application,
                                                               const ApplicationOptions& options) {
  std::unique_ptr<RunOutputs> outputs(new RunOutputs(run, application, options));
  log_choices(outputs->settings_);
  if (run.monitoring.port) {
    absl::StatusOr<std::unique_ptr<MonitoringPort>> port = MonitoringPort::open(run.monitoring);
    if (!port.ok()) return port.status();
    outputs->port_ = *std::move(port);
    if (!run.quiet || run.monitoring.port == 0) {  // nobody could know it otherwise
      print_error("verbena: {} shows the run; {}metrics is for Prometheus\n", outputs->port_->url(),
                  outputs->port_->url());
    }
  }
  if (!run.metrics.empty()) {
    absl::StatusOr<MetricsFile> file = MetricsFile::create(run.metrics);
    if (!file.ok()) return file.status();
    outputs->metrics_.emplace(*std::move(file));
    outputs->metrics_->write(start_json(outputs->settings_, version()));
  }
  outputs->monitor_.emplace(outputs->record_, outputs->display_,
                            outputs->metrics_ ? &*outputs->metrics_ : nullptr, outputs->port_.get());
  return outputs;
}

RunOutputs::RunOutputs(const RunOptions& run, const Application& application,
                       const ApplicationOptions& options)
    : run_(run),
      application_(application),
      settings_(run_settings(application, options, run.job, run.baseline)),
      record_(run.job.total_workers(), [&](const auto& sums) { return application.objectives(sums); }),
      display_(settings_, Display::mode_for(stderr, run.quiet), stdout, stderr) {}

int RunOutputs::finish(const absl::Status& ended, int signal) {
  if (port_ != nullptr) port_->finish(settings_, record_, [&] { return monitor_->status(); });
  if (signal != 0) {
    put_warning(stderr, fmt::format("verbena: stopped by SIG{}\n", ::sigabbrev_np(signal)));
    return kExitSignalBase + signal;
  }
  if (!ended.ok()) return report_error(ended);
  const double elapsed_seconds = monitor_->elapsed_seconds();
  settle_choices();
  display_.print(summary_table(settings_, record_, elapsed_seconds));
  const absl::Status written = write(elapsed_seconds);
  if (written.ok()) return kExitOk;
  // The run itself has succeeded: an output that cannot be written is not a usage error at this point.
  report_error(written);
  return kExitFailed;
}

/// What was open at the beginning has been decided meanwhile.
void RunOutputs::settle_choices() {
  const std::string before = choices_text(settings_.choices);
  settings_.choices = settled(settings_.choices, record_, monitor_->model_summary());
  if (choices_text(settings_.choices) != before) log_choices(settings_);
}

absl::Status RunOutputs::write(double elapsed_seconds) {
  const nlohmann::json summary = summary_json(settings_, record_, elapsed_seconds, monitor_->model_summary());
  if (!run_.report.empty()) {
    const std::string page = html_report(settings_, record_, elapsed_seconds,
                                         application_.charts(monitor_->model_summary()), monitor_->printed());
    RETURN_IF_ERROR(write_file(run_.report, page));
  }
  if (!metrics_) return absl::OkStatus();
  for (std::uint32_t worker = 0; worker < record_.workers().size(); ++worker) {
    metrics_->write(worker_json(worker, record_.workers()[worker]));
  }
  metrics_->write(summary);
  return metrics_->commit();
}

}  // namespace verbena::apps
