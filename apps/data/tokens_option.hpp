// The option --tokens of each application that reads running text.
#pragma once

#include <string>

#include "apps/data/tokenizer.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace verbena::apps {

/// Adds --tokens, which sets `tokens`; parse_tokens() reads it.
void add_tokens_option(CLI::App& command, std::string& tokens);

}  // namespace verbena::apps
