// A backend within one process, "loopback:NAME": post() itself copies into the peer's memory, and one lock
// protects all that two ends share. It is as small as a backend can be.
#pragma once

#include "transport/backends.hpp"

namespace verbena::transport {

Backend loopback_backend();

}  // namespace verbena::transport
