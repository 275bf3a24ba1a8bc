// Files that users give: any bytes must become sound data, or an error of one line that says where.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <sstream>

#include "apps/data/corpus.hpp"
#include "apps/data/examples.hpp"
#include "apps/data/line_reader.hpp"
#include "apps/data/ratings.hpp"
#include "apps/data/tokenizer.hpp"
#include "apps/data/triples.hpp"
#include "apps/data/unicode.hpp"
#include "apps/kge/model.hpp"
#include "apps/word2vec/vectors.hpp"
#include "tests/fuzz/mutator.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::apps {
namespace {

using ::testing::HasSubstr;
using verbena::testing::GuardedMemory;
using verbena::testing::Mutator;

class FilesFuzz : public ::testing::Test {
 protected:
  void write(std::string_view name, std::string_view bytes) const {
    // A new file each time: some file systems write a file that was truncated to the disk when it is closed.
    std::filesystem::remove(path(name));
    verbena::testing::write_file(path(name), bytes);
  }
  [[nodiscard]] std::string path(std::string_view name) const { return folder_.path(name); }
  /// Expects one line that begins with a file of this test and the number of a line, or of a word in a binary
  /// file, and says what was expected.
  void expect_located(const absl::Status& status) const {
    const std::string message(status.message());
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << message;
    EXPECT_TRUE(message.starts_with(folder_.path().string() + "/")) << message;
    EXPECT_THAT(message.substr(std::min(message.size(), folder_.path().string().size())),
                ::testing::ContainsRegex("^/[a-z]+:( word )?[0-9]+: expected "));
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
  [[nodiscard]] absl::StatusOr<std::vector<std::string>> lines() const {
    absl::StatusOr<LineReader> reader = LineReader::open(path("text"));
    if (!reader.ok()) return reader.status();
    std::vector<std::string> all;
    std::string_view line;
    for (;;) {
      const absl::StatusOr<bool> more = reader->next(line);
      if (!more.ok()) return more.status();
      if (!*more) return all;
      all.emplace_back(line);
    }
  }

  verbena::testing::TemporaryFolder folder_;
};

// --- lines

std::string gzip(const std::string& text) {
  z_stream stream = {};
  constexpr int kGzip = 16;  // zlib: added to the window's size
  EXPECT_EQ(deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, MAX_WBITS + kGzip, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string bytes(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_out = static_cast<uInt>(bytes.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  bytes.resize(stream.total_out);
  deflateEnd(&stream);
  return bytes;
}

std::string numbers_to(int last) {
  std::string text;
  for (int n = 1; n <= last; ++n) text += std::to_string(n * 7919) + "\n";
  return text;
}

TEST_F(FilesFuzz, PlainLines) {
  constexpr int kRounds = verbena::testing::rounds(2'000);
  // Some lines are longer than a buffer.
  Mutator mutator(
      1, {"one\ntwo\r\n\nlast", numbers_to(20'000), ""},
      {"\n", "\r\n", "\r", "\xEF\xBB\xBF", "\xff", std::string(1, '\0'), std::string(200'000, 'x')});
  for (int round = 0; round < kRounds; ++round) {
    const std::string text = mutator.next();
    if (text.starts_with("\x1F\x8B")) continue;
    write("text", text);
    const auto found = lines();
    ASSERT_TRUE(found.ok()) << found.status();
    // The lines as the standard library reads them.
    std::vector<std::string> expected;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) {
      if (line.ends_with('\r')) line.pop_back();
      if (expected.empty() && line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);
      expected.push_back(line);
    }
    ASSERT_TRUE(*found == expected) << "round " << round;
  }
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) all.push_back(line);
  return all;
}

/// Whether `lines` are some of `texts`, each whole, one after the other.
bool made_of(std::span<const std::string> lines, const std::vector<std::vector<std::string>>& texts) {
  while (!lines.empty()) {
    const auto next = std::find_if(texts.begin(), texts.end(), [&](const std::vector<std::string>& text) {
      return text.size() <= lines.size() && std::equal(text.begin(), text.end(), lines.begin());
    });
    if (next == texts.end()) return false;
    lines = lines.subspan(next->size());
  }
  return true;
}

TEST_F(FilesFuzz, DamagedGzip) {
  constexpr int kRounds = verbena::testing::rounds(5'000);
  const std::vector<std::string> texts = {numbers_to(2'000), "one\ntwo\n", "three\n"};
  Mutator mutator(2, {gzip(texts[0]), gzip(texts[1]), gzip("")},
                  {"\x1F\x8B", "\xff\xff\xff\xff", std::string(4, '\0'), gzip(texts[2])});
  const std::vector<std::vector<std::string>> whole = {split(texts[0]), split(texts[1]), split(texts[2])};
  int accepted = 0;
  int refused = 0;
  for (int round = 0; round < kRounds; ++round) {
    const std::string bytes = mutator.next();
    if (!bytes.starts_with("\x1F\x8B")) continue;  // plain text
    write("text", bytes);
    const auto found = lines();
    ++(found.ok() ? accepted : refused);
    if (found.ok()) {
      EXPECT_TRUE(made_of(*found, whole)) << "round " << round;  // a part of a text must not be accepted
    } else {
      expect_located(found.status());
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(accepted, kRounds / 100);
  EXPECT_GT(refused, kRounds / 10);
}

// --- words

std::vector<std::string> words_of(std::string_view text, Tokens tokens) {
  std::vector<std::string> words;
  if (!Tokenizer(tokens).for_each_word(text, [&](std::string_view word) { words.emplace_back(word); }))
    words.clear();
  return words;
}

TEST_F(FilesFuzz, Words) {
  constexpr int kRounds = verbena::testing::rounds(100'000);
  Mutator mutator(3,
                  {"In the b\xC3\xA9ginning, don\xE2\x80\x99t 'quote' 42 x86",
                   "\xE8\x81\x96\xE7\xB6\x93 \xF0\x9F\x98\x80z", "می\u200Cخواهم ภาษาไทย ΛΌΓΟΣ हिन्दी",
                   "東京に行きます ❤\uFE0F col·lega צה״ל"},
                  {"'", "\xE2\x80\x99", "\xC3", "\xE2\x80", "\xF0\x9F\x98", "\xED\xA0\x80", "\x80", " ", "A",
                   "\uFE0F", "\u200D", "\u200B", "\u0301", "·", "\u3164", "\u00AD", "İ", "½"});
  GuardedMemory memory;
  int accepted = 0;
  for (int round = 0; round < kRounds; ++round) {
    const std::string text = mutator.next();
    const Tokens tokens = round % 5 == 0 ? Tokens::kWhitespace : Tokens::kWords;
    Tokenizer tokenizer(tokens);
    std::vector<std::string> words;
    const bool whole =
        tokenizer.for_each_word(memory.put(text), [&](std::string_view word) { words.emplace_back(word); });
    for (const std::string& word : words) ASSERT_FALSE(word.empty() || word.find(' ') != std::string::npos);
    if (!whole) {
      ASSERT_GE(tokenizer.damaged(), 0x80);
      continue;
    }
    ++accepted;
    std::vector<std::string> twice = words;
    twice.insert(twice.end(), words.begin(), words.end());
    ASSERT_EQ(words_of(text + "\n" + text, tokens), twice);
    if (tokens == Tokens::kWhitespace) continue;
    for (const std::string& word : words) {
      ASSERT_TRUE(is_utf8(word));
      // A word consists of visible characters only, in lower case and composed.
      ASSERT_EQ(tokenizer.vocabulary_form(word), word);
    }
  }
  EXPECT_GT(accepted, kRounds / 10);
}

// --- corpora

void expect_sound(const Corpus& corpus) {
  ASSERT_EQ(corpus.begin.size(), corpus.documents.size() + 1);
  ASSERT_EQ(corpus.titles.size(), corpus.documents.size());
  ASSERT_TRUE(std::is_sorted(corpus.begin.begin(), corpus.begin.end()));
  ASSERT_EQ(corpus.begin.front(), 0U);
  ASSERT_EQ(corpus.begin.back(), corpus.tokens.size());
  ASSERT_EQ(corpus.total_tokens, corpus.tokens.size());
  for (const std::uint64_t document : corpus.documents) ASSERT_LT(document, corpus.total_documents);
  for (const std::uint32_t token : corpus.tokens) ASSERT_LT(token, corpus.vocabulary.size());
}

TEST_F(FilesFuzz, Corpora) {
  constexpr int kRounds = verbena::testing::rounds(6'000);
  const std::vector<std::string> corpora = {
      "Genesis 1\tIn the b\xC3\xA9ginning\nGenesis 2\tthus the heavens\n",
      "2\n3\n3\n1 1 2\n1 3 1\n2 2 1\n",
      "2 0:1 7:2\n0\n1 7:1\n",
      "%%MatrixMarket matrix coordinate real general\n% by hand\n2 8 3\n1 1 2.0\n1 3 1\n2 8 1e0\n",
      "+1 qid:1 1:2 8:1 # good\n-1 3:1\n0.5 2:1\n",
      "1 |text the:2 ark\n-1 'tag |a ark |b the:3\n"};
  const std::vector<std::string> pieces = {"\t",
                                           ":",
                                           " ",
                                           "\n",
                                           "\r\n",
                                           "9",
                                           "-1",
                                           "0",
                                           "99999999999999999999",
                                           "\xff",
                                           "\xE2\x80\x99",
                                           "%",
                                           "|",
                                           "#",
                                           "+",
                                           ".5",
                                           "array",
                                           "pattern",
                                           "symmetric"};
  Mutator text(4, corpora, pieces);
  Mutator words(5, {"ark\ncovenant\nearth\nheaven\nman\nday\nnight\nlight\n"}, pieces);
  int accepted = 0;
  for (int round = 0; round < kRounds; ++round) {
    CorpusOptions options{.path = path("text")};
    write("text", round % 4 == 0 ? corpora[text.below(corpora.size())] : text.next());
    if (round % 7 == 0) options.tokens = Tokens::kWhitespace;
    if (round % 3 == 1) options.vocabulary = path("words");
    if (round % 3 == 2) options.stop_words = path("words");
    if (round % 3 != 0) write("words", words.next());
    const absl::StatusOr<Corpus> corpus = read_corpus(options);
    if (corpus.ok()) {
      ++accepted;
      expect_sound(*corpus);
    } else if (corpus.status().message().find("expected a bag of numbered words") == std::string::npos) {
      expect_located(corpus.status());  // a vocabulary for running text is wrong as a whole
    }
    if (HasFailure()) FAIL() << "round " << round;
  }
  EXPECT_GT(accepted, kRounds / 10);
}

// --- ratings

TEST_F(FilesFuzz, RatingFiles) {
  constexpr int kRounds = verbena::testing::rounds(10'000);
  Mutator mutator(
      6,
      {"196\t242\t3\t881250949\n186\t302\t3.5\t891717742\n22\t377\t1\t878887116\n",
       "196::242::3::881250949\n186::302::3.5::891717742\n22::377::1::878887116\n",
       "userId,movieId,rating\n\"196\",\"2\"\"42\",3.0\n186,302,3.5\n22,377,1\n",
       "user|item|rating|timestamp\n196|242|3|881250949\n186|302|3.5|891717742\n",
       "rating;\"user\";item\n3;196;242\n3.5;186;302\n", "196 242  3\n186 302 +3.5\n22 377 1e-50\n",
       "%%MatrixMarket matrix coordinate real general\n%\n200 400 2\n196 242 3\n186 302 3.5\n"},
      {"\t", "::", "|", ",", ";", " ", "\"", "\n", "\r\n", "nan", "1e999", "1e39", "16777217", "-", "+", "%",
       "\xff"});
  int accepted = 0;
  for (int round = 0; round < kRounds; ++round) {
    write("text", mutator.next());
    const absl::StatusOr<Ratings> ratings = read_ratings({.path = path("text"), .test_fraction = 0.5});
    if (!ratings.ok()) {
      expect_located(ratings.status());
      if (HasFailure()) FAIL() << "round " << round;
      continue;
    }
    ++accepted;
    ASSERT_GT(ratings->total_train, 0U);
    ASSERT_EQ(ratings->total_train, ratings->train.size());
    ASSERT_EQ(ratings->item_train.size(), ratings->item_names.size());
    ASSERT_TRUE(std::isfinite(ratings->train_mean) && std::isfinite(ratings->train_deviation));
    for (const std::vector<Rating>* part : {&ratings->train, &ratings->test}) {
      for (const Rating& rating : *part) {
        ASSERT_LT(rating.user, ratings->user_names.size());
        ASSERT_LT(rating.item, ratings->item_names.size());
        ASSERT_TRUE(std::isfinite(rating.value));
      }
    }
  }
  EXPECT_GT(accepted, kRounds / 50) << "some mutations must get through the parser, to what is behind it";
}

// --- labelled examples

/// Criteo's line with these numbers, and as many categories as it must have.
std::string criteo_line(const std::string& label, const std::string& numbers) {
  std::string line = label + "\t" + numbers;
  for (int category = 0; category < 26; ++category) line += "\t" + std::to_string(68'000'000 + category);
  return line + "\n";
}

TEST_F(FilesFuzz, ExampleFiles) {
  constexpr int kRounds = verbena::testing::rounds(6'000);
  const std::string avazu_header = "id,click,hour,C1,banner_pos,site_id\n";
  Mutator mutator(
      10,
      {"+1 1:0.5 8:1 # good\n-1 qid:3 3:1e-3\n0 2:1\n", "1 0:3:1 4094:7:0.25\n0 2:1:1\n-1 0:3:-2 1:9:1\n",
       criteo_line("0", "1\t\t-1\t3\t9000\t\t0\t2\t70\t1\t\t\t5") +
           criteo_line("1", "\t5\t\t\t\t\t\t\t\t\t\t\t"),
       avazu_header + "1000009418151094273,0,14102100,1005,0,1fbe01fe\n10,1,14102823,1005,1,\"a\"\"b\"\n",
       "1 2.5 'tag |user ann age:0.3 |ad:0.5 shoes\n-1 |user bob |ad hats:2\n",
       "userId,movieId,rating\n\"196\",242,3.0\n186,302,4.5\n22,377,1\n"},
      {"\t",
       ":",
       "|",
       ",",
       " ",
       "\"",
       "\n",
       "\n\n",
       "\r\n",
       "#",
       "-1",
       "0",
       "1e99",
       "nan",
       "4095",
       "9007199254740993",
       "99999999999999999999",
       "-9223372036854775808",
       std::string(1, '\0'),
       "\xff"});
  int accepted = 0;
  std::set<std::string> formats;
  for (int round = 0; round < kRounds; ++round) {
    write("text", mutator.next());
    std::uint64_t examples = 0;
    std::uint64_t features = 0;
    const auto read = read_examples({.paths = {path("text")}}, [&](const Example& example) {
      EXPECT_EQ(example.number, examples++);
      EXPECT_TRUE(std::isfinite(example.weight) && example.weight >= 0);
      features += example.features.size();
      for (std::size_t i = 0; i < example.features.size(); ++i) {
        EXPECT_TRUE(i == 0 || example.features[i - 1].key < example.features[i].key);
        EXPECT_TRUE(std::isfinite(example.features[i].value) && example.features[i].value != 0);
      }
      return absl::OkStatus();
    });
    if (read.ok()) {
      ++accepted;
      formats.insert(read->format.substr(0, read->format.find(':')));
      EXPECT_GT(examples, 0U);
      EXPECT_EQ(read->examples, examples);
      EXPECT_EQ(read->features, features);
      EXPECT_LE(read->positives, examples);
    } else {
      expect_located(read.status());
    }
    if (HasFailure()) FAIL() << "round " << round;
  }
  EXPECT_GT(accepted, kRounds / 50);
  EXPECT_EQ(formats.size(), 6U) << "some mutations of each format must get through its parser";
}

// --- triples and embeddings

TEST_F(FilesFuzz, TripleFiles) {
  constexpr int kRounds = verbena::testing::rounds(5'000);
  Mutator mutator(
      7,
      {"dog\tisa\tmammal\nmammal\tisa\tanimal\ncat\tlikes\tdog\n",
       "00260881\t_hypernym\t00260622\r\n01332730\t_also_see\t03122748\r\n",
       "tail\thead\trelation\nmammal\tdog\tisa\nanimal\tmammal\tisa\n", "3\n0 1 0\n1 2 0\n2\t0 1\n"},
      {"\t", "\t\t", "3", " ", "\n", "\n\n", "\r\n", std::string(1, '\0'), "\xff"});
  write("valid.txt", "dog\tisa\tanimal\n");
  write("test.txt", "cat\tisa\tanimal\n");
  int accepted = 0;
  for (int round = 0; round < kRounds; ++round) {
    write("train.txt", mutator.next());
    const absl::StatusOr<KnowledgeGraph> graph = read_triples(folder_.path().string());
    if (!graph.ok()) {
      EXPECT_THAT(std::string(graph.status().message()),
                  ::testing::ContainsRegex("/train.txt:[0-9]+: expected "));
      EXPECT_EQ(graph.status().code(), absl::StatusCode::kInvalidArgument);
      if (HasFailure()) FAIL() << "round " << round;
      continue;
    }
    ++accepted;
    ASSERT_FALSE(graph->train.empty());
    for (const std::vector<Triple>* triples : {&graph->train, &graph->valid, &graph->test}) {
      for (const Triple& triple : *triples) {
        ASSERT_LT(triple.head, graph->entity_names.size());
        ASSERT_LT(triple.relation, graph->relation_names.size());
        ASSERT_LT(triple.tail, graph->entity_names.size());
      }
    }
  }
  EXPECT_GT(accepted, kRounds / 50);
}

TEST_F(FilesFuzz, EmbeddingFiles) {
  constexpr int kRounds = verbena::testing::rounds(5'000);
  const std::string head = "# verbena kge 1\tmodel=complex\tdimension=2\tentities=3\n";
  Mutator mutator(8, {head + "a\t1\t-2.5\nb\t0\t1e-40\nc\t3\t4\n", head + "c\t1\t2\na\t7\t8\nb\t9\t1\n"},
                  {"\t", "\n", "a", "b", "nan", "inf", "1e99", "-", "0", "\xff"});
  write("model.relations.tsv", "# verbena kge 1\tmodel=complex\tdimension=2\trelations=1\nisa\t1\t2\n");
  const std::vector<std::string> entities = {"a", "b", "c"};
  const std::vector<std::string> relations = {"isa"};
  int accepted = 0;
  for (int round = 0; round < kRounds; ++round) {
    write("model.entities.tsv", mutator.next());
    const absl::StatusOr<kge::Embeddings> embeddings =
        kge::load(path("model"), {.model = kge::Model::kComplEx, .dimension = 2}, {entities, relations});
    if (!embeddings.ok()) {
      EXPECT_THAT(std::string(embeddings.status().message()),
                  ::testing::ContainsRegex("/model.entities.tsv:[0-9]+: expected "));
      EXPECT_EQ(embeddings.status().code(), absl::StatusCode::kInvalidArgument);
      if (HasFailure()) FAIL() << "round " << round;
      continue;
    }
    ++accepted;
    for (std::size_t id = 0; id < 3; ++id) {
      ASSERT_TRUE(std::isfinite(embeddings->entity(id)[0]) && std::isfinite(embeddings->entity(id)[1]));
    }
  }
  EXPECT_GT(accepted, kRounds / 50);
}

TEST_F(FilesFuzz, VectorFiles) {
  constexpr int kRounds = verbena::testing::rounds(5'000);
  Mutator mutator(9,
                  {"3 2\na +1 -2.5\nb .5 1e-50\nc 3 4\n", "1 3\nark 1 2 3 \n", "2 1\r\nc\t1\r\na\t7\r\n",
                   "ark 1 2\ndove 3 4\n", std::string("2 1\na \0\0\x80\x3f\nb \0\0\0\0\n", 18)},
                  {" ", "\t", "\n", "a", "b", "nan", "inf", "1e99", "-", "0", "99999999999", "\xff"});
  int accepted = 0;
  for (int round = 0; round < kRounds; ++round) {
    write("vectors", mutator.next());
    const absl::StatusOr<word2vec::Vectors> vectors = word2vec::load(path("vectors"));
    if (!vectors.ok()) {
      expect_located(vectors.status());
      if (HasFailure()) FAIL() << "round " << round;
      continue;
    }
    ++accepted;
    ASSERT_FALSE(vectors->words().empty());
    for (std::size_t id = 0; id < vectors->words().size(); ++id) {
      ASSERT_FALSE(vectors->words()[id].empty());
      for (std::size_t k = 0; k < vectors->dimension(); ++k) ASSERT_TRUE(std::isfinite(vectors->row(id)[k]));
      ASSERT_LT(word2vec::neighbours(*vectors, static_cast<std::uint32_t>(id), 5).size(),
                vectors->words().size());
    }
  }
  EXPECT_GT(accepted, kRounds / 50);
}

}  // namespace
}  // namespace verbena::apps
