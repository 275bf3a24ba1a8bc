#include "apps/report/terminal.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

#include <array>
#include <map>
#include <string>

namespace verbena::apps {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TerminalUse use_of(bool is_terminal, const std::map<std::string, std::string>& environment) {
  return terminal_use(is_terminal, [&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

TEST(TerminalTest, WhatMayBeSent) {
  const TerminalUse usual = use_of(true, {{"TERM", "xterm"}});
  EXPECT_TRUE(usual.redraws && usual.colours);
  const TerminalUse file = use_of(false, {{"TERM", "xterm"}});
  EXPECT_FALSE(file.redraws || file.colours);
  for (const char* const dumb : {"dumb", ""}) {
    const TerminalUse use = use_of(true, {{"TERM", dumb}});
    EXPECT_FALSE(use.redraws || use.colours) << dumb;
  }
  EXPECT_FALSE(use_of(true, {}).redraws);
  const TerminalUse plain = use_of(true, {{"TERM", "xterm"}, {"NO_COLOR", "1"}});
  EXPECT_TRUE(plain.redraws);
  EXPECT_FALSE(plain.colours);
  EXPECT_TRUE(use_of(true, {{"TERM", "xterm"}, {"NO_COLOR", ""}}).colours)
      << "an empty NO_COLOR does not count (no-color.org)";
}

TEST(TerminalTest, TheStatusLineNeedsNoEscapeSequences) {
  std::array<int, 2> ends{};
  winsize size = {.ws_row = 24, .ws_col = 12, .ws_xpixel = 0, .ws_ypixel = 0};
  ASSERT_EQ(::openpty(ends.data(), &ends[1], nullptr, nullptr, &size), 0);
  std::FILE* const terminal = ::fdopen(ends[1], "w");
  {
    StatusLine line(terminal);
    line.show("reading ééééé, much more than fits");
    line.show("\x1b[31mé");
    line.show("x");
  }
  const std::string expected =
      "\rreading ééé"
      "\r\\u001b[31mé"
      "\rx          "
      "\r \r";
  std::string drawn;
  std::array<char, 4096> bytes{};
  while (drawn.size() < expected.size()) {  // a read returns only what one flush has written
    const ssize_t got = ::read(ends[0], bytes.data(), bytes.size());
    ASSERT_GT(got, 0) << drawn;
    drawn.append(bytes.data(), static_cast<std::size_t>(got));
  }
  EXPECT_EQ(drawn, expected);
  std::fclose(terminal);
  ::close(ends[0]);
}

}  // namespace
}  // namespace verbena::apps
