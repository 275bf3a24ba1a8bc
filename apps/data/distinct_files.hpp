// No output may be one of the inputs, or another output.
#pragma once

#include "absl/status/status.h"
#include "apps/files.hpp"

namespace verbena::apps {

/// INVALID_ARGUMENT with both names if an output and another file are the same file, even under different
/// names: through symbolic or hard links, and also if the file does not exist yet. Terminals and devices such
/// as /dev/null may be named twice.
absl::Status check_distinct(const Files& files);

}  // namespace verbena::apps
