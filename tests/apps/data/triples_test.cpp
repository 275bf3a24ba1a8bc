#include "apps/data/triples.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>

#include "tests/temporary_folder.hpp"

namespace verbena::apps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using verbena::testing::write_file;

class TriplesTest : public ::testing::Test {
 protected:
  TriplesTest() {
    write("train.txt", "dog\tisa\tmammal\nmammal\tisa\tanimal\n");
    write("valid.txt", "cat\tisa\tmammal\n");
    write("test.txt", "cat\tlikes\tdog\n");
  }
  void write(std::string_view name, std::string_view text) const { write_file(folder_.path(name), text); }
  [[nodiscard]] std::string error_of(std::string_view train) const {
    write("train.txt", train);
    const absl::StatusOr<KnowledgeGraph> graph = read_triples(folder_.path().string());
    EXPECT_EQ(graph.status().code(), absl::StatusCode::kInvalidArgument) << train;
    const std::string message(graph.status().message());
    EXPECT_TRUE(message.starts_with(folder_.path("train.txt") + ":")) << message;
    return message.substr(std::min(message.size(), folder_.path("train.txt").size() + 1));
  }

  verbena::testing::TemporaryFolder folder_;
};

TEST_F(TriplesTest, IdsAreInTheOrderOfAppearance) {
  const absl::StatusOr<KnowledgeGraph> graph = read_triples(folder_.path().string());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(graph->entity_names, ElementsAre("dog", "mammal", "animal", "cat"));
  EXPECT_THAT(graph->relation_names, ElementsAre("isa", "likes"));
  EXPECT_THAT(graph->train, ElementsAre(Triple{0, 0, 1}, Triple{1, 0, 2}));
  EXPECT_THAT(graph->valid, ElementsAre(Triple{3, 0, 1}));
  EXPECT_THAT(graph->test, ElementsAre(Triple{3, 1, 0}));
}

TEST_F(TriplesTest, NamesMayHaveBlanksAndFilesBeCompressed) {
  std::filesystem::remove(folder_.path("train.txt"));
  gzFile file = gzopen(folder_.path("train.tsv.gz").c_str(), "wb");
  gzputs(file, "a dog\tis a\tm\xC3\xA4mmal\r\n\n");
  gzclose(file);
  const absl::StatusOr<KnowledgeGraph> graph = read_triples(folder_.path().string());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->entity_names[0], "a dog");
  EXPECT_EQ(graph->entity_names[1], "m\xC3\xA4mmal");
  EXPECT_EQ(graph->train.size(), 1U);
}

TEST_F(TriplesTest, SaysWhatIsWrongAndWhere) {
  EXPECT_THAT(error_of("a\tb\tc\na\tb\n"), HasSubstr("2: expected head<TAB>relation<TAB>tail, found \"a"));
  EXPECT_THAT(error_of("a b c\n"), HasSubstr("1: expected head<TAB>relation<TAB>tail"));
  EXPECT_THAT(error_of("a\tb\tc\td\n"), HasSubstr("1: expected head<TAB>relation<TAB>tail"));
  EXPECT_THAT(error_of("a\tb\tc\na\t\tc\n"),
              HasSubstr("2: expected a name of the head, the relation and the tail"));
  EXPECT_THAT(error_of("a\tb\tc\n\na\tb\tc\n"), HasSubstr("3: expected head<TAB>relation<TAB>tail, found"));
  EXPECT_THAT(error_of("\na\tb\tc\n"), HasSubstr("1: expected head<TAB>relation<TAB>tail"));
  EXPECT_THAT(error_of(""), HasSubstr("1: expected head<TAB>relation<TAB>tail, found the end of the file"));
}

/// The triples as text, with their names.
std::vector<std::string> facts(const KnowledgeGraph& graph, const std::vector<Triple>& triples) {
  std::vector<std::string> result;
  result.reserve(triples.size());
  for (const Triple& triple : triples) {
    result.push_back(graph.entity_names[triple.head] + " " + graph.relation_names[triple.relation] + " " +
                     graph.entity_names[triple.tail]);
  }
  return result;
}

TEST_F(TriplesTest, AHeaderIsNoFactAndTellsTheOrder) {
  write("train.txt", "head\trelation\ttail\ndog\tisa\tmammal\nmammal\tisa\tanimal\n");
  write("valid.txt", "Subject\tObject\tPredicate\ncat\tmammal\tisa\n");
  write("test.txt", "r\th\tt\nlikes\tcat\tdog\n");
  const absl::StatusOr<KnowledgeGraph> graph = read_triples(folder_.path().string());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(facts(*graph, graph->train), ElementsAre("dog isa mammal", "mammal isa animal"));
  EXPECT_THAT(facts(*graph, graph->valid), ElementsAre("cat isa mammal"));
  EXPECT_THAT(facts(*graph, graph->test), ElementsAre("cat likes dog"));
  EXPECT_EQ(graph->entity_names.size(), 4U);
  EXPECT_EQ(graph->format, "head<TAB>relation<TAB>tail, by the header");
}

TEST_F(TriplesTest, NamesThatComeAgainAreNoHeader) {
  write("train.txt", "h\tr\tt\nt\tr\tx\n");
  const absl::StatusOr<KnowledgeGraph> graph = read_triples(folder_.path().string());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->train.size(), 2U);
}

TEST_F(TriplesTest, ColumnsTellTheOrder) {
  write("train.txt", "dog\tmammal\tisa\nmammal\tanimal\tisa\ncat\tdog\tlikes\n");
  write("valid.txt", "cat\tmammal\tisa\n");
  write("test.txt", "cat\tanimal\tisa\n");
  absl::StatusOr<KnowledgeGraph> graph = read_triples(folder_.path().string());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(facts(*graph, graph->train),
              ElementsAre("dog isa mammal", "mammal isa animal", "cat likes dog"));
  EXPECT_THAT(facts(*graph, graph->valid), ElementsAre("cat isa mammal"));
  EXPECT_EQ(graph->format, "head<TAB>tail<TAB>relation, by what is in the columns");
  write("train.txt", "isa\tdog\tmammal\nisa\tmammal\tanimal\n");
  graph = read_triples(folder_.path().string());
  EXPECT_THAT(facts(*graph, graph->train), ElementsAre("dog isa mammal", "mammal isa animal"));
  write("train.txt", "ann\tlikes\tx\nbob\thates\ty\n");
  EXPECT_EQ(read_triples(folder_.path().string())->format, "head<TAB>relation<TAB>tail")
      << "nothing shows another order of columns";
  std::string numbers;
  for (int n = 0; n < 40; ++n) numbers += fmt::format("{}\t{}\t{}\n", n, (n + 1) % 40, n % 3);
  write("train.txt", numbers);
  graph = read_triples(folder_.path().string());
  EXPECT_EQ(graph->format, "head<TAB>tail<TAB>relation, by what is in the columns")
      << "the last column has few different numbers, the others have many";
  numbers.clear();
  for (int n = 0; n < 600; ++n) numbers += fmt::format("{}\t{}\t{}\n", n / 150, n % 100, 7 * n % 900);
  write("train.txt", numbers);
  graph = read_triples(folder_.path().string());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->format, "head<TAB>relation<TAB>tail")
      << "sorted by head, the first column has few different numbers, too, but it is not the relation";
}

TEST_F(TriplesTest, ReadsTheFilesOfOpenKE) {
  for (const char* const name : {"train.txt", "valid.txt", "test.txt"})
    std::filesystem::remove(folder_.path(name));
  write("train2id.txt", "2\n0 1 0\n1\t2\t0\n");
  write("valid2id.txt", "1\n3 1 0\n");
  write("test2id.txt", "1\n3 0 1\n");
  absl::StatusOr<KnowledgeGraph> graph = read_triples(folder_.path().string());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(facts(*graph, graph->train), ElementsAre("0 0 1", "1 0 2"))
      << "head, tail, relation in the file";
  EXPECT_THAT(facts(*graph, graph->test), ElementsAre("3 1 0"));
  std::string few_in_the_middle = "40\n";
  for (int n = 0; n < 40; ++n) few_in_the_middle += fmt::format("{} {} {}\n", n, n % 3, (n + 7) % 40);
  write("train2id.txt", few_in_the_middle);
  graph = read_triples(folder_.path().string());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->format,
            "head tail relation, by the number of triples in the first line, as OpenKE has it");
  write("train2id.txt", "3\n0 1 0\n1 2 0\n");
  EXPECT_EQ(read_triples(folder_.path().string()).status().message(),
            folder_.path("train2id.txt") +
                ":4: expected 3 triples, as line 1 says, found 2 and the end of the file");
  write("train2id.txt", "2\n0 1 0\n1 2\n");
  EXPECT_EQ(read_triples(folder_.path().string()).status().message(),
            folder_.path("train2id.txt") + ":3: expected head tail relation, found \"1 2\"");
}

TEST_F(TriplesTest, OpenKENumbersNames) {
  for (const char* const name : {"train.txt", "valid.txt", "test.txt"})
    std::filesystem::remove(folder_.path(name));
  write("train2id.txt", "2\n4 1 0\n1 2 0\n");
  write("valid2id.txt", "1\n1 4 0\n");
  write("test2id.txt", "1\n1 4 2\n");
  const std::string_view sound = "6\nraven\t3\nark\t0\ndove\t1\nolive branch 2\nflood\t4\n7\t5\n\n";
  write("entity2id.txt", sound);
  write("relation2id.txt", "4\r\nr\t0\r\ns\t1\r\nt\t2\r\nu\t3\r\n");
  absl::StatusOr<KnowledgeGraph> graph = read_triples(folder_.path().string());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(graph->entity_names, ElementsAre("ark", "dove", "olive branch", "raven", "flood", "7"));
  EXPECT_THAT(graph->relation_names, ElementsAre("r", "s", "t", "u"));
  EXPECT_THAT(graph->train, ElementsAre(Triple{4, 0, 1}, Triple{1, 0, 2}));
  EXPECT_EQ(graph->format,
            "head tail relation, by the number of triples in the first line, as OpenKE has it, entities of "
            "entity2id.txt by number, relations of relation2id.txt by number");
  const auto error_of_names = [&](std::string_view text) {
    write("entity2id.txt", text);
    return std::string(read_triples(folder_.path().string()).status().message());
  };
  const std::string place = folder_.path("entity2id.txt");
  EXPECT_EQ(error_of_names(""), place + ":1: expected the number of entities, found \"the end of the file\"");
  EXPECT_EQ(error_of_names("ark\t0\n"), place + ":1: expected the number of entities, found \"ark\\t0\"");
  EXPECT_EQ(error_of_names("0\n"), place + ":2: expected name<TAB>number, found \"the end of the file\"");
  EXPECT_EQ(error_of_names("4000000000\nark\t0\n"),
            place + ":1: expected the number of entities that follow, 1, found 4000000000");
  EXPECT_EQ(error_of_names("2\nark\t0\ndove\n"), place + ":3: expected name<TAB>number, found \"dove\"");
  EXPECT_EQ(error_of_names("2\nark\t0\n\ndove\t1\n"),
            place + ":4: expected name<TAB>number, found \"an empty line before this\"");
  EXPECT_EQ(error_of_names("2\nark\t0\ndove\t2\n"),
            place + ":3: expected a number from 0 to 1 that no other entity has, found 2");
  EXPECT_EQ(error_of_names("2\nark\t0\ndove\t0\n"),
            place + ":3: expected a number from 0 to 1 that no other entity has, found 0");
  EXPECT_EQ(error_of_names("2\nark\t0\nark\t1\n"),
            place + ":3: expected a name that no other entity has, found \"ark\"");
  EXPECT_EQ(error_of_names("4\na\t0\nb\t1\nc\t2\nd\t3\n"),
            folder_.path("train2id.txt") + ":2: expected a number from 0 to 3, of one of the entities of " +
                place + ", found \"4\"");
  std::filesystem::remove(folder_.path("entity2id.txt"));
  gzFile file = gzopen(folder_.path("entity2id.txt.gz").c_str(), "wb");
  gzputs(file, "5\na\t0\nb\t1\nc\t2\nd\t3\ne\t4\n");
  gzclose(file);
  write("relation2id.txt", "1\nr\t0\n");
  EXPECT_EQ(read_triples(folder_.path().string()).status().message(),
            folder_.path("test2id.txt") + ":2: expected a number from 0 to 0, of one of the relations of " +
                folder_.path("relation2id.txt") + ", found \"2\"");
  std::filesystem::remove(folder_.path("relation2id.txt"));
  graph = read_triples(folder_.path().string());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(graph->entity_names, ElementsAre("a", "b", "c", "d", "e"));
  EXPECT_THAT(graph->relation_names, ElementsAre("0", "2")) << "as they come, since there is no 1";
  EXPECT_THAT(graph->unused_files, ElementsAre());
  // A folder of names has no such files.
  write("train.txt", "dog\tisa\tmammal\n");
  write("entity2id.txt", "9\n");
  graph = read_triples(folder_.path().string());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->entity_names[0], "dog");
  EXPECT_THAT(graph->unused_files, ElementsAre("entity2id.txt", "entity2id.txt.gz"));
}

TEST_F(TriplesTest, DglKeNumbersNames) {
  write("entities.dict", "3\tcat\n0\tanimal\n2\tdog\n1\tmammal\n4\t\"a \"\"dodo\"\"\"\n");
  write("relations.dict", "0\tlikes\n1\tisa\n2\t\"eats\" all\n");
  absl::StatusOr<KnowledgeGraph> graph = read_triples(folder_.path().string());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(graph->entity_names, ElementsAre("animal", "mammal", "dog", "cat", R"("a ""dodo""")"));
  EXPECT_THAT(graph->relation_names, ElementsAre("likes", "isa", "\"eats\" all"));
  EXPECT_THAT(graph->train, ElementsAre(Triple{2, 1, 1}, Triple{1, 1, 0}));
  EXPECT_EQ(
      graph->format,
      "head<TAB>relation<TAB>tail, entities of entities.dict by name, relations of relations.dict by name");
  // Numbers instead of names.
  write("train.txt", "2\t1\t1\n1\t1\t0\n");
  write("valid.txt", "3\t1\t1\n");
  write("test.txt", "3\t0\t2\n3\t0\t5\n");
  EXPECT_EQ(read_triples(folder_.path().string()).status().message(),
            folder_.path("test.txt") + ":2: expected a number from 0 to 4, of one of the entities of " +
                folder_.path("entities.dict") + ", found \"5\"");
  write("test.txt", "3\t0\t2\n");
  graph = read_triples(folder_.path().string());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(facts(*graph, graph->train), ElementsAre("dog isa mammal", "mammal isa animal"));
  EXPECT_THAT(facts(*graph, graph->test), ElementsAre("cat likes dog"));
  // Names that are numbers are names.
  write("entities.dict", "0\t3\n1\t2\n2\t1\n3\t0\n");
  graph = read_triples(folder_.path().string());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(graph->entity_names, ElementsAre("3", "2", "1", "0"));
  EXPECT_EQ(graph->train[0], (Triple{1, 1, 2}));
  write("train.txt", "2\t1\t9\n1\t1\t0\n");
  EXPECT_EQ(read_triples(folder_.path().string()).status().message(),
            folder_.path("train.txt") + ":1: expected the name of one of the entities of " +
                folder_.path("entities.dict") + ", found \"9\"");
  write("entities.dict", "dog\t0\n");
  EXPECT_EQ(read_triples(folder_.path().string()).status().message(),
            folder_.path("entities.dict") + ":1: expected number<TAB>name, found \"dog\\t0\"");
}

/// DGL-KE strips lines.
TEST_F(TriplesTest, BlanksThatTellNoNamesApartCountNothing) {
  write("entities.dict", "3\tcat \n0\tanimal\n2\tbig dog\t\n1\tmammal  \n");
  write("relations.dict", "0\tlikes \n1\tisa\n");
  write("train.txt", "big dog\tisa\tmammal \nmammal\tisa\tanimal\n");
  write("valid.txt", "cat\tisa\tmammal\n");
  write("test.txt", "cat\tlikes\tbig dog\n");
  absl::StatusOr<KnowledgeGraph> graph = read_triples(folder_.path().string());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(graph->entity_names, ElementsAre("animal", "mammal", "big dog", "cat"));
  EXPECT_THAT(graph->relation_names, ElementsAre("likes", "isa"));
  EXPECT_THAT(facts(*graph, graph->train), ElementsAre("big dog isa mammal", "mammal isa animal"));
  write("train.txt", "2\t1\t1 \n1\t1\t0\n");
  write("valid.txt", "3\t1\t1\n");
  write("test.txt", "3\t0\t2 \n");
  graph = read_triples(folder_.path().string());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(graph->test, ElementsAre(Triple{3, 0, 2})) << "numbers";
}

TEST_F(TriplesTest, DglKesOwnFilesOfNamesAreTaken) {
  write("entities.tsv", "0\tcat\n1\tmammal\n2\tanimal\n3\tdog\n");
  absl::StatusOr<KnowledgeGraph> graph = read_triples(folder_.path().string());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(graph->entity_names, ElementsAre("cat", "mammal", "animal", "dog"));
  EXPECT_THAT(graph->relation_names, ElementsAre("isa", "likes")) << "as they come";
  // Not other tables of this name.
  for (const char* const other :
       {"id\tlabel\ndog\ta dog\n", "dog\ta dog\n", "7\tdog\n", "0\tdog\tDog\n", ""}) {
    write("entities.tsv", other);
    graph = read_triples(folder_.path().string());
    ASSERT_TRUE(graph.ok()) << graph.status() << other;
    EXPECT_EQ(graph->entity_names[0], "dog");
  }
}

TEST_F(TriplesTest, QuotesBelongToNamesBetweenTabsOrBars) {
  write("valid.txt", "\"Beijing\"\tr\tx\n");
  write("test.txt", "\"x\"\tr\ta \"dodo\"\n");
  for (const std::string_view between : {"\t", "|"}) {
    write("train.txt", fmt::format("\"Beijing\"{0}r{0}\"China\"\n", between));
    write("entities.tsv", fmt::format("0{0}\"Beijing\"\n1{0}\"China\"\n2{0}x\n3{0}\"x\"\n"
                                      "4{0}\"a \"\"dodo\"\"\"\n5{0}\"open\n6{0}\"\"\n",
                                      between));
    const absl::StatusOr<KnowledgeGraph> graph = read_triples(folder_.path().string());
    ASSERT_TRUE(graph.ok()) << graph.status();
    EXPECT_THAT(graph->entity_names,
                ElementsAre("\"Beijing\"", "\"China\"", "x", "\"x\"", "a \"dodo\"", "\"open", "\"\""))
        << "the dodo as a triple spells it";
    EXPECT_THAT(graph->train, ElementsAre(Triple{0, 0, 1}));
    EXPECT_THAT(graph->valid, ElementsAre(Triple{0, 0, 2}));
    EXPECT_THAT(graph->test, ElementsAre(Triple{3, 0, 4}));
  }
}

TEST_F(TriplesTest, BlanksAroundNamesAreTheSameInFilesOfNames) {
  write("train.txt", "Paris \tr\tx\n");
  write("valid.txt", "Paris \tr\t x\n");
  write("test.txt", "Paris\tr\t x\n");
  write("entities.tsv", "0\tParis \n1\tx\n2\tParis\n3\t x\n");
  absl::StatusOr<KnowledgeGraph> graph = read_triples(folder_.path().string());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(graph->train, ElementsAre(Triple{0, 0, 1}));
  EXPECT_THAT(graph->valid, ElementsAre(Triple{0, 0, 3}));
  EXPECT_THAT(graph->test, ElementsAre(Triple{2, 0, 3}));
  for (const char* const name : {"train.txt", "valid.txt", "test.txt"}) write(name, "Paris | r |x\n");
  write("entities.tsv", "0 | Paris \n1 | x\n");
  graph = read_triples(folder_.path().string());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(graph->entity_names, ElementsAre("Paris", "x"));
  EXPECT_THAT(graph->train, ElementsAre(Triple{0, 0, 1}));
}

TEST_F(TriplesTest, NumbersBetweenBarsAreNotOfVowpalWabbit) {
  write("train.txt", "1 | 2 | 3\n3 | 2 | 1\n\n");
  const absl::StatusOr<KnowledgeGraph> graph = read_triples(folder_.path().string());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(facts(*graph, graph->train), ElementsAre("1 2 3", "3 2 1"));
  const std::string refused = "1: expected head<TAB>relation<TAB>tail, found Vowpal Wabbit";
  EXPECT_EQ(error_of("1 |user ann |item ark\n0 |user bob |item ark\n"), refused);
  EXPECT_EQ(error_of("1 | 2 | 3\n3 | 2\n"), refused);
}

/// As in DGL-KE's documents.
TEST_F(TriplesTest, OtherSeparatorsAreFound) {
  write("train.txt", "\"Beijing\",\"is_capital_of\",\"China\"\n\"Korea, North\",located_at, Asia\n");
  write("valid.txt", "China|located_at|Asia\n");
  write("test.txt", "Beijing;located_at;Asia\n");
  absl::StatusOr<KnowledgeGraph> graph = read_triples(folder_.path().string());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(facts(*graph, graph->train),
              ElementsAre("Beijing is_capital_of China", "Korea, North located_at Asia"));
  EXPECT_THAT(facts(*graph, graph->valid), ElementsAre("China located_at Asia"));
  EXPECT_EQ(graph->format, "head,relation,tail");
  write("entities.dict", "0,\"Beijing\"\n1,\"China\" \n2,\"Korea, North\"\n3,Asia\n");
  graph = read_triples(folder_.path().string());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(graph->entity_names, ElementsAre("Beijing", "China", "Korea, North", "Asia"));
  std::filesystem::remove(folder_.path("entities.dict"));
  EXPECT_THAT(error_of("a,b,c\nd,e\n"), HasSubstr("2: expected head,relation,tail, found \"d,e\""));
  EXPECT_THAT(error_of("a,b,c\nd,\"e,f\n"), HasSubstr("2: expected head,relation,tail"));
  EXPECT_THAT(error_of("a,b,c\nd,e\tf,g\n"), HasSubstr("2: expected a name of the head"));
}

TEST_F(TriplesTest, NamesThatAreNumbersAreIds) {
  write("train.txt", "2\t1\t1\n1\t0\t0\n");
  write("valid.txt", "2\t1\t0\n");
  write("test.txt", "0\t0\t2\n");
  absl::StatusOr<KnowledgeGraph> graph = read_triples(folder_.path().string());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(graph->entity_names, ElementsAre("0", "1", "2"));
  EXPECT_THAT(graph->relation_names, ElementsAre("0", "1"));
  EXPECT_THAT(graph->train, ElementsAre(Triple{2, 1, 1}, Triple{1, 0, 0}));
  EXPECT_THAT(graph->test, ElementsAre(Triple{0, 0, 2}));
  write("test.txt", "0\t0\t4\n");
  graph = read_triples(folder_.path().string());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(graph->entity_names, ElementsAre("2", "1", "0", "4")) << "as they come, since there is no 3";
}

TEST_F(TriplesTest, RefusesOtherFormatsByName) {
  EXPECT_EQ(error_of("<http://a> <http://b> <http://c> .\n"),
            "1: expected head<TAB>relation<TAB>tail, found N-Triples");
  EXPECT_EQ(error_of("%%MatrixMarket matrix coordinate real general\n"),
            "1: expected head<TAB>relation<TAB>tail, found Matrix Market");
}

TEST_F(TriplesTest, EachFileMustBeThere) {
  std::filesystem::remove(folder_.path("valid.txt"));
  const absl::Status status = read_triples(folder_.path().string()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("valid.txt"));
  EXPECT_EQ(read_triples(folder_.path("none")).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace verbena::apps
