// Knowledge-graph embeddings: vectors of entities and relations that tell which facts are likely.
#pragma once

#include <memory>

#include "apps/application.hpp"

namespace verbena::apps {

/// `verbena run kge`. Relations are divided over the workers; the rows of entities and relations, with
/// Adagrad's sums, are in the tables "kge.entities" and "kge.relations".
std::unique_ptr<Application> make_kge();

}  // namespace verbena::apps
