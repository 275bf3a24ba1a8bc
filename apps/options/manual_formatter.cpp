#include "apps/options/manual_formatter.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <sstream>
#include <string_view>

namespace verbena::apps {
namespace {

constexpr std::size_t kWidth = 90;
constexpr std::size_t kNameIndent = 7;
constexpr std::size_t kTextIndent = 14;
constexpr std::size_t kCommandIndent = 18;
constexpr const char* kExitStatus = "EXIT STATUS";

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

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

/// The kind of a command's commands: the group that they were put into, or else applications.
std::string kind_of(const CLI::App& app, const std::vector<const CLI::App*>& commands) {
  static const std::string kUsual = CLI::App().get_group();
  if (app.get_parent() == nullptr) return upper(kCommands);
  const std::string& group = commands.front()->get_group();
  return group == kUsual ? "APPLICATIONS" : upper(group);
}

/// Lists the required options by name, and the rest as "[OPTION]…".
std::string synopsis(const CLI::App& app, const std::string& also_required) {
  std::string text = full_name(app);
  const std::vector<const CLI::App*> commands = shown_commands(app);
  if (!commands.empty()) {
    const std::string kind = kind_of(app, commands);
    text += kind == upper(kCommands) ? " COMMAND" : kind == "APPLICATIONS" ? " APP" : " NAME";
  }
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) {
      const std::string name =
          option->get_name(true, false) + (option->get_items_expected_max() > 1 ? "…" : "");
      text += option->get_required() ? " " + name : fmt::format(" [{}]", name);
    }
    if (option->get_required() && option->nonpositional()) {
      text += fmt::format(" {} {}", option->get_name(false, false), value_name(*option));
    }
  }
  if (!also_required.empty()) text += " " + also_required;
  return text + " [OPTION]…";
}

Manual::Entry entry_of(const CLI::Option& option) {
  Manual::Entry entry{
      .name = option.get_positional() ? option.get_name(true, false) : option.get_name(false, true),
      .value = value_name(option),
      .text = option.get_description()};
  for (std::size_t comma = entry.name.find(','); comma != std::string::npos;
       comma = entry.name.find(',', comma + 2)) {
    entry.name.replace(comma, 1, ", ");
  }
  if (option.get_type_size() != 0 && !option.get_default_str().empty()) {
    entry.text += fmt::format(" [default: {}]", option.get_default_str());
  }
  if (option.get_required()) entry.text += " [required]";
  return entry;
}

/// One for each group: the application's own first, --help last.
void add_options(const CLI::App& app, Manual& manual) {
  std::vector<std::string> groups = app.get_groups();
  std::stable_partition(groups.begin(), groups.end(),
                        [](const std::string& group) { return group != "General"; });
  for (const std::string& group : groups) {
    if (group.empty()) continue;
    Manual::Section section{.title = upper(group)};
    for (const CLI::Option* option : app.get_options()) {
      if (option->get_group() == group) section.options.push_back(entry_of(*option));
    }
    if (!section.options.empty()) manual.sections.push_back(std::move(section));
  }
}

/// Reads the sections of a footer.
void add_footer(const std::string& footer, Manual& manual) {
  std::istringstream lines(footer);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(' ') && !line.empty()) {
      manual.sections.push_back({.title = line});
    } else if (!manual.sections.empty()) {
      manual.sections.back().lines += line.substr(std::min(kNameIndent, line.size())) + "\n";
    }
  }
}

std::string help_text(const Manual& manual) {
  std::string out = fmt::format("NAME\n{:{}}{} - {}\n", "", kNameIndent, manual.command, manual.summary);
  for (const Manual::Section& section : manual.sections) {
    out += fmt::format("\n{}\n{}", section.title, wrap(section.text, kNameIndent));
    for (const Manual::Entry& command : section.commands) {
      const std::string text = wrap(command.text, kCommandIndent);  // its first line goes behind the name
      const std::string name = fmt::format("{:{}}{:<10}", "", kNameIndent, command.name);
      out += name + text.substr(std::min(name.size(), kCommandIndent - 1));
    }
    for (const Manual::Entry& option : section.options) {
      out += fmt::format("{:{}}{}{}{}\n{}", "", kNameIndent, option.name, option.value.empty() ? "" : " ",
                         option.value, wrap(option.text, kTextIndent));
    }
    out += verbatim(section.lines, kNameIndent);
  }
  return out;
}

}  // namespace

std::string full_name(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name() : full_name(*app.get_parent()) + " " + app.get_name();
}

std::vector<const CLI::App*> shown_commands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* command) { return !command->get_group().empty(); });
}

std::string value_name(const CLI::Option& option) {
  if (option.get_type_size() == 0) return "";
  return option.get_option_text().empty() ? option.get_type_name() : option.get_option_text();
}

Manual ManualFormatter::manual(const CLI::App& app) const {
  const std::string description = app.get_description();
  Manual manual{.command = full_name(app), .summary = first_line(description)};
  manual.sections.push_back({.title = "SYNOPSIS", .text = synopsis(app, also_required_)});
  if (const std::size_t more = description.find_first_not_of('\n', manual.summary.size());
      more != std::string::npos) {
    manual.sections.push_back({.title = "DESCRIPTION", .text = description.substr(more)});
  }
  if (const std::vector<const CLI::App*> commands = shown_commands(app); !commands.empty()) {
    Manual::Section section{.title = kind_of(app, commands)};
    for (const CLI::App* command : commands) {
      section.commands.push_back(
          {.name = command->get_name(), .value = "", .text = first_line(command->get_description())});
    }
    manual.sections.push_back(std::move(section));
  }
  add_options(app, manual);
  add_footer(app.get_footer(), manual);
  if (manual.sections.back().title == kExitStatus) return manual;
  manual.sections.push_back({.title = kExitStatus,
                             .lines = "0      success\n"
                                      "1      the run failed\n"
                                      "2      impossible options or malformed input\n"
                                      "3      training diverged: a number is infinite or none\n"
                                      "130    ended by Ctrl-C (128 + the signal's number)\n"});
  return manual;
}

std::string ManualFormatter::make_help(const CLI::App* app, std::string /*name*/,
                                       CLI::AppFormatMode /*mode*/) const {
  return help_text(manual(*app));
}

Manual manual_of(const CLI::App& app) {
  const auto formatter = std::dynamic_pointer_cast<ManualFormatter>(app.get_formatter());
  return formatter == nullptr ? ManualFormatter().manual(app) : formatter->manual(app);
}

}  // namespace verbena::apps
