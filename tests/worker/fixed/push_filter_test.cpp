#include "worker/fixed/push_filter.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "protocol/packed_updates.hpp"
#include "transport/shm/shm_transport.hpp"

namespace verbena::worker {
namespace {

using protocol::Row;

class PushFilterTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kValues = 2;

  [[nodiscard]] std::unique_ptr<UpdateBuffer> buffer() {
    return std::make_unique<UpdateBuffer>(/*rows=*/1000, layout_.stride_bytes, /*chunk_bytes=*/512, memory_);
  }
  void add(std::uint64_t row, float value) {
    const auto found = current_->find_or_add(Row{row}, row + 7);
    const float values[kValues] = {0, value};
    std::memcpy(found.values, values, sizeof values);
  }
  static std::map<std::uint64_t, float> rows_of(const UpdateBuffer& buffer) {
    std::map<std::uint64_t, float> rows;
    for (std::uint32_t i = 0; i < buffer.records(); ++i) {
      const std::byte* const update = buffer.find(buffer.row(i));
      float values[kValues];
      std::memcpy(values, update, sizeof values);
      Key key = 0;
      std::memcpy(&key, update - sizeof key, sizeof key);
      EXPECT_EQ(key, index_of(buffer.row(i)) + 7);
      rows[index_of(buffer.row(i))] = values[1];
    }
    return rows;
  }
  /// What travels of 100 rows whose values are 1, −2, 3, … 100; checks that the others are kept back.
  std::map<std::uint64_t, float> sent(const std::string& text, consistency::Clock clock = 0,
                                      std::uint32_t worker = 0) {
    PushFilter filter(protocol::FilterRule::find(text).value(), worker);
    current_ = buffer();
    kept_ = buffer();
    for (std::uint64_t row = 0; row < 100; ++row)
      add(row, static_cast<float>(row + 1) * (row % 2 == 0 ? 1.0F : -1.0F));
    const auto count = filter.select(*current_, *kept_, layout_, clock);
    EXPECT_EQ(count, kept_->records());
    std::map<std::uint64_t, float> all = rows_of(*current_);
    EXPECT_EQ(all.size() + kept_->records(), 100U);
    all.merge(rows_of(*kept_));
    EXPECT_EQ(all.size(), 100U) << "a row is in both";
    for (const auto& [row, value] : all) EXPECT_EQ(std::abs(value), static_cast<float>(row + 1));
    return rows_of(*current_);
  }

  const RowLayout layout_{protocol::UpdateRule(ValueType::kFloat, kValues)};
  std::unique_ptr<transport::Transport> transport_ = transport::make_shm_transport().value();
  LocalMemory memory_{*transport_};
  std::unique_ptr<UpdateBuffer> current_;
  std::unique_ptr<UpdateBuffer> kept_;
};

TEST_F(PushFilterTest, LargeOnesTravel) {
  EXPECT_EQ(sent("significant(least=91)").size(), 10U);
  EXPECT_EQ(sent("significant(least=91)").begin()->first, 90U);
  EXPECT_EQ(sent("significant(least=11)").size(), 90U);
  EXPECT_EQ(sent("significant(least=0)").size(), 100U);
  EXPECT_EQ(sent("significant(least=1000)").size(), 0U);
  EXPECT_EQ(sent("significant(least=1000,power=0.5)", /*clock=*/99).size(), 1U) << "only 100";
}

TEST_F(PushFilterTest, TheLargestShareTravels) {
  for (const auto& [text, count] : {std::pair("top(share=0.1)", 10U), std::pair("top(share=0.95)", 95U),
                                    std::pair("top(share=1)", 100U), std::pair("top(share=0)", 0U)}) {
    const auto rows = sent(text);
    EXPECT_EQ(rows.size(), count);
    if (count > 0) {
      EXPECT_EQ(rows.begin()->first, 100 - count);
    }
  }
}

TEST_F(PushFilterTest, OfEqualOnesTheShareTravels) {
  PushFilter filter(protocol::FilterRule::find("top(share=0.4)").value(), 0);
  current_ = buffer();
  kept_ = buffer();
  for (const auto& [row, value] : {std::pair(1, 3.0F), {2, 3.0F}, {3, 3.0F}, {4, 9.0F}, {5, 1.0F}})
    add(static_cast<std::uint64_t>(row), value);
  EXPECT_EQ(filter.select(*current_, *kept_, layout_, 0), 3U);
  EXPECT_EQ(rows_of(*current_).size(), 2U);
  EXPECT_EQ(rows_of(*current_).count(4), 1U);
}

TEST_F(PushFilterTest, ARandomShareTravels) {
  const auto first = sent("random(share=0.3)");
  EXPECT_GT(first.size(), 15U);
  EXPECT_LT(first.size(), 45U);
  EXPECT_EQ(sent("random(share=0.3)"), first);
  EXPECT_NE(sent("random(share=0.3)", /*clock=*/1), first);
  EXPECT_NE(sent("random(share=0.3)", /*clock=*/0, /*worker=*/1), first);
}

TEST_F(PushFilterTest, WhatIsNoNumberTravels) {
  PushFilter filter(protocol::FilterRule::find("significant(least=5)").value(), 0);
  current_ = buffer();
  add(1, std::nanf(""));
  add(2, 1);
  kept_ = buffer();
  EXPECT_EQ(filter.select(*current_, *kept_, layout_, 0), 1U);
  EXPECT_EQ(rows_of(*current_).count(1), 1U);
  EXPECT_EQ(rows_of(*kept_).count(2), 1U);
}

TEST_F(PushFilterTest, WhatIsKeptBackAddsUp) {
  PushFilter filter(protocol::FilterRule::find("significant(least=5)").value(), 0);
  kept_ = buffer();
  const auto clock = [&](const std::map<std::uint64_t, float>& updates) {
    current_ = buffer();
    for (const auto& [row, value] : updates) add(row, value);
    EXPECT_TRUE(filter.select(*current_, *kept_, layout_, 0).has_value());
    return rows_of(*current_);
  };
  using Rows = std::map<std::uint64_t, float>;
  EXPECT_EQ(clock({{1, 2}, {2, 3}, {3, 6}}), (Rows{{3, 6}}));
  EXPECT_EQ(clock({{1, 2}, {3, 1}, {4, -1}}), Rows());
  EXPECT_EQ(clock({{1, 2}, {4, -1}}), (Rows{{1, 6}}));
  EXPECT_EQ(rows_of(*kept_), (Rows{{2, 3}, {3, 1}, {4, -2}}));
  current_ = buffer();
  add(4, -1);
  add(5, 1);
  EXPECT_TRUE(PushFilter::take_all(*current_, *kept_, layout_));
  EXPECT_EQ(rows_of(*current_), (Rows{{2, 3}, {3, 1}, {4, -3}, {5, 1}}));
  EXPECT_TRUE(kept_->empty());
}

/// What travels and what is kept back add up to what was pushed; what travels is short when it is packed.
TEST_F(PushFilterTest, WhatIsLostByRoundingIsKeptBack) {
  for (const std::string text : {"bf16", "int8", "top(share=0.5)+int8"}) {
    PushFilter filter(protocol::FilterRule::find(text).value(), 0);
    kept_ = buffer();
    std::map<std::uint64_t, double> pushed;
    std::map<std::uint64_t, double> sent;
    for (int clock = 0; clock < 30; ++clock) {
      current_ = buffer();
      protocol::UpdatePacker packer(ValueType::kFloat, kValues);
      for (std::uint64_t row = 0; row < 100; ++row) {
        const float value = 1 / static_cast<float>(row + 1) + static_cast<float>(clock) / 1000;
        add(row, value);
        pushed[row] += static_cast<double>(value);
      }
      ASSERT_TRUE(filter.select(*current_, *kept_, layout_, clock).has_value());
      const std::map<std::uint64_t, float> travels = rows_of(*current_);
      EXPECT_GE(travels.size(), 50U);
      for (const auto& [row, value] : travels) {
        sent[row] += static_cast<double>(value);
        packer.add_row(row, current_->find(Row{row}));
      }
      std::vector<std::uint64_t> memory(1000);
      const auto length =
          packer.pack({}, {.scale = current_->scale()}, std::as_writable_bytes(std::span(memory)));
      const std::size_t value_bytes = text == "bf16" ? 2 : 1;
      EXPECT_LE(*length, sizeof(protocol::BulkHeader) + sizeof(protocol::PackedHeader) +
                             travels.size() * (1 + value_bytes + 1))
          << text << ": more than it may be";
      const std::map<std::uint64_t, float> kept = rows_of(*kept_);
      for (const auto& [row, sum] : pushed) {
        const auto rest = kept.find(row);
        EXPECT_NEAR(sent[row] + (rest == kept.end() ? 0 : static_cast<double>(rest->second)), sum, 1e-5);
      }
    }
    EXPECT_NEAR(sent[70], pushed[70], text == "bf16" ? 0.01 : 0.05) << text;
  }
}

TEST_F(PushFilterTest, WhatCannotBeRoundedTravelsAsItIs) {
  for (const std::string text : {"bf16", "int8"}) {
    PushFilter filter(protocol::FilterRule::find(text).value(), 0);
    for (const float value : {std::nanf(""), HUGE_VALF, 3.3e38F, 0.0F}) {
      current_ = buffer();
      kept_ = buffer();
      add(1, value);
      ASSERT_TRUE(filter.select(*current_, *kept_, layout_, 0).has_value());
      const float found = rows_of(*current_)[1];
      EXPECT_TRUE(std::isnan(value) ? std::isnan(found)
                                    : std::abs(found - value) <= value / 100 || found == value)
          << text << ": " << value << " became " << found;
      EXPECT_FALSE(std::isnan(rows_of(*kept_)[1]));
    }
  }
}

/// Of a row, some values may become zeros, of either sign; the message is short all the same.
TEST_F(PushFilterTest, SmallNegativeValuesAreShort) {
  PushFilter filter(protocol::FilterRule::find("int8").value(), 0);
  current_ = buffer();
  kept_ = buffer();
  protocol::UpdatePacker packer(ValueType::kFloat, kValues);
  for (std::uint64_t row = 0; row < 10; ++row) {
    const float values[kValues] = {-0.1F, 100 + static_cast<float>(row)};
    std::memcpy(current_->find_or_add(Row{row}, row + 7).values, values, sizeof values);
  }
  ASSERT_TRUE(filter.select(*current_, *kept_, layout_, 0).has_value());
  for (std::uint32_t i = 0; i < 10; ++i) packer.add_row(i, current_->values(i));
  std::vector<std::uint64_t> memory(100);
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(memory));
  ASSERT_TRUE(packer.pack({}, {.scale = current_->scale()}, bytes).has_value());
  protocol::PackedHeader header;
  std::memcpy(&header, bytes.data() + sizeof(protocol::BulkHeader), sizeof header);
  EXPECT_EQ(header.form, protocol::PackedHeader::Form::kInt8);
}

TEST_F(PushFilterTest, WhatWouldBeZerosIsKeptBack) {
  PushFilter filter(protocol::FilterRule::find("int8").value(), 0);
  current_ = buffer();
  kept_ = buffer();
  add(1, 127);
  add(2, 0.4F);
  add(3, 1);
  EXPECT_EQ(filter.select(*current_, *kept_, layout_, 0), 1U);
  EXPECT_EQ(rows_of(*current_).count(2), 0U);
  EXPECT_EQ(rows_of(*kept_)[2], 0.4F);
  EXPECT_NEAR(rows_of(*current_)[3], 1, 1e-4);
}

TEST_F(PushFilterTest, NonsenseIsRefused) {
  const auto error_of = [](std::string_view text) {
    return std::string(protocol::FilterRule::find(text).status().message());
  };
  EXPECT_THAT(error_of("some"), ::testing::HasSubstr("expected none, significant(least=NUMBER"));
  EXPECT_THAT(error_of("top(share=2)"), ::testing::HasSubstr("expected 0 to 1, found 2"));
  EXPECT_THAT(error_of("none(share=2)"), ::testing::HasSubstr("has no parameter"));
  EXPECT_THAT(error_of("int8+bf16"), ::testing::HasSubstr("one that chooses rows and one that rounds"));
  EXPECT_THAT(error_of("top+random"), ::testing::HasSubstr("one that chooses rows and one that rounds"));
  EXPECT_THAT(error_of("top+int8+bf16"), ::testing::HasSubstr("one that chooses rows and one that rounds"));
  EXPECT_THAT(error_of("top+"), ::testing::HasSubstr("the filter"));
  EXPECT_TRUE(protocol::FilterRule::find("significant(least=1e+2)+int8").ok());
  EXPECT_TRUE(protocol::FilterRule::find("bf16+top(share=0.1)").ok());
}

}  // namespace
}  // namespace verbena::worker
