// What holds for each option of each command and application. New options are tested, too.
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>
#include <string>

#include "apps/program/commands.hpp"

namespace verbena::apps {
namespace {

class OptionsTest : public ::testing::Test {
 protected:
  /// Calls `look` for each option that has a value.
  void for_each_option(const std::function<void(const CLI::App&, CLI::Option&)>& look) {
    visit(*program_, look);
    EXPECT_GT(seen_, 200);  // otherwise the visit has missed options
  }
  /// Whether the option takes `text`. If so, `understood` gets the value that is recorded.
  static bool takes(CLI::Option& option, const std::string& text, std::string* understood = nullptr) {
    option.clear();
    option.add_result(text);
    try {
      option.run_callback();
    } catch (const CLI::ParseError&) {
      return false;
    }
    if (understood != nullptr) *understood = option.results().front();
    return true;
  }
  /// One of some numbers that the option takes; empty if it takes none of them.
  static std::string number_taken(CLI::Option& option) {
    for (const char* const text : {"8", "16", "1", "2", "0.5", "5000"}) {
      if (takes(option, text)) return text;
    }
    return {};
  }
  CLI::App& program() { return *program_; }
  [[nodiscard]] const Applications& applications() const { return applications_; }
  static bool is_number(CLI::Option& option) { return !takes(option, "x") && !number_taken(option).empty(); }

 private:
  void visit(CLI::App& command, const std::function<void(const CLI::App&, CLI::Option&)>& look) {
    for (CLI::Option* option : command.get_options()) {
      if (option->get_expected_max() == 0 || option->get_items_expected_max() == 0) continue;  // a flag
      SCOPED_TRACE(command.get_parent()->get_name() + " " + command.get_name() + " " + option->get_name());
      ++seen_;
      look(command, *option);
      option->clear();
    }
    for (CLI::App* inner : command.get_subcommands([](CLI::App*) { return true; })) visit(*inner, look);
  }

  const Applications applications_ = make_applications();
  apps::Run run_;
  const std::unique_ptr<CLI::App> program_ = make_program(applications_, make_commands(), &run_);
  int seen_ = 0;
};

TEST_F(OptionsTest, NumbersAreDecimalAndWhole) {
  std::set<std::string> numbers;
  for_each_option([&](const CLI::App&, CLI::Option& option) {
    if (!is_number(option)) return;
    numbers.insert(option.get_name());
    const std::string number = number_taken(option);
    std::string understood;
    EXPECT_TRUE(takes(option, "0" + number, &understood));
    EXPECT_EQ(understood, number);  // the recorded value is the one that is used
    EXPECT_TRUE(takes(option, "00" + number));
    for (const std::string& text :
         std::initializer_list<std::string>{"+" + number,  " " + number, number + " ",
                                            "0x" + number, number + "x", "0x1p3",
                                            "0b1",         "1'000",      "1,",
                                            "1_0",         "",           " ",
                                            "-",           ".",          "1e",
                                            "nan",         "inf",        "1e999",
                                            "١",           "1\n",        "99999999999999999999999999"}) {
      if (text == "1," && option.get_delimiter() == ',') continue;
      if (text.size() > 20 && takes(option, "0.5")) continue;  // a real number may be large
      EXPECT_FALSE(takes(option, text)) << text;
    }
  });
  for (const char* const name :
       {"--seed", "--iterations", "--workers", "--learning-rate", "--budget", "--sizes", "--lookahead",
        "--relation-regularization", "--nodes", "--device-port", "--silence-timeout"}) {
    EXPECT_TRUE(numbers.contains(name)) << name;
  }
}

TEST_F(OptionsTest, EachSeedOf64BitsIsTaken) {
  int seeds = 0;
  for_each_option([&](const CLI::App&, CLI::Option& option) {
    if (option.get_name() != "--seed") return;
    ++seeds;
    std::string understood;
    for (const char* const text : {"0", "1", "9223372036854775808", "18446744073709551615"}) {
      EXPECT_TRUE(takes(option, text, &understood)) << text;
      EXPECT_EQ(understood, text);
    }
    EXPECT_TRUE(takes(option, "08", &understood));
    EXPECT_EQ(understood, "8");
    for (const char* const text : {"18446744073709551616", "-1", "1.0", "1e3", "0x10", "-0"}) {
      EXPECT_FALSE(takes(option, text)) << text;
    }
  });
  EXPECT_GE(seeds, 15);
}

TEST_F(OptionsTest, NoneTakesAnEmptyValueOrTheNextOption) {
  for_each_option([&](const CLI::App&, CLI::Option& option) {
    if (option.get_items_expected_min() == 0) return;  // it may stand alone
    EXPECT_FALSE(takes(option, ""));
    EXPECT_FALSE(takes(option, "--report"));
    EXPECT_FALSE(takes(option, "--report-to=7"));
  });
}

bool is_path(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  for (const char* const name : {"FILE", "FOLDER", "PREFIX"}) {
    if (type.find(name) != std::string::npos) return true;
  }
  return false;
}

TEST_F(OptionsTest, WhatTakesAnyTextSaysWhetherItIsAPath) {
  const std::set<std::string> no_paths = {"NAME",     "ADDRESS",   "[ADDRESS]", "HOST:PORT,…", "WORD,WORD,…",
                                          "ENCODING", "ADMISSION", "EVICTION",  "FILTER",      "USER,USER,…"};
  for_each_option([&](const CLI::App&, CLI::Option& option) {
    if (!takes(option, "some/where.x") || is_path(option)) return;
    const std::string type = option.get_type_name();
    const bool is_choice = type.find('|') != std::string::npos;
    EXPECT_TRUE(is_choice || no_paths.contains(type)) << type;
  });
}

TEST_F(OptionsTest, EachPathOfAnApplicationIsCompared) {
  for (const auto& application : applications()) {
    for (const char* const command : {"run", "worker"}) {
      CLI::App* const app =
          program().get_subcommand(command)->get_subcommand(std::string(application->name()));
      for (CLI::Option* option : app->get_options()) {
        const std::string name = option->get_name();
        // Options of the command itself, not of the application.
        const std::set<std::string> own = {"--metrics", "--report", "--secret-file", "--checkpoint",
                                           "--resume-from"};
        if (!is_path(*option) || own.contains(name)) continue;
        SCOPED_TRACE(std::string(application->name()) + " " + name);
        ASSERT_TRUE(takes(*option, "some/where.x"));
        const Files files = application->files();
        const auto names_it = [&](const NamedFile& file) {
          return file.option == name && file.path.starts_with("some/where.x");
        };
        EXPECT_TRUE(std::any_of(files.inputs.begin(), files.inputs.end(), names_it) ||
                    std::any_of(files.outputs.begin(), files.outputs.end(), names_it));
      }
    }
  }
}

}  // namespace
}  // namespace verbena::apps
