// What processes tell each other at a rendezvous that one of them, or their launcher, hosts.
//
// A process says {"put": key, "value": value} and {"fence": true}. When all have come to a fence, each hears
// what was put since the last fence, as {"rank": r, "key": key, "value": value}, and then {"go": true}. Each
// is one JSON object in a line of its own. What the other end has said is checked before it is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace verbena::job {

/// What a process puts.
struct FencePut {
  std::string key;
  std::string value;
};
/// Of a line that was parsed; nullopt: it says something else.
std::optional<FencePut> put_in(const nlohmann::json& line);
/// A process has come to a fence.
bool is_fence(const nlohmann::json& line);
/// A fence has ended.
bool is_go(const nlohmann::json& line);

/// A process's side. Thread safety: none.
class FenceNotes {
 public:
  explicit FenceNotes(std::uint32_t size) : size_(size) {}

  static std::string put_line(const std::string& key, const std::string& value);
  static std::string fence_line();

  /// Takes what the host has said. True at the end of a fence. INVALID_ARGUMENT for what no host says.
  absl::StatusOr<bool> take(std::string_view line);
  /// NOT_FOUND names the rank.
  [[nodiscard]] absl::StatusOr<std::string> get(std::uint32_t rank, const std::string& key) const;
  /// All that it has heard, and that a fence has ended, as the host has said it.
  [[nodiscard]] std::string lines() const;

 private:
  const std::uint32_t size_;
  std::map<std::pair<std::uint32_t, std::string>, std::string> values_;
};

/// The host's side. Thread safety: none.
class FenceBoard {
 public:
  /// `size`: so many processes meet, with ranks below it. One with a later rank meets nobody: it hears at its
  /// first fence what the others have told one another.
  explicit FenceBoard(std::uint32_t size) : size_(size), is_at_fence_(size, false) {}

  [[nodiscard]] std::uint32_t size() const { return size_; }

  /// Takes what a process has said. INVALID_ARGUMENT for what none says.
  absl::Status take(std::uint32_t rank, std::string_view line);
  /// All hear at the next fence what process `rank` has put somewhere else.
  void tell(std::uint32_t rank, const std::string& key, const std::string& value);

  /// If all are at a fence: what each of them is to hear, which ends it.
  std::optional<std::string> let_go();
  /// If the process, which is a late one, is at its fence, and the others have met: what it is to hear.
  std::optional<std::string> let_go_late(std::uint32_t rank);
  /// For one that comes when the others have met, in the place of one of them: what they have told one
  /// another, which ends its fence.
  [[nodiscard]] std::string let_go_late() const;
  /// This host is another one: the processes have met, and `said` is what they have told one another, as
  /// lines.
  void take_over(std::string said);
  /// One that comes late hears this, too.
  void tell_late(std::uint32_t rank, const std::string& key, const std::string& value);
  [[nodiscard]] std::size_t news_bytes() const { return news_.size(); }
  /// All have come to a fence.
  [[nodiscard]] bool have_met() const { return have_met_; }
  [[nodiscard]] bool is_at_fence(std::uint32_t rank) const {
    return rank < is_at_fence_.size() && is_at_fence_[rank];
  }

 private:
  const std::uint32_t size_;
  std::vector<bool> is_at_fence_;  ///< by rank
  std::string news_;               ///< put since the last fence, as lines
  std::string said_;               ///< put before the last fence
  bool have_met_ = false;
};

}  // namespace verbena::job
