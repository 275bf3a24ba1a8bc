#include "apps/data/tokens_option.hpp"

#include <CLI/CLI.hpp>

namespace verbena::apps {

void add_tokens_option(CLI::App& command, std::string& tokens) {
  command
      .add_option("--tokens", tokens,
                  "of running text. words: letters, digits and inner apostrophes, in lower case; whitespace: "
                  "whatever is between blanks, as it is (ids, walks, new_york); a line has no title then")
      ->capture_default_str()
      ->type_name("words|whitespace");
}

}  // namespace verbena::apps
