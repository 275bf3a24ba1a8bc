// An application for tests. Every worker adds one to each row in each iteration, so the right result is
// known. It can be told to fail in the ways in which applications fail.
#pragma once

#include <memory>

#include "apps/application.hpp"

namespace verbena::apps {

std::unique_ptr<Application> make_counter();

}  // namespace verbena::apps
