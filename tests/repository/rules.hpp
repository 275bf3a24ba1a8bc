// Rules about the source tree itself: which folder may include which, what no file may contain, and that
// things that documents name exist. Each rule returns its violations, "path:line: what is wrong".
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

/// All text files below the root, without build trees, git's own files and bundled data.
std::vector<File> read_tree(const std::filesystem::path& root);

using Violations = std::vector<std::string>;

/// A folder includes only the folders that it may include. Only transport/verbs includes headers of verbs.
/// Public headers are included with angle brackets, other headers of ours with quotes and the path from the
/// root.
Violations border_violations(const std::vector<File>& tree);
/// No header includes itself through others, and no folder includes another one that includes it. Each
/// application is a folder of its own.
Violations include_cycles(const std::vector<File>& tree);
/// Each header has `#pragma once`, and x.cpp includes x.hpp before anything else, which shows that x.hpp
/// compiles by itself.
Violations header_violations(const std::vector<File>& tree);
/// No two headers define a class of the same name in the same namespace. In one program the linker would
/// silently take one for the other.
Violations duplicate_classes(const std::vector<File>& tree);
/// The sources that CMake may join into units, by target (verbena_library(), verbena_test() and
/// join_sources() in the build's files).
std::map<std::string, std::vector<std::string>> joined_targets(const std::vector<File>& tree);
/// No two sources of a joined target declare the same name for themselves: which of them share a unit changes
/// with every new file. This includes overloads, since the meaning of a call must not depend on the unit.
Violations clashes_in_joined_targets(const std::vector<File>& tree);
/// The schemes of the backends in transport/, as their sources name them.
std::set<std::string> backend_schemes(const std::vector<File>& tree);
/// No string in apps/ is such a scheme, or begins with one and a colon: code that compares or builds names of
/// transports has to use transport/backends.hpp. Schemes may be mentioned in sentences, and doctor may name
/// its findings after them.
Violations scheme_literals(const std::vector<File>& tree);
/// In server/ and worker/, only protocol/placement.hpp may divide tables.
Violations own_partitions(const std::vector<File>& tree);
/// No absolute path that is only valid on somebody's machine.
Violations machine_paths(const std::vector<File>& tree);
/// docs/protocol.md names the protocol's version wherever it names one.
Violations stale_versions(const std::vector<File>& tree);
/// No note of something left to do.
Violations unfinished_marks(const std::vector<File>& tree);
/// Links in documents lead to files, folders and headings that exist. Links to images and into data/ are not
/// checked.
Violations broken_links(const std::vector<File>& tree);
/// Scripts and presets that the documents name exist.
Violations missing_commands(const std::vector<File>& tree);

/// A command line of the program, as a document or a script shows it.
struct CommandLine {
  std::string place;                 ///< path:line
  std::string subcommands;           ///< "run lda"
  std::vector<std::string> options;  ///< "--topics"
};

/// From the fenced blocks in documents, and from scripts/.
std::vector<CommandLine> shown_command_lines(const std::vector<File>& tree);

}  // namespace verbena::repository
