// The measuring side: connections to a responder (responder.hpp), and the transport's operations over them.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/bench/backend.hpp"
#include "apps/bench/messages.hpp"
#include "apps/bench/report.hpp"

namespace verbena::apps::bench {

/// Every wait ends. If the other side is gone, or silent for kPatience, it ends with an error that names the
/// other side.
class Client {
 public:
  static constexpr std::chrono::seconds kPatience{10};
  /// How long to wait for the other side to listen.
  static constexpr std::chrono::seconds kConnectPatience{5};

  /// `bytes`: the size of the memory that each side opens to the other.
  static absl::StatusOr<std::unique_ptr<Client>> connect(const Backend& backend, const std::string& address,
                                                         std::size_t connections, std::size_t bytes);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // ---- what the other side does meanwhile
  absl::Status set_echo(Echo echo, std::size_t bytes);
  /// Starts the job's server with that rank. Returns its address, as a session expects it.
  absl::StatusOr<std::string> start_server(std::uint32_t workers, std::uint32_t rank = 0,
                                           std::uint32_t servers = 1);
  /// Starts the job's only server, and so many copies of it; returns the address of the one that serves.
  /// `shares_cores`: they have fewer cores than threads.
  absl::StatusOr<std::string> start_server_with_copies(std::uint32_t workers, std::uint32_t copies,
                                                       bool shares_cores);
  /// Returns how many bytes of what workers have said they had sent to copies.
  absl::StatusOr<std::uint64_t> stop_servers();
  /// How long each time that sparse tables on its servers grew took since the last call, to within 5 %.
  absl::StatusOr<Samples> pauses();
  absl::StatusOr<double> processor_nanoseconds();
  /// From now on the other side computes for so long, and takes no event meanwhile.
  absl::Status let_compute(std::chrono::milliseconds time);
  /// Returns the other side's answer, or the error that it reports.
  absl::StatusOr<Message> request(const Message& message, std::chrono::seconds patience = kPatience);

  // ---- one operation, from posting to its end
  /// A kRead or kWrite. Returns when it has completed.
  absl::Status complete(transport::Opcode opcode, std::size_t bytes);
  /// Returns when the answer has arrived: a round trip. REQUIRES: set_echo() of that kind and size.
  absl::Status notify_and_back(std::size_t bytes);
  absl::Status write_and_back(std::size_t bytes);
  /// Posts one-sided reads of parts of the other side's memory together. Returns when all have completed.
  absl::Status read_rows(std::span<const std::uint64_t> keys, std::size_t row_bytes);

  /// Keeps `depth` requests under way on each connection for about `seconds`. They are posted up to `batch`
  /// at a time and all use the same memory, as perftest's requests do.
  absl::StatusOr<Stream> stream(transport::Opcode opcode, std::size_t bytes, std::size_t depth,
                                std::size_t batch, double seconds);

  [[nodiscard]] const std::string& address() const { return address_; }

 private:
  struct Link;

  explicit Client(std::string address);
  absl::Status open(const Backend& backend, std::size_t connections, std::size_t bytes);
  absl::Status introduce(Link& link, std::size_t bytes);
  absl::Status send(Link& link, const Message& message);
  absl::StatusOr<Message> request(Link& link, const Message& message, std::chrono::seconds patience);
  absl::Status post(Link& link, const transport::WorkRequest& request);
  [[nodiscard]] transport::WorkRequest transfer(const Link& link, transport::Opcode opcode,
                                                std::size_t bytes) const;
  void poll();
  template <class Condition>
  absl::Status poll_until(const Condition& condition, std::chrono::seconds patience = kPatience);
  absl::Status silent(std::chrono::seconds patience) const;

  std::string address_;
  std::unique_ptr<transport::Transport> transport_;
  Memory memory_;
  std::vector<std::unique_ptr<Link>> links_;
  absl::Status status_;
  std::array<transport::Event, 32>
      events_;                  ///< of one poll(); making them anew would cost more than the poll
  std::uint64_t sequence_ = 0;  ///< of write_and_back()
};

}  // namespace verbena::apps::bench
