#include "base/listening_process.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file_descriptor.hpp"

namespace verbena::base {
namespace {

/// A socket that listens at any port of the loopback interface.
class ListeningProcessTest : public ::testing::Test {
 protected:
  ListeningProcessTest() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof place;
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&place), sizeof place), 0);
    EXPECT_EQ(::listen(socket_.get(), 1), 0);
    EXPECT_EQ(::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&place), &length), 0);
    port_ = ::ntohs(place.sin_port);
  }

  FileDescriptor socket_;
  std::uint16_t port_ = 0;
};

TEST_F(ListeningProcessTest, IsFoundByItsPort) {
  const auto found = process_that_listens_at(port_);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->pid, ::getpid());
  EXPECT_FALSE(found->is_stopped);
  socket_.reset();
  EXPECT_FALSE(process_that_listens_at(port_).has_value());
}

TEST_F(ListeningProcessTest, MayBeStopped) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::raise(SIGSTOP);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, WUNTRACED), child);
  socket_.reset();  // only the child has it
  const auto found = process_that_listens_at(port_);
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->pid, child);
  EXPECT_TRUE(found->is_stopped);
}

}  // namespace
}  // namespace verbena::base
