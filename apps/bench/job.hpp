// A server on the other side, and its workers here: what tables are measured with.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/bench/backend.hpp"
#include "apps/bench/client.hpp"
#include <verbena/session.hpp>

namespace verbena::apps::bench {

/// Its workers are driven by the thread that starts it, unless another one takes a session over
/// (Session::take_over()). Must not outlive the client; the destructor ends the servers.
class Job {
 public:
  /// Of a session's waits, for the server or the other worker.
  static constexpr std::uint32_t kTimeoutMs = 10'000;

  /// `gathers`: rows of sparse tables from afar are gathered by the server, however few, not read one by one.
  static absl::StatusOr<std::unique_ptr<Job>> start(const Backend& backend, Client& client, ReadPath path,
                                                    std::uint32_t workers = 1, std::uint32_t servers = 1,
                                                    bool gathers = false);
  /// With one worker, and one server that has so many copies. `shares_cores`: as for Client.
  static absl::StatusOr<std::unique_ptr<Job>> start_with_copies(const Backend& backend, Client& client,
                                                                std::uint32_t copies, bool shares_cores);
  ~Job();
  /// Ends it, and returns how many bytes servers had sent to copies. Sessions are gone then.
  absl::StatusOr<std::uint64_t> end();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  [[nodiscard]] Session& session(std::uint32_t rank = 0) { return *sessions_[rank]; }

 private:
  explicit Job(Client& client) : client_(client) {}
  Client& client_;
  bool has_ended_ = false;
  std::vector<std::unique_ptr<Session>> sessions_;
};

}  // namespace verbena::apps::bench
