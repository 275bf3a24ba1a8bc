// A member of an etcd cluster that answers what a test wants, over HTTP on the loopback interface.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_descriptor.hpp"
#include "tests/store/driver.hpp"

namespace verbena::cluster {

class FakeEtcd final : public Surroundings {
 public:
  struct Post {
    std::string path;
    std::string header;
    std::string body;
  };
  /// All that is sent, as it is; then the connection is closed or stays.
  struct Reply {
    std::string bytes;
    bool closes = false;
  };
  using Answer = std::function<Reply(const Post& post)>;

  explicit FakeEtcd(Answer answer);

  /// "http://127.0.0.1:PORT"
  [[nodiscard]] const std::string& endpoint() const { return endpoint_; }
  [[nodiscard]] const std::vector<Post>& posts() const { return posts_; }
  /// How many posts went to this path.
  [[nodiscard]] std::size_t count(std::string_view path) const;
  void set_answer(Answer answer) { answer_ = std::move(answer); }
  /// Sends more over all connections.
  void say(std::string_view bytes);
  /// Ends all connections; nobody listens any more.
  void close();

  void add_descriptors(std::vector<pollfd>& wanted) const override;
  void poll(TimePoint now) override;

  /// A whole answer with a length.
  static Reply whole(int status, std::string_view body);
  /// The beginning of an answer in chunks, and one of them.
  static std::string chunks(std::string_view first);
  static std::string chunk(std::string_view bytes);
  /// The last one.
  static std::string last_chunk() { return "0\r\n\r\n"; }

 private:
  struct Connection {
    base::FileDescriptor socket;
    std::string heard;
    std::string unsent;
    std::size_t sent = 0;  ///< of it
    bool closes = false;
  };
  bool serve(Connection& connection);

  base::FileDescriptor listener_;
  std::string endpoint_;
  Answer answer_;
  std::list<Connection> connections_;
  std::vector<Post> posts_;
};

}  // namespace verbena::cluster
