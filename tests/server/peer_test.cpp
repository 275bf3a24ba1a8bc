// Who is connected to a server.
#include "server/peer.hpp"

#include <gtest/gtest.h>

namespace verbena::server {
namespace {

struct VeryLate {
  [[nodiscard]] static transport::TimePoint now() { return transport::TimePoint::max(); }
};

/// In the turn in which its connection becomes that of a worker which comes back, its time may be over.
TEST(StrangersTest, WhoHasNoConnectionAnyMoreIsNoStranger) {
  Strangers strangers(1);
  Peer peer;
  strangers.add(peer, {});
  strangers.part(VeryLate(), [](Peer&) { ADD_FAILURE() << "is closed"; });
  EXPECT_FALSE(peer.closed);
}

}  // namespace
}  // namespace verbena::server
