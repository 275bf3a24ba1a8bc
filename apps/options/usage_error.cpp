#include "apps/options/usage_error.hpp"

#include <fmt/format.h>

#include <string_view>

#include "absl/strings/str_join.h"
#include "apps/options/manual_formatter.hpp"

namespace verbena::apps {
namespace {

/// "an option --x", "two of them"; nothing of what is unknown is left out.
std::string unknown_arguments(const std::vector<std::string>& unknown) {
  if (unknown.size() == 1 && unknown.front().starts_with('-')) return "there is no option " + unknown.front();
  return fmt::format("nothing is known of {}", absl::StrJoin(unknown, " "));
}

/// Of its commands: "a, b or c"
std::string names_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* const command : shown_commands(app)) names.push_back(command->get_name());
  const std::string last = names.back();
  names.pop_back();
  return names.empty() ? last : fmt::format("{} or {}", absl::StrJoin(names, ", "), last);
}

/// Rewrites the library's messages, which are for programmers and begin with the option's name.
std::string plain_sentence(const CLI::App& app, const CLI::ParseError& error) {
  const std::string text = error.what();
  const std::string name = text.substr(0, text.find(": "));
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    constexpr std::string_view kReceived = "At Most 1 required but received ";
    if (const std::size_t at = text.find(kReceived); at != std::string::npos) {
      return fmt::format("{} is given {} times; once is meant", name, text.substr(at + kReceived.size()));
    }
    if (text.ends_with(" missing")) return fmt::format("{} needs a value", name);
    constexpr std::string_view kFlag = " was given a disallowed flag override";
    if (text.ends_with(kFlag)) {
      return fmt::format("{} takes no value", text.substr(0, text.size() - kFlag.size()));
    }
  }
  constexpr std::string_view kPrefix = "Could not convert: ";
  const std::size_t equals = text.find(" = ");
  const bool converted = dynamic_cast<const CLI::ConversionError*>(&error) == nullptr;
  if (!converted && text.starts_with(kPrefix) && equals != std::string::npos) {
    const std::string option = text.substr(kPrefix.size(), equals - kPrefix.size());
    const CLI::Option* const found = app.get_option_no_throw(option);
    if (found != nullptr && found->get_items_expected_max() == 0) return option + " takes no value";
    return fmt::format("{}: another kind of value is expected, not \"{}\"", option, text.substr(equals + 3));
  }
  if (!converted) return name + " takes no value";  // the rest is about flags
  return text;
}

}  // namespace

const CLI::App& innermost_command(const CLI::App& program, std::string* name) {
  const CLI::App* app = &program;
  *name = app->get_name();
  while (!app->get_subcommands().empty()) {
    app = app->get_subcommands().front();
    *name += " " + app->get_name();
  }
  return *app;
}

absl::Status usage_error(const CLI::App& program, const CLI::ParseError& error) {
  std::string command;
  const CLI::App& app = innermost_command(program, &command);
  // If an unknown name was given, the library only says that something is missing.
  const std::vector<std::string> unknown = program.remaining(true);
  std::string sentence;
  if (app.get_require_subcommand_min() > 0) {
    sentence = unknown.empty() ? fmt::format("{}: the name of what to do is missing", command)
                               : fmt::format("there is no {}; expected {}", unknown.front(), names_of(app));
  } else if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr ||
             (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && !unknown.empty())) {
    sentence = unknown_arguments(unknown);
  } else {
    sentence = plain_sentence(app, error);
  }
  return absl::InvalidArgumentError(fmt::format("{} (see {} --help)", sentence, command));
}

}  // namespace verbena::apps
