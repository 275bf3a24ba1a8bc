// Latent Dirichlet allocation: finds topics in documents.
#pragma once

#include <memory>

#include "apps/application.hpp"

namespace verbena::apps {

/// `verbena run lda`. Documents are divided over the workers. The table "lda.word_topics" has how often each
/// topic occurs with each word, "lda.topics" has the sums.
std::unique_ptr<Application> make_lda();

}  // namespace verbena::apps
