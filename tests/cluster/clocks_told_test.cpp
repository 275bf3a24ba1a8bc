// Which servers a worker tells of its clocks, and what it tells them.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <future>
#include <utility>

#include "base/return_if_error.hpp"
#include "protocol/messages.hpp"
#include "tests/cluster/impostor.hpp"
#include "tests/cluster/peer.hpp"
#include <verbena/data_cursor.hpp>
#include <verbena/session.hpp>
#include <verbena/table.hpp>

namespace verbena::testing {
namespace {

using protocol::BulkKind;

/// Two servers, of which only the first has rows of the table. Tests check what they hear from a worker that
/// does `work`.
class ClocksToldTest : public ::testing::Test {
 protected:
  void run(const TableOptions& one_row, std::function<absl::Status(Session&)> work) {
    working_ = std::async(std::launch::async, [this, one_row, work = std::move(work)]() -> absl::Status {
      auto session =
          Session::connect({.servers = {servers_[0].address(), servers_[1].address()}, .timeout_ms = 20'000});
      if (!session.ok()) return session.status();
      if (auto table = (*session)->table<float>(one_row); !table.ok()) return table.status();
      RETURN_IF_ERROR(work(**session));
      EXPECT_TRUE((*session)->give_up(absl::CancelledError("that was all")).ok());
      return absl::OkStatus();
    });
    for (std::size_t i = 0; i < peers_.size(); ++i) peers_[i] = &servers_[i].accept();
    for (Peer* const peer : peers_) peer->say_welcome(1);
    for (Peer* const peer : peers_) peer->hear<protocol::OpenTable>();
    peers_[0]->say(protocol::TableOpened{.shard = peers_[0]->any_memory()});
    peers_[1]->say(protocol::TableOpened{});
  }
  void end() {
    for (Peer* const peer : peers_) peer->hear<protocol::Failed>();
    for (Peer* const peer : peers_) peer->say(protocol::Failed{.code = 1, .reason = "so be it"});
    EXPECT_TRUE(working_.get().ok());
  }

  std::array<Impostor, 2> servers_;
  std::array<Peer*, 2> peers_{};
  std::future<absl::Status> working_;
};

/// A server without rows of static tables is told of clocks only at barriers, and no clock waits for it.
TEST_F(ClocksToldTest, ServersWithoutStaticRowsAreToldAtBarriers) {
  run({.name = "one row", .rows = 1, .width = 1, .consistency = Bsp{}}, [](Session& session) -> absl::Status {
    for (int clock = 0; clock < 3; ++clock) {
      RETURN_IF_ERROR(session.clock());
    }
    return absl::OkStatus();
  });
  peers_[0]->send({.kind = BulkKind::kRows, .clock = 3});
  end();
  EXPECT_EQ(peers_[0]->bulk_headers().size(), 3U);
  EXPECT_TRUE(peers_[1]->bulk_headers().empty());
}

TEST_F(ClocksToldTest, CountsOfExamplesGoWithTheClockThatEnds) {
  const TableOptions one_row = {
      .name = "one row", .rows = 1, .width = 1, .consistency = ABsp{Updates::kMeans}};
  run(one_row, [&](Session& session) -> absl::Status {
    RETURN_IF_ERROR(session.clock());
    DataCursor cursor(session, {.examples = 10, .mini_batch = 5});
    if (auto batch = cursor.next(); !batch.ok()) return batch.status();
    TableOptions more = one_row;
    more.name = "a row each";
    more.rows = 2;
    return session.table<float>(more).status();
  });
  peers_[0]->send({.kind = BulkKind::kRows, .clock = 1});
  for (Peer* const peer : peers_) {
    peer->hear<protocol::OpenTable>();
    peer->say(protocol::TableOpened{.table = 1, .shard = peer->any_memory()});
  }
  end();
  ASSERT_EQ(peers_[1]->bulk_headers().size(), 1U)
      << "the second server must be told of the last clock, in the middle of an iteration";
  EXPECT_EQ(peers_[1]->bulk_headers()[0].kind, BulkKind::kClock);
  EXPECT_EQ(peers_[1]->bulk_headers()[0].clock, 1);
  EXPECT_EQ(peers_[1]->bulk_headers()[0].count, 0U);
}

}  // namespace
}  // namespace verbena::testing
