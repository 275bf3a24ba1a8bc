#include "apps/verbena/exit_status.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <new>
#include <string>

namespace verbena::apps {

int exit_status(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitOk;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
      return kExitUsage;
    default:
      return kExitFailed;
  }
}

int report_error(const absl::Status& status) {
  try {
    std::string message(status.message());
    std::replace(message.begin(), message.end(), '\n', ' ');
    const std::string line = fmt::format("verbena: error: {}\n", message);
    (void)std::fwrite(line.data(), 1, line.size(), stderr);
  } catch (const std::bad_alloc&) {
    (void)std::fputs("verbena: error: out of memory\n", stderr);
  }
  return exit_status(status);
}

}  // namespace verbena::apps
