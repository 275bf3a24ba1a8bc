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

/// Takes pieces for an image with a head of three bytes and a bulk of six, in two places.
class ImageReceiverTest : public ::testing::Test {
 protected:
  absl::Status take(std::uint64_t number, const std::string& bytes) {
    const protocol::LogRecord piece{.header = {.kind = protocol::LogHeader::Kind::kImage, .number = number},
                                    .message = std::as_bytes(std::span(bytes))};
    return receiver_.take(
        piece, [this](std::string_view head) -> absl::StatusOr<std::vector<std::span<std::byte>>> {
          head_ = head;
          return std::vector<std::span<std::byte>>{std::as_writable_bytes(std::span(first_)),
                                                   std::as_writable_bytes(std::span(second_))};
        });
  }
  static std::string start(std::uint64_t head_bytes, std::uint64_t bulk_bytes) {
    const protocol::ImageStart start{.head_bytes = head_bytes, .bulk_bytes = bulk_bytes, .records = 12};
    std::string bytes(sizeof start, '\0');
    std::memcpy(bytes.data(), &start, sizeof start);
    return bytes;
  }

  ImageReceiver receiver_;
  std::string head_;
  std::string first_ = std::string(2, '.');
  std::string second_ = std::string(4, '.');
};

TEST_F(ImageReceiverTest, PiecesFillHeadAndBulk) {
  ASSERT_TRUE(take(1, start(3, 6) + "he").ok());
  EXPECT_FALSE(receiver_.is_whole());
  ASSERT_TRUE(take(2, "adabc").ok());
  EXPECT_EQ(head_, "hea");
  ASSERT_TRUE(take(3, "xy").ok());
  EXPECT_TRUE(receiver_.is_whole());
  EXPECT_EQ(receiver_.records(), 12U);
  EXPECT_EQ(first_ + second_, "dabcxy");
}

TEST_F(ImageReceiverTest, AnythingElseIsRefused) {
  const auto error = [](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(error(take(2, start(3, 6))), HasSubstr("piece 2 after piece 0"));
  EXPECT_THAT(error(take(1, "short")), HasSubstr("no beginning"));
  EXPECT_THAT(error(take(1, start(0, 6))), HasSubstr("no head"));
}

TEST_F(ImageReceiverTest, AnotherLengthIsRefused) {
  ASSERT_TRUE(take(1, start(3, 6) + "he").ok());
  EXPECT_THAT(std::string(take(2, "adabcxyz").message()), HasSubstr("more bytes than it says"));
  receiver_ = ImageReceiver();
  EXPECT_THAT(std::string(take(1, start(3, 7) + "head").message()), HasSubstr("has 7 bytes of rows"));
}

}  // namespace
}  // namespace verbena::server
