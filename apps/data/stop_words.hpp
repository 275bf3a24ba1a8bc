// Words that say nothing about a text's subject.
#pragma once

#include <string>
#include <unordered_set>

#include "absl/status/statusor.h"

namespace verbena::apps {

/// `name`: "none", "english" (of today and of the seventeenth century), or a file with one word a line; a
/// path with a slash is always a file. Errors as LineReader's, and INVALID_ARGUMENT for a line that is not
/// one word.
absl::StatusOr<std::unordered_set<std::string>> read_stop_words(const std::string& name);

}  // namespace verbena::apps
