// --tokens, of each application that reads running text.
#pragma once

#include <string>

#include "apps/data/tokenizer.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace verbena::apps {

/// What it is given is for parse_tokens().
void add_tokens_option(CLI::App& command, std::string& tokens);

}  // namespace verbena::apps
