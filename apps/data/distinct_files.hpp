// No output may be one of the inputs, or another output.
#pragma once

#include "absl/status/status.h"
#include "apps/files.hpp"

namespace verbena::apps {

/// INVALID_ARGUMENT with both names where an output and another file are one, whatever they are called: by
/// symbolic and hard links, and also where the file is not there yet. Terminals and devices such as /dev/null
/// may be named twice.
absl::Status check_distinct(const Files& files);

}  // namespace verbena::apps
