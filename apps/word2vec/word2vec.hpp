// Word vectors: words that stand among the same others have similar ones.
#pragma once

#include <memory>

#include "apps/application.hpp"

namespace verbena::apps {

/// `verbena run word2vec`. Workers share out the documents; the words' vectors are in the table
/// "word2vec.inputs", those that training needs beside them in "word2vec.outputs".
std::unique_ptr<Application> make_word2vec();

}  // namespace verbena::apps
