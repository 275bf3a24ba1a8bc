// Rules about the source tree itself: who may include whom, what no file may hold, that the documents name
// things that exist. Each rule returns its violations, "path:line: what is wrong".
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace verbena::repository {

struct File {
  std::string path;  ///< from the root, with slashes
  std::string text;
};

/// All text files below the root but build trees, git's own and bundled data.
std::vector<File> read_tree(const std::filesystem::path& root);

using Violations = std::vector<std::string>;

/// The table "Folders, and who may include whom"; verbs headers only in transport/verbs.
Violations border_violations(const std::vector<File>& tree);
/// No header includes itself through others, and no folder (an application is one) another one that includes
/// it.
Violations include_cycles(const std::vector<File>& tree);
/// Each header has `#pragma once`, and x.cpp includes x.hpp before anything else, which shows that x.hpp
/// compiles by itself.
Violations header_violations(const std::vector<File>& tree);
/// No two headers define a class of the same name in the same namespace: linked into one program they would
/// be mistaken for each other, in silence.
Violations duplicate_classes(const std::vector<File>& tree);
/// The sources that CMake may join into units, by target (verbena_library(), verbena_test() and
/// join_sources() in the build's files).
std::map<std::string, std::vector<std::string>> joined_targets(const std::vector<File>& tree);
/// No two sources of a joined target declare the same name for themselves: which of them share a unit changes
/// with every new file. Overloads count, too: what a call means must not depend on the unit.
Violations clashes_in_joined_targets(const std::vector<File>& tree);
/// The schemes of the backends in transport/, as their sources name them.
std::set<std::string> backend_schemes(const std::vector<File>& tree);
/// No text in apps/ is such a scheme, or begins with one and a colon: whoever compares or builds names of
/// transports is to ask transport/backends.hpp. Sentences may speak of them, and the doctor's findings be
/// called so.
Violations scheme_literals(const std::vector<File>& tree);
/// In server/ and worker/, nobody divides a table but by asking protocol/placement.hpp.
Violations own_partitions(const std::vector<File>& tree);
/// No absolute path of somebody's machine.
Violations machine_paths(const std::vector<File>& tree);
/// No note of something left to do.
Violations unfinished_marks(const std::vector<File>& tree);
/// Links in documents lead to files, folders and headings that exist. (Binary files and those of data/ are
/// not looked for.)
Violations broken_links(const std::vector<File>& tree);
/// Scripts and presets that the documents name exist.
Violations missing_commands(const std::vector<File>& tree);

/// A command line of the program, as a document or a script shows it.
struct CommandLine {
  std::string place;                 ///< path:line
  std::string subcommands;           ///< "run lda"
  std::vector<std::string> options;  ///< "--topics"
};

/// Of the fenced blocks in documents, and of scripts/.
std::vector<CommandLine> shown_command_lines(const std::vector<File>& tree);

}  // namespace verbena::repository
