// Manual pages (man 7 groff_man) of what --help says.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace verbena::apps {

struct ManualPage {
  std::string file;  ///< "verbena-run-lda.1"
  std::string text;
};

/// One for the program, and one for each command that is shown to users. `version`: "verbena 1.2.3".
std::vector<ManualPage> manual_pages(const CLI::App& program, const std::string& version);

}  // namespace verbena::apps
