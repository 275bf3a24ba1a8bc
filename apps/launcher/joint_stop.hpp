// How rank 0 finds the iteration after which all workers of a job over several hosts end, and save. It tells
// the processes of workers to hold, and each answers what its workers have begun (StopGate): since none of
// them begins another one meanwhile, the largest is what nobody is beyond, and everybody can reach.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <variant>
#include <vector>

#include "job/child_message.hpp"

namespace verbena::apps {

/// Thread safety: belongs to one thread at a time.
class JointStop {
 public:
  using Clock = std::chrono::steady_clock;
  /// All answers come from threads that do not train.
  static constexpr std::chrono::seconds kPatience{10};

  /// All end when they have saved this one.
  struct EndsAfter {
    std::int64_t iteration = 0;
  };
  /// A worker has trained to the end: so do the others.
  struct IsTooLate {};
  /// No worker has begun to train.
  struct HasNotBegun {};
  /// The process of that rank does not answer.
  struct IsUnanswered {
    std::uint32_t rank = 0;
  };
  using Decision = std::variant<EndsAfter, IsTooLate, HasNotBegun, IsUnanswered>;

  /// `ranks`: of the processes of workers.
  explicit JointStop(const std::vector<std::uint32_t>& ranks);

  /// Somebody wants all to end, because of this signal. False: that was known.
  bool want(int signal, Clock::time_point now);
  [[nodiscard]] bool is_wanted() const { return signal_ != 0; }
  /// It is open whether all end together, or decided that they do.
  [[nodiscard]] bool is_under_way() const { return is_wanted() && (!is_decided_ || end_); }
  /// That signal; 0: nobody wants it.
  [[nodiscard]] int wanted_by() const { return signal_; }
  /// That process is to hold, and has not answered.
  [[nodiscard]] bool asks(std::uint32_t rank) const;
  void take(std::uint32_t rank, const job::HeldMessage& answer);
  /// That process has trained to the end.
  void finish(std::uint32_t rank);
  /// To be called after each change, and now and then; nullopt: it is open still, or was decided before.
  [[nodiscard]] std::optional<Decision> decide(Clock::time_point now);

  /// The signal because of which all end together; 0: they do not.
  [[nodiscard]] int ended_by() const { return end_ ? signal_ : 0; }
  /// After which iteration, for one that comes when that is decided.
  [[nodiscard]] std::optional<std::int64_t> end() const { return end_; }

 private:
  std::map<std::uint32_t, std::optional<job::HeldMessage>> answers_;  ///< by rank
  int signal_ = 0;
  Clock::time_point since_;
  bool is_decided_ = false;
  std::optional<std::int64_t> end_;
};

}  // namespace verbena::apps
