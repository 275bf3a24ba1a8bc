// The rendezvous of processes that one launcher has started: each process has a socket to the launcher. First
// the launcher sends the job's secret (secret_handover.hpp), and {"rank": r, "size": n}; then they speak as
// fence_board.hpp has it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "job/fence_board.hpp"
#include "job/line_stream.hpp"
#include "job/rendezvous.hpp"
#include "transport/secret.hpp"

namespace verbena::job {

/// A process's end.
class EmbeddedRendezvous : public Rendezvous {
 public:
  /// Takes ownership of the descriptor and waits for the launcher's first words. UNAVAILABLE if the launcher
  /// is gone, INVALID_ARGUMENT for words that no launcher says.
  static absl::StatusOr<std::unique_ptr<EmbeddedRendezvous>> join(int descriptor);
  ~EmbeddedRendezvous() override;

  absl::Status put(const std::string& key, const std::string& value) override;
  /// Also INVALID_ARGUMENT, for messages that no launcher sends.
  absl::Status fence(std::chrono::milliseconds patience, const Stopped& stopped) override;
  absl::StatusOr<std::string> get(std::uint32_t rank, const std::string& key) override;

  /// The job's secret.
  [[nodiscard]] std::shared_ptr<const transport::Secret> secret() const override { return secret_; }

 private:
  EmbeddedRendezvous(int descriptor, std::uint32_t rank, std::uint32_t size,
                     std::shared_ptr<const transport::Secret> secret);

  const int descriptor_;
  const std::shared_ptr<const transport::Secret> secret_;
  LineStream lines_;
  FenceNotes notes_;
};

/// The launcher's end. It never waits for a process.
class RendezvousHost {
 public:
  /// `size`: how many processes will be added. `told_ranks`: tell() will be called for ranks below it.
  RendezvousHost(std::uint32_t size, std::shared_ptr<const transport::Secret> secret,
                 std::uint32_t told_ranks = 0)
      : told_size_(std::max(size, told_ranks)), secret_(std::move(secret)), board_(size) {}
  ~RendezvousHost();
  RendezvousHost(const RendezvousHost&) = delete;
  RendezvousHost& operator=(const RendezvousHost&) = delete;

  /// Returns the socket end of the next process. That process inherits it; the caller must close its own
  /// copy. One that comes beyond `size` gets the secret, and once all others have met, at its first fence
  /// what they have told one another at theirs; it meets nobody.
  absl::StatusOr<int> add();
  /// All have come to a fence.
  [[nodiscard]] bool have_met() const { return board_.have_met(); }

  /// Tells all processes, at the next fence, what process `rank` had put somewhere else.
  void tell(std::uint32_t rank, const std::string& key, const std::string& value) {
    board_.tell(rank, key, value);
  }

  /// The descriptor of a process, to be polled for POLLIN, and for POLLOUT if wants_to_write(); −1 if the
  /// process has gone.
  [[nodiscard]] int descriptor(std::size_t rank) const { return seats_[rank].descriptor; }
  [[nodiscard]] bool wants_to_write(std::size_t rank) const { return !seats_[rank].unsent.empty(); }
  [[nodiscard]] std::size_t size() const { return seats_.size(); }

  /// Does what can be done without waiting. INVALID_ARGUMENT if a process broke the rules.
  absl::Status serve();

 private:
  struct Seat {
    int descriptor = -1;
    LineStream lines;
    std::string unsent;
  };
  static void send(Seat& seat);

  const std::uint32_t told_size_;  ///< the size that the processes are told
  const std::shared_ptr<const transport::Secret> secret_;
  FenceBoard board_;
  std::deque<Seat> seats_;  ///< by rank
};

}  // namespace verbena::job
