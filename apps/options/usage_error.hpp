// What is wrong with a command line, in one sentence.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace verbena::apps {

/// The innermost command of `program` that the command line names; `name` becomes its full name, such as
/// "verbena run lda".
const CLI::App& innermost_command(const CLI::App& program, std::string* name);

/// INVALID_ARGUMENT: the error that the library has found in the command line of `program`, in our own words,
/// and the command with the help to read.
absl::Status usage_error(const CLI::App& program, const CLI::ParseError& error);

}  // namespace verbena::apps
