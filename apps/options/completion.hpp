// What can come next on a command line: for the completion of shells.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace verbena::apps {

/// What --consistency takes, as an option's type.
inline constexpr const char* kModelChoices = "bsp|a-bsp|ssp:S|essp:S|bounded-delay:S|asp|sequential|vap:V";

struct Completion {
  struct Word {
    std::string text;   ///< the whole word. Ends in '=' or ':' if its value is to follow without a space
    std::string about;  ///< one line; may be empty
  };
  /// What files can stand there in addition.
  enum class Paths : std::uint8_t { kNone, kFiles, kFolders };

  std::vector<Word> words;
  Paths paths = Paths::kNone;
};

/// `words`: what follows the program's name, up to the word that is to be completed, which may be empty.
/// An option's values are what its type says: of "none|english|FILE" two words and files, of "ssp:S" the part
/// before the capital letter.
Completion complete(const CLI::App& program, std::span<const std::string> words);

}  // namespace verbena::apps
