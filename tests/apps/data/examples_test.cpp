#include "apps/data/examples.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "apps/data/corpus.hpp"
#include "apps/data/ratings.hpp"
#include "apps/data/triples.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::apps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

TEST(FeatureKeysTest, AreTheSameForEver) {
  EXPECT_EQ(hash_of_text(""), 0xa706dd2f4d197e6fU);
  EXPECT_EQ(hash_of_text("a"), 0xaa2a39fe9bde47a0U);
  EXPECT_EQ(hash_of_text(std::string_view("a\0", 2)), 0x45d079074a76f2c6U) << "zeros fill up the last word";
  EXPECT_EQ(hash_of_text("05db9164"), 0xa46d15643b9580e4U) << "one whole word";
  EXPECT_EQ(hash_of_text("05db91645"), 0xa152aaddc8cafe0bU);
  EXPECT_EQ(hash_of_text("the quick brown fox"), 0xe05e2edf184bcf27U);
  EXPECT_EQ(hash_of_text("a", 1), 0x9e80a35248cb6cd7U);
  EXPECT_EQ(text_key(14, "05db9164"), 0x00ed15643b9580e4U);
  const NamedSlot user("user");
  EXPECT_EQ(user.slot, 2212U);
  EXPECT_EQ(user.key("a"), Key{2212} << 52U | 0x9f9fba94de1c7U);
  EXPECT_EQ(NamedSlot("").slot, 3878U);
}

TEST(FeatureKeysTest, HashesOfSimilarTextsDiffer) {
  std::set<Key> keys;
  std::map<Key, int> by_slot;
  constexpr int kTexts = 50'000;
  for (int n = 0; n < kTexts; ++n) {
    keys.insert(text_key(1, "w" + std::to_string(n)));
    ++by_slot[NamedSlot("w" + std::to_string(n)).slot];
  }
  EXPECT_EQ(keys.size(), kTexts);
  EXPECT_EQ(by_slot.size(), kMostSlot) << "every slot is used, with 12 names each on average";
  EXPECT_EQ(by_slot.begin()->first, 1U);
  EXPECT_EQ(by_slot.rbegin()->first, kMostSlot);
}

TEST(FeatureKeysTest, NamesReadAsTheKeysThatTheyAreOf) {
  EXPECT_EQ(feature_name(feature_key(0, 7)), "0:7");
  EXPECT_EQ(feature_name(feature_key(4094, kMostIndex)), "4094:4503599627370495");
  for (const Key key : {feature_key(0, 0), feature_key(0, kMostIndex), feature_key(1, 0),
                        feature_key(kMostSlot, kMostIndex), text_key(39, "a")}) {
    EXPECT_EQ(parse_feature_name(feature_name(key)), key);
  }
  EXPECT_LT(feature_key(kMostSlot, kMostIndex), kNoKey);
  for (const char* name : {"", "7", ":", "1:", ":1", "1:2:3", "+1:2", "1:-2", "1 :2", "1:2 ", "a:1", "4095:0",
                           "1:4503599627370496", "4095:4503599627370495", "18446744073709551616:1"}) {
    EXPECT_EQ(parse_feature_name(name), std::nullopt) << name;
  }
}

TEST(ExampleFormatTest, HasNames) {
  for (const auto& [name, format] : {std::pair("auto", ExampleFormat::kAuto),
                                     {"libsvm", ExampleFormat::kLibsvm},
                                     {"libffm", ExampleFormat::kLibffm},
                                     {"criteo", ExampleFormat::kCriteo},
                                     {"avazu", ExampleFormat::kAvazu},
                                     {"vw", ExampleFormat::kVowpalWabbit},
                                     {"ratings", ExampleFormat::kRatings}}) {
    const absl::StatusOr<ExampleFormat> parsed = parse_example_format(name);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, format);
  }
  const absl::Status status = parse_example_format("svm").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      status.message(),
      "expected a format of examples (auto, libsvm, libffm, criteo, avazu, vw, ratings), found \"svm\"");
}

using NamedValue = std::pair<std::string, float>;
/// Label, weight, and the features.
using Line = std::tuple<bool, float, std::vector<NamedValue>>;

std::string name_of(std::string_view slot, std::string_view text) {
  return feature_name(NamedSlot(slot).key(text));
}
std::string name_of(std::uint64_t slot, std::string_view text) {
  return feature_name(text_key(slot, text));
}

class ExamplesTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string path() const { return folder_.path("examples"); }
  void write(std::string_view text) const { verbena::testing::write_file(path(), text); }

  /// Reads the files of `options_`, or path() if it has none.
  [[nodiscard]] absl::StatusOr<ExamplesRead> read() {
    lines_.clear();
    files_.clear();
    ExamplesOptions options = options_;
    if (options.paths.empty()) options.paths = {path()};
    return read_examples(options, [&](const Example& example) {
      EXPECT_EQ(example.number, lines_.size());
      files_.push_back(example.file);
      Line line{example.is_positive, example.weight, {}};
      for (const Feature& feature : example.features)
        std::get<2>(line).emplace_back(feature_name(feature.key), feature.value);
      lines_.push_back(std::move(line));
      return absl::OkStatus();
    });
  }
  [[nodiscard]] std::vector<Line> lines_of(std::string_view text) {
    write(text);
    const absl::StatusOr<ExamplesRead> found = read();
    EXPECT_TRUE(found.ok()) << found.status();
    return lines_;
  }
  [[nodiscard]] std::string format_of(std::string_view text) {
    write(text);
    const absl::StatusOr<ExamplesRead> found = read();
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok() ? found->format : "";
  }
  [[nodiscard]] std::string error_of(std::string_view text) {
    write(text);
    const absl::Status status = read().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    const std::string message(status.message());
    EXPECT_THAT(message, StartsWith(path() + ":"));
    return message.substr(std::min(message.size(), path().size() + 1));
  }

  verbena::testing::TemporaryFolder folder_;
  ExamplesOptions options_;
  std::vector<Line> lines_;
  std::vector<std::size_t> files_;  ///< of the lines
};

TEST_F(ExamplesTest, CountsNoMoreThanItIsAskedFor) {
  verbena::testing::write_file(path(), "1 1:1\n0 2:1\n1 3:1\n0 4:1\nnonsense\n");
  std::vector<std::uint64_t> asked;
  const auto even = [&](std::uint64_t number, std::size_t file) {
    EXPECT_EQ(file, 0U);
    asked.push_back(number);
    return number % 2 == 0;
  };
  EXPECT_EQ(count_examples({.paths = {path()}}, 2, even).value_or(99), 2U);
  EXPECT_THAT(asked, ElementsAre(0U, 1U, 2U)) << "the rest is not looked at";
  EXPECT_EQ(count_examples({.paths = {path()}}, 100, even).value_or(99), 3U);
  EXPECT_TRUE(absl::IsNotFound(count_examples({.paths = {path() + "none"}}, 1, even).status()));
}

TEST_F(ExamplesTest, ReadsLibsvm) {
  EXPECT_THAT(lines_of("+1 1:0.5 7:2 4503599627370495:-1e-1 # a comment\n"
                       "# only a comment\n"
                       "-1 qid:3 0:1\n"
                       "0\n"
                       "1.0\t2:+3  3:.5 \n"),
              ElementsAre(Line{true, 1, {{"0:1", 0.5F}, {"0:7", 2.0F}, {"0:4503599627370495", -0.1F}}},
                          Line{false, 1, {{"0:0", 1.0F}}}, Line{false, 1, {}},
                          Line{true, 1, {{"0:2", 3.0F}, {"0:3", 0.5F}}}));
  const absl::StatusOr<ExamplesRead> found = read();
  EXPECT_EQ(found->examples, 4U);
  EXPECT_EQ(found->positives, 2U);
  EXPECT_EQ(found->features, 6U);
  EXPECT_EQ(found->format, "LIBSVM");
}

TEST_F(ExamplesTest, FeaturesAreInOrderEachOnce) {
  EXPECT_THAT(lines_of("1 9:1 2:1 9:2 5:0 2:-1 3:1e-60 4:1\n0 5:0\n"),
              ElementsAre(Line{true, 1, {{"0:4", 1.0F}, {"0:9", 3.0F}}}, Line{false, 1, {}}));
  EXPECT_EQ(lines_of("1 3:1e8 3:1 3:-1e8\n"), lines_of("1 3:-1e8 3:1e8 3:1\n"))
      << "a sum does not depend on the order in the line";
  EXPECT_EQ(error_of("1 1:1\n1 3:3e38 3:3e38\n"),
            "2: expected values of one feature whose sum single precision holds, found \"1 3:3e38 3:3e38\"");
}

TEST_F(ExamplesTest, SaysWhereAndWhatIsNoLibsvm) {
  options_.format = ExampleFormat::kLibsvm;
  EXPECT_EQ(error_of("1 1:1\n2 1:1\n"), "2: expected a label 1, 0 or -1, found \"2\"");
  EXPECT_EQ(error_of("1,2 1:1\n"), "1: expected a label 1, 0 or -1, found \"1,2\"");
  EXPECT_EQ(error_of("3:1 4:1\n"), "1: expected a label 1, 0 or -1, found \"3:1\"");
  EXPECT_EQ(error_of("nan 4:1\n"), "1: expected a label 1, 0 or -1, found \"nan\"");
  EXPECT_EQ(error_of(" \n"), "1: expected a label 1, 0 or -1, found \"\"");
  for (const std::string bad : {"4503599627370496:1", "18446744073709551616:1", "-1:1", "1e0:1", "a:1", ":1",
                                "5", "5:", "5:x", "5:nan", "5:inf", "5:1e39", "5:1:1", "5:0x1"}) {
    EXPECT_EQ(error_of("1 1:1\n1 2:1 " + bad + " 3:1\n"),
              "2: expected index:value, an index up to 4503599627370495 and a number that single precision "
              "holds, found \"" +
                  bad + "\"");
  }
}

TEST_F(ExamplesTest, ReadsLibffm) {
  EXPECT_THAT(lines_of("1 0:5:1 4094:4503599627370495:0.5\n0 2:5:1 1:5:1\n-1\n"),
              ElementsAre(Line{true, 1, {{"0:5", 1.0F}, {"4094:4503599627370495", 0.5F}}},
                          Line{false, 1, {{"1:5", 1.0F}, {"2:5", 1.0F}}}, Line{false, 1, {}}));
  EXPECT_EQ(read()->format, "LIBFFM");
  options_.format = ExampleFormat::kLibffm;
  EXPECT_EQ(error_of("0 1:1:1\n3 1:1:1\n"), "2: expected a label 1, 0 or -1, found \"3\"");
  for (const std::string bad : {"4095:1:1", "1:4503599627370496:1", "1:1", "1", "1:1:", ":1:1", "1::1",
                                "1:1:1:1", "1:1:nan", "x:1:1"}) {
    EXPECT_EQ(error_of("1 1:1:1\n1 1:1:1 " + bad + "\n"),
              "2: expected field:index:value, a field up to 4094, an index up to 4503599627370495 and a "
              "number that single precision holds, found \"" +
                  bad + "\"");
  }
}

/// A line of Criteo's: the first number and the first category, and all others empty.
std::string criteo(std::string_view label, std::string_view number, std::string_view category) {
  return std::string(label) + "\t" + std::string(number) + std::string(13, '\t') + std::string(category) +
         std::string(25, '\t') + "\n";
}

TEST_F(ExamplesTest, ReadsCriteo) {
  const std::vector<Line> lines = lines_of(criteo("1", "1000", "05db9164") + criteo("0", "", ""));
  ASSERT_EQ(lines.size(), 2U);
  const auto& features = std::get<2>(lines[0]);
  EXPECT_TRUE(std::get<0>(lines[0]));
  EXPECT_FALSE(std::get<0>(lines[1]));
  ASSERT_EQ(features.size(), 39U);
  EXPECT_EQ(features[0], NamedValue("1:47", 1.0F)) << "ln(1000)^2 is 47.7";
  EXPECT_EQ(features[1], NamedValue("2:0", 1.0F)) << "nothing is a category of its own";
  EXPECT_EQ(features[12], NamedValue("13:0", 1.0F));
  EXPECT_EQ(features[13], NamedValue(name_of(14, "05db9164"), 1.0F));
  EXPECT_EQ(features[14], NamedValue(name_of(15, ""), 1.0F));
  EXPECT_EQ(features[38], NamedValue(name_of(39, ""), 1.0F));
  EXPECT_EQ(read()->format, "Criteo's clicks");
}

TEST_F(ExamplesTest, NumbersOfCriteoBecomeCategories) {
  const auto category = [&](std::string_view number) {
    const std::vector<Line> lines = lines_of(criteo("1", number, ""));
    return lines.empty() ? "" : std::get<2>(lines[0])[0].first;
  };
  EXPECT_EQ(category("3"), "1:1") << "ln(3)^2 is 1.2";
  EXPECT_EQ(category("4"), "1:1") << "ln(4)^2 is 1.9";
  EXPECT_EQ(category("5"), "1:2") << "ln(5)^2 is 2.6";
  EXPECT_EQ(category("9223372036854775807"), "1:1906");
  EXPECT_EQ(category("2"), "1:4094");
  EXPECT_EQ(category("1"), "1:4095");
  EXPECT_EQ(category("0"), "1:4096");
  EXPECT_EQ(category("-1"), "1:4097");
  EXPECT_EQ(category("-2251799813685248"), "1:2251799813689344") << "the least";
}

TEST_F(ExamplesTest, SaysWhereAndWhatIsNoneOfCriteos) {
  const std::string good = criteo("1", "1", "");
  for (const std::string bad : {"1.5", "x", "1 ", "-2251799813685249", "9223372036854775808"}) {
    EXPECT_EQ(error_of(good + criteo("1", bad, "")),
              "2: expected a whole number or nothing, found \"" + bad + "\"");
  }
  EXPECT_EQ(error_of(good + criteo("", "1", "")), "2: expected a label 1, 0 or -1, found \"\"");
  EXPECT_EQ(error_of(good + "1\t2\n"),
            "2: expected a label, 13 numbers and 26 categories, separated by tabs, found \"1\\t2\"");
  EXPECT_THAT(error_of(good + "1\t" + criteo("1", "1", "")),
              StartsWith("2: expected a label, 13 numbers and 26 categories, separated by tabs, found"));
}

TEST_F(ExamplesTest, ReadsAvazu) {
  const std::vector<Line> lines =
      lines_of("id,click,hour,C1,site_id\n1000009418151094273,0,14102100,1005,1fbe01fe\n9,1,14102623,,x\n");
  EXPECT_THAT(lines, ElementsAre(Line{false,
                                      1,
                                      {{name_of("site_id", "1fbe01fe"), 1.0F},
                                       {"509:0", 1.0F},   // the hour
                                       {"1613:2", 1.0F},  // a Tuesday
                                       {name_of("C1", "1005"), 1.0F}}},
                                 Line{true,
                                      1,
                                      {{name_of("site_id", "x"), 1.0F},
                                       {"509:23", 1.0F},
                                       {"1613:7", 1.0F},  // a Sunday
                                       {name_of("C1", ""), 1.0F}}}));
  EXPECT_EQ(read()->format, "Avazu's clicks");
  EXPECT_EQ(lines_of("site_id,C1,click,hour\n1fbe01fe,1005,0,14102100\nx,\"\",1,14102623\n"), lines)
      << "the order of the columns does not matter, nor does a missing id";
  EXPECT_THAT(lines_of("click,a\n1,\"x,\"\"y\"\"\"\n1,z\n"),
              ElementsAre(Line{true, 1, {{name_of("a", "x,\"y\""), 1.0F}}},
                          Line{true, 1, {{name_of("a", "z"), 1.0F}}}));
}

TEST_F(ExamplesTest, SlotsOfAvazuDiffer) {
  std::set<std::uint64_t> slots;
  const std::vector<std::string_view> names = {
      "hour",        "weekday",       "C1",           "banner_pos",  "site_id",
      "site_domain", "site_category", "app_id",       "app_domain",  "app_category",
      "device_id",   "device_ip",     "device_model", "device_type", "device_conn_type",
      "C14",         "C15",           "C16",          "C17",         "C18",
      "C19",         "C20",           "C21"};
  for (const std::string_view name : names) slots.insert(NamedSlot(name).slot);
  EXPECT_EQ(slots.size(), names.size());
}

TEST_F(ExamplesTest, SaysWhereAndWhatIsNoneOfAvazus) {
  const std::string good = "id,click,hour,a\n1,1,14102100,x\n";
  for (const std::string bad :
       {"14102124", "14130100", "14023000", "1410210", "014102100", "", "x", "14102100.0", "-4102100"}) {
    EXPECT_EQ(error_of(fmt::format("{}2,1,{},x\n", good, bad)),
              "3: expected an hour as YYMMDDHH, found \"" + bad + "\"");
  }
  EXPECT_EQ(error_of(good + "2,7,14102100,x\n"), "3: expected a label 1, 0 or -1, found \"7\"");
  EXPECT_EQ(error_of(good + "2,1,14102100\n"),
            "3: expected 4 fields, separated by commas, found \"2,1,14102100\"");
  EXPECT_EQ(error_of(good + "2,1,14102100,x,y\n"),
            "3: expected 4 fields, separated by commas, found \"2,1,14102100,x,y\"");
  EXPECT_EQ(error_of(good + "2,1,14102100,\"x\n"),
            "3: expected a closing quote and commas, found \"2,1,14102100,\"x\"");
  options_.format = ExampleFormat::kAvazu;
  EXPECT_EQ(error_of("1,1,14102100,x\n"),
            "1: expected a header with a column click, separated by commas, found \"1,1,14102100,x\"");
  EXPECT_EQ(error_of("id,click\n"), "2: expected at least one example, found the end of the file");
  std::string wide = "click";
  for (int n = 0; n < 64; ++n) wide += ",a";
  EXPECT_THAT(error_of(wide + "\n"), StartsWith("1: expected 64 columns at most, found"));
}

TEST_F(ExamplesTest, ReadsVowpalWabbit) {
  EXPECT_THAT(lines_of("1 |user ann |item ark:2 ark\n"
                       "-1 0.5 'tag |user:3 ann:0.5\n"
                       "0 2 0 tag|user bob\n"
                       "1 'tag | |\n"),
              ElementsAre(Line{true, 1, {{name_of("user", "ann"), 1.0F}, {name_of("item", "ark"), 3.0F}}},
                          Line{false, 0.5F, {{name_of("user", "ann"), 1.5F}}},
                          Line{false, 2, {{name_of("user", "bob"), 1.0F}}}, Line{true, 1, {}}));
  EXPECT_EQ(read()->format, "Vowpal Wabbit");
  EXPECT_THAT(lines_of("1 | ann a:b:2 7\n"),
              ::testing::Contains(::testing::ResultOf(
                  [](const Line& line) {
                    const auto& features = std::get<2>(line);
                    return std::set<NamedValue>(features.begin(), features.end());
                  },
                  ::testing::UnorderedElementsAre(NamedValue(name_of("", "ann"), 1.0F),
                                                  NamedValue(name_of("", "a:b"), 2.0F),
                                                  NamedValue(name_of("", "7"), 1.0F)))))
      << "without a namespace; numbers are names, too";
}

TEST_F(ExamplesTest, SaysWhereAndWhatIsNoVowpalWabbit) {
  options_.format = ExampleFormat::kVowpalWabbit;
  const auto error = [&](const std::string& line) { return error_of("1 |f a\n" + line + "\n"); };
  EXPECT_EQ(error("1 a:1"), "2: expected label |namespace feature:value …, found \"1 a:1\"");
  EXPECT_EQ(error("|f a"), "2: expected a label 1, 0 or -1, which does not touch the bar, found \"\"");
  EXPECT_EQ(error("'tag |f a"),
            "2: expected a label 1, 0 or -1, which does not touch the bar, found \"'tag \"");
  EXPECT_EQ(error("1|f a"), "2: expected a label 1, 0 or -1, which does not touch the bar, found \"1\"");
  EXPECT_EQ(error("1:2 |f a"), "2: expected a label 1, 0 or -1, found \"1:2\"");
  EXPECT_EQ(error("1 -2 |f a"), "2: expected a weight, 0 or more, found \"-2\"");
  EXPECT_EQ(error("1 nan |f a"), "2: expected a weight, 0 or more, found \"nan\"");
  EXPECT_EQ(error("1 1 0.5 |f a"), "2: expected no base but 0, found \"0.5\"");
  EXPECT_EQ(error("1 1 x |f a"), "2: expected no base but 0, found \"x\"");
  EXPECT_EQ(error("1 1 0 tag |f a"),
            "2: expected a tag that begins with a quote or touches the bar, found \"tag\"");
  EXPECT_THAT(error("1 1 0 2 'tag |f a"), StartsWith("2: expected label, weight, base and tag"));
  EXPECT_EQ(error("1 |f:x a"), "2: expected namespace or namespace:weight, found \"f:x\"");
  EXPECT_EQ(error("1 |:2 a"), "2: expected namespace or namespace:weight, found \":2\"");
  for (const std::string bad : {":1", "a:", "a:x", "a:nan", "a:inf", "a:1e39", "http://x"}) {
    EXPECT_EQ(
        error("1 |f b " + bad + " c"),
        "2: expected feature or feature:value, a number that single precision holds, found \"" + bad + "\"");
  }
  EXPECT_THAT(error("1 |f:1e20 a:1e20"), HasSubstr("found \"a:1e20\""));
}

TEST_F(ExamplesTest, ReadsRatings) {
  EXPECT_THAT(lines_of("user\titem\trating\nann\tark\t4\nbob\tark\t3.5\nann\tann\t5\n"),
              ElementsAre(Line{true, 1, {{name_of(1, "ann"), 1.0F}, {name_of(2, "ark"), 1.0F}}},
                          Line{false, 1, {{name_of(1, "bob"), 1.0F}, {name_of(2, "ark"), 1.0F}}},
                          Line{true, 1, {{name_of(1, "ann"), 1.0F}, {name_of(2, "ann"), 1.0F}}}));
  EXPECT_EQ(read()->format, "ratings: user, item, rating, separated by tabs");
  EXPECT_EQ(read()->positives, 2U);
  options_.positive = 3.5;
  EXPECT_EQ(read()->positives, 3U);
  options_.positive = 4.1;
  EXPECT_EQ(read()->positives, 1U);
  write("ann,ark,4.1\nbob,ark,4\n");
  EXPECT_EQ(read()->positives, 1U) << "the float 4.1 is less than the double";
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), 1e39, -1e39}) {
    options_.positive = bad;
    EXPECT_EQ(read().status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(ExamplesTest, SaysWhereAndWhatIsNoRating) {
  EXPECT_EQ(error_of("a,b,3\na,b\n"), "2: expected user, item, rating, separated by commas, found \"a,b\"");
  EXPECT_EQ(error_of("a,b,3\na,b,x\n"), "2: expected a number as the rating, found \"x\"");
  EXPECT_EQ(error_of("a,b,3\na,,3\n"), "2: expected a user and an item, found \"a,,3\"");
  EXPECT_EQ(error_of("a,b,3\n\"a,b,3\n"), "2: expected a closing quote and commas, found \"\"a,b,3\"");
  options_.format = ExampleFormat::kRatings;
  EXPECT_EQ(error_of("1 1:1 2:1\n"), "1: expected a table of ratings, found LIBSVM or SVMlight");
  EXPECT_EQ(error_of("%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 1\n"),
            "1: expected a table of ratings, found Matrix Market");
}

TEST_F(ExamplesTest, ReadsVariantsOfText) {
  const std::vector<Line> lines = lines_of("1 1:1\n0 2:1\n");
  EXPECT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines_of("\xEF\xBB\xBF"
                     "1 1:1\r\n0 2:1\r\n\r\n\r\n"),
            lines)
      << "byte order mark, CR LF, empty lines at the end";
  EXPECT_EQ(lines_of("1 1:1\n0 2:1"), lines) << "no newline at the end";
  gzFile file = gzopen(path().c_str(), "wb");
  gzputs(file, "1 1:1\n0 2:1\n");
  gzclose(file);
  ASSERT_TRUE(read().ok());
  EXPECT_EQ(lines_, lines);
}

TEST_F(ExamplesTest, CrLfIsNoPartOfACategory) {
  std::string text = criteo("1", "7", "x") + criteo("0", "8", "y");
  const std::vector<Line> lines = lines_of(text);
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2) text.insert(at, "\r");
  EXPECT_EQ(lines_of(text), lines);
}

TEST_F(ExamplesTest, EmptyLinesAreOnlyAtTheEnd) {
  EXPECT_EQ(error_of("1 1:1\n\n1 2:1\n"),
            "3: expected the end of the file after an empty line, found \"1 2:1\"");
  EXPECT_EQ(error_of("\n1 2:1\n"), "2: expected the end of the file after an empty line, found \"1 2:1\"");
  EXPECT_EQ(error_of(""), "1: expected at least one example, found the end of the file");
  options_.format = ExampleFormat::kLibsvm;
  EXPECT_EQ(error_of("\n\n"), "3: expected at least one example, found the end of the file");
  EXPECT_EQ(error_of("# none\n"), "2: expected at least one example, found the end of the file");
}

TEST_F(ExamplesTest, TheFirstLinesDecide) {
  EXPECT_EQ(format_of("# a comment\n1 3:1\n0\n"), "LIBSVM");
  EXPECT_EQ(format_of("1 7:1\n1 8:1\n"), "LIBSVM") << "it could be LDA-C";
  EXPECT_EQ(format_of("1 1:1:1\n0 2:2:1\n"), "LIBFFM");
  EXPECT_EQ(format_of(criteo("1", "", "x")), "Criteo's clicks");
  EXPECT_EQ(format_of("id,click,a\n1,0,x\n"), "Avazu's clicks");
  EXPECT_EQ(format_of("1 |f a b\n"), "Vowpal Wabbit");
  EXPECT_EQ(format_of("1 1 3\n2 1 4\n"), "ratings: user, item, rating, separated by blanks");
  EXPECT_EQ(format_of("a::b::3\n"), "ratings: user, item, rating, separated by \"::\"");
  EXPECT_EQ(format_of("user|item|rating\n1|2|5\n"), "ratings: user, item, rating, separated by \"|\"");
}

TEST_F(ExamplesTest, AMistakeInTheFirstLinesHasItsPlace) {
  EXPECT_THAT(error_of("1 1:1\n0 2:1\n1 3\n"), StartsWith("3: expected index:value, "));
  EXPECT_THAT(error_of("1 1:1:1\n0 2:1\n"), StartsWith("2: expected field:index:value, "));
  EXPECT_THAT(error_of(criteo("1", "1", "") + criteo("1", "1", "x\ty")),
              StartsWith("2: expected a label, 13 numbers and 26 categories"));
  EXPECT_THAT(error_of("click,a\n1,x\n1,x,y\n"), StartsWith("3: expected 2 fields"));
  EXPECT_THAT(error_of("1 |f a\n0 f b\n"), StartsWith("2: expected label |namespace"));
  EXPECT_EQ(error_of("2 1:1 2:1\n3 1:1 2:1 5:1\n"), "1: expected a label 1, 0 or -1, found \"2\"")
      << "LDA-C, or another classification";
}

TEST_F(ExamplesTest, RefusesOtherFormatsByName) {
  const std::string expected =
      "1: expected LIBSVM, LIBFFM, Criteo's or Avazu's clicks, Vowpal Wabbit or a table of ratings, found ";
  for (const auto& [text, name] : {std::pair("PAR1\n", "Parquet"),
                                   {"{\"click\": 1}\n", "JSON"},
                                   {"3\n5\n1\n1 1 1\n", "UCI's bag of words"},
                                   {"%%MatrixMarket matrix coordinate real general\n", "Matrix Market"},
                                   {"In the beginning God created\n", "\"In the beginning God created\""},
                                   {"7\n", "\"7\""},
                                   {"\xff\n", "\"\\xff\""}}) {
    EXPECT_EQ(error_of(text), expected + name);
  }
  options_.format = ExampleFormat::kCriteo;
  EXPECT_EQ(error_of("PAR1\n"), "1: expected Criteo's clicks, found Parquet");
}

TEST_F(ExamplesTest, ReadsSeveralFilesInOrder) {
  options_.paths = {folder_.path("b"), folder_.path("a"), folder_.path("c")};
  verbena::testing::write_file(options_.paths[0], "1 1:1\n0 2:1\n\n");
  verbena::testing::write_file(options_.paths[1], "1 3:1\n");
  verbena::testing::write_file(options_.paths[2], "0 4:1 5:1");
  const absl::StatusOr<ExamplesRead> found = read();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(lines_,
              ElementsAre(Line{true, 1, {{"0:1", 1.0F}}}, Line{false, 1, {{"0:2", 1.0F}}},
                          Line{true, 1, {{"0:3", 1.0F}}}, Line{false, 1, {{"0:4", 1.0F}, {"0:5", 1.0F}}}));
  EXPECT_THAT(files_, ElementsAre(0, 0, 1, 2));
  EXPECT_EQ(found->examples, 4U);
  EXPECT_EQ(found->positives, 2U);
  EXPECT_EQ(found->features, 5U);
  EXPECT_EQ(found->format, "LIBSVM");
}

/// Comments and headers are no examples; a mistake in what is passed over is not seen.
TEST_F(ExamplesTest, PassesOverWhatIsNotUsed) {
  for (const auto& [format, text] :
       {std::pair(ExampleFormat::kLibsvm, "# a comment\n1 1:x\n # another\n0 2:1\n7 3:1 # the third\n"),
        {ExampleFormat::kLibffm, "1 0:1\n0 1:2:1\n5 1:2:1\n"},
        {ExampleFormat::kAvazu, "id,click,hour,a\n1,1,then,x\n2,0,14102100,x\n3,2,14102100,x\n"},
        {ExampleFormat::kVowpalWabbit, "1 |f a:x\n0 |f a\n5 |f a\n"},
        {ExampleFormat::kRatings, "user,item,rating\n,b,3\na,b,3\n,b,4\n"}}) {
    SCOPED_TRACE(text);
    write(text);
    std::vector<std::uint64_t> asked;
    std::vector<std::uint64_t> used;
    const ExamplesOptions options{
        .paths = {path(), path()}, .format = format, .is_used = [&](std::uint64_t number, std::size_t file) {
          EXPECT_EQ(file, number / 3);
          asked.push_back(number);
          return number % 3 == 1;
        }};
    const absl::StatusOr<ExamplesRead> found = read_examples(options, [&](const Example& example) {
      EXPECT_FALSE(example.is_positive);
      EXPECT_FALSE(example.features.empty());
      used.push_back(example.number);
      return absl::OkStatus();
    });
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_THAT(asked, ElementsAre(0, 1, 2, 3, 4, 5));
    EXPECT_THAT(used, ElementsAre(1, 4));
    EXPECT_EQ(found->examples, 6U);
    EXPECT_EQ(found->positives, 0U);
  }
}

TEST_F(ExamplesTest, LooksAtAllFilesFirst) {
  options_.paths = {folder_.path("1"), folder_.path("2")};
  verbena::testing::write_file(options_.paths[0], "1 1:1\n");
  EXPECT_EQ(read().status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(lines_, IsEmpty()) << "a missing file is noticed before anything is used";
  const auto error = [&](std::string_view text) {
    verbena::testing::write_file(options_.paths[1], text);
    const absl::Status status = read().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(lines_, IsEmpty());
    return std::string(status.message());
  };
  const std::string expected = options_.paths[1] + ":1: expected LIBSVM, as in " + options_.paths[0];
  EXPECT_EQ(error("1 1:1:1\n"), expected + ", found LIBFFM");
  EXPECT_EQ(error("a,b,3\n"), expected + ", found a table of ratings");
  EXPECT_EQ(error("[\n"), expected + ", found JSON");
  EXPECT_EQ(error("what is this\n"), expected + ", found \"what is this\"");
  EXPECT_EQ(error(""), options_.paths[1] + ":1: expected at least one example, found the end of the file");
}

TEST_F(ExamplesTest, TablesOfRatingsMayDifferFromFileToFile) {
  options_.paths = {folder_.path("1"), folder_.path("2")};
  verbena::testing::write_file(options_.paths[0], "ann,ark,5\n");
  verbena::testing::write_file(options_.paths[1], "rating\titem\tuser\n5\tark\tann\n");
  ASSERT_TRUE(read().ok());
  ASSERT_EQ(lines_.size(), 2U);
  EXPECT_EQ(lines_[0], lines_[1]);
  EXPECT_EQ(
      read()->format,
      "ratings: user, item, rating, separated by commas; ratings: rating, item, user, separated by tabs");
}

TEST_F(ExamplesTest, NoFileIsAnError) {
  EXPECT_EQ(read_examples({}, [](const Example&) { return absl::OkStatus(); }).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(ExamplesTest, AnErrorOfTheUserEndsIt) {
  write("1 1:1\n1 2:1\n1 x\n");
  int used = 0;
  const absl::Status status = read_examples({.paths = {path()}}, [&](const Example&) {
                                return ++used == 2 ? absl::CancelledError("enough") : absl::OkStatus();
                              }).status();
  EXPECT_EQ(status, absl::CancelledError("enough"));
  EXPECT_EQ(used, 2);
}

TEST_F(ExamplesTest, ReportsProgressOfAllFiles) {
  std::string text;
  for (int n = 0; n < 100'000; ++n) text += "1 1:1\n";
  options_.paths = {folder_.path("1"), folder_.path("2")};
  for (const std::string& file : options_.paths) verbena::testing::write_file(file, text);
  std::vector<double> reported;
  const auto progress = [&](double done, double total) {
    EXPECT_EQ(total, 2.0 * static_cast<double>(text.size()));
    reported.push_back(done);
  };
  ASSERT_TRUE(read_examples(
                  options_, [](const Example&) { return absl::OkStatus(); }, progress)
                  .ok());
  ASSERT_GT(reported.size(), 4U);
  EXPECT_TRUE(std::is_sorted(reported.begin(), reported.end()));
  EXPECT_LT(reported.front(), static_cast<double>(text.size()));
  EXPECT_EQ(reported.back(), 2.0 * static_cast<double>(text.size()));
}

TEST_F(ExamplesTest, OtherReadersRefuseTheirFormatsByName) {
  for (const auto& [text, name] : {std::pair(std::string("1 1:2:1\n0 3:4:1\n"), "LIBFFM"),
                                   {criteo("1", "x", "a") + criteo("0", "x", "b"), "Criteo's clicks"},
                                   {"id,click,site\n1,0,abc\n2,1,def\n", "Avazu's clicks"}}) {
    write(text);
    const std::string found = std::string("found ") + name;
    EXPECT_THAT(std::string(read_corpus({.path = path()}).status().message()), HasSubstr(found));
    EXPECT_THAT(std::string(read_ratings({.path = path()}).status().message()), HasSubstr(found));
    verbena::testing::write_file(folder_.path("train.txt"), text);
    EXPECT_THAT(std::string(read_triples(folder_.path().string()).status().message()), HasSubstr(found));
  }
  for (const std::string_view text :
       {"click,drag,drop\nand so on, in prose\n", "click,drag\ndrop,or not\n"}) {
    write(text);
    EXPECT_TRUE(read_corpus({.path = path()}).ok()) << "a text that begins like a header: " << text;
  }
}

}  // namespace
}  // namespace verbena::apps
