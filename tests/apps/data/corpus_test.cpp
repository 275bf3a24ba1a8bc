#include "apps/data/corpus.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "apps/data/generate_corpus.hpp"
#include "apps/data/stop_words.hpp"
#include "apps/data/tokenizer.hpp"
#include "apps/data/unicode.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::apps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using verbena::testing::contents;

using Document = std::vector<std::string>;

class CorpusTest : public ::testing::Test {
 protected:
  CorpusTest() { options_.path = path("text"); }

  [[nodiscard]] std::string path(std::string_view name) const { return folder_.path(name); }
  void write(std::string_view name, std::string_view text) const {
    verbena::testing::write_file(path(name), text);
  }
  [[nodiscard]] Corpus read() const {
    absl::StatusOr<Corpus> corpus = read_corpus(options_);
    EXPECT_TRUE(corpus.ok()) << corpus.status();
    return corpus.ok() ? *std::move(corpus) : Corpus{.begin = {0}};
  }
  static std::vector<Document> documents(const Corpus& corpus) {
    std::vector<Document> result;
    for (std::size_t d = 0; d < corpus.documents.size(); ++d) {
      result.emplace_back();
      for (std::uint64_t t = corpus.begin[d]; t < corpus.begin[d + 1]; ++t) {
        result.back().push_back(corpus.vocabulary[corpus.tokens[t]]);
      }
    }
    return result;
  }
  [[nodiscard]] std::vector<Document> documents_of(std::string_view text) const {
    write("text", text);
    return documents(read());
  }
  /// The error message without the folder's path.
  [[nodiscard]] std::string error() const {
    const absl::StatusOr<Corpus> corpus = read_corpus(options_);
    EXPECT_EQ(corpus.status().code(), absl::StatusCode::kInvalidArgument);
    const std::string message(corpus.status().message());
    EXPECT_TRUE(message.starts_with(folder_.path().string())) << message;
    return message.substr(std::min(message.size(), folder_.path().string().size() + 1));
  }
  [[nodiscard]] std::string error_of(std::string_view text) const {
    write("text", text);
    return error();
  }

  verbena::testing::TemporaryFolder folder_;
  CorpusOptions options_;
};

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  EXPECT_TRUE(Tokenizer().for_each_word(text, [&](std::string_view word) { words.emplace_back(word); }))
      << text;
  return words;
}

TEST(TokenizerTest, LowersAsciiAndDropsNumbersAndSigns) {
  EXPECT_THAT(words_of("In the Beginning, GOD (1:1) -- created\t42 x86 2nd."),
              ElementsAre("in", "the", "beginning", "god", "created", "x86", "2nd"));
  EXPECT_THAT(words_of(""), IsEmpty());
}

TEST(TokenizerTest, KeepsInnerApostrophesOnly) {
  EXPECT_THAT(words_of("'tis the LORD's men's' don\xE2\x80\x99t 'quoted' a''b"),
              ElementsAre("tis", "the", "lord's", "men's", "don't", "quoted", "a", "b"));
}

TEST(TokenizerTest, KeepsLettersOfUtf8AndDropsItsSigns) {
  EXPECT_THAT(
      words_of(
          "caf\xC3\xA9 "
          "\xE2\x80\x9Cna\xC3\xAFve\xE2\x80\x9D\xE2\x80\x94\xCE\xBB\xCF\x8C\xCE\xB3\xCE\xBF\xCF\x82\xC2\xA0"
          "\xE8\x81\x96\xE7\xB6\x93\xE3\x80\x82\xF0\x9F\x98\x80z"),
      ElementsAre("caf\xC3\xA9", "na\xC3\xAFve", "\xCE\xBB\xCF\x8C\xCE\xB3\xCE\xBF\xCF\x82",
                  "\xE8\x81\x96\xE7\xB6\x93", "z"));
}

TEST(TokenizerTest, InvisibleCharactersAreNoWordsAndDoNotSplitThem) {
  EXPECT_THAT(words_of("I ❤\uFE0F tea"), ElementsAre("i", "tea")) << "a variation selector";
  EXPECT_THAT(words_of("sun ☀\uFE0F and ❤\uFE0F 1\uFE0F\u20E3 👩\u200D🚀"), ElementsAre("sun", "and"));
  EXPECT_THAT(words_of("co\u00ADoperate \u2060a\u2060b\uFEFF \u200Ec\u200F"),
              ElementsAre("cooperate", "ab", "c"));
  EXPECT_THAT(words_of("می\u200Cخواهم \u200Cب\u200D"), ElementsAre("می\u200Cخواهم", "ب"))
      << "a joiner between letters is part of the word";
  EXPECT_THAT(words_of("ក\u200Bខ"), ElementsAre("ក", "ខ")) << "the zero width space is a space";
  EXPECT_THAT(words_of("\u3164 \u115F \u0301 \uFE0F"), IsEmpty());
}

TEST(TokenizerTest, MarksStayWithTheirLetters) {
  EXPECT_THAT(words_of("cafe\u0301 CAFÉ"), ElementsAre("café", "café"))
      << "both spellings become the composed one";
  EXPECT_THAT(words_of("हिन्दी में"), ElementsAre("हिन्दी", "में"));
  EXPECT_THAT(words_of("שָׁלוֹם"), ElementsAre("שָׁלוֹם"));
}

TEST(TokenizerTest, PunctuationOfEveryScriptSeparates) {
  EXPECT_THAT(words_of("a.b:c_d,e;f"), ElementsAre("a", "b", "c", "d", "e", "f"));
  EXPECT_THAT(words_of("é.b:c_d,e;é"), ElementsAre("é", "b", "c", "d", "e", "é"))
      << "the same as in ASCII text";
  EXPECT_THAT(words_of("ա։բ մ՝ն क।ख ก๏ข ا،ب αβ·γδ¿ά፡አ፡በ«д»"),
              ElementsAre("ա", "բ", "մ", "ն", "क", "ख", "ก", "ข", "ا", "ب", "αβ·γδ", "ά", "አ", "በ", "д"));
  EXPECT_THAT(words_of("col·lega צה״ל"), ElementsAre("col·lega", "צה״ל"))
      << "UAX 29 allows these marks inside a word";
  EXPECT_THAT(words_of("m² ½ x₂ №5 €é"), ElementsAre("m", "x", "é"));
}

TEST(TokenizerTest, LowersEveryScript) {
  EXPECT_THAT(words_of("ÉCOLE Straße ΛΌΓΟΣ МОСКВА ԵՐԵՒԱՆ"),
              ElementsAre("école", "straße", "λόγος", "москва", "երեւան"));
}

TEST(TokenizerTest, ApostrophesAreTheSameInEveryScript) {
  EXPECT_THAT(words_of("l’été d'été’ ’été’ é''é о’н"), ElementsAre("l'été", "d'été", "été", "é", "é", "о'н"));
  EXPECT_THAT(words_of("90's 1’é"), ElementsAre("90's", "1'é"));
}

TEST(TokenizerTest, ScriptsWithoutBlanksAreCutByDictionaries) {
  EXPECT_THAT(words_of("ภาษาไทย"), ElementsAre("ภาษา", "ไทย"));
  EXPECT_THAT(words_of("東京に行きます。"), ElementsAre("東京", "に", "行き", "ます"));
}

TEST(TokenizerTest, TheFastWayIsTheSlowWay) {
  // ASCII text takes the fast way. UnicodeWords is the slow way, for any text.
  for (const std::string_view text : {"don't 'quoted' men's' a''b x86 2nd 42 e.g. 1'a a'1 '9 it's''",
                                      "A-b_c a\tb\x7F"
                                      "c"}) {
    const std::vector<std::string> fast = words_of(text);
    std::vector<std::string> slow;
    UnicodeWords().for_each_word(text, [&](std::string_view word) { slow.emplace_back(word); });
    EXPECT_EQ(fast, slow);
  }
}

TEST(TokenizerTest, WhitespaceSeparatesWhateverThereIs) {
  std::vector<std::string> tokens;
  Tokenizer tokenizer(Tokens::kWhitespace);
  EXPECT_TRUE(tokenizer.for_each_word(" 17 New_York\té.é\u3000❤\uFE0F  ",
                                      [&](std::string_view token) { tokens.emplace_back(token); }));
  EXPECT_THAT(tokens, ElementsAre("17", "New_York", "é.é", "❤\uFE0F"));
  EXPECT_FALSE(tokenizer.for_each_word("a \xFF", [](std::string_view) {}));
  EXPECT_EQ(tokenizer.damaged(), 0xFF);
}

TEST(TokenizerTest, KnowsTheFormOfAWordFromElsewhere) {
  EXPECT_EQ(Tokenizer().vocabulary_form("New_YORK’S"), "new_york's");
  EXPECT_EQ(Tokenizer().vocabulary_form("CAFE\u0301"), "café");
  EXPECT_EQ(Tokenizer().vocabulary_form("\xFF"), "\xFF");
  EXPECT_EQ(Tokenizer(Tokens::kWhitespace).vocabulary_form("New"), "New");
}

TEST(TokenizerTest, RefusesWhatIsNotUtf8) {
  for (std::string_view bad : {"a\xE9 b", "\xC0\xAF", "\xED\xA0\x80", "\xF5\x80\x80\x80", "\xE2\x80", "\x80",
                               "\xE0\x80\x80", "\xF4\x90\x80\x80"}) {
    Tokenizer tokenizer;
    EXPECT_FALSE(tokenizer.for_each_word(bad, [](std::string_view) {})) << bad;
    EXPECT_GE(tokenizer.damaged(), 0x80) << bad;
  }
}

TEST_F(CorpusTest, ReadsLinesAndTitles) {
  EXPECT_THAT(documents_of("The earth.\n\nthe HEAVEN\r\n"),
              ElementsAre(Document{"the", "earth"}, Document{"the", "heaven"}));
  write("text", "Genesis 1\tIn the beginning\nGenesis 2\t7\n");
  const Corpus corpus = read();
  EXPECT_THAT(corpus.titles, ElementsAre("Genesis 1", "Genesis 2"));
  EXPECT_THAT(documents(corpus), ElementsAre(Document{"in", "the", "beginning"}, IsEmpty()));
  EXPECT_EQ(corpus.total_documents, 2U);
  EXPECT_EQ(corpus.total_tokens, 3U);
}

TEST_F(CorpusTest, NumbersWordsByFallingFrequencyThenSpelling) {
  write("text", "c b a b\nb c d\n");
  EXPECT_THAT(read().vocabulary, ElementsAre("b", "c", "a", "d"));
  EXPECT_THAT(read().counts, ElementsAre(3, 2, 1, 1));
  options_.parts = 2;  // the counts are those of all parts
  options_.min_count = 2;
  EXPECT_THAT(read().counts, ElementsAre(3, 2));
}

TEST_F(CorpusTest, DropsStopWordsAndRareWords) {
  write("text", "the ark and the covenant of the ark\nthe ark\n");
  options_.stop_words = "english";
  EXPECT_THAT(documents(read()), ElementsAre(Document{"ark", "covenant", "ark"}, Document{"ark"}));
  options_.min_count = 2;
  const Corpus corpus = read();
  EXPECT_THAT(documents(corpus), ElementsAre(Document{"ark", "ark"}, Document{"ark"}));
  EXPECT_EQ(corpus.total_tokens, 3U);
  write("stop", "Ark\n\n");
  options_.stop_words = path("stop");
  EXPECT_THAT(documents(read()), ElementsAre(Document{"the", "the", "the"}, Document{"the"}));
  write("stop", "two words\n");
  EXPECT_EQ(error(), "stop:1: expected one word of UTF-8 text in each line, found \"two words\"");
  options_.stop_words = path("none there");
  EXPECT_EQ(read_corpus(options_).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CorpusTest, ReadsUciBagsOfWords) {
  write("docword.kos.txt", "3\n4\n4\n1 2 2\n1 4 1\n3 2 1\n3 1 1\n");
  options_.path = path("docword.kos.txt");
  EXPECT_THAT(documents(read()),
              ElementsAre(Document{"word2", "word2", "word4"}, Document{"word2", "word1"}));
  EXPECT_EQ(read().total_documents, 3U) << "the empty document counts";
  EXPECT_THAT(read().documents, ElementsAre(0U, 2U));
  write("vocab.kos.txt", "ark\ncovenant\nearth\nheaven\n");
  EXPECT_THAT(documents(read()),
              ElementsAre(Document{"covenant", "covenant", "heaven"}, Document{"covenant", "ark"}));
  write("other", "a\nb\nc\nd\n");
  options_.vocabulary = path("other");
  EXPECT_THAT(documents(read()), ElementsAre(Document{"b", "b", "d"}, Document{"b", "a"}));
}

TEST_F(CorpusTest, KnowsUciByContentAndTakesAnyOrder) {
  EXPECT_THAT(documents_of("2\n2\n3\n2 1 1\n1 2 1\n1 1 1\n"),
              ElementsAre(Document{"word2", "word1"}, Document{"word1"}));
}

TEST_F(CorpusTest, ReadsLdaC) {
  EXPECT_THAT(documents_of("2 0:1 7:2\n0\n1 7:1\n"),
              ElementsAre(Document{"word0", "word7", "word7"}, IsEmpty(), Document{"word7"}));
  write("vocabulary", "ark\n");
  options_.vocabulary = path("vocabulary");
  EXPECT_EQ(error(), "text:1: expected an id below 1, the size of the vocabulary, found \"7:2\"");
}

TEST_F(CorpusTest, ReadsLdaCWhoseFirstDocumentIsEmpty) {
  EXPECT_THAT(documents_of("0\n2 0:1 3:2\n1 2:4\n"),
              ElementsAre(IsEmpty(), Document{"word0", "word3", "word3"}, Document(4, "word2")));
  EXPECT_EQ(documents_of("0\n0\n0\n1 2:4\n").size(), 4U) << "must not be taken for UCI's format";
}

TEST_F(CorpusTest, ReadsMatrixMarket) {
  const std::string banner = "%%MatrixMarket matrix coordinate ";
  const std::string entries = "%\n\n3 4 6\n1 1 2\n1 2 1\n\n2 2 3\n% more\n2 3 1\n3 3 2\n3 4 5\n";
  for (const char* const kind : {"real general\n", "INTEGER General\n"}) {
    write("text", banner + kind + entries);
    const Corpus corpus = read();
    EXPECT_EQ(corpus.total_documents, 3U);
    EXPECT_EQ(corpus.vocabulary.size(), 4U);
    EXPECT_EQ(corpus.total_tokens, 14U);
    EXPECT_EQ(documents(corpus)[0], (Document{"word1", "word1", "word2"}));
  }
  EXPECT_THAT(documents_of(banner + "real general\n2 2 3\n2 1 2.0\n1 2 1e0\n1 1 0\n"),
              ElementsAre(Document{"word2"}, Document{"word1", "word1"}));
  EXPECT_THAT(documents_of("%%matrixmarket matrix coordinate integer general\n2 2 1\n2 1 2\n"),
              ElementsAre(Document{"word1", "word1"}));
  EXPECT_THAT(documents_of(banner + "pattern general\n2 2 2\n2 1\n2 2\n"),
              ElementsAre(Document{"word1", "word2"}));
  EXPECT_EQ(read().total_documents, 2U) << "the empty document counts";
  write("vocabulary", "ark\nearth\n");
  options_.vocabulary = path("vocabulary");
  EXPECT_THAT(documents(read()), ElementsAre(Document{"ark", "earth"}));
  EXPECT_EQ(read().format, "Matrix Market");
}

TEST_F(CorpusTest, SaysWhatIsWrongWithAMatrix) {
  const std::string banner = "%%MatrixMarket matrix ";
  EXPECT_EQ(error_of(banner + "array real general\n2 2\n1\n1\n1\n1\n"),
            "text:1: expected \"coordinate\" in Matrix Market's banner, found \"array\"");
  EXPECT_THAT(error_of(banner + "coordinate complex general\n1 1 1\n1 1 1 1\n"),
              HasSubstr("found \"complex\""));
  EXPECT_THAT(error_of(banner + "coordinate real symmetric\n1 1 1\n1 1 1\n"),
              HasSubstr("found \"symmetric\""));
  EXPECT_THAT(error_of("%%MatrixMarket vector coordinate real general\n"), HasSubstr("found \"vector\""));
  EXPECT_THAT(error_of("%%MatrixMarket\n"), HasSubstr("expected \"matrix\""));
  const std::string real = banner + "coordinate real general\n";
  EXPECT_THAT(error_of(real), HasSubstr("text:1: expected the numbers of rows, columns and entries"));
  EXPECT_THAT(error_of(real + "2 2\n"),
              HasSubstr("text:2: expected the numbers of rows, columns and entries"));
  EXPECT_EQ(error_of(real + "1 1 2\n1 1 1\n"),
            "text:3: expected 2 entries, as the size says, found \"1 at the end of the file\"");
  EXPECT_EQ(error_of(real + "1 1 1\n1 1 1\n1 1 1\n"),
            "text:4: expected 1 entries, as the size says, found \"more\"");
  EXPECT_EQ(error_of(real + "1 1 1\n2 1 1\n"), "text:3: expected a row from 1 to 1, found \"2 1 1\"");
  EXPECT_EQ(error_of(real + "1 1 1\n1 0 1\n"), "text:3: expected a column from 1 to 1, found \"1 0 1\"");
  EXPECT_EQ(error_of(real + "1 1 1\n1 1\n"), "text:3: expected row, column and value, found \"1 1\"");
  EXPECT_EQ(error_of(real + "1 1 1\n1 1 1.5\n"),
            "text:3: expected a whole number from 0 to 16777215 as the count, found \"1.5\"");
  EXPECT_THAT(error_of(real + "1 1 1\n1 1 -1\n"), HasSubstr("text:3: expected a whole number"));
  EXPECT_THAT(error_of(real + "1 1 1\n1 1 nan\n"), HasSubstr("text:3: expected a whole number"));
}

TEST_F(CorpusTest, ReadsSvmLight) {
  EXPECT_THAT(
      documents_of("# written by hand\n+1 1:2 3:1 # good\n-1 qid:7 3:1.0\n0.5\n1,2 4:0 5:1\n"),
      ElementsAre(Document{"word1", "word1", "word3"}, Document{"word3"}, IsEmpty(), Document{"word5"}));
  EXPECT_THAT(documents_of("3 0:1 1:1\n3 2:1 4:1\n"),
              ElementsAre(Document{"word0", "word1"}, Document{"word2", "word4"}))
      << "ids from 0, and labels that cannot be LDA-C's numbers of words";
  EXPECT_THAT(
      documents_of("0\n1 3:1\n0 2:1 4:1\n1 2:1 4:1\n"),
      ElementsAre(IsEmpty(), Document{"word3"}, Document{"word2", "word4"}, Document{"word2", "word4"}))
      << "the first lines could be LDA-C, the others cannot";
  EXPECT_THAT(documents_of("0\n1 3:1\n0 2:1\n"),
              ElementsAre(IsEmpty(), Document{"word3"}, Document{"word2"}));
  EXPECT_EQ(error_of("+1 1:2\n-1 1:0.5\n"),
            "text:2: expected id:count with a whole number from 0 to 16777215 as the count, found \"1:0.5\"");
  write("x.libsvm", "1 1:2\n1 2:1\n");
  options_.path = path("x.libsvm");
  EXPECT_EQ(read().format, "LIBSVM or SVMlight") << "the lines could be LDA-C, so the file's name decides";
  write("vocabulary", "ark\nearth\n");
  options_.vocabulary = path("vocabulary");
  EXPECT_THAT(documents(read()), ElementsAre(Document{"ark", "ark"}, Document{"earth"}));
  write("x.libsvm", "1 0:2\n");
  EXPECT_THAT(error(), HasSubstr("x.libsvm:1: expected an id from 1 to 2, the size of the vocabulary"));
}

TEST_F(CorpusTest, ReadsVowpalWabbit) {
  EXPECT_THAT(documents_of("1 |text the:2 ark\n-1 2.0 'second |a ark |b the:3.0 man:0\n|\n"),
              ElementsAre(Document{"the", "the", "ark"}, Document{"ark", "the", "the", "the"}, IsEmpty()));
  EXPECT_THAT(documents_of("1 1.0 first|ns ark:2 man\n-1 'second|ns dove\n"),
              ElementsAre(Document{"ark", "ark", "man"}, Document{"dove"}))
      << "tags that touch the bar";
  EXPECT_THAT(documents_of("doc1 |@default ark:2 man\ndoc2 |@default dove\n"),
              ElementsAre(Document{"ark", "ark", "man"}, Document{"dove"}))
      << "as BigARTM writes it";
  EXPECT_EQ(error_of("1 | the:2\n1 | the:0.5\n"),
            "text:2: expected word or word:count, a whole number from 0 to 16777215, found \"the:0.5\"");
  EXPECT_THAT(documents_of("| a | table |\n| of | text |\n"),
              ElementsAre(Document{"a", "table"}, Document{"of", "text"}))
      << "bars in prose";
}

TEST_F(CorpusTest, RefusesOtherFormatsByName) {
  const std::pair<std::string_view, std::string_view> formats[] = {
      {"\x93NUMPY\x01", "an array of NumPy"},
      {"PK\x03\x04", "a zip archive"},
      {"BZh91AY", "bzip2"},
      {"@prefix a: <http://a> .\n", "Turtle"},
      {"{\\rtf1 in the beginning}\n", "RTF"},
      {"*Vertices 2\n", "a graph of Pajek"},
      {"# verbena lda 1\ttopics=2\n", "a file that --output has written"},
      {"{\"text\": \"in the beginning\"}\n", "JSON"},
      {"<http://a> <http://b> <http://c> .\n", "N-Triples"},
      {"2 3\nark 1 2 3\nman 4 5 6\n", "vectors of words"},
      {"<?xml version=\"1.0\"?>\n", "XML"},
      {"userId,movieId,rating,timestamp\n1,31,2.5,1260759144\n", "a table, as of ratings"},
      {"user;book;rating\nann;War and Peace;5\n", "a table, as of ratings"},
      {"196\t242\t3\t881250949\n186\t302\t3\t891717742\n", "a table, as of ratings"},
      {"1::1193::5::978300760\n1::661::3::978302109\n", "a table, as of ratings"},
  };
  for (const auto& [text, name] : formats) {
    EXPECT_THAT(error_of(text), ::testing::StartsWith("text:1: expected running text or a bag of words"));
    EXPECT_THAT(error_of(text), HasSubstr(std::string("found ") + std::string(name)));
  }
  EXPECT_EQ(documents_of("one,two,3\n").size(), 1U) << "one line is not enough to call it a table";
  EXPECT_EQ(documents_of("in 1, 2, 3 days\nor in 4, 5, 6\n").size(), 2U) << "prose";
  EXPECT_EQ(documents_of("7\tin the\t1\n8\tbeginning\t2\n").size(), 2U) << "titles, then text";
  EXPECT_EQ(documents_of("1 2 3\n4 5 6\n").size(), 2U) << "walks on a graph";
  EXPECT_EQ(documents_of("In the beginning: God (1:1) created\n1 word: 2 words\n").size(), 2U) << "prose";
}

TEST_F(CorpusTest, RefusesBagsOfWordsByNameWhereOrderIsNeeded) {
  options_.needs_order = true;
  for (const auto& [text, name] :
       {std::pair("%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 1\n", "Matrix Market"),
        {"1\n1\n1\n1 1 1\n", "UCI's bag of words"},
        {"1 0:1\n", "LDA-C"},
        {"+1 1:1\n", "LIBSVM or SVMlight"},
        {"1 |a b:1\n", "Vowpal Wabbit"}}) {
    EXPECT_EQ(
        error_of(text),
        fmt::format("text: expected running text, found a bag of words, which has no order ({})", name));
  }
}

TEST_F(CorpusTest, WhitespaceTokensAreReadAsTheyAre) {
  options_.tokens = Tokens::kWhitespace;
  EXPECT_THAT(documents_of("1\n2\n3\n1 2 New_York\t3\n"),
              ElementsAre(Document{"1"}, Document{"2"}, Document{"3"}, Document{"1", "2", "New_York", "3"}))
      << "neither UCI's format nor a title";
  EXPECT_THAT(documents_of("+1 1:2\n"), ElementsAre(Document{"+1", "1:2"}));
  EXPECT_THAT(error_of("%%MatrixMarket matrix coordinate real general\n"),
              HasSubstr("expected running text, as --tokens whitespace says, found Matrix Market"));
  write("text", "New_York new_york\n");
  write("stop", "New_York\n");
  options_.stop_words = path("stop");
  EXPECT_THAT(documents(read()), ElementsAre(Document{"new_york"}));
}

TEST_F(CorpusTest, StopWordsAreFoundHoweverAVocabularySpellsThem) {
  write("text", "2 0:1 1:2\n");
  write("vocabulary", "Cafe\u0301\nARK\n");
  write("stop", "CAFÉ\n");
  options_.vocabulary = path("vocabulary");
  options_.stop_words = path("stop");
  EXPECT_THAT(read().vocabulary, ElementsAre("ARK"));
  write("vocabulary", "a\xFF\nb\n");
  EXPECT_THAT(error(), HasSubstr("vocabulary:1: expected one word of UTF-8 in each line"));
}

TEST_F(CorpusTest, ReadsGzip) {
  gzFile file = gzopen(path("text").c_str(), "wb");
  gzwrite(file, "an ark\n", 7);
  gzclose(file);
  EXPECT_THAT(documents(read()), ElementsAre(Document{"an", "ark"}));
}

TEST_F(CorpusTest, PartsMakeTheWhole) {
  write("text", "a b\nc\nb b\nd a\n\ne\n");
  const Corpus whole = read();
  std::set<std::pair<std::uint64_t, Document>> expected;
  for (std::size_t d = 0; d < whole.documents.size(); ++d) {
    expected.emplace(whole.documents[d], documents(whole)[d]);
  }
  std::set<std::pair<std::uint64_t, Document>> found;
  options_.parts = 3;
  for (options_.part = 0; options_.part < 3; ++options_.part) {
    const Corpus part = read();
    EXPECT_EQ(part.vocabulary, whole.vocabulary);
    EXPECT_EQ(part.total_tokens, whole.total_tokens);
    EXPECT_EQ(part.total_documents, 5U);
    for (std::size_t d = 0; d < part.documents.size(); ++d) {
      EXPECT_EQ(part.documents[d] % 3, options_.part);
      found.emplace(part.documents[d], documents(part)[d]);
    }
  }
  EXPECT_EQ(found, expected);
  options_.part = options_.parts = 1;
  EXPECT_THAT(read().documents, IsEmpty());
  EXPECT_EQ(read().total_tokens, 8U);
}

TEST_F(CorpusTest, SaysWhereAndWhat) {
  EXPECT_EQ(error_of("title\ttext\nno title\n"),
            "text:2: expected title<TAB>text, as in the first line, found \"no title\"");
  EXPECT_EQ(error_of("word\nw\xE9\n"),
            "text:2: expected text in UTF-8 (or a bag of words, see docs/data.md), found \"byte 0xe9\"");
  EXPECT_EQ(error_of("2 0:1 7:2\n3 1:1 2:2\n"),
            "text:2: expected 3 id:count pairs, as the line begins, found \"2 pairs\"");
  EXPECT_EQ(error_of("1 0:1\n1 0:0\n"),
            "text:2: expected id:count with a count from 1 to 16777215, found \"0:0\"");
  EXPECT_EQ(error_of("1 0:1\nx\n"),
            "text:2: expected the number of id:count pairs, then the pairs, found \"x\"");
  EXPECT_EQ(error_of("2\n2\n1\n1 1\n"), "text:4: expected document, word and count, found \"1 1\"");
  EXPECT_EQ(error_of("2\n2\n1\n3 1 1\n"), "text:4: expected a document from 1 to 2, found \"3 1 1\"");
  EXPECT_EQ(error_of("2\n2\n1\n1 0 1\n"), "text:4: expected a word from 1 to 2, found \"1 0 1\"");
  EXPECT_EQ(error_of("2\n2\n1\n1 1 0\n"), "text:4: expected a count from 1 to 16777215, found \"1 1 0\"");
  EXPECT_THAT(error_of("2\n2\n1\n1 1 16777216\n"), HasSubstr("text:4: expected a count from 1 to 16777215"));
  EXPECT_EQ(error_of("2\n2\n1\n1 1 -1\n"), "text:4: expected document, word and count, found \"1 1 -1\"");
  EXPECT_EQ(error_of("2\n2\n2\n1 1 1\n"),
            "text:4: expected 2 lines below the header, as line 3 says, found \"1 at the end of the file\"");
  write("text", "running text\n");
  options_.vocabulary = path("text");
  EXPECT_THAT(error(), HasSubstr("to go with the vocabulary, found running text"));
  options_ = {.path = path("docword.x.txt")};
  write("docword.x.txt", "12\nno number\n");
  EXPECT_EQ(error(), "docword.x.txt:2: expected the size of the vocabulary, found \"no number\"");
  write("docword.x.txt", "2\n2\n1\n1 1 1\n");
  write("vocab.x.txt", "one\n");
  EXPECT_THAT(error(), HasSubstr("expected a vocabulary of at most 1 words"));
  write("vocab.x.txt", "one two\n");
  EXPECT_EQ(error(), "vocab.x.txt:1: expected one word of UTF-8 in each line, found \"one two\"");
  options_.path = path("missing");
  EXPECT_EQ(read_corpus(options_).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CorpusTest, GeneratedOnesAreDeterministicAndReadable) {
  GenerateCorpusOptions generate;
  generate.documents = 300;
  generate.topics = 4;
  generate.words_per_topic = 30;
  generate.mean_length = 50;
  ASSERT_TRUE(generate_corpus(generate, path("text")).ok());
  ASSERT_TRUE(generate_corpus(generate, path("again")).ok());
  const auto contents = [&](std::string_view name) {
    std::ostringstream text;
    text << std::ifstream(path(name)).rdbuf();
    return text.str();
  };
  EXPECT_EQ(contents("text"), contents("again"));
  const Corpus corpus = read();
  EXPECT_EQ(corpus.total_documents, 300U);
  EXPECT_NEAR(static_cast<double>(corpus.total_tokens), 300 * 50, 500);
  EXPECT_THAT(std::vector(corpus.vocabulary.begin(), corpus.vocabulary.begin() + 4),
              UnorderedElementsAre("t0w0", "t1w0", "t2w0", "t3w0"));
  EXPECT_EQ(corpus.titles.front(), "document 1");
  generate.seed = 2;
  ASSERT_TRUE(generate_corpus(generate, path("again")).ok());
  EXPECT_NE(contents("text"), contents("again"));
}

TEST_F(CorpusTest, GenerateRefusesImpossibleOptions) {
  const auto refusal = [&](auto GenerateCorpusOptions::*member, auto value) {
    GenerateCorpusOptions options;
    options.*member = value;
    const absl::Status status = generate_corpus(options, path("new"));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_FALSE(std::filesystem::exists(path("new")));
    return std::string(status.message());
  };
  EXPECT_THAT(refusal(&GenerateCorpusOptions::documents, 0), HasSubstr("--documents: expected 1"));
  EXPECT_THAT(refusal(&GenerateCorpusOptions::topics, 0), HasSubstr("--topics"));
  EXPECT_THAT(refusal(&GenerateCorpusOptions::words_per_topic, -1), HasSubstr("--words-per-topic"));
  EXPECT_THAT(refusal(&GenerateCorpusOptions::mean_length, 0.5), HasSubstr("--mean-length"));
  EXPECT_THAT(refusal(&GenerateCorpusOptions::alpha, 0.0), HasSubstr("--alpha"));
  EXPECT_THAT(refusal(&GenerateCorpusOptions::noise, 1.5), HasSubstr("--noise"));
}

}  // namespace
}  // namespace verbena::apps
