// The pieces of an image, and its head's bytes: what is no image is refused. That copies become alike is the
// simulation's to show (simulate --model repair).
#include "server/image.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "server/image_bytes.hpp"

namespace verbena::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ImageBytesTest, AreReadAsTheyWereWritten) {
  ImageWriter out;
  out.put(std::uint32_t{7});
  out.put_all(std::vector<std::uint16_t>{1, 2, 3});
  out.put_text("a row");
  const std::string bytes = out.take();
  ImageReader in(bytes);
  EXPECT_EQ(in.get<std::uint32_t>(), 7U);
  EXPECT_THAT(in.get_all<std::uint16_t>(), ElementsAre(1, 2, 3));
  EXPECT_EQ(in.get_text(), "a row");
  EXPECT_TRUE(in.ends_well());
}

TEST(ImageBytesTest, ReadingPastTheEndGivesNothing) {
  ImageWriter out;
  out.put(std::uint64_t{1} << 60);  // so many items
  const std::string bytes = out.take();
  ImageReader in(bytes);
  EXPECT_THAT(in.get_all<std::uint64_t>(), ElementsAre());
  EXPECT_FALSE(in.is_good());
  EXPECT_EQ(in.get<std::uint32_t>(), 0U);
  EXPECT_EQ(in.get_text(), "");
  EXPECT_FALSE(in.ends_well());
  ImageReader longer("abcdef");
  static_cast<void>(longer.get<std::uint32_t>());
  EXPECT_TRUE(longer.is_good());
  EXPECT_FALSE(longer.ends_well()) << "two bytes are left";
}

/// Takes pieces for an image with a head of three bytes, and a bulk of six of lane 0, in two places, and two
/// of lane 1.
class ImageReceiverTest : public ::testing::Test {
 protected:
  absl::Status take(std::uint64_t number, const std::string& bytes) {
    const protocol::LogRecord piece{.header = {.kind = protocol::LogHeader::Kind::kImage, .number = number},
                                    .message = std::as_bytes(std::span(bytes))};
    return receiver_.take(piece, [this](std::string_view head) -> absl::StatusOr<ImageBulk> {
      head_ = head;
      const auto memory = [](std::string& text) { return std::as_writable_bytes(std::span(text)); };
      return ImageBulk{{memory(first_), memory(second_)}, {memory(of_another_lane_)}};
    });
  }
  template <class Head>
  static std::string bytes_of(const Head& head) {
    std::string bytes(sizeof head, '\0');
    std::memcpy(bytes.data(), &head, sizeof head);
    return bytes;
  }
  static std::string start(std::uint64_t head_bytes, std::uint64_t bulk_bytes) {
    return bytes_of(protocol::ImageStart{.head_bytes = head_bytes, .bulk_bytes = bulk_bytes, .records = 12});
  }
  static std::string block(std::uint32_t lane, std::uint64_t offset, const std::string& text) {
    return bytes_of(protocol::ImageBlock{
               .lane = lane, .bytes = static_cast<std::uint32_t>(text.size()), .offset = offset}) +
           text;
  }

  ImageReceiver receiver_;
  std::string head_;
  std::string first_ = std::string(2, '.');
  std::string second_ = std::string(4, '.');
  std::string of_another_lane_ = std::string(2, '.');
};

TEST_F(ImageReceiverTest, PiecesFillHeadAndBulk) {
  ASSERT_TRUE(take(1, start(3, 8) + "he").ok());
  EXPECT_TRUE(receiver_.has_begun());
  ASSERT_TRUE(take(2, "a").ok());
  EXPECT_EQ(head_, "hea");
  ASSERT_TRUE(take(3, block(1, 0, "uv") + block(0, 1, "bcd")).ok());
  ASSERT_TRUE(take(4, block(0, 4, "ef")).ok());
  ASSERT_TRUE(take(5, block(0, 0, "a")).ok());
  EXPECT_EQ(first_ + second_, "abcdef");
  EXPECT_EQ(of_another_lane_, "uv");
  EXPECT_FALSE(receiver_.is_whole()) << "the end is missing";
  ASSERT_TRUE(take(6, "").ok());
  EXPECT_TRUE(receiver_.is_whole());
  EXPECT_EQ(receiver_.records(), 12U);
}

std::string error(const absl::Status& status) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST_F(ImageReceiverTest, AnythingElseIsRefused) {
  EXPECT_THAT(error(take(2, start(3, 8))), HasSubstr("piece 2 after piece 0"));
  EXPECT_THAT(error(take(1, "short")), HasSubstr("no beginning"));
  EXPECT_THAT(error(take(1, start(0, 8))), HasSubstr("no head"));
}

TEST_F(ImageReceiverTest, AnotherLengthIsRefused) {
  EXPECT_THAT(error(take(1, start(3, 8) + "heada")), HasSubstr("more bytes of its head than it says"));
  receiver_ = ImageReceiver();
  EXPECT_THAT(error(take(1, start(4, 7) + "head")),
              HasSubstr("has 7 bytes of rows, and its head tells of 8"));
}

TEST_F(ImageReceiverTest, BlocksThatBelongNowhereAreRefused) {
  ASSERT_TRUE(take(1, start(3, 8) + "hea").ok());
  std::uint64_t piece = 1;
  for (const std::string& wrong : {block(0, 5, "fg"), block(1, 3, "x"), block(2, 0, "x"), block(0, 0, ""),
                                   block(0, 0, "abc").substr(0, 18), block(0, UINT64_MAX, "a")}) {
    EXPECT_THAT(error(take(++piece, wrong)), HasSubstr("which is not there"));
  }
  EXPECT_THAT(error(take(++piece, "no block")), HasSubstr("part of a block"));
  EXPECT_EQ(first_ + second_ + of_another_lane_, "........");
}

TEST_F(ImageReceiverTest, AnEndBeforeAllIsThereIsRefused) {
  ASSERT_TRUE(take(1, start(3, 8) + "hea").ok());
  ASSERT_TRUE(take(2, block(0, 0, "abcdef")).ok());
  EXPECT_THAT(error(take(3, "")), HasSubstr("ends 2 bytes too soon"));
}

}  // namespace
}  // namespace verbena::server
