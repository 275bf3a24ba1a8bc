// The program knows every command line that the documents and scripts show.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>

#include "tests/repository/rules.hpp"

namespace verbena::repository {
namespace {

/// What `verbena SUBCOMMANDS --help` says; empty if it fails.
std::string help_of(const std::string& subcommands) {
  FILE* pipe = ::popen(fmt::format("'{}' {} --help", VERBENA_PROGRAM, subcommands).c_str(), "r");
  if (pipe == nullptr) return "";
  std::string text;
  std::array<char, 4096> buffer{};
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    text.append(buffer.data(), count);
  }
  return ::pclose(pipe) == 0 ? text : "";
}

TEST(CommandsTest, ShownCommandLinesAreKnown) {
  const std::vector<CommandLine> commands = shown_command_lines(read_tree(VERBENA_SOURCE_DIR));
  EXPECT_FALSE(commands.empty());
  for (const CommandLine& command : commands) {
    const std::string help = help_of(command.subcommands);
    EXPECT_FALSE(help.empty()) << command.place << ": verbena " << command.subcommands << " is no command";
    for (const std::string& option : command.options) {
      EXPECT_THAT(help, ::testing::ContainsRegex(option + "[^a-z-]"))
          << command.place << ": verbena " << command.subcommands << " has no " << option;
    }
  }
}

}  // namespace
}  // namespace verbena::repository
