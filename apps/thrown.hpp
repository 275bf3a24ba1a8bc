// What is thrown becomes a status. Functions of ours throw nothing across their borders; libraries do, and
// memory and threads run out.
#pragma once

#include <fmt/format.h>

#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <system_error>

#include "absl/status/status.h"

namespace verbena::apps {

/// What `run` returns, a status, or what it throws as one: RESOURCE_EXHAUSTED where there is no more memory,
/// or no more of what the system gives, such as threads. For main() and the beginning of each thread.
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
