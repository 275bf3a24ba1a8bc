#include "apps/launcher/run_settings.hpp"

#include <spdlog/spdlog.h>

#include "apps/report/provenance.hpp"
#include "base/decimal.hpp"
#include <verbena/consistency.hpp>

namespace verbena::apps {
RunSettings run_settings(const Application& application, const ApplicationOptions& options,
                         const JobOptions& job, bool baseline) {
  RunSettings settings;
  settings.model = application.name();
  settings.throughput_unit = application.throughput_unit();
  settings.main_objective = application.main_objective();
  settings.iterations = application.iterations();
  settings.seed = base::parse_decimal<std::uint64_t>(options.value("--seed"));
  settings.options = options.values();
  settings.baseline = baseline;
  settings.made = provenance();
  settings.consistency = "none";
  settings.transport = "none";
  settings.read_path = "none";
  settings.allocation = "none";
  if (baseline) return settings;
  // A user's own program chooses the model for each table.
  settings.consistency =
      job.consistency.empty() ? "own consistency" : to_string(*parse_consistency(job.consistency));
  settings.transport = job.transport.transport;
  settings.read_path = job.read_path;
  // Applications without this option support only the static allocation.
  const std::string allocation = options.value("--allocation");
  settings.allocation = allocation.empty() ? kStaticAllocation : allocation;
  settings.servers = job.servers;
  settings.workers = job.workers;
  settings.threads = job.threads;
  settings.budget_mb_per_s = job.budget_mb_per_s;
  settings.network = job.transport.network;
  settings.slow = job.slow;
  settings.choices = choices_of(job, application.has_sparse_tables());
  const Choices of_application = options.choices();
  settings.choices.insert(settings.choices.end(), of_application.begin(), of_application.end());
  return settings;
}

void log_choices(const RunSettings& settings) {
  if (!settings.choices.empty()) spdlog::info("choices: {}", choices_text(settings.choices));
}

}  // namespace verbena::apps
