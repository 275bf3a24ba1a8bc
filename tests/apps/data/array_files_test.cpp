#include "apps/data/array_files.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

namespace verbena::apps {
namespace {

using namespace std::string_literals;

TEST(ArrayFilesTest, TheHeaderOfAnNpyFileIsThatOfItsDescription) {
  // Magic, version, length of what follows (little-endian), a dictionary of Python, blanks, a newline.
  std::string expected =
      "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (5, 3), }"s;
  expected.resize(127, ' ');
  expected += '\n';
  EXPECT_EQ(npy_header({.name = "a", .type = kFloatElement, .shape = {5, 3}}), expected);
  const std::string one = npy_header({.name = "", .type = kUint64Element, .shape = {7}});
  EXPECT_TRUE(one.find("'<u8', 'fortran_order': False, 'shape': (7,), }") != std::string::npos) << one;
  EXPECT_EQ(one.size() % 64, 0U);
}

TEST(ArrayFilesTest, TheHeaderOfSafetensorsIsThatOfItsDescription) {
  const std::vector<ArrayShape> arrays = {{.name = "b", .type = kInt64Element, .shape = {2}},
                                          {.name = "a", .type = kFloatElement, .shape = {3, 4}}};
  EXPECT_EQ(arrays[0].bytes(), 16U);
  EXPECT_EQ(arrays[1].bytes(), 48U);
  // The length of what follows, in 8 bytes; an object; blanks up to a multiple of 8 bytes.
  std::string json =
      R"({"a":{"data_offsets":[16,64],"dtype":"F32","shape":[3,4]},"b":{"data_offsets":[0,16],"dtype":"I64","shape":[2]}})";
  json.resize((json.size() + 7) / 8 * 8, ' ');
  const absl::StatusOr<std::string> header = safetensors_header(arrays);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(*header, std::string{static_cast<char>(json.size())} + "\0\0\0\0\0\0\0"s + json);
}

TEST(ArrayFilesTest, NamesThatCannotBeAreRefused) {
  const ArrayShape array{.name = "a", .type = kFloatElement, .shape = {1}};
  EXPECT_EQ(safetensors_header(std::array{array, array}).status().message(),
            "more than one tensor would have the name \"a\"");
  EXPECT_FALSE(safetensors_header(std::array{ArrayShape{"__metadata__", kFloatElement, {1}}}).ok());
}

TEST(ArrayFilesTest, FilesBesideOthersAreNamedAfterThem) {
  EXPECT_EQ(path_beside("a/w.npy", ".npy", ".words.txt"), "a/w.words.txt");
  EXPECT_EQ(path_beside("a.b/w", ".npy", ".words.txt"), "a.b/w.words.txt");
}

}  // namespace
}  // namespace verbena::apps
