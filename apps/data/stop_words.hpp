// Words that say nothing about a text's subject.
#pragma once

#include <string>
#include <unordered_set>

#include "absl/status/statusor.h"
#include "apps/data/tokenizer.hpp"

namespace verbena::apps {

/// `name`: "none", "english" (of today and of the seventeenth century), or a file with one word a line. A
/// path with a slash is always a file. Its words get the form that they would have in a text with these
/// tokens. Errors as LineReader's, and INVALID_ARGUMENT for a line that is not one word.
absl::StatusOr<std::unordered_set<std::string>> read_stop_words(const std::string& name,
                                                                Tokens tokens = Tokens::kWords);

}  // namespace verbena::apps
