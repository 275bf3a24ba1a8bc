// A pull of narrow rows from afar: the servers put them into a message for each lane (the server function
// "gather"), where reads would be many times larger on the wire than what they bring.
//
// A lane takes a worker's messages in their order, so what it says has all updates that the worker has sent
// before it asked. If the worker has sent others since, it asks again.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "worker/fixed/function_call.hpp"
#include "worker/fixed/pull_ways.hpp"
#include "worker/operation.hpp"

namespace verbena::worker {

class SparseTable;

class GatherPull final : public Operation {
 public:
  /// Of rows of more bytes, a result may not have room for one.
  static constexpr std::size_t kMostRowBytes = kMaxFunctionResults / 2 * sizeof(Key);

  /// Pulls the keys from the index `next` on. `trip`: if how long it takes is to be known. REQUIRES: rows of
  /// at most kMostRowBytes
  GatherPull(SparseTable& table, const Keys& of, std::size_t next, std::byte* out,
             const std::optional<PullWays::Trip>& trip);

  [[nodiscard]] bool must_end_before(Milestone milestone) const override {
    return milestone == Milestone::kClock;  // as FixedPull
  }
  [[nodiscard]] std::string other_wait() const override;
  void on_lost_server(const ServerLink& link) override {
    if (call_ != nullptr) call_->on_lost_server(link);
    trip_.reset();
  }

 private:
  bool advance() override;
  bool ask();
  void take_answers(const FunctionCallOperation& call);
  void take(const FunctionCallOperation::Answer& answer);

  SparseTable& table_;
  std::byte* const out_;
  std::vector<std::size_t> open_;                ///< indexes in `keys` of those that are not pulled
  std::shared_ptr<FunctionCallOperation> call_;  ///< that asks for open_; nullptr: to be made
  bool asks_for_rows_ = false;                   ///< where they are, which is then remembered
  std::optional<PullWays::Trip> trip_;
};

}  // namespace verbena::worker
