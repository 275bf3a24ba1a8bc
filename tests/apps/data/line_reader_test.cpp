#include "apps/data/line_reader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "tests/temporary_folder.hpp"

namespace verbena::apps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class LineReaderTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string path() const { return folder_.path("text"); }
  void write(std::string_view text) const { verbena::testing::write_file(path(), text); }
  void write_gzip(std::string_view text) const {
    gzFile file = gzopen(path().c_str(), "wb");
    ASSERT_EQ(gzwrite(file, text.data(), static_cast<unsigned>(text.size())), static_cast<int>(text.size()));
    gzclose(file);
  }
  [[nodiscard]] absl::StatusOr<std::vector<std::string>> lines(ReadProgress progress = {}) const {
    absl::StatusOr<LineReader> reader = LineReader::open(path(), std::move(progress));
    if (!reader.ok()) return reader.status();
    std::vector<std::string> result;
    std::string_view line;
    while (true) {
      const absl::StatusOr<bool> more = reader->next(line);
      if (!more.ok()) return more.status();
      if (!*more) break;
      result.emplace_back(line);
      EXPECT_EQ(reader->line_number(), result.size());
    }
    return result;
  }

  verbena::testing::TemporaryFolder folder_;
};

TEST_F(LineReaderTest, GivesLinesWithoutTheirEnds) {
  write("one\r\n\ntwo\nlast");
  EXPECT_THAT(*lines(), ElementsAre("one", "", "two", "last"));
  write("one\n");
  EXPECT_THAT(*lines(), ElementsAre("one"));
  write("");
  EXPECT_THAT(*lines(), IsEmpty());
}

TEST_F(LineReaderTest, DropsAByteOrderMark) {
  write("\xEF\xBB\xBFone\n\xEF\xBB\xBFtwo\n");
  EXPECT_THAT(*lines(), ElementsAre("one", "\xEF\xBB\xBFtwo"));
}

TEST_F(LineReaderTest, ReadsLinesLongerThanItsBuffer) {
  const std::string long_line(3'000'000, 'x');
  write("short\n" + long_line + "\nend\n");
  EXPECT_THAT(*lines(), ElementsAre("short", long_line, "end"));
}

TEST_F(LineReaderTest, ReadsGzip) {
  write_gzip("one\ntwo\n");
  EXPECT_THAT(*lines(), ElementsAre("one", "two"));
}

TEST_F(LineReaderTest, RefusesDamagedGzip) {
  std::string text;
  for (int n = 0; n < 10'000; ++n) text += std::to_string(n * 7919) + "\n";
  write_gzip(text);
  std::filesystem::resize_file(path(), std::filesystem::file_size(path()) / 2);
  const auto cut = lines();
  ASSERT_FALSE(cut.ok());
  EXPECT_THAT(std::string(cut.status().message()), HasSubstr(path() + ":"));

  write_gzip(text);
  std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(std::filesystem::file_size(path())) - 6);
  file << "??";
  file.close();
  EXPECT_FALSE(lines().ok());
}

TEST_F(LineReaderTest, TellsItsProgress) {
  write(std::string(3'000'000, '\n'));
  double last = 0;
  double total = 0;
  ASSERT_TRUE(lines([&](double done, double all) {
                EXPECT_GE(done, last);
                last = done;
                total = all;
              }).ok());
  EXPECT_EQ(total, 3'000'000);
  EXPECT_EQ(last, total);
}

TEST_F(LineReaderTest, NamesWhatCannotBeRead) {
  const auto missing = LineReader::open(path());
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr(path()));
  const auto folder = LineReader::open(folder_.path().string());
  EXPECT_EQ(folder.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(folder.status().message()), HasSubstr("found a folder"));
}

TEST_F(LineReaderTest, ErrorsHaveAPlaceAndStayOnOneLine) {
  write("one\ntwo\n");
  auto reader = LineReader::open(path());
  ASSERT_TRUE(reader.ok());
  std::string_view line;
  ASSERT_TRUE(*reader->next(line) && *reader->next(line));
  const absl::Status error = reader->error("a number", "two\n\x1b[31m");
  EXPECT_EQ(error.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(error.message()), path() + ":2: expected a number, found \"two\\n\\u001b[31m\"");
  EXPECT_LT(reader->error("a number", std::string(10'000, 'x')).message().size(), path().size() + 200);
}

}  // namespace
}  // namespace verbena::apps
