#include "apps/report/exit_status.hpp"

#include <cstdio>
#include <new>
#include <string>

#include "apps/report/console.hpp"
#include "base/printable.hpp"

namespace verbena::apps {

int exit_status(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitOk;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
      return kExitUsage;
    case absl::StatusCode::kOutOfRange:
      return kExitDiverged;
    default:
      return kExitFailed;
  }
}

absl::Status at_chosen_place(absl::Status status) {
  if (!absl::IsAlreadyExists(status)) return status;
  return absl::InvalidArgumentError(status.message());
}

int report_error(const absl::Status& status) {
  try {
    put_error(std::string(base::printable(status).message()));
  } catch (const std::bad_alloc&) {
    (void)std::fputs("verbena: error: out of memory\n", stderr);
  }
  return exit_status(status);
}

}  // namespace verbena::apps
