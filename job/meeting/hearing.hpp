// What a process hears from rank 0 at a rendezvous over a network; rank 0 hears it from itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "job/fence_board.hpp"
#include "job/meeting/shared_end.hpp"
#include "job/peer_news.hpp"

namespace verbena::job {

/// Thread safety: none; whoever uses it has the lock of its Talk.
class Hearing {
 public:
  /// `end`: what becomes of this process. It must outlive this.
  Hearing(std::uint32_t size, SharedEnd& end) : end_(end), notes_(size) {}

  /// This process hears that (messages.hpp). What cannot be is trouble().
  void hear(std::string_view line);
  void hear_all(std::string_view lines);
  /// Somebody is gone who has not said that it ends.
  void lose(const std::string& why);

  void listen(PeerNews::Listener listener) { listener_ = std::move(listener); }
  [[nodiscard]] const PeerNews::Listener& listener() const { return listener_; }

  /// What was told at fences.
  [[nodiscard]] const FenceNotes& notes() const { return notes_; }
  [[nodiscard]] std::uint64_t fences_passed() const { return fences_passed_; }
  /// Why no fence can be passed any more.
  [[nodiscard]] const absl::Status& trouble() const { return trouble_; }
  /// Who has not come to the fence that is waited for, for people; empty: not known.
  [[nodiscard]] const std::string& missing() const { return missing_; }
  /// The rank that this process has got, if it joins, or has got another one's place.
  [[nodiscard]] std::optional<std::uint32_t> place() const { return place_; }
  [[nodiscard]] std::uint32_t incarnation() const { return incarnation_; }

 private:
  SharedEnd& end_;
  PeerNews::Listener listener_;
  FenceNotes notes_;
  std::uint64_t fences_passed_ = 0;
  absl::Status trouble_;
  std::string missing_;
  std::optional<std::uint32_t> place_;
  bool has_new_place_ = false;  ///< and has still to hear how many have had it before
  std::uint32_t incarnation_ = 0;
};

}  // namespace verbena::job
