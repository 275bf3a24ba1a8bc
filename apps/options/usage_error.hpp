// What is wrong with a command line, in one sentence.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace verbena::apps {

/// "verbena run lda": the command of `program` that a command line came to, with it.
const CLI::App& innermost_command(const CLI::App& program, std::string* name);

/// INVALID_ARGUMENT: what the library has found in the command line of `program`, in our words, and whose
/// help to see.
absl::Status usage_error(const CLI::App& program, const CLI::ParseError& error);

}  // namespace verbena::apps
