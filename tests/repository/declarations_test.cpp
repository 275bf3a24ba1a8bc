#include "tests/repository/declarations.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace verbena::repository {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> names(const std::string& text) {
  std::vector<std::string> names;
  for (const Declaration& declaration : own_declarations(text)) names.push_back(declaration.name);
  return names;
}
std::vector<std::string> unnamed(const std::string& text) {
  return names("namespace {\n" + text + "\n}\n");
}

TEST(DeclarationsTest, AreOfUnnamedNamespacesAndWhatIsStaticOrConst) {
  EXPECT_THAT(names("namespace a::b {\nint x = 1;\nnamespace {\nint y;\n}\nint z() { return 0; }\n}\n"),
              ElementsAre("a::b::y"));
  EXPECT_THAT(
      names("static int f() { return 0; }\nconstexpr int g = 1;\nconst int h = 2;\nint i;\nvoid j();\n"),
      ElementsAre("f", "g", "h"));
  EXPECT_THAT(names("const A& f() { return a; }\n"), IsEmpty());
  EXPECT_THAT(names("inline namespace a {\nnamespace {\nnamespace b {\nint c;\n}\n}\n}\nstatic int d;\n"),
              ElementsAre("a::b::c", "d"));
  EXPECT_THAT(names("extern \"C\" {\nvoid f();\nstatic int g();\n}\nstatic int h;"), ElementsAre("g", "h"));
}

TEST(DeclarationsTest, SayWhere) {
  const auto found = own_declarations("// first\n#define X \\\n  2\n/* third\n */ static int\n  y;\n");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].line, 6U);
}

TEST(DeclarationsTest, OfVariables) {
  EXPECT_THAT(
      unnamed(
          "int a;\nconstexpr std::array<std::pair<int, int>, 2> b = {{{1, 2}, {3, 4}}};\n"
          "constexpr const char* c[] = {\"}\"};\nstd::vector<int> d{1, 2};\nint A::e = 2;\nchar f = '}';\n"
          "auto g = [](int h) { int i = h; return i; };\nconst int j = 1'000, k = 2;\n"
          "const char* l = R\"x(int m; } \" )x\";\nstd::function<int(int)> n;\n"),
      ElementsAre("a", "b", "c", "d", "f", "g", "j", "l", "n"));
}

TEST(DeclarationsTest, OfFunctions) {
  EXPECT_THAT(
      unnamed("int a(int x) { return x; }\ntemplate <class T, class U = int>\nstd::vector<T> b(const T& t);\n"
              "[[gnu::noinline]] auto c(std::function<int(int)> f) -> std::vector<int> {\n  int x = 1;\n}\n"
              "int A::d() { return 0; }\nA::A(int x) : x_(x), y_{x} { int e = 2; }\nA::~A() = default;\n"
              "bool operator==(const A& a, const A& b) { return true; }\nvoid A::operator()(int x) {}\nint "
              "f(int x = 2, int y = {});\n"
              "decltype(auto) g() noexcept(true) {}\nMACRO();\nstatic_assert(sizeof(int) == 4);\n"
              "template class A<int>;\nvoid h();\n"),
      ElementsAre("a", "b", "c", "f", "g", "h"));
}

TEST(DeclarationsTest, OfTypes) {
  EXPECT_THAT(
      unnamed("struct A {\n  int x = 1;\n  void f() { int y; }\n};\nclass B final : public C<int> {};\n"
              "enum class D : std::uint8_t { kA, kB };\nenum { kE };\ntemplate <>\nstruct F<int> {};\n"
              "struct alignas(64) G {\n  static int f();\n};\nstruct A::H {};\nstruct I;\n"),
      ElementsAre("A", "B", "D", "G", "I"));
}

TEST(DeclarationsTest, OfAliases) {
  const auto found = own_declarations(
      "namespace {\nusing A = std::vector<int>;\nusing b::C;\nusing namespace d;\nnamespace e = f::g;\n}\n");
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].name, "A");
  EXPECT_EQ(found[1].name, "C");
  EXPECT_EQ(found[1].alias, "using b :: C");
  EXPECT_EQ(found[2].name, "e");
  EXPECT_NE(own_declarations("namespace {\nusing A = int;\n}")[0].alias,
            own_declarations("namespace {\nusing A = long;\n}")[0].alias);
}

TEST(DeclarationsTest, WhatIsCutOffIsReadToItsEnd) {
  for (const char* text : {"", "namespace", "namespace {", "static", "static int f(", "/*", "\"", "R\"(", "}",
                           "}}", "template <", "#", "namespace a =", "using", "static struct"}) {
    EXPECT_THAT(names(text), ::testing::SizeIs(::testing::Le(1U))) << text;
  }
  EXPECT_THAT(unnamed(""), IsEmpty());
}

}  // namespace
}  // namespace verbena::repository
