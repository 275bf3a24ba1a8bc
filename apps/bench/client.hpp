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

/// Every wait ends: with an error that names the other side when that is gone, or silent for kPatience.
class Client {
 public:
  static constexpr std::chrono::seconds kPatience{10};
  /// How long the other side is waited for that does not listen yet.
  static constexpr std::chrono::seconds kConnectPatience{5};

  /// `bytes`: of the memory that each side opens to the other.
  static absl::StatusOr<std::unique_ptr<Client>> connect(const Backend& backend, const std::string& address,
                                                         std::size_t connections, std::size_t bytes);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // ---- what the other side does meanwhile
  absl::Status set_echo(Echo echo, std::size_t bytes);
  /// Of a job's servers the one with that rank. Its address, as a session wants it.
  absl::StatusOr<std::string> start_server(std::uint32_t workers, std::uint32_t rank = 0,
                                           std::uint32_t servers = 1);
  absl::Status stop_servers();
  absl::StatusOr<double> processor_nanoseconds();
  /// Its answer, or the error that it tells.
  absl::StatusOr<Message> request(const Message& message, std::chrono::seconds patience = kPatience);

  // ---- one operation, from posting to its end
  /// kRead or kWrite, until completed.
  absl::Status complete(transport::Opcode opcode, std::size_t bytes);
  /// Until the answer has arrived: a round trip. REQUIRES: set_echo() of that kind and size.
  absl::Status notify_and_back(std::size_t bytes);
  absl::Status write_and_back(std::size_t bytes);
  /// One-sided reads of parts of the other side's memory, posted together, until all have completed.
  absl::Status read_rows(std::span<const std::uint64_t> keys, std::size_t row_bytes);

  /// For about `seconds`: `depth` requests under way on each connection, posted by up to `batch`, all on the
  /// same memory as perftest's are.
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
