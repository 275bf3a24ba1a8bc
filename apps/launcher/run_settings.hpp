// Makes the RunSettings of a run from its options.
#pragma once

#include "apps/application.hpp"
#include "apps/launcher/job_options.hpp"
#include "apps/report/summary.hpp"

namespace verbena::apps {

RunSettings run_settings(const Application& application, const ApplicationOptions& options,
                         const JobOptions& job, bool baseline);
/// For -v.
void log_choices(const RunSettings& settings);

}  // namespace verbena::apps
