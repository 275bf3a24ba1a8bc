// Turns exceptions into a status. Our own functions throw nothing to their callers; libraries do, and memory
// and threads can run out.
#pragma once

#include <fmt/format.h>

#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <system_error>

#include "absl/status/status.h"

namespace verbena::apps {

/// Returns the status that `run` returns, or a status for what it throws: RESOURCE_EXHAUSTED if memory has
/// run out, or another resource of the system, such as threads. For main() and the beginning of each thread.
template <class Run>
absl::Status run_caught(const Run& run) {
  try {
    return run();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of memory");
  } catch (const std::length_error&) {  // more than any memory has
    return absl::ResourceExhaustedError("out of memory");
  } catch (const std::system_error& error) {
    const char* const name = ::strerrorname_np(error.code().value());
    return absl::ResourceExhaustedError(
        fmt::format("{}{}", error.what(), name == nullptr ? "" : fmt::format(" ({})", name)));
  } catch (const std::exception& error) {
    return absl::InternalError(fmt::format("unexpected exception: {}", error.what()));
  } catch (...) {
    return absl::InternalError("unexpected exception");
  }
}

}  // namespace verbena::apps
