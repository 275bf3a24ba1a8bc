// A backend within one process, "loopback:NAME": post() itself copies into the peer's memory, and all that
// two ends share lies under one lock. What it takes to be a backend, and no more.
#pragma once

#include "transport/backends.hpp"

namespace verbena::transport {

Backend loopback_backend();

}  // namespace verbena::transport
