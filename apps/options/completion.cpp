#include "apps/options/completion.hpp"

#include <algorithm>
#include <set>

#include "absl/strings/str_split.h"
#include "apps/options/manual_formatter.hpp"

namespace verbena::apps {
namespace {

bool takes_value(const CLI::Option& option) {
  return option.get_items_expected_max() > 0;
}
bool takes_several(const CLI::Option& option) {
  return option.get_items_expected_max() > 1;
}

/// The first sentence, or as much of it as fits beside a word.
std::string in_short(const std::string& description) {
  constexpr std::size_t kMost = 70;
  std::string text = description.substr(0, description.find('\n'));
  text = text.substr(0, text.find(". "));
  if (text.ends_with('.')) text.pop_back();
  if (text.size() <= kMost) return text;
  text.resize(std::min(text.rfind(' ', kMost), kMost));
  return text + " …";
}

/// Where the words before the last one lead.
struct Place {
  const CLI::App* app = nullptr;        ///< whose commands may come next
  const CLI::App* owner = nullptr;      ///< whose options may come next
  const CLI::Option* option = nullptr;  ///< whose value may come next
  bool is_value_missing = false;        ///< nothing else can come next
  bool is_command_refused = false;      ///< behind an option of `run` itself, which is for "run … --"
  bool is_other_program = false;        ///< behind "run … --": not ours
};

const CLI::App* command_of(const CLI::App& app, const std::string& name) {
  for (const CLI::App* command : shown_commands(app)) {
    if (command->get_name() == name) return command;
  }
  return nullptr;
}

/// A word that begins with a hyphen.
void pass_option(const std::string& word, Place& place) {
  place.is_command_refused = place.owner->get_name() == "run";
  const bool has_value = word.find('=') != std::string::npos;
  place.option = has_value ? nullptr : place.owner->get_option_no_throw(word);
  if (place.option != nullptr && !takes_value(*place.option)) place.option = nullptr;
  place.is_value_missing = place.option != nullptr && place.option->get_items_expected_min() > 0;
}

Place place_behind(const CLI::App& program, std::span<const std::string> words) {
  Place place{.app = &program, .owner = &program};
  for (const std::string& word : words) {
    if (word == "--") return {.is_other_program = true};
    if (place.is_value_missing) {
      place.is_value_missing = false;
      if (!takes_several(*place.option)) place.option = nullptr;
    } else if (word.starts_with('-')) {
      pass_option(word, place);
    } else if (const CLI::App* const command =
                   place.is_command_refused ? nullptr : command_of(*place.app, word)) {
      // `verbena help run lda`: names of all commands, but its own options.
      const bool is_explained = place.owner->get_name() == "help";
      place = {.app = command->get_name() == "help" ? &program : command,
               .owner = is_explained ? place.owner : command};
    } else if (place.option != nullptr && !takes_several(*place.option)) {
      place.option = nullptr;
    }
  }
  return place;
}

void add_paths(Completion::Paths paths, Completion& completion) {
  completion.paths = std::max(completion.paths, paths);
}

/// `before`: what stands in the same word before the value.
void add_values(const CLI::Option& option, const std::string& before, const std::string& begun,
                Completion& completion) {
  const std::string type = option.get_type_name();
  std::set<std::string> given;
  std::string prefix = before;
  const char delimiter = option.get_delimiter();
  if (const std::size_t last = begun.rfind(delimiter); delimiter != '\0' && last != std::string::npos) {
    given = absl::StrSplit(begun.substr(0, last), delimiter);
    prefix += begun.substr(0, last + 1);
  }
  const std::vector<std::string> alternatives = absl::StrSplit(type, '|');
  for (const std::string& alternative : alternatives) {
    if (alternative == "FILE" || alternative == "FILE.html" || alternative == "PREFIX") {
      add_paths(Completion::Paths::kFiles, completion);
    } else if (alternative == "FOLDER") {
      add_paths(Completion::Paths::kFolders, completion);
    }
    if (alternatives.size() == 1 || type.find(',') != std::string::npos) continue;
    const std::size_t end = alternative.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-:=");
    const std::string word = alternative.substr(0, end);
    if (!word.empty() && !given.contains(word)) completion.words.push_back({prefix + word, ""});
  }
}

void add_option_names(const CLI::App& app, Completion& completion) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      completion.words.push_back({"--" + name, in_short(option->get_description())});
    }
    for (const std::string& name : option->get_snames()) {
      completion.words.push_back({"-" + name, in_short(option->get_description())});
    }
  }
}

void add_what_is_no_option(const Place& place, const std::string& begun, Completion& completion) {
  if (!place.is_command_refused) {
    for (const CLI::App* command : shown_commands(*place.app)) {
      completion.words.push_back({command->get_name(), in_short(command->get_description())});
    }
  }
  if (place.option != nullptr) add_values(*place.option, "", begun, completion);
  for (const CLI::Option* option : place.owner->get_options()) {
    if (option->get_positional()) add_values(*option, "", begun, completion);
  }
}

}  // namespace

Completion complete(const CLI::App& program, std::span<const std::string> words) {
  const std::string last = words.empty() ? "" : words.back();
  const Place place = place_behind(program, words.first(words.empty() ? 0 : words.size() - 1));
  Completion completion;
  const std::size_t equals = last.find('=');
  if (place.is_other_program) {
    completion.paths = Completion::Paths::kFiles;
  } else if (place.is_value_missing) {
    add_values(*place.option, "", last, completion);
  } else if (last.starts_with("--") && equals != std::string::npos) {
    const CLI::Option* const option = place.owner->get_option_no_throw(last.substr(0, equals));
    if (option != nullptr)
      add_values(*option, last.substr(0, equals + 1), last.substr(equals + 1), completion);
  } else if (last.starts_with('-')) {
    add_option_names(*place.owner, completion);
  } else {
    add_what_is_no_option(place, last, completion);
    if (last.empty() && completion.words.empty() && completion.paths == Completion::Paths::kNone) {
      add_option_names(*place.owner, completion);
    }
  }
  std::erase_if(completion.words, [&](const Completion::Word& word) { return !word.text.starts_with(last); });
  return completion;
}

}  // namespace verbena::apps
