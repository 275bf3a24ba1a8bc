#include "base/printable.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace verbena::base {
namespace {

TEST(PrintableTest, EscapesWhatCouldMisleadAndKeepsTheRest) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"worker 1 (pid 7): \"no\" \\ space", "worker 1 (pid 7): \"no\" \\ space"},
      {"Zürich 日本語 नमस्ते ☕️", "Zürich 日本語 नमस्ते ☕️"},
      {"two\nlines\r\t", "two\\nlines\\r\\t"},
      {"\x1b[31mred\x7f", "\\u001b[31mred\\u007f"},
      {std::string("nul\0", 4), "nul\\u0000"},
      {"\xc2\x9b"
       "31m",
       "\\u009b31m"},                                   // the same sequence in one character
      {"abc\xe2\x80\xaegpj.exe", "abc\\u202egpj.exe"},  // written from right to left
      {"a\xe2\x80\xa8"
       "b\xe2\x81\xa6"
       "c",
       "a\\u2028b\\u2066c"},  // a line separator, a directional isolate
      {"\xef\xbb\xbfmark", "\\ufeffmark"},
      {"\xf3\xa0\x81\x81", "\\udb40\\udc41"},  // an invisible tag character
      {"\xff"
       "a\xc3",
       "\\xffa\\xc3"},  // not UTF-8, and cut off
      {"\xc0\x8a\xed\xa0\x80\xf4\x90\x80\x80", "\\xc0\\x8a\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80"},
  };
  for (const auto& [text, shown] : cases) {
    EXPECT_EQ(printable(text), shown);
    EXPECT_EQ(printable(shown), shown) << "a second time must change nothing";
  }
}

TEST(PrintableTest, LinesStayLines) {
  EXPECT_EQ(printable_lines("a\x1b\nb\n"), "a\\u001b\nb\n");
  EXPECT_EQ(printable_lines("a\n\nb\r"), "a\n\nb\\r");
  EXPECT_EQ(printable_lines(""), "");
}

TEST(PrintableTest, AStatusKeepsItsCode) {
  EXPECT_EQ(printable(absl::AbortedError("gave\nup")), absl::AbortedError("gave\\nup"));
  EXPECT_TRUE(printable(absl::OkStatus()).ok());
}

}  // namespace
}  // namespace verbena::base
