// Matrix factorization: predicts ratings from factors of users and items.
#pragma once

#include <memory>

#include "apps/application.hpp"

namespace verbena::apps {

/// `verbena run mf`. Users are divided over the workers, u mod workers, and their factors stay there; item
/// factors are rows of the table "mf.items".
std::unique_ptr<Application> make_mf();

}  // namespace verbena::apps
