// Latent Dirichlet allocation: finds topics in documents.
#pragma once

#include <memory>

#include "apps/application.hpp"

namespace verbena::apps {

/// `verbena run lda`. Documents are divided over the workers; how often each topic occurs with each word is
/// in the table "lda.word_topics", their sums in "lda.topics".
std::unique_ptr<Application> make_lda();

}  // namespace verbena::apps
