// Members of an etcd cluster, on free ports of the loopback interface, in a folder that goes with them.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/temporary_folder.hpp"

namespace verbena::cluster {

class EtcdProcesses {
 public:
  EtcdProcesses() = default;
  /// Ends them.
  ~EtcdProcesses();
  EtcdProcesses(const EtcdProcesses&) = delete;
  EtcdProcesses& operator=(const EtcdProcesses&) = delete;

  /// Starts so many and waits until all of them follow one leader. NOT_FOUND says what to install.
  absl::Status start(std::size_t members);

  [[nodiscard]] std::string endpoint(std::size_t member) const;
  [[nodiscard]] std::vector<std::string> endpoints() const;
  /// Which member leads, as `asked` says.
  [[nodiscard]] absl::StatusOr<std::size_t> leader(std::size_t asked) const;
  void kill(std::size_t member);
  /// SIGSTOP, until all of its threads are stopped, and SIGCONT.
  void stop(std::size_t member) const;
  void go_on(std::size_t member) const;

  /// Forgets all changes before `revision`.
  [[nodiscard]] absl::Status compact(std::uint64_t revision) const;

 private:
  struct Member {
    pid_t pid = -1;
    std::uint16_t port = 0;
    std::uint16_t peer_port = 0;
  };
  absl::Status start_once();
  [[nodiscard]] bool is_ready() const;
  void end_all();

  verbena::testing::TemporaryFolder folder_;
  std::vector<Member> members_;
  int starts_ = 0;
};

/// What a server of 127.0.0.1 answers to a POST: everything after the header. UNAVAILABLE: it does not.
absl::StatusOr<std::string> http_post(std::uint16_t port, std::string_view path, std::string_view body);

}  // namespace verbena::cluster
