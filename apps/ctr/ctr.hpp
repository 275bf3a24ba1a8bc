// Click-through rates: predicts whether an example is positive from its sparse features.
#pragma once

#include <memory>

#include "apps/application.hpp"

namespace verbena::apps {

/// `verbena run ctr`. Mini-batches are dealt to the workers in turn. Weights, and the factors of a
/// factorization machine, are rows of the sparse tables "ctr.weights" and "ctr.factors"; those of the block
/// solver are in "ctr.block_weights".
std::unique_ptr<Application> make_ctr();

}  // namespace verbena::apps
