// How often each feature occurs, about, in memory that does not grow with the number of features.
#pragma once

#include <memory>

#include "apps/application.hpp"

namespace verbena::apps {

/// `verbena run sketch`. Mini-batches of examples are dealt to the workers in turn. The sketch is the dense
/// table "sketch.lines", to which workers add what they have counted in a clock.
std::unique_ptr<Application> make_sketch();

}  // namespace verbena::apps
