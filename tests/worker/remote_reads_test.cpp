// How an operation posts its one-sided reads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <vector>

#include "transport/request_id.hpp"
#include "worker/operation.hpp"
#include "worker/server_link.hpp"

namespace verbena::worker {
namespace {

using ::testing::ElementsAre;
using transport::RemoteDescriptor;
using transport::RequestId;
using transport::WorkRequest;

/// Takes as many requests as the test allows (`room`).
class FakeConnection final : public transport::Connection {
 public:
  absl::StatusOr<RemoteDescriptor> grant(const transport::MemoryRegion& /*region*/) override {
    return absl::UnimplementedError("");
  }
  std::size_t do_post(std::span<const WorkRequest> requests) override {
    const std::size_t posted = std::min(room, requests.size());
    taken.insert(taken.end(), requests.begin(), requests.begin() + static_cast<std::ptrdiff_t>(posted));
    room -= posted;
    ++doorbells;
    return posted;
  }
  const std::byte* mapped(const RemoteDescriptor& /*remote*/) override { return nullptr; }
  [[nodiscard]] const absl::Status& status() const override { return status_; }

  std::size_t room = SIZE_MAX;
  std::size_t doorbells = 0;
  std::vector<WorkRequest> taken;

 private:
  absl::Status status_;
};

class RemoteReadsTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kRowBytes = 32;

  RemoteReadsTest() {
    for (ServerLink& link : links_) link.connection = std::make_unique<FakeConnection>();
  }
  FakeConnection& connection(std::size_t server) {
    return static_cast<FakeConnection&>(*links_[server].connection);
  }
  /// Adds a read of row `row` of a server, into place `place` of the memory.
  void add(std::size_t server, std::uint64_t row, std::size_t place) {
    const RemoteDescriptor rows{.address = 4096, .length_bytes = 64 * kRowBytes, .key = 7};
    reads_.add(links_[server], rows.slice(row * kRowBytes, kRowBytes),
               std::span(memory_).subspan(place * kRowBytes, kRowBytes), {.bytes = memory_});
  }
  /// How many rows each request to the server reads; 0 follows a signaled one.
  [[nodiscard]] std::vector<std::size_t> rows_asked(std::size_t server) {
    std::vector<std::size_t> asked;
    for (const WorkRequest& request : connection(server).taken) {
      EXPECT_EQ(request.local.size(), request.remote.length_bytes);
      asked.push_back(request.local.size() / kRowBytes);
      if (request.signaled) asked.push_back(0);
    }
    return asked;
  }
  /// Completes all that was posted to the server.
  void end(std::size_t server) {
    for (const WorkRequest& request : connection(server).taken) {
      if (request.signaled) links_[server].reads.end(RequestId(request.id).number());
    }
    connection(server).taken.clear();
  }

  std::array<ServerLink, 2> links_;
  std::array<std::byte, 64 * kRowBytes> memory_{};
  RemoteReads reads_;
};

TEST_F(RemoteReadsTest, RowsThatFollowEachOtherAreOneRead) {
  add(0, 3, 0);
  add(0, 4, 1);
  add(0, 5, 2);
  add(0, 7, 3);  // not after row 5
  add(0, 8, 5);  // not after place 3
  add(1, 9, 6);  // of another server
  EXPECT_FALSE(reads_.post());
  EXPECT_THAT(rows_asked(0), ElementsAre(3, 1, 1, 0));
  EXPECT_THAT(rows_asked(1), ElementsAre(1, 0));
  const WorkRequest& first = connection(0).taken.front();
  EXPECT_EQ(first.remote.address, 4096 + 3 * kRowBytes);
  EXPECT_EQ(first.local.data(), memory_.data());
}

TEST_F(RemoteReadsTest, ManyReadsAreOneDoorbellAndTheLastIsSignaled) {
  for (std::size_t i = 0; i < 10; ++i) add(0, 2 * i, i);
  EXPECT_FALSE(reads_.post());
  EXPECT_EQ(connection(0).doorbells, 1U);
  EXPECT_THAT(rows_asked(0), ElementsAre(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0));
  for (const WorkRequest& request : connection(0).taken)
    EXPECT_EQ(request.signaled, RequestId(request.id).number() != ReadsUnderWay::kUnsignaled);
  EXPECT_FALSE(reads_.post());
  end(0);
  EXPECT_TRUE(reads_.post());
}

TEST_F(RemoteReadsTest, WhatTheConnectionDidNotTakeIsPostedLaterAndEndsTheRest) {
  for (std::size_t i = 0; i < 10; ++i) add(0, 2 * i, i);
  connection(0).room = 4;
  EXPECT_FALSE(reads_.post());
  EXPECT_THAT(rows_asked(0), ElementsAre(1, 1, 1, 1));
  end(0);
  EXPECT_FALSE(reads_.post()) << "there are six left";
  connection(0).room = SIZE_MAX;
  EXPECT_FALSE(reads_.post()) << "nothing has ended";
  EXPECT_THAT(rows_asked(0), ElementsAre(1, 1, 1, 1, 1, 1, 0));
  end(0);
  EXPECT_TRUE(reads_.post());
}

TEST_F(RemoteReadsTest, TheDeadAreNotWaitedFor) {
  for (std::size_t i = 0; i < 10; ++i) add(0, 2 * i, i);
  add(1, 0, 20);
  connection(0).room = 4;
  EXPECT_FALSE(reads_.post());
  links_[0].is_dead = true;
  EXPECT_FALSE(reads_.post());
  EXPECT_THAT(rows_asked(1), ElementsAre(1, 0));
  end(1);
  EXPECT_TRUE(reads_.post());
}

TEST_F(RemoteReadsTest, ReadsOfOthersOnTheSameConnectionEndByThemselves) {
  RemoteReads others;
  add(0, 1, 0);
  reads_.post();
  others.add(links_[0], {.address = 0, .length_bytes = kRowBytes, .key = 7},
             std::span(memory_).first(kRowBytes), {.bytes = memory_});
  others.post();
  ASSERT_EQ(connection(0).taken.size(), 2U);
  const auto end_one = [&](std::size_t request) {
    links_[0].reads.end(RequestId(connection(0).taken[request].id).number());
  };
  end_one(0);
  EXPECT_TRUE(reads_.post());
  EXPECT_FALSE(others.post());
  end_one(0);
  EXPECT_FALSE(others.post()) << "request 0 belongs to the first operation";
  end_one(1);
  EXPECT_TRUE(others.post());
}

TEST_F(RemoteReadsTest, ACompletionMayComeWhenItsReadsAreNoMore) {
  auto brief = std::make_unique<RemoteReads>();
  brief->add(links_[0], {.address = 0, .length_bytes = kRowBytes, .key = 7},
             std::span(memory_).first(kRowBytes), {.bytes = memory_});
  brief->post();
  brief.reset();
  end(0);  // the address sanitizer would see an access to freed memory
}

}  // namespace
}  // namespace verbena::worker
