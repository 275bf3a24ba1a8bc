#include "apps/data/triples.hpp"

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

TEST_F(TriplesTest, EachFileMustBeThere) {
  std::filesystem::remove(folder_.path("valid.txt"));
  const absl::Status status = read_triples(folder_.path().string()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("valid.txt"));
  EXPECT_EQ(read_triples(folder_.path("none")).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace verbena::apps
