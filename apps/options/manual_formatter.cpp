#include "apps/options/manual_formatter.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <sstream>

namespace verbena::apps {
namespace {

constexpr std::size_t kWidth = 90;
constexpr std::size_t kNameIndent = 7;
constexpr std::size_t kTextIndent = 14;

std::string wrap(const std::string& text, std::size_t indent) {
  const std::string margin(indent, ' ');
  std::string out;
  std::istringstream paragraphs(text);
  for (std::string paragraph; std::getline(paragraphs, paragraph);) {
    std::istringstream words(paragraph);
    std::string line;
    for (std::string word; words >> word;) {
      if (!line.empty() && indent + line.size() + 1 + word.size() > kWidth) {
        out += margin + line + "\n";
        line.clear();
      }
      line += (line.empty() ? "" : " ") + word;
    }
    out += line.empty() ? "\n" : margin + line + "\n";
  }
  return out;
}

/// The text unchanged, but indented.
std::string verbatim(const std::string& text, std::size_t indent) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) out += std::string(indent, ' ') + line + "\n";
  return out;
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::toupper(letter)); });
  return text;
}

/// "verbena run lda"
std::string full_name(const CLI::App* app) {
  return app->get_parent() == nullptr ? app->get_name()
                                      : full_name(app->get_parent()) + " " + app->get_name();
}

std::vector<const CLI::App*> subcommands_of(const CLI::App* app) {
  return app->get_subcommands([](const CLI::App* command) { return !command->get_group().empty(); });
}

/// The kind of a command's commands: the group that they were put into, or else applications.
std::string kind_of(const CLI::App* app, const std::vector<const CLI::App*>& commands) {
  static const std::string kUsual = CLI::App().get_group();
  if (app->get_parent() == nullptr) return upper(kCommands);
  const std::string& group = commands.front()->get_group();
  return group == kUsual ? "APPLICATIONS" : upper(group);
}

/// Lists the required options by name, and the rest as "[OPTION]…".
std::string synopsis(const CLI::App* app, const std::string& also_required) {
  std::string text = full_name(app);
  const std::vector<const CLI::App*> commands = subcommands_of(app);
  if (!commands.empty()) {
    const std::string kind = kind_of(app, commands);
    text += kind == upper(kCommands) ? " COMMAND" : kind == "APPLICATIONS" ? " APP" : " NAME";
  }
  for (const CLI::Option* option : app->get_options()) {
    if (option->get_positional()) text += fmt::format(" [{}…]", option->get_name(true, false));
    if (option->get_required() && option->nonpositional()) {
      text += fmt::format(" {} {}", option->get_name(false, false), option->get_type_name());
    }
  }
  if (!also_required.empty()) text += " " + also_required;
  return text + " [OPTION]…";
}

}  // namespace

std::string ManualFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  std::string name = is_positional ? option->get_name(true, false) : option->get_name(false, true);
  for (std::size_t comma = name.find(','); comma != std::string::npos; comma = name.find(',', comma + 2)) {
    name.replace(comma, 1, ", ");
  }
  if (option->get_type_size() != 0 && !option->get_type_name().empty()) name += " " + option->get_type_name();
  std::string text = option->get_description();
  if (option->get_type_size() != 0 && !option->get_default_str().empty()) {
    text += fmt::format(" [default: {}]", option->get_default_str());
  }
  if (option->get_required()) text += " [required]";
  return std::string(kNameIndent, ' ') + name + "\n" + wrap(text, kTextIndent);
}

std::string ManualFormatter::make_subcommand(const CLI::App* command) const {
  const std::string description = command->get_description();
  return fmt::format("{:{}}{:<10} {}\n", "", kNameIndent, command->get_name(),
                     description.substr(0, description.find('\n')));
}

std::string ManualFormatter::options_of(const CLI::App* app, const ManualFormatter& formatter) {
  // The application's own first, --help last.
  std::vector<std::string> groups = app->get_groups();
  std::stable_partition(groups.begin(), groups.end(),
                        [](const std::string& group) { return group != "General"; });
  std::string out;
  for (const std::string& group : groups) {
    if (group.empty()) continue;
    std::string options;
    for (const CLI::Option* option : app->get_options()) {
      if (option->get_group() == group) options += formatter.make_option(option, option->get_positional());
    }
    if (!options.empty()) out += "\n" + upper(group) + "\n" + options;
  }
  return out;
}

std::string ManualFormatter::make_help(const CLI::App* app, std::string /*name*/,
                                       CLI::AppFormatMode /*mode*/) const {
  const std::string description = app->get_description();
  const std::size_t line = description.find('\n');
  std::string out =
      fmt::format("NAME\n{:{}}{} - {}\n", "", kNameIndent, full_name(app), description.substr(0, line));
  out += fmt::format("\nSYNOPSIS\n{}", wrap(synopsis(app, also_required_), kNameIndent));
  if (line != std::string::npos) {
    const std::size_t text = description.find_first_not_of('\n', line);
    out += fmt::format("\nDESCRIPTION\n{}", wrap(description.substr(text), kNameIndent));
  }
  std::string commands;
  for (const CLI::App* command : subcommands_of(app)) commands += make_subcommand(command);
  if (!commands.empty()) {
    out += fmt::format("\n{}\n{}", kind_of(app, subcommands_of(app)), commands);
  }
  out += options_of(app, *this);
  if (!app->get_footer().empty()) out += "\n" + verbatim(app->get_footer(), 0);
  if (app->get_footer().find("EXIT STATUS") != std::string::npos) return out;
  out += fmt::format("\nEXIT STATUS\n{}", verbatim("0      success\n"
                                                   "1      the run failed\n"
                                                   "2      impossible options or malformed input\n"
                                                   "3      training diverged: a number is infinite or none\n"
                                                   "130    ended by Ctrl-C (128 + the signal's number)",
                                                   kNameIndent));
  return out;
}

}  // namespace verbena::apps
