#include "tests/repository/rules.hpp"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "tests/repository/declarations.hpp"

namespace verbena::repository {
namespace {

namespace fs = std::filesystem;
using Graph = std::map<std::string, std::set<std::string>>;

/// Which other folders the files of each folder may include.
const std::map<std::string, std::set<std::string>>& allowed_includes() {
  static const std::map<std::string, std::set<std::string>> kAllowed = {
      {"cmake", {}},
      {"include", {}},
      {"base", {}},
      {"checkpoint", {"base"}},
      {"transport", {"include", "base"}},
      {"cluster", {"include", "base", "transport"}},
      {"consistency", {"include"}},
      {"protocol", {"include", "base"}},
      {"server", {"include", "base", "checkpoint", "transport", "cluster", "consistency", "protocol"}},
      {"worker", {"include", "base", "checkpoint", "transport", "cluster", "consistency", "protocol"}},
      {"job",
       {"include", "base", "checkpoint", "transport", "cluster", "consistency", "protocol", "server",
        "worker"}},
      {"python", {"include"}},
      {"apps",
       {"include", "base", "checkpoint", "transport", "cluster", "consistency", "protocol", "server",
        "worker", "job"}},
      {"tests",
       {"include", "base", "checkpoint", "transport", "cluster", "consistency", "protocol", "server",
        "worker", "job", "apps"}},
  };
  return kAllowed;
}

struct Include {
  /// The path from the root. This is also so for a public header, which is written as users write it.
  std::string target;
  bool quoted;
  std::size_t line;
};

std::string top_folder(const std::string& path) {
  return path.substr(0, path.find('/'));
}

bool is_source(const std::string& path) {
  return path.ends_with(".cpp") || path.ends_with(".hpp");
}

/// Calls visit(line number, line) for each line.
void for_each_line(const std::string& text,
                   const std::function<void(std::size_t, const std::string&)>& visit) {
  std::istringstream lines(text);
  std::string line;
  for (std::size_t number = 1; std::getline(lines, line); ++number) visit(number, line);
}

std::vector<Include> includes_of(const File& file) {
  static const std::regex kInclude(R"re(^\s*#\s*include\s*(["<])([^">]+)[">])re");
  std::vector<Include> includes;
  for_each_line(file.text, [&](std::size_t number, const std::string& line) {
    std::smatch match;
    if (std::regex_search(line, match, kInclude)) {
      const std::string written = match[2];
      includes.push_back({.target = written.starts_with("verbena/") ? "include/" + written : written,
                          .quoted = match[1] == "\"",
                          .line = number});
    }
  });
  return includes;
}

/// Each line that matches, as a violation.
Violations lines_matching(const std::vector<File>& tree, const std::regex& pattern, std::string_view what) {
  Violations violations;
  for (const File& file : tree) {
    for_each_line(file.text, [&](std::size_t number, const std::string& line) {
      std::smatch match;
      if (std::regex_search(line, match, pattern)) {
        violations.push_back(fmt::format("{}:{}: {}: {}", file.path, number, what, match.str()));
      }
    });
  }
  return violations;
}

/// Finds one cycle of the graph, if there is any: "a -> b -> a".
class CycleFinder {
 public:
  explicit CycleFinder(const Graph& graph) : graph_(graph) {
    for (const auto& [node, successors] : graph_) visit(node);
  }
  [[nodiscard]] const std::string& cycle() const { return cycle_; }

 private:
  void visit(const std::string& node) {
    if (!cycle_.empty() || done_.contains(node)) return;
    const auto seen = std::find(way_.begin(), way_.end(), node);
    if (seen != way_.end()) {
      for (auto step = seen; step != way_.end(); ++step) cycle_ += *step + " -> ";
      cycle_ += node;
      return;
    }
    way_.push_back(node);
    if (const auto found = graph_.find(node); found != graph_.end()) {
      for (const std::string& next : found->second) visit(next);
    }
    way_.pop_back();
    done_.insert(node);
  }

  const Graph& graph_;
  std::vector<std::string> way_;
  std::set<std::string> done_;
  std::string cycle_;
};

/// The file's node in the graph of folders: the folder of its application, otherwise its top folder.
std::string module_of(const std::string& path) {
  const auto first = path.find('/');
  const auto second = path.find('/', first + 1);
  return top_folder(path) == "apps" && second != std::string::npos ? path.substr(0, second)
                                                                   : top_folder(path);
}

/// Calls visit(line number, line) for each line that may have a command: in a document's fenced blocks, and
/// anywhere in a script. A line that ends in a backslash is joined with the next one.
void for_each_command(const File& file, const std::function<void(std::size_t, const std::string&)>& visit) {
  const bool document = file.path.ends_with(".md");
  bool inside = !document;
  std::string joined;
  for_each_line(file.text, [&](std::size_t number, const std::string& line) {
    if (document && line.starts_with("```")) inside = !inside;
    if (!inside) return;
    joined += line;
    if (joined.ends_with('\\')) {
      joined.back() = ' ';
      return;
    }
    visit(number, joined);
    joined.clear();
  });
}

bool is_build_file(const std::string& path) {
  return path.ends_with("CMakeLists.txt");
}

/// The folder of a path, with a slash at its end; "" for the root.
std::string folder_of(const std::string& path) {
  return path.substr(0, path.rfind('/') + 1);
}

/// The commands of a build file, each with its arguments without quotes.
std::vector<std::vector<std::string>> build_commands(const std::string& text) {
  static const std::regex kComment(R"re(#[^\n]*)re");
  static const std::regex kCommand(R"re((\w+)\s*\(([^()]*)\))re");
  static const std::regex kArgument(R"re([^\s"]+)re");
  const std::string code = std::regex_replace(text, kComment, "");
  std::vector<std::vector<std::string>> commands;
  for (std::sregex_iterator match(code.begin(), code.end(), kCommand), end; match != end; ++match) {
    std::vector<std::string>& command = commands.emplace_back(1, match->str(1));
    const std::string arguments = match->str(2);
    for (std::sregex_iterator argument(arguments.begin(), arguments.end(), kArgument); argument != end;
         ++argument) {
      command.push_back(argument->str());
    }
  }
  return commands;
}

/// The sources that `name` stands for: a path from `folder` or from the root, or a pattern of such paths, in
/// which '*' matches no slash.
std::vector<std::string> sources_named(const std::vector<File>& tree, const std::string& folder,
                                       std::string name) {
  static constexpr std::string_view kHere = "${CMAKE_CURRENT_SOURCE_DIR}/";
  static constexpr std::string_view kRoot = "${CMAKE_SOURCE_DIR}/";
  if (name.starts_with(kHere)) name.erase(0, kHere.size());
  const std::string path = name.starts_with(kRoot) ? name.substr(kRoot.size()) : folder + name;
  std::vector<std::string> sources;
  for (const File& file : tree) {
    if (::fnmatch(path.c_str(), file.path.c_str(), FNM_PATHNAME) == 0) sources.push_back(file.path);
  }
  return sources;
}

}  // namespace

std::vector<File> read_tree(const fs::path& root) {
  static const std::set<std::string> kSkipped = {"build", ".git", "data"};
  std::vector<File> tree;
  for (auto entry = fs::recursive_directory_iterator(root); entry != fs::recursive_directory_iterator();
       ++entry) {
    if (entry.depth() == 0 && kSkipped.contains(entry->path().filename().string())) {
      entry.disable_recursion_pending();
      continue;
    }
    if (!entry->is_regular_file()) continue;
    std::ifstream stream(entry->path(), std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(stream), {}};
    const bool binary = text.find('\0') != std::string::npos;
    if (!binary) tree.push_back({.path = entry->path().lexically_relative(root), .text = std::move(text)});
  }
  return tree;
}

Violations border_violations(const std::vector<File>& tree) {
  Violations violations;
  for (const File& file : tree) {
    if (!is_source(file.path)) continue;
    const std::string from = top_folder(file.path);
    const auto allowed = allowed_includes().find(from);
    if (allowed == allowed_includes().end()) {
      violations.push_back(fmt::format("{}:1: a source outside the folders of the design", file.path));
      continue;
    }
    for (const Include& include : includes_of(file)) {
      const std::string to = top_folder(include.target);
      const auto report = [&](std::string_view what) {
        violations.push_back(fmt::format("{}:{}: {}: {}", file.path, include.line, what, include.target));
      };
      if ((to == "infiniband" || to == "rdma") && !file.path.starts_with("transport/verbs/")) {
        report("only transport/verbs/ may include this");
      } else if (allowed_includes().contains(to)) {
        if (include.quoted == (to == "include"))
          report("public headers are included with angle brackets, all other own headers with quotes");
        if (to != from && !allowed->second.contains(to)) report(fmt::format("{}/ may not include", from));
      } else if (include.quoted && include.target.find('/') == std::string::npos) {
        report("own headers are included by their path from the root");
      }
    }
  }
  return violations;
}

Violations include_cycles(const std::vector<File>& tree) {
  Graph headers;
  Graph modules;
  for (const File& file : tree) {
    if (!is_source(file.path)) continue;
    for (const Include& include : includes_of(file)) {
      if (!allowed_includes().contains(top_folder(include.target))) continue;
      headers[file.path].insert(include.target);
      const std::string from = module_of(file.path);
      const std::string to = module_of(include.target);
      if (from != to) modules[from].insert(to);
    }
  }
  Violations violations;
  for (const Graph& graph : {headers, modules}) {
    const std::string cycle = CycleFinder(graph).cycle();
    if (!cycle.empty()) violations.push_back(fmt::format("includes go round: {}", cycle));
  }
  return violations;
}

Violations header_violations(const std::vector<File>& tree) {
  std::set<std::string> headers;
  for (const File& file : tree) {
    if (file.path.ends_with(".hpp")) headers.insert(file.path);
  }
  Violations violations;
  for (const File& file : tree) {
    if (headers.contains(file.path) && file.text.find("#pragma once") == std::string::npos) {
      violations.push_back(fmt::format("{}:1: a header without #pragma once", file.path));
    }
    if (!file.path.ends_with(".cpp")) continue;
    const std::string own = file.path.substr(0, file.path.size() - 3) + "hpp";
    if (!headers.contains(own)) continue;
    const std::vector<Include> includes = includes_of(file);
    if (includes.empty() || includes.front().target != own) {
      violations.push_back(fmt::format("{}:{}: the first include must be {}", file.path,
                                       includes.empty() ? 1 : includes.front().line, own));
    }
  }
  return violations;
}

Violations duplicate_classes(const std::vector<File>& tree) {
  static const std::regex kNamespace(R"re(^namespace ([\w:]+) \{)re");
  static const std::regex kClass(R"re(^(?:class|struct) (\w+)(?: final)?(?: :[^;]*)? \{)re");
  std::map<std::string, std::string> places;
  Violations violations;
  for (const File& file : tree) {
    if (!file.path.ends_with(".hpp")) continue;
    std::string name_space;
    for_each_line(file.text, [&](std::size_t number, const std::string& line) {
      std::smatch match;
      if (std::regex_search(line, match, kNamespace)) name_space = match[1];
      if (!std::regex_search(line, match, kClass)) return;
      const std::string name = name_space + "::" + match[1].str();
      const std::string place = fmt::format("{}:{}", file.path, number);
      const auto [first, is_new] = places.emplace(name, place);
      if (!is_new)
        violations.push_back(fmt::format("{}: {} is defined at {}, too", place, name, first->second));
    });
  }
  return violations;
}

std::map<std::string, std::vector<std::string>> joined_targets(const std::vector<File>& tree) {
  std::map<std::string, std::vector<std::string>> targets;
  for (const File& file : tree) {
    if (!is_build_file(file.path)) continue;
    // The sources of each variable and target.
    std::map<std::string, std::vector<std::string>> lists;
    for (const std::vector<std::string>& command : build_commands(file.text)) {
      if (command.size() < 3) {
        const bool is_joined = command.size() == 2 && command[0] == "join_sources" &&
                               !command[1].starts_with("${");  // it is in a function's body
        if (is_joined) targets[command[1]] = lists[command[1]];
        continue;
      }
      const bool is_glob = command[0] == "file" && command[1] == "GLOB";
      const std::string& name = command[is_glob ? 2 : 1];
      std::vector<std::string>& sources = lists[is_glob ? "${" + name + "}" : name];
      for (const std::string& argument : command) {
        if (const auto list = lists.find(argument); argument.starts_with("${") && list != lists.end()) {
          sources.insert(sources.end(), list->second.begin(), list->second.end());
        } else if (argument.ends_with(".cpp")) {
          const std::vector<std::string> found = sources_named(tree, folder_of(file.path), argument);
          sources.insert(sources.end(), found.begin(), found.end());
        }
      }
      if (command[0] == "verbena_test" && sources.empty()) {
        sources = sources_named(tree, folder_of(file.path), "*_test.cpp");
      }
      if (command[0] == "verbena_library" || command[0] == "verbena_test") targets[name] = sources;
    }
  }
  return targets;
}

Violations clashes_in_joined_targets(const std::vector<File>& tree) {
  std::map<std::string, const File*> files;
  for (const File& file : tree) files.emplace(file.path, &file);
  Violations violations;
  for (const auto& [target, sources] : joined_targets(tree)) {
    std::map<std::string, std::pair<const File*, Declaration>> first;
    for (const std::string& path : sources) {
      const File* const file = files.at(path);
      for (const Declaration& declaration : own_declarations(file->text)) {
        const auto& [other, declared] = first.try_emplace(declaration.name, file, declaration).first->second;
        const bool same_alias = !declaration.alias.empty() && declaration.alias == declared.alias;
        if (other == file || same_alias) continue;
        violations.push_back(
            fmt::format("{}:{}: {} is declared at {}:{}, too, and the two can be joined in {}", path,
                        declaration.line, declaration.name, other->path, declared.line, target));
      }
    }
  }
  return violations;
}

std::set<std::string> backend_schemes(const std::vector<File>& tree) {
  static const std::regex kScheme(R"re(\.scheme = "(\w+)")re");
  std::set<std::string> schemes;
  for (const File& file : tree) {
    if (top_folder(file.path) != "transport" || !is_source(file.path)) continue;
    for (std::sregex_iterator match(file.text.begin(), file.text.end(), kScheme), end; match != end; ++match)
      schemes.insert(match->str(1));
  }
  return schemes;
}

Violations scheme_literals(const std::vector<File>& tree) {
  // The doctor examines verbs, and names its findings after it, for people and in its JSON.
  static const std::set<std::string> kNamesOfFindings = {"apps/doctor/diagnosis.cpp",
                                                         "apps/doctor/report.cpp"};
  std::string schemes;
  for (const std::string& scheme : backend_schemes(tree)) schemes += (schemes.empty() ? "" : "|") + scheme;
  if (schemes.empty()) return {};
  std::vector<File> applications;
  for (const File& file : tree) {
    if (top_folder(file.path) == "apps" && is_source(file.path) && !kNamesOfFindings.contains(file.path))
      applications.push_back(file);
  }
  const std::regex literal("\"(" + schemes + ")(:[^\"]*)?\"");
  return lines_matching(applications, literal, "a transport by its name; transport/backends.hpp knows them");
}

Violations own_partitions(const std::vector<File>& tree) {
  static const std::regex kPartition(R"re(\bRangePartition\b|protocol/partition\.hpp)re");
  std::vector<File> rooms;
  for (const File& file : tree) {
    const std::string room = top_folder(file.path);
    if ((room == "server" || room == "worker") && is_source(file.path)) rooms.push_back(file);
  }
  return lines_matching(rooms, kPartition, "a table is divided here; protocol/placement.hpp knows how");
}

Violations machine_paths(const std::vector<File>& tree) {
  static const std::regex kPath(R"re((^|[\s"'`=:(,])/(work|tmp/v|home|root|Users)/[^\s"'`]*)re");
  return lines_matching(tree, kPath, "a path of somebody's machine");
}

Violations stale_versions(const std::vector<File>& tree) {
  static const std::regex kDefined(R"re(\bkVersion = (\d+);)re");
  static const std::regex kNamed(R"re(\b[Vv]ersion,? (\d+)\b)re");
  std::string version = "none";
  for (const File& file : tree) {
    std::smatch match;
    if (file.path == "protocol/messages.hpp" && std::regex_search(file.text, match, kDefined))
      version = match[1];
  }
  Violations violations;
  std::size_t named = 0;
  for (const File& file : tree) {
    if (file.path != "docs/protocol.md") continue;
    for_each_line(file.text, [&](std::size_t number, const std::string& line) {
      std::smatch match;
      if (!std::regex_search(line, match, kNamed)) return;
      ++named;
      if (match[1] != version)
        violations.push_back(fmt::format("{}:{}: version {}; protocol/messages.hpp says {}", file.path,
                                         number, match.str(1), version));
    });
  }
  if (named == 0) violations.emplace_back("docs/protocol.md: names no version");
  return violations;
}

Violations unfinished_marks(const std::vector<File>& tree) {
  // Made of pieces, so that this file does not break its own rule.
  static const std::regex kMark(std::string("\\b(") + "TO" + "DO|FIX" + "ME|X" + "XX)\\b");
  return lines_matching(tree, kMark, "unfinished");
}

namespace {

/// The anchor of a heading, as GitHub makes it.
std::string anchor_of(const std::string& heading) {
  std::string anchor;
  for (const char c : heading) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == ' ') anchor += '-';
    if (byte >= 0x80 || std::isalnum(byte) != 0 || c == '-' || c == '_')
      anchor += static_cast<char>(std::tolower(byte));
  }
  return anchor;
}

/// Calls visit(number, text, line) for the lines of a document that are not in a block of code; `text` is the
/// line without what is code in it.
template <class Visit>
void for_each_line_of_text(const std::string& document, const Visit& visit) {
  static const std::regex kCode("`[^`]*`");
  bool is_code = false;
  for_each_line(document, [&](std::size_t number, const std::string& line) {
    is_code ^= line.starts_with("```");
    if (!is_code) visit(number, std::regex_replace(line, kCode, ""), line);
  });
}

std::set<std::string> anchors_of(const std::string& document) {
  std::set<std::string> anchors;
  for_each_line_of_text(document, [&](std::size_t, const std::string&, const std::string& line) {
    const std::size_t level = line.find_first_not_of('#');
    if (level == 0 || level == std::string::npos || line[level] != ' ') return;
    const std::string anchor = anchor_of(line.substr(level + 1));
    std::string free = anchor;
    for (int same = 1; anchors.contains(free); ++same) free = fmt::format("{}-{}", anchor, same);
    anchors.insert(free);
  });
  return anchors;
}

}  // namespace

Violations broken_links(const std::vector<File>& tree) {
  static const std::regex kLink(R"re(\]\(([^)\s#]*)(#([^)\s]*))?(\s+"[^"]*")?\))re");
  std::map<std::string, std::set<std::string>> anchors;  // by document
  std::set<std::string> paths;
  for (const File& file : tree) {
    for (fs::path path = file.path; !path.empty(); path = path.parent_path()) paths.insert(path);
    if (file.path.ends_with(".md")) anchors[file.path] = anchors_of(file.text);
  }
  Violations violations;
  for (const File& file : tree) {
    if (!file.path.ends_with(".md")) continue;
    for_each_line_of_text(file.text, [&](std::size_t number, const std::string& line, const std::string&) {
      for (std::sregex_iterator match(line.begin(), line.end(), kLink), end; match != end; ++match) {
        const std::string to = match->str(1);
        // Links to other sites, and to binary files.
        if (to.find(':') != std::string::npos || to.ends_with(".png")) continue;
        fs::path path =
            to.empty() ? fs::path(file.path) : (fs::path(file.path).parent_path() / to).lexically_normal();
        if (!path.has_filename()) path = path.parent_path();
        if (top_folder(path) == "data") continue;
        const bool has_anchor =
            match->str(3).empty() || (anchors.contains(path) && anchors[path].contains(match->str(3)));
        if (!paths.contains(path) || !has_anchor)
          violations.push_back(fmt::format("{}:{}: a link to nothing: {}", file.path, number, match->str()));
      }
    });
  }
  return violations;
}

Violations missing_commands(const std::vector<File>& tree) {
  static const std::regex kScript(R"re((scripts|\.ci)/[A-Za-z0-9_-]+(\.[a-z]+)?)re");
  static const std::regex kPreset(R"re(--preset[ =]([A-Za-z0-9_-]+))re");
  std::set<std::string> paths;
  std::string presets;
  for (const File& file : tree) {
    paths.insert(file.path);
    if (file.path == "CMakePresets.json") presets = file.text;
  }
  Violations violations;
  for (const File& file : tree) {
    if (!file.path.ends_with(".md")) continue;
    for_each_line(file.text, [&](std::size_t number, const std::string& line) {
      const auto each = [&](const std::regex& pattern, auto&& exists, std::size_t group) {
        for (std::sregex_iterator match(line.begin(), line.end(), pattern), end; match != end; ++match) {
          if (!exists((*match)[group].str())) {
            violations.push_back(fmt::format("{}:{}: there is no {}", file.path, number, match->str()));
          }
        }
      };
      each(
          kScript, [&](const std::string& path) { return paths.contains(path); }, 0);
      each(
          kPreset,
          [&](const std::string& name) {
            return presets.find(fmt::format("\"name\": \"{}\"", name)) != std::string::npos;
          },
          1);
    });
  }
  return violations;
}

std::vector<CommandLine> shown_command_lines(const std::vector<File>& tree) {
  static const std::regex kCommand(R"re((?:^|[\s/])verbena((?: [a-z]+)+)((?: [^|>&;#]*)?))re");
  static const std::regex kOption(R"re((?:^|[\s\[(])(--[a-z][a-z-]*))re");
  std::vector<CommandLine> commands;
  for (const File& file : tree) {
    if (!file.path.ends_with(".md") && !file.path.starts_with("scripts/")) continue;
    for_each_command(file, [&](std::size_t number, const std::string& line) {
      std::smatch match;
      if (line.find_first_not_of(' ') == line.find('#') || !std::regex_search(line, match, kCommand)) return;
      CommandLine command{.place = fmt::format("{}:{}", file.path, number),
                          .subcommands = match.str(1).substr(1)};
      const std::string rest = match.str(2);
      for (std::sregex_iterator option(rest.begin(), rest.end(), kOption), end; option != end; ++option) {
        command.options.push_back(option->str(1));
      }
      commands.push_back(std::move(command));
    });
  }
  return commands;
}

}  // namespace verbena::repository
