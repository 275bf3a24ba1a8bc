#include "apps/data/ratings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <tuple>

#include "apps/data/generate_ratings.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::apps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Row = std::tuple<std::string, std::string, float>;

class RatingsTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string path() const { return folder_.path("ratings"); }
  void write(std::string_view text) const { verbena::testing::write_file(path(), text); }
  [[nodiscard]] absl::StatusOr<Ratings> read(double test_fraction = 0) const {
    return read_ratings({.path = path(), .test_fraction = test_fraction});
  }
  static std::vector<Row> rows(const Ratings& ratings) {
    std::vector<Row> result;
    for (const Rating& r : ratings.train) {
      result.emplace_back(ratings.user_names[r.user], ratings.item_names[r.item], r.value);
    }
    return result;
  }
  [[nodiscard]] std::vector<Row> rows_of(std::string_view text) const {
    write(text);
    const absl::StatusOr<Ratings> ratings = read();
    EXPECT_TRUE(ratings.ok()) << ratings.status();
    return ratings.ok() ? rows(*ratings) : std::vector<Row>();
  }
  [[nodiscard]] std::string error_of(std::string_view text) const {
    write(text);
    const absl::StatusOr<Ratings> ratings = read();
    EXPECT_EQ(ratings.status().code(), absl::StatusCode::kInvalidArgument) << text;
    const std::string message(ratings.status().message());
    EXPECT_TRUE(message.starts_with(path() + ":")) << message;
    return message.substr(std::min(message.size(), path().size() + 1));
  }

  verbena::testing::TemporaryFolder folder_;
};

const auto kTwo = {Row{"196", "242", 3.0F}, Row{"186", "302", 3.5F}};

TEST_F(RatingsTest, ReadsTheFormatsOfMovieLens) {
  EXPECT_EQ(rows_of("196\t242\t3\t881250949\n186\t302\t3.5\t891717742\n"), std::vector<Row>(kTwo));
  EXPECT_EQ(rows_of("196::242::3::881250949\n186::302::3.5::891717742\n"), std::vector<Row>(kTwo));
  EXPECT_EQ(rows_of("userId,movieId,rating,timestamp\n196,242,3.0,881250949\n186,302,3.5,891717742\n"),
            std::vector<Row>(kTwo));
  EXPECT_EQ(rows_of("user|item|rating|timestamp\n196|242|3|881250949\n186|302|3.5|891717742\n"),
            std::vector<Row>(kTwo));
}

TEST_F(RatingsTest, ReadsVariants) {
  EXPECT_EQ(rows_of("196,242,3\r\n186,302,3.5\r\n"), std::vector<Row>(kTwo)) << "no header, CR LF";
  EXPECT_EQ(rows_of("\xEF\xBB\xBFuser,item,rating\n196,242,3\n186,302,3.5\n\n\n"), std::vector<Row>(kTwo))
      << "byte order mark, empty lines at the end";
  EXPECT_EQ(rows_of("196\t242\t3\n186\t302\t3.5"), std::vector<Row>(kTwo)) << "no newline at the end";
  EXPECT_THAT(rows_of("a\tb\t-1e1\n"), ElementsAre(Row{"a", "b", -10.0F}));
}

TEST_F(RatingsTest, ReadsQuotedFields) {
  EXPECT_THAT(rows_of("\"user\",\"item\",\"rating\",\"title\"\n"
                      "\"u,1\",\"say \"\"hi\"\"\",\"4\",\"x,y\"\nu2,i2,5,\"\"\n"),
              ElementsAre(Row{"u,1", "say \"hi\"", 4.0F}, Row{"u2", "i2", 5.0F}));
}

TEST_F(RatingsTest, ReadsGzip) {
  gzFile file = gzopen(path().c_str(), "wb");
  const std::string_view text = "196::242::3\n186::302::3.5\n";
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  EXPECT_EQ(rows(*read()), std::vector<Row>(kTwo));
}

TEST_F(RatingsTest, SaysWhereAndWhat) {
  EXPECT_EQ(error_of("1\t2\t3\t4\n1\t2\n"),
            "2: expected user, item, rating and 1 more, separated by tabs, found \"1\\t2\"");
  EXPECT_EQ(error_of("1,2,3\n1,2,3,4\n"),
            "2: expected user, item, rating, separated by commas, found \"1,2,3,4\"");
  EXPECT_EQ(error_of("1|2|3\n1|2|good\n"), "2: expected a number as the rating, found \"good\"");
  EXPECT_EQ(error_of("1|2|3\n1|2|\n"), "2: expected a number as the rating, found \"\"");
  EXPECT_EQ(error_of("1|2|3\n1|2|4x\n"), "2: expected a number as the rating, found \"4x\"");
  EXPECT_EQ(error_of("1|2|3\n1|2|nan\n"), "2: expected a number as the rating, found \"nan\"");
  EXPECT_EQ(error_of("1|2|3\n1|2|inf\n"), "2: expected a number as the rating, found \"inf\"");
  EXPECT_EQ(error_of("1|2|3\n1|2|1e999\n"), "2: expected a number as the rating, found \"1e999\"");
  EXPECT_EQ(error_of("1|2|4x\n"), "1: expected a number as the rating, found \"4x\"")
      << "the first line must not be taken for a header";
  EXPECT_EQ(error_of("a::b::3\n::c::3\n"), "2: expected a user and an item, found \"::c::3\"");
  EXPECT_EQ(error_of("a,b,3\n\"a,b,3\n"), "2: expected a closing quote and commas, found \"\"a,b,3\"");
  EXPECT_EQ(error_of("a,b,3\n\"a\"x,b,3\n"), "2: expected a closing quote and commas, found \"\"a\"x,b,3\"");
  EXPECT_EQ(
      error_of("1-2-3\n"),
      "1: expected user, item, rating, separated by tabs, \"::\", \"|\", commas, semicolons or blanks, found "
      "\"1-2-3\"");
  EXPECT_THAT(error_of("1,2,3\n\n1,2,3\n"),
              HasSubstr("3: expected user, item, rating, separated by commas, "));
  EXPECT_THAT(error_of(""), HasSubstr("1: expected at least one rating"));
  EXPECT_THAT(error_of("\n1,2,3\n"), HasSubstr("1: expected user, item, rating"));
  EXPECT_THAT(error_of("user,item,rating\n"), HasSubstr("2: expected at least one rating"));
}

TEST_F(RatingsTest, TheSeparatorIsTheOneThatFits) {
  EXPECT_THAT(rows_of("alice\tData::Dumper\t5\nbob\tMoose::Role\t4\nalice\tTry::Tiny\t3\n"),
              ElementsAre(Row{"alice", "Data::Dumper", 5.0F}, Row{"bob", "Moose::Role", 4.0F},
                          Row{"alice", "Try::Tiny", 3.0F}));
  EXPECT_EQ(rows_of("196 242 3\n186  302\t3.5 \n"), std::vector<Row>(kTwo)) << "blanks";
  EXPECT_EQ(rows_of("196;242;3\n186;302;3.5\n"), std::vector<Row>(kTwo));
  EXPECT_EQ(rows_of("\"User-ID\";\"ISBN\";\"Book-Rating\"\n\"196\";\"242\";\"3\"\n\"186\";\"302\";\"3.5\"\n"),
            std::vector<Row>(kTwo))
      << "Book-Crossing";
  EXPECT_THAT(rows_of("a,b|c,d|4\na,b|e,f|5\n"),
              ElementsAre(Row{"a,b", "c,d", 4.0F}, Row{"a,b", "e,f", 5.0F}));
  EXPECT_THAT(rows_of("a|b,x,4\na|c,y,5\n"), ElementsAre(Row{"a|b", "x", 4.0F}, Row{"a|c", "y", 5.0F}));
  EXPECT_THAT(rows_of("New York,the item,4\n"), ElementsAre(Row{"New York", "the item", 4.0F}));
  EXPECT_THAT(rows_of("A::B::C,x,4\nA::B::D,y,5\n"),
              ElementsAre(Row{"A::B::C", "x", 4.0F}, Row{"A::B::D", "y", 5.0F}))
      << "both separators give as many columns, but only one gives a number";
}

TEST_F(RatingsTest, AHeaderNamesTheColumns) {
  EXPECT_EQ(rows_of("timestamp,rating,movieId,userId\n9,3.0,242,196\n9,3.5,302,186\n"),
            std::vector<Row>(kTwo));
  EXPECT_EQ(rows_of("item_id:token\tuser_id:token\trating:float\n242\t196\t3\n302\t186\t3.5\n"),
            std::vector<Row>(kTwo))
      << "RecBole";
  EXPECT_EQ(rows_of(",user,item,rating\n0,196,242,3\n1,186,302,3.5\n"), std::vector<Row>(kTwo)) << "pandas";
  EXPECT_EQ(rows_of("wer,was,wie gut\n196,242,3\n186,302,3.5\n"), std::vector<Row>(kTwo))
      << "the header has no known names";
  EXPECT_THAT(error_of("rating,who,item\n3,196,242\n"),
              HasSubstr("1: expected columns called user, item and rating"));
  write("item;rating;user\n242;3;196\n");
  EXPECT_EQ(read()->format, "item, rating, user, separated by semicolons");
}

TEST_F(RatingsTest, WhatIsNoNumberInTheFirstLineIsNoHeader) {
  for (const std::string_view bad : {"NaN", "nan", "-inf", "Infinity", "NA", "null", "None"}) {
    EXPECT_EQ(error_of("1,2," + std::string(bad) + "\n1,3,4\n2,2,3\n"),
              "1: expected a number as the rating, found \"" + std::string(bad) + "\"");
  }
}

TEST_F(RatingsTest, ReadsNumbersAsOthersDo) {
  EXPECT_THAT(
      rows_of("u,i,r\n1,2,1e-50\n1,3,+4\n2,2,+0.5\n2,3,.5\n3,3,5.\n4,4, 2 \n5,5,1e-400\n6,6,-1E-50\n"),
      ElementsAre(Row{"1", "2", 0.0F}, Row{"1", "3", 4.0F}, Row{"2", "2", 0.5F}, Row{"2", "3", 0.5F},
                  Row{"3", "3", 5.0F}, Row{"4", "4", 2.0F}, Row{"5", "5", 0.0F}, Row{"6", "6", 0.0F}));
  EXPECT_THAT(error_of("1,2,3\n1,2,+-4\n"), HasSubstr("2: expected a number as the rating"));
  EXPECT_THAT(error_of("1,2,3\n1,2,0x10\n"), HasSubstr("2: expected a number as the rating"));
}

TEST_F(RatingsTest, SaysWhatAFloatDoesNotHold) {
  EXPECT_EQ(
      error_of("1,2,3\n1,2,16777217\n"),
      "2: expected a rating that single precision holds (whole numbers up to 16777216), found \"16777217\"");
  EXPECT_THAT(error_of("1,2,881250949\n"), HasSubstr("1: expected a rating that single precision holds"));
  EXPECT_THAT(error_of("1,2,3\n1,2,1e39\n"), HasSubstr("2: expected a rating that single precision holds"));
  EXPECT_THAT(error_of("1,2,3\n1,2,-1e99\n"), HasSubstr("2: expected a rating that single precision holds"));
  EXPECT_THAT(
      rows_of("1,2,16777216\n1,3,33554432\n1,4,0.1234567890123\n"),
      ElementsAre(Row{"1", "2", 16777216.0F}, Row{"1", "3", 33554432.0F}, Row{"1", "4", 0.1234567890123F}));
}

TEST_F(RatingsTest, ReadsMatrixMarket) {
  EXPECT_THAT(
      rows_of("%%MatrixMarket matrix coordinate real general\n% users x items\n3 4 2\n1 4 3.5\n3 2 +1\n"),
      ElementsAre(Row{"1", "4", 3.5F}, Row{"3", "2", 1.0F}));
  EXPECT_THAT(error_of("%%MatrixMarket matrix coordinate pattern general\n1 1 1\n1 1\n"),
              HasSubstr("expected a matrix with values, found \"pattern\""));
  EXPECT_THAT(error_of("%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 x\n"),
              HasSubstr("3: expected a number as the rating"));
  EXPECT_THAT(error_of("%%MatrixMarket matrix coordinate real general\n1 1 0\n"),
              HasSubstr("expected at least one rating to train on"));
}

TEST_F(RatingsTest, RefusesOtherFormatsByName) {
  EXPECT_EQ(error_of("5 0:1 7:1\n3 1:1 8:1\n"), "1: expected a table of ratings, found LIBSVM or SVMlight");
  EXPECT_EQ(error_of("5 |u a |i b\n"), "1: expected a table of ratings, found Vowpal Wabbit");
  EXPECT_EQ(error_of("{\"user\": 1, \"item\": 2, \"rating\": 3}\n"),
            "1: expected a table of ratings, found JSON");
  EXPECT_EQ(error_of("PAR1\n"), "1: expected a table of ratings, found Parquet");
}

TEST_F(RatingsTest, GivenSplitsAreKept) {
  write("a\tx\t1\na\ty\t2\n");
  verbena::testing::write_file(folder_.path("test"), "user,item,rating\na,z,5\nc,x,4\n");
  const RatingsOptions options{.path = path(), .test_path = folder_.path("test"), .test_fraction = 0.5};
  const absl::StatusOr<Ratings> ratings = read_ratings(options);
  ASSERT_TRUE(ratings.ok()) << ratings.status();
  EXPECT_EQ(rows(*ratings).size(), 2U);
  EXPECT_EQ(ratings->total_train, 2U);
  EXPECT_EQ(ratings->total_test, 2U);
  EXPECT_DOUBLE_EQ(ratings->train_mean, 1.5);
  EXPECT_THAT(ratings->user_names, ElementsAre("a", "c"));
  EXPECT_THAT(ratings->item_names, ElementsAre("x", "y", "z"));
  EXPECT_THAT(ratings->item_train, ElementsAre(1U, 1U, 0U));
  EXPECT_EQ(ratings->format,
            "user, item, rating, separated by tabs; test: user, item, rating, separated by commas");
  verbena::testing::write_file(folder_.path("test"), "user,item,rating\n");
  EXPECT_EQ(read_ratings(options).status().message(),
            folder_.path("test") + ":2: expected at least one rating to test, found the end of the file");
}

TEST_F(RatingsTest, MissingFileIsNotFound) {
  EXPECT_EQ(read().status().code(), absl::StatusCode::kNotFound);
}

TEST_F(RatingsTest, CountsTheWhole) {
  write("a,x,1\na,y,2\nb,x,6\n");
  const absl::StatusOr<Ratings> ratings = read();
  EXPECT_EQ(ratings->total_train, 3U);
  EXPECT_EQ(ratings->total_test, 0U);
  EXPECT_THAT(ratings->item_train, ElementsAre(2U, 1U));
  EXPECT_DOUBLE_EQ(ratings->train_mean, 3);
  EXPECT_DOUBLE_EQ(ratings->train_deviation, std::sqrt(14.0 / 3));
}

/// Many random ratings, and the result of reading all of them as one part.
class PartsTest : public RatingsTest {
 protected:
  PartsTest() {
    std::mt19937_64 random(7);
    std::string text;
    for (int n = 0; n < 20'000; ++n) {
      text += std::to_string(random() % 300) + "\t" + std::to_string(random() % 200) + "\t" +
              std::to_string(random() % 5 + 1) + "\n";
    }
    write(text);
    whole_ = *read_ratings({.path = path()});
  }
  Ratings whole_;
};

TEST_F(PartsTest, HoldOutTheFractionAskedFor) {
  EXPECT_EQ(whole_.train.size() + whole_.test.size(), 20'000U);
  EXPECT_NEAR(static_cast<double>(whole_.test.size()), 2'000, 5 * std::sqrt(20'000 * 0.1 * 0.9));
  const Ratings other = *read_ratings({.path = path(), .seed = 2});
  EXPECT_NE(other.test.size(), whole_.test.size()) << "another seed holds out other lines";
}

TEST_F(PartsTest, AreThoseOfTheWhole) {
  std::size_t train = 0;
  std::size_t test = 0;
  for (std::uint32_t part = 0; part < 3; ++part) {
    const Ratings ratings = *read_ratings({.path = path(), .part = part, .parts = 3});
    EXPECT_EQ(ratings.user_names, whole_.user_names);
    EXPECT_EQ(ratings.item_names, whole_.item_names);
    EXPECT_EQ(ratings.item_train, whole_.item_train);
    EXPECT_EQ(ratings.train_mean, whole_.train_mean);
    EXPECT_EQ(ratings.train_deviation, whole_.train_deviation);
    EXPECT_EQ(ratings.total_train, whole_.train.size());
    EXPECT_EQ(ratings.total_test, whole_.test.size());
    const auto expect_same = [&](const std::vector<Rating>& found, const std::vector<Rating>& all) {
      std::size_t n = 0;
      for (const Rating& rating : all) {
        if (rating.user % 3 != part) continue;
        ASSERT_LT(n, found.size());
        EXPECT_EQ(std::tie(found[n].user, found[n].item, found[n].value),
                  std::tie(rating.user, rating.item, rating.value));
        ++n;
      }
      EXPECT_EQ(n, found.size());
    };
    expect_same(ratings.train, whole_.train);
    expect_same(ratings.test, whole_.test);
    train += ratings.train.size();
    test += ratings.test.size();
  }
  EXPECT_EQ(train, whole_.train.size());
  EXPECT_EQ(test, whole_.test.size());
}

TEST_F(PartsTest, ThePartBehindTheLastKeepsNone) {
  const Ratings none = *read_ratings({.path = path(), .part = 3, .parts = 3});
  EXPECT_TRUE(none.train.empty() && none.test.empty());
  EXPECT_EQ(none.total_train, whole_.total_train);
}

TEST_F(RatingsTest, GeneratedOnesAreDeterministicAndReadable) {
  GenerateRatingsOptions options{.users = 200, .items = 100, .ratings = 20'000, .rank = 4};
  options.noise = 0.25;
  const auto generate = [&] {
    const absl::Status status = generate_ratings(options, path());
    EXPECT_TRUE(status.ok()) << status;
    return *read();
  };
  const Ratings first = generate();
  EXPECT_EQ(rows(first), rows(generate()));
  EXPECT_EQ(first.total_train, 20'000U);
  EXPECT_NEAR(first.train_mean, 3.5, 0.5);
  EXPECT_NEAR(first.train_deviation, std::sqrt(1 + 0.25 * 0.25), 0.3);
  // Popularity is skewed: the most rated item has many times the ratings of the least rated one.
  const auto [least, most] = std::minmax_element(first.item_train.begin(), first.item_train.end());
  EXPECT_GT(*most, 10 * *least);
  options.seed = 2;
  EXPECT_NE(rows(first), rows(generate()));
}

TEST_F(RatingsTest, GenerateRefusesImpossibleOptions) {
  const auto expect_refused = [&](const GenerateRatingsOptions& options, std::string_view name) {
    const absl::Status status = generate_ratings(options, path());
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::string(name)));
    EXPECT_FALSE(std::filesystem::exists(path()));
  };
  expect_refused({.users = 0}, "--users");
  expect_refused({.items = -1}, "--items");
  expect_refused({.ratings = 0}, "--ratings");
  expect_refused({.rank = 0}, "--rank");
  expect_refused({.users = std::int64_t{1} << 30, .rank = 1000}, "--rank");
  expect_refused({.mean = NAN}, "--mean");
  expect_refused({.signal = -1}, "--signal");
  expect_refused({.noise = INFINITY}, "--noise");
  expect_refused({.skew = -0.5}, "--skew");
}

}  // namespace
}  // namespace verbena::apps
