// What the program says of a command: --help shows it as a text, manual_page.hpp as a page for man.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

namespace verbena::apps {

/// The group of a command's commands that are neither applications nor have another name for what they are.
inline constexpr const char* kCommands = "Commands";

struct Manual {
  struct Entry {
    std::string name;   ///< "-h, --help", "lda"
    std::string value;  ///< "FILE"; empty: it takes none
    std::string text;
  };
  /// Has a text, or entries, or lines.
  struct Section {
    std::string title;
    std::string text;             ///< paragraphs, one a line
    std::vector<Entry> options;   ///< one below the other
    std::vector<Entry> commands;  ///< a table
    std::string lines;            ///< shown as they are
  };
  std::string command;  ///< "verbena run lda"
  std::string summary;  ///< one line
  std::vector<Section> sections;
};

/// "verbena run lda"
std::string full_name(const CLI::App& app);
/// The commands that are shown to users: a command without a group is for programs.
std::vector<const CLI::App*> shown_commands(const CLI::App& app);
/// What stands for the option's value, such as FILE; empty: it takes none.
std::string value_name(const CLI::Option& option);

/// The description of a command is "one line" or "one line\n\nmore"; its footer is more sections, each a
/// title and lines that are indented. One that is called EXIT STATUS replaces the usual one.
class ManualFormatter : public CLI::Formatter {
 public:
  /// `also_required`: what the synopsis shows in addition to the options that are marked as required.
  explicit ManualFormatter(std::string also_required = "") : also_required_(std::move(also_required)) {}
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
  [[nodiscard]] Manual manual(const CLI::App& app) const;

 private:
  const std::string also_required_;
};

/// As the formatter of `app` has it.
Manual manual_of(const CLI::App& app);

}  // namespace verbena::apps
