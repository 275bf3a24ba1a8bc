// --help as a manual page: name, synopsis, description, options by group, examples, exit status.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>

namespace verbena::apps {

/// The group of a command's commands that are neither applications nor have another name for what they are.
inline constexpr const char* kCommands = "Commands";

/// The description of a command is "one line" or "one line\n\nmore"; its footer is printed unchanged. A
/// footer with a section EXIT STATUS replaces the usual section.
class ManualFormatter : public CLI::Formatter {
 public:
  /// `also_required`: what the synopsis shows in addition to the options that are marked as required.
  explicit ManualFormatter(std::string also_required = "") : also_required_(std::move(also_required)) {}
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_subcommand(const CLI::App* command) const override;

 private:
  static std::string options_of(const CLI::App* app, const ManualFormatter& formatter);

  const std::string also_required_;
};

}  // namespace verbena::apps
