// Factors as arrays: they predict what the text predicts.
#include "apps/mf/exports.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/divergence.hpp"
#include "apps/mf/saved_model.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::apps::mf {
namespace {

using namespace std::string_literals;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAreArray;
using verbena::testing::contents;
using Numbers = std::vector<float>;

class ExportsTest : public ::testing::TestWithParam<bool> {
 protected:
  [[nodiscard]] static RowFormat rows() { return {.rank = 2, .biases = GetParam()}; }
  [[nodiscard]] absl::Status save(FactorFormat format) const {
    return save_as(format, prefix_, rows(), {.mean = 3.5, .deviation = 4}, {users_, items_},
                   reader(packed_users_), reader(packed_items_));
  }
  [[nodiscard]] static RowReader reader(const Numbers& packed) {
    return [&packed](std::size_t first, std::size_t last, std::span<float> to) {
      for (std::size_t row = first; row < last; ++row)
        std::copy_n(packed.begin() + static_cast<std::ptrdiff_t>(3 * row), rows().width(),
                    to.begin() + static_cast<std::ptrdiff_t>((row - first) * rows().width()));
      return absl::OkStatus();
    };
  }
  /// The numbers of a .npy file, whose header must be that of this shape.
  static Numbers array(const std::string& path, const std::string& array_shape) {
    const std::string bytes = contents(path);
    std::string header =
        "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': "s + array_shape + ", }";
    header.resize(127, ' ');
    EXPECT_EQ(bytes.substr(0, 128), header + "\n") << path;
    return floats(bytes.substr(128));
  }
  static Numbers floats(const std::string& bytes) {
    Numbers numbers(bytes.size() / sizeof(float));
    std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(float));
    return numbers;
  }

  std::vector<std::string> users_ = {"ann", "bob\tsmith", "ünï"};
  std::vector<std::string> items_ = {"ark", "dove"};
  Numbers packed_users_ = {0.1F, 0.2F, 0.5F, -1, 0.25F, -0.5F, 0, 0, 0};  // two factors and a bias each
  Numbers packed_items_ = {0.3F, -0.7F, 1, 2, 1, 0.125F};
  verbena::testing::TemporaryFolder folder_;
  std::string prefix_ = folder_.path("model");
};

TEST_P(ExportsTest, ArraysPredictWhatTheTextPredicts) {
  ASSERT_TRUE(save(FactorFormat::kNpy).ok());
  const Numbers users = array(prefix_ + ".users.npy", "(3, 2)");
  const Numbers items = array(prefix_ + ".items.npy", "(2, 2)");
  const Numbers mean = array(prefix_ + ".mean.npy", "(1,)");
  Numbers user_biases(users_.size());
  Numbers item_biases(items_.size());
  if (rows().biases) {
    user_biases = array(prefix_ + ".user_biases.npy", "(3,)");
    item_biases = array(prefix_ + ".item_biases.npy", "(2,)");
  }
  ASSERT_EQ((std::vector{users.size(), items.size(), mean.size(), user_biases.size(), item_biases.size()}),
            (std::vector<std::size_t>{6, 4, 1, 3, 2}));
  EXPECT_EQ(contents(prefix_ + ".users.txt"), "ann\nbob\tsmith\nünï\n");
  EXPECT_EQ(contents(prefix_ + ".items.txt"), "ark\ndove\n");

  ASSERT_TRUE(save(FactorFormat::kText).ok());
  const absl::StatusOr<SavedModel> text = SavedModel::load(prefix_);
  ASSERT_TRUE(text.ok()) << text.status();
  for (std::size_t user = 0; user < users_.size(); ++user) {
    for (std::size_t item = 0; item < items_.size(); ++item) {
      const float predicted = mean[0] + user_biases[user] + item_biases[item] +
                              users[2 * user] * items[2 * item] + users[2 * user + 1] * items[2 * item + 1];
      EXPECT_FLOAT_EQ(predicted, text->rating(text->user(users_[user]), text->item(items_[item])));
    }
  }
}

TEST_P(ExportsTest, SafetensorsHasTheSameArrays) {
  ASSERT_TRUE(save(FactorFormat::kNpy).ok());
  ASSERT_TRUE(save(FactorFormat::kSafetensors).ok());
  const std::string bytes = contents(prefix_ + ".safetensors");
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  const nlohmann::json header = nlohmann::json::parse(bytes.substr(8, length));
  EXPECT_EQ(header.size(), rows().biases ? 5U : 3U);
  std::size_t numbers_bytes = 0;
  for (const auto& [name, tensor] : header.items()) {
    EXPECT_EQ(tensor["dtype"], "F32");
    const std::size_t first = tensor["data_offsets"][0];
    const std::size_t last = tensor["data_offsets"][1];
    const std::string npy = contents(prefix_ + "." + name + ".npy");
    EXPECT_EQ(bytes.substr(8 + length + first, last - first), npy.substr(128)) << name;
    numbers_bytes += last - first;
  }
  EXPECT_EQ(header["users"]["shape"], nlohmann::json({3, 2}));
  EXPECT_EQ(header["items"]["shape"], nlohmann::json({2, 2}));
  EXPECT_EQ(bytes.size(), 8 + length + numbers_bytes);
}

TEST_P(ExportsTest, FilesAreThoseThatAreSaid) {
  for (const FactorFormat format : {FactorFormat::kText, FactorFormat::kNpy, FactorFormat::kSafetensors}) {
    EXPECT_EQ(parse_factor_format(to_string(format)), format);
    for (const auto& file : std::filesystem::directory_iterator(folder_.path()))
      std::filesystem::remove(file.path());
    ASSERT_TRUE(save(format).ok());
    std::vector<std::string> written;
    std::uint64_t bytes = 0;
    for (const auto& file : std::filesystem::directory_iterator(folder_.path())) {
      written.push_back(file.path().string());
      bytes += file.file_size();
    }
    EXPECT_THAT(written, UnorderedElementsAreArray(files_of(prefix_, format, rows().biases)));
    EXPECT_LE(bytes, files_bytes(format, rows(), users_.size(), items_.size())) << to_string(format);
  }
  EXPECT_EQ(parse_factor_format("pickle"), std::nullopt);
}

TEST_P(ExportsTest, WhatIsNoNumberIsNotWritten) {
  packed_items_[4] = std::numeric_limits<float>::infinity();
  const absl::Status status = save(FactorFormat::kNpy);
  EXPECT_THAT(std::string(status.message()), HasSubstr(kNoNumbers));
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path())) << "half a model is none";
}

INSTANTIATE_TEST_SUITE_P(Biases, ExportsTest, ::testing::Bool());

}  // namespace
}  // namespace verbena::apps::mf
