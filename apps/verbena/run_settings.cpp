#include "apps/verbena/run_settings.hpp"

#include <charconv>

#include "apps/verbena/provenance.hpp"
#include "consistency/model.hpp"

namespace verbena::apps {
namespace {

std::optional<std::uint64_t> seed_of(const ApplicationOptions& options) {
  const std::string text = options.value("--seed");
  std::uint64_t seed = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  return error == std::errc() && stop == text.data() + text.size() ? std::optional(seed) : std::nullopt;
}

}  // namespace

RunSettings run_settings(const Application& application, const ApplicationOptions& options,
                         const JobOptions& job, bool baseline) {
  RunSettings settings;
  settings.model = application.name();
  settings.throughput_unit = application.throughput_unit();
  settings.main_objective = application.main_objective();
  settings.iterations = application.iterations();
  settings.seed = seed_of(options);
  settings.options = options.values();
  settings.baseline = baseline;
  settings.made = provenance();
  settings.consistency = "none";
  settings.transport = "none";
  settings.read_path = "none";
  settings.allocation = "none";
  if (baseline) return settings;
  settings.consistency = consistency::to_string(*consistency::parse_model(job.consistency));
  settings.transport = job.transport.transport;
  settings.read_path = job.read_path;
  // Applications without the option know no other.
  const std::string allocation = options.value("--allocation");
  settings.allocation = allocation.empty() ? kStaticAllocation : allocation;
  settings.servers = job.servers;
  settings.workers = job.workers;
  settings.threads = job.threads;
  settings.budget_mb_per_s = job.budget_mb_per_s;
  settings.network = job.transport.network;
  settings.slow = job.slow;
  return settings;
}

}  // namespace verbena::apps
