// Each rule against this repository, and against a made-up tree that breaks it.
#include "tests/repository/rules.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace verbena::repository {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

const std::vector<File>& this_repository() {
  static const std::vector<File> kTree = read_tree(VERBENA_SOURCE_DIR);
  return kTree;
}

std::vector<File> one(const std::string& path, const std::string& text) {
  return {{.path = path, .text = text}};
}

TEST(RepositoryTest, IsReadWhole) {
  std::size_t sources = 0;
  for (const File& file : this_repository()) sources += file.path.ends_with(".hpp") ? 1U : 0U;
  EXPECT_GT(sources, 20U);
}

TEST(RepositoryTest, KeepsTheBorders) {
  EXPECT_THAT(border_violations(this_repository()), IsEmpty());
}
TEST(RepositoryTest, HasNoIncludeCycles) {
  EXPECT_THAT(include_cycles(this_repository()), IsEmpty());
}
TEST(RepositoryTest, HasHeadersThatStandAlone) {
  EXPECT_THAT(header_violations(this_repository()), IsEmpty());
}
TEST(RepositoryTest, HasNoTwoClassesOfOneName) {
  EXPECT_THAT(duplicate_classes(this_repository()), IsEmpty());
}
TEST(RepositoryTest, HasNoClashesInJoinedSources) {
  const auto targets = joined_targets(this_repository());
  EXPECT_THAT(targets, SizeIs(testing::Ge(20U)));
  for (const auto& [target, sources] : targets) EXPECT_THAT(sources, testing::Not(IsEmpty())) << target;
  EXPECT_THAT(clashes_in_joined_targets(this_repository()), IsEmpty());
}
TEST(RepositoryTest, NamesNoTransportInApplications) {
  EXPECT_THAT(backend_schemes(this_repository()), ElementsAre("shm", "tcp", "verbs"));
  EXPECT_THAT(scheme_literals(this_repository()), IsEmpty());
}
TEST(RepositoryTest, DividesTablesInOnePlace) {
  EXPECT_THAT(own_partitions(this_repository()), IsEmpty());
}
TEST(RepositoryTest, NamesNoMachine) {
  EXPECT_THAT(machine_paths(this_repository()), IsEmpty());
}
TEST(RepositoryTest, DescribesTheProtocolThatItHas) {
  EXPECT_THAT(stale_versions(this_repository()), IsEmpty());
}
TEST(RepositoryTest, IsFinished) {
  EXPECT_THAT(unfinished_marks(this_repository()), IsEmpty());
}
TEST(RepositoryTest, DocumentsNameWhatExists) {
  EXPECT_THAT(broken_links(this_repository()), IsEmpty());
  EXPECT_THAT(missing_commands(this_repository()), IsEmpty());
}

struct Case {
  std::string path;
  std::string include;
  bool allowed;
};

TEST(BordersTest, FollowTheTable) {
  const std::vector<Case> cases = {
      {"transport/a.cpp", "\"transport/b.hpp\"", true},
      {"base/a.hpp", "\"transport/b.hpp\"", false},
      {"transport/a.cpp", "\"base/b.hpp\"", true},
      {"protocol/a.cpp", "\"base/b.hpp\"", true},
      {"checkpoint/a.cpp", "\"base/b.hpp\"", true},
      {"checkpoint/a.cpp", "\"protocol/b.hpp\"", false},
      {"checkpoint/a.cpp", "<verbena/b.hpp>", false},
      {"base/a.cpp", "\"checkpoint/b.hpp\"", false},
      {"cluster/a.cpp", "\"transport/b.hpp\"", true},
      {"cluster/a.cpp", "\"server/b.hpp\"", false},
      {"transport/a.cpp", "\"cluster/b.hpp\"", false},
      {"apps/simulation/a.cpp", "\"cluster/b.hpp\"", true},
      {"server/a.cpp", "\"checkpoint/b.hpp\"", true},
      {"transport/a.cpp", "\"protocol/b.hpp\"", false},
      {"transport/a.cpp", "\"consistency/b.hpp\"", false},
      {"transport/shm/a.cpp", "\"transport/b.hpp\"", true},
      {"transport/shm/a.cpp", "<infiniband/verbs.h>", false},
      {"transport/verbs/a.cpp", "<infiniband/verbs.h>", true},
      {"transport/verbs/a.cpp", "<rdma/rdma_cma.h>", true},
      {"consistency/a.hpp", "\"base/b.hpp\"", false},
      {"consistency/a.hpp", "\"transport/b.hpp\"", false},
      {"consistency/a.hpp", "\"protocol/b.hpp\"", false},
      {"protocol/a.hpp", "\"consistency/b.hpp\"", false},
      {"server/a.hpp", "\"protocol/b.hpp\"", true},
      {"server/a.hpp", "\"worker/b.hpp\"", false},
      {"worker/a.hpp", "\"server/b.hpp\"", false},
      {"worker/a.hpp", "\"apps/b.hpp\"", false},
      {"worker/a.hpp", "<rdma/rdma_cma.h>", false},
      {"worker/a.hpp", "<transport/b.hpp>", false},
      {"worker/a.hpp", "\"b.hpp\"", false},
      {"worker/a.hpp", "<verbena/b.hpp>", true},
      {"worker/a.hpp", "\"verbena/b.hpp\"", false},
      {"base/a.hpp", "<verbena/b.hpp>", false},
      {"include/verbena/a.hpp", "<verbena/b.hpp>", true},
      {"include/verbena/a.hpp", "\"worker/b.hpp\"", false},
      {"python/bindings/a.hpp", "<verbena/b.hpp>", true},
      {"python/bindings/a.hpp", "\"worker/b.hpp\"", false},
      {"apps/lda/a.hpp", "\"server/b.hpp\"", true},
      {"apps/lda/a.hpp", "\"tests/b.hpp\"", false},
      {"tests/server/a.cpp", "\"worker/b.hpp\"", true},
      {"tests/transport/a.cpp", "<infiniband/verbs.h>", false},
      {"worker/a.hpp", "\"absl/status/status.h\"", true},
      {"common/a.hpp", "<vector>", false},
  };
  for (const Case& c : cases) {
    const std::string line = "#include " + c.include + "\n";
    EXPECT_THAT(border_violations(one(c.path, line)), SizeIs(c.allowed ? 0 : 1)) << c.path << ": " << line;
  }
}

TEST(BordersTest, SayWhere) {
  EXPECT_THAT(border_violations(one("worker/a.hpp", "#pragma once\n  #  include \"server/b.hpp\"\n")),
              ElementsAre(AllOf(StartsWith("worker/a.hpp:2: "), HasSubstr("server/b.hpp"))));
}

TEST(CyclesTest, AreFound) {
  const std::vector<File> headers = {{.path = "worker/a.hpp", .text = "#include \"worker/b.hpp\""},
                                     {.path = "worker/b.hpp", .text = "#include \"worker/c.hpp\""},
                                     {.path = "worker/c.hpp", .text = "#include \"worker/a.hpp\""}};
  EXPECT_THAT(include_cycles(headers),
              ElementsAre(HasSubstr("worker/a.hpp -> worker/b.hpp -> worker/c.hpp -> worker/a.hpp")));
  const std::vector<File> folders = {{.path = "apps/lda/a.cpp", .text = "#include \"apps/mf/b.hpp\""},
                                     {.path = "apps/mf/c.cpp", .text = "#include \"apps/lda/d.hpp\""}};
  EXPECT_THAT(include_cycles(folders), ElementsAre(HasSubstr("apps/lda -> apps/mf -> apps/lda")));
  const std::vector<File> none = {{.path = "apps/lda/a.cpp", .text = "#include \"apps/data/b.hpp\""},
                                  {.path = "apps/mf/c.cpp", .text = "#include \"apps/data/b.hpp\""}};
  EXPECT_THAT(include_cycles(none), IsEmpty());
}

TEST(HeadersTest, StandAlone) {
  const std::string good = "#pragma once\n";
  EXPECT_THAT(header_violations({{.path = "a.hpp", .text = good},
                                 {.path = "a.cpp", .text = "// why\n#include \"a.hpp\"\n#include <map>\n"},
                                 {.path = "main.cpp", .text = "#include <map>\n"}}),
              IsEmpty());
  EXPECT_THAT(header_violations({{.path = "x/a.hpp", .text = good},
                                 {.path = "x/a.cpp", .text = "#include <map>\n#include \"x/a.hpp\"\n"}}),
              ElementsAre(StartsWith("x/a.cpp:1: ")));
  EXPECT_THAT(header_violations(one("a.hpp", "#include <map>\n")), ElementsAre(StartsWith("a.hpp:1: ")));
}

TEST(DuplicateClassesTest, AreFound) {
  const std::string reader = "namespace a::b {\nclass Reader : public Base {\n";
  EXPECT_THAT(duplicate_classes({{.path = "a.hpp", .text = reader}, {.path = "b.hpp", .text = reader}}),
              ElementsAre(AllOf(StartsWith("b.hpp:2: a::b::Reader"), HasSubstr("a.hpp:2"))));
  EXPECT_THAT(duplicate_classes({{.path = "a.hpp", .text = reader},
                                 {.path = "b.hpp", .text = "namespace a::c {\nclass Reader {\n"},
                                 {.path = "c.hpp", .text = "namespace a::b {\nclass Reader;\n"}}),
              IsEmpty());
}

std::vector<File> joined(const std::string& build_file, const std::string& a, const std::string& b) {
  return {{.path = "x/CMakeLists.txt", .text = build_file},
          {.path = "x/a.cpp", .text = a},
          {.path = "x/b.cpp", .text = b},
          {.path = "x/y/c.cpp", .text = ""},
          {.path = "z/b.cpp", .text = a}};
}

TEST(JoinedTargetsTest, AreThoseOfTheBuildFiles) {
  const auto targets = [](const std::string& build_file) {
    return joined_targets(joined(build_file, "", ""));
  };
  const auto is = [](const std::string& name, const std::vector<std::string>& sources) {
    return ElementsAre(testing::Pair(name, sources));
  };
  EXPECT_THAT(targets("verbena_library(t\n  SOURCES a.cpp b.cpp y/c.cpp  # not d.cpp\n  DEPENDS e)"),
              is("t", {"x/a.cpp", "x/b.cpp", "x/y/c.cpp"}));
  EXPECT_THAT(targets("file(GLOB s CONFIGURE_DEPENDS \"${CMAKE_CURRENT_SOURCE_DIR}/*.cpp\"\n"
                      "\"${CMAKE_CURRENT_SOURCE_DIR}/y/*.cpp\")\nverbena_library(t SOURCES ${s})"),
              is("t", {"x/a.cpp", "x/b.cpp", "x/y/c.cpp"}));
  EXPECT_THAT(targets("file(GLOB s CONFIGURE_DEPENDS \"${CMAKE_CURRENT_SOURCE_DIR}/*.cpp\"\n"
                      "\"${CMAKE_CURRENT_SOURCE_DIR}/*/*.cpp\")\nverbena_library(t SOURCES ${s})"),
              is("t", {"x/a.cpp", "x/b.cpp", "x/y/c.cpp"}));
  EXPECT_THAT(targets("add_executable(t a.cpp b.cpp)\nadd_executable(u b.cpp)\njoin_sources(t)"),
              is("t", {"x/a.cpp", "x/b.cpp"}));
  EXPECT_THAT(targets("add_library(b b.cpp)\nverbena_test(t LABEL unit SOURCES a.cpp "
                      "${CMAKE_SOURCE_DIR}/z/b.cpp DEPENDS b)"),
              is("t", {"x/a.cpp", "z/b.cpp"}));
  std::vector<File> tree = joined("verbena_test(t LABEL unit)", "", "");
  EXPECT_THAT(joined_targets(tree), is("t", {}));
  tree.push_back({.path = "x/a_test.cpp", .text = ""});
  tree.push_back({.path = "x/y/c_test.cpp", .text = ""});
  EXPECT_THAT(joined_targets(tree), is("t", {"x/a_test.cpp"}));
}

TEST(JoinedTargetsTest, ClashesAreFound) {
  const std::string mine = "namespace a {\nnamespace {\nint count(int i) { return i; }\n}\n}\n";
  const std::string overload = "namespace a {\nnamespace {\nint count(double d) { return 0; }\n}\n}\n";
  const std::string other =
      "namespace a {\nnamespace b {\nnamespace {\nint count(int i) { return i; }\n}\n}\n}\n";
  const std::string library = "verbena_library(t SOURCES a.cpp b.cpp)";
  for (const std::string& second : {mine, overload}) {
    EXPECT_THAT(
        clashes_in_joined_targets(joined(library, mine, second)),
        ElementsAre("x/b.cpp:3: a::count is declared at x/a.cpp:3, too, and the two can be joined in t"));
  }
  EXPECT_THAT(clashes_in_joined_targets(joined(library, mine, other)), IsEmpty());
  EXPECT_THAT(clashes_in_joined_targets(joined("add_executable(t a.cpp b.cpp)", mine, mine)), IsEmpty());
  const std::string alias = "namespace a {\nnamespace fs = std::filesystem;\nusing std::string;\n}\n";
  EXPECT_THAT(clashes_in_joined_targets(joined(library, alias, alias)), IsEmpty());
}

TEST(SchemeLiteralsTest, AreFound) {
  const auto with = [](const std::string& path, const std::string& text) {
    return std::vector<File>{{.path = "transport/pigeon/a.cpp", .text = "return {.scheme = \"pigeon\"};"},
                             {.path = path, .text = text}};
  };
  EXPECT_THAT(backend_schemes(with("apps/a.cpp", ".scheme = \"crow\"")), ElementsAre("pigeon"));
  for (const char* wrong : {"if (name == \"pigeon\")", "address.starts_with(\"pigeon:\")", "\"pigeon::0\"",
                            "fmt::format(\"pigeon:{}\", name)"}) {
    EXPECT_THAT(scheme_literals(with("apps/lda/a.cpp", wrong)), ElementsAre(StartsWith("apps/lda/a.cpp:1: ")))
        << wrong;
    EXPECT_THAT(scheme_literals(with("tests/a.cpp", wrong)), IsEmpty());
    EXPECT_THAT(scheme_literals(with("apps/doctor/report.cpp", wrong)), IsEmpty());
  }
  for (const char* right : {"\"over pigeon there is a network\"", "\"--device is for pigeon\"",
                            "pigeon(\"a\")", "\"libpigeon\"", "// pigeon:NAME"}) {
    EXPECT_THAT(scheme_literals(with("apps/lda/a.cpp", right)), IsEmpty()) << right;
  }
}

TEST(OwnPartitionsTest, AreFound) {
  const std::string text = "const protocol::RangePartition servers(rows, 2);";
  EXPECT_THAT(own_partitions(one("worker/a.cpp", text)), ElementsAre(StartsWith("worker/a.cpp:1: ")));
  EXPECT_THAT(own_partitions(one("server/a.hpp", "#include \"protocol/partition.hpp\"")), SizeIs(1));
  EXPECT_THAT(own_partitions(one("apps/a.cpp", text)), IsEmpty());
  EXPECT_THAT(own_partitions(one("worker/a.cpp", "protocol::TablePlacement table;")), IsEmpty());
}

TEST(BrokenLinksTest, AreFound) {
  const auto with = [](const std::string& text) {
    return std::vector<File>{{.path = "docs/a.md", .text = text},
                             {.path = "docs/b.md", .text = "# One: *two*\n"},
                             {.path = "worker/README.md", .text = ""}};
  };
  for (const char* wrong : {"[x](c.md)", "see [x](docs/b.md).", "[x](#none)", "[x](b.md#three)",
                            "[x](../server/)", "[x](c.md \"title\")"})
    EXPECT_THAT(broken_links(with(wrong)), ElementsAre(StartsWith("docs/a.md:1: "))) << wrong;
  for (const char* right :
       {"[x](b.md)", "[x](b.md#one-two)", "## Here\n[x](#here)", "[x](../worker/)",
        "[x](../worker/README.md)", "[x](https://a.b/c)", "[x](../data/a.txt)", "```\n[&](int)\n```",
        "`[&](int)`", "## A\n## A\n[x](#a-1)", "[x](b.md \"title\")"})
    EXPECT_THAT(broken_links(with(right)), IsEmpty()) << right;
}

TEST(MachinePathsTest, AreFound) {
  EXPECT_THAT(machine_paths(one("docs/a.md", std::string("see /wo") + "rk/main")), SizeIs(1));
  EXPECT_THAT(machine_paths(one("a.cpp", std::string("open(\"/ho") + "me/jane/x\")")), SizeIs(1));
  EXPECT_THAT(
      machine_paths(one("a.cpp", std::string("open(\"/dev/shm/x\"); #include \"ho") + "me/wo" + "rk/x\"")),
      IsEmpty());
}

TEST(StaleVersionsTest, AreFound) {
  const auto with = [](const std::string& page) {
    return std::vector<File>{{.path = "protocol/messages.hpp", .text = "constexpr int kVersion = 7;"},
                             {.path = "docs/protocol.md", .text = page}};
  };
  EXPECT_THAT(stale_versions(with("Version 7, little-endian.\n| 4 | version, 7 |\n")), IsEmpty());
  EXPECT_THAT(stale_versions(with("Version 7, little-endian.\n| 4 | version, 6 |\n")),
              ElementsAre(StartsWith("docs/protocol.md:2: ")));
  EXPECT_THAT(stale_versions(with("Little-endian.\n")), SizeIs(1));
}

TEST(UnfinishedTest, IsFound) {
  EXPECT_THAT(unfinished_marks(one("a.cpp", std::string("// TO") + "DO: later")), SizeIs(1));
  EXPECT_THAT(unfinished_marks(one("a.cpp", "todos, mktemp XXXXXX")), IsEmpty());
}

TEST(CommandsTest, MustExist) {
  std::vector<File> tree = {{.path = "CMakePresets.json", .text = R"({"name": "release"})"},
                            {.path = "scripts/test", .text = ""},
                            {.path = "README.md", .text = "`scripts/test` cmake --preset release"}};
  EXPECT_THAT(missing_commands(tree), IsEmpty());
  tree.back().text = "run\nscripts/tests, cmake --preset fast";
  EXPECT_THAT(missing_commands(tree), ElementsAre("README.md:2: there is no scripts/tests",
                                                  "README.md:2: there is no --preset fast"));
}

TEST(CommandLinesTest, AreFound) {
  const auto commands = shown_command_lines(
      {{.path = "README.md",
        .text = "verbena trains\n```\n$ verbena run lda --data x.tsv \\\n  --topics 50 | tee y "
                "--z\nother\n```\n"},
       {.path = "scripts/go",
        .text = "# runs verbena here --q\nset -- build/release/bin/verbena bench --json $f\n"}});
  ASSERT_THAT(commands, SizeIs(2));
  EXPECT_EQ(commands[0].place, "README.md:4");
  EXPECT_EQ(commands[0].subcommands, "run lda");
  EXPECT_THAT(commands[0].options, ElementsAre("--data", "--topics"));
  EXPECT_EQ(commands[1].subcommands, "bench");
  EXPECT_THAT(commands[1].options, ElementsAre("--json"));
}

}  // namespace
}  // namespace verbena::repository
