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
  EXPECT_THAT(error_of("a\tb\tc\na\t\tc\n"), HasSubstr("2: expected a name of the head, the relation and"));
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

TEST_F(TriplesTest, OpenKESaysHowManyThereAre) {
  for (const char* const name : {"train.txt", "valid.txt", "test.txt"})
    std::filesystem::remove(folder_.path(name));
  write("train2id.txt", "2\n4 1 0\n1 2 0\n");
  write("valid2id.txt", "1\n1 4 0\n");
  write("test2id.txt", "1\n1 4 2\n");
  write("entity2id.txt", "6\nark\t0\ndove\t1\nolive branch\t2\nraven\t3\nflood\t4\nnoah\t5\n\n");
  write("relation2id.txt", "4\r\nr\t0\r\ns\t1\r\nt\t2\r\nu\t3\r\n");
  absl::StatusOr<KnowledgeGraph> graph = read_triples(folder_.path().string());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(graph->entity_names, ElementsAre("4", "1", "2", "0", "3", "5"));
  EXPECT_THAT(graph->relation_names, ElementsAre("0", "2", "1", "3"));
  EXPECT_THAT(graph->train, ElementsAre(Triple{0, 0, 1}, Triple{1, 0, 2}));
  const auto error_of_names = [&](std::string_view text) {
    write("entity2id.txt", text);
    return std::string(read_triples(folder_.path().string()).status().message());
  };
  const std::string place = folder_.path("entity2id.txt");
  EXPECT_EQ(error_of_names(""), place + ":1: expected the number of entities, found \"the end of the file\"");
  EXPECT_EQ(error_of_names("ark\t0\n"), place + ":1: expected the number of entities, found \"ark\\t0\"");
  EXPECT_EQ(error_of_names("4000000000\nark\t0\n"),
            place + ":1: expected the number of entities that follow, 1, found 4000000000");
  EXPECT_EQ(error_of_names("4\na\t0\nb\t1\nc\t2\nd\t3\n"),
            place +
                ":1: expected a number of entities above those of the triples, found 4, and \"4\" in a "
                "triple");
  std::filesystem::remove(folder_.path("entity2id.txt"));
  gzFile file = gzopen(folder_.path("entity2id.txt.gz").c_str(), "wb");
  gzputs(file, "5\na\t0\nb\t1\nc\t2\nd\t3\ne\t4\n");
  gzclose(file);
  graph = read_triples(folder_.path().string());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(graph->entity_names, ElementsAre("4", "1", "2", "0", "3"));
  // A folder of names has no such files.
  write("train.txt", "dog\tisa\tmammal\n");
  write("entity2id.txt", "9\n");
  graph = read_triples(folder_.path().string());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->entity_names[0], "dog");
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
