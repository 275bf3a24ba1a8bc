// The exit status of the program, and the error that it prints.
#pragma once

#include "absl/status/status.h"

namespace verbena::apps {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;         ///< impossible options or malformed input
inline constexpr int kExitDiverged = 3;      ///< training reached NaN or infinity (apps/divergence.hpp)
inline constexpr int kExitSignalBase = 128;  ///< + the signal that ended it: 130 for Ctrl-C

/// kExitUsage for INVALID_ARGUMENT and NOT_FOUND, kExitDiverged for diverged(), kExitFailed for other errors.
int exit_status(const absl::Status& status);
/// Of listening where the user has said: that another process is there (ALREADY_EXISTS) is INVALID_ARGUMENT.
absl::Status at_chosen_place(absl::Status status);

/// One line on standard error, "verbena: error: …"; returns exit_status().
int report_error(const absl::Status& status);

}  // namespace verbena::apps
