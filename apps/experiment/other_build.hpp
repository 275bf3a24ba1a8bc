// Another build of this program, to be run beside this one.
#pragma once

#include <string>

#include "apps/experiment/experiment.hpp"

namespace verbena::apps {

/// The same run, made by `program`: a path, or a name in PATH. Of its figures there are only the iterations.
PlannedRun by_other_build(PlannedRun run, const std::string& program);

}  // namespace verbena::apps
