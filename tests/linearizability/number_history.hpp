// Checks linearizability (Herlihy & Wing, 1990) of one number of one key: is there one order of all
// synchronous operations on it that agrees with time and explains every pull?
//
// To find such an order takes exponential time in general: Wing & Gong (1993) search, Lowe (2017) remembers
// what was searched. It is easy if each read names the writes that it has seen (Gibbons & Korach, 1997).
// Pushes can be chosen so that their sum names them: each worker has some bits of the number to itself, and
// each of its pushes adds one there (Digits). So what a pull returns says how many pushes of each worker it
// holds. This also says which ones, because a worker's pushes take effect in the order in which they begin.
// One operation comes before another if it had ended when the other began. An order exists if and only if
//
// 1. no pull misses a push that comes before it, and no pull holds a push that it comes before;
// 2. no pull holds a push and misses another push that comes before that one;
// 3. of any two pulls, one holds all that the other holds;
// 4. a pull that comes before another one does not hold more.
//
// Each condition is clearly necessary. Together they are sufficient: order the pulls by what they hold (3).
// Put each push directly before the first pull that holds it, or at the end if none does. Operations at the
// same place (pushes, or pulls that hold the same) stay in the order of time. Then no operation comes before
// one at an earlier place: of two pushes because of (2), of a push and a pull because of (1), of two pulls
// because of (4). So this order agrees with time. The check takes O(n log n).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace verbena::linearizability {

/// A time of any clock or counter that all workers share. One operation had ended when another began if its
/// time is smaller.
using Time = std::uint64_t;

/// Which bits of the number belong to which worker.
class Digits {
 public:
  /// `bits`: how many bits the number's type holds exactly, for example 24 for a float and 31 for an int32;
  /// at most 53. REQUIRES: at least two bits for each worker.
  Digits(std::uint32_t workers, int bits);

  [[nodiscard]] std::uint32_t workers() const { return workers_; }
  /// What each push of a worker adds.
  [[nodiscard]] double update(std::uint32_t worker) const;
  /// How many pushes a worker may make. Its bits can count twice as many: if pushes are applied twice, the
  /// other workers' bits are still right, and the right worker is blamed.
  [[nodiscard]] std::uint64_t most_pushes() const { return largest_digit_ / 2; }
  /// How many pushes of each worker a number holds; nothing if no sum of pushes gives this number.
  [[nodiscard]] std::optional<std::vector<std::uint64_t>> pushes_in(double number) const;

 private:
  std::uint32_t workers_;
  int bits_of_each_;
  std::uint64_t largest_digit_;
};

class NumberHistory {
 public:
  explicit NumberHistory(const Digits& digits) : digits_(digits), pushes_(digits.workers()) {}

  [[nodiscard]] const Digits& digits() const { return digits_; }

  /// A worker begins to push its update. Its pushes take effect in the order of these calls. REQUIRES: the
  /// times of one worker's pushes do not decrease; it has made fewer than digits().most_pushes().
  void begin_push(std::uint32_t worker, Time now);
  /// All pushes that the worker has begun have ended. A push whose end is never reported may take effect at
  /// any time after its beginning, or never.
  void end_pushes(std::uint32_t worker, Time now);
  /// A pull that has ended. A pull that never ends need not be reported.
  void add_pull(std::uint32_t worker, Time begun, Time ended, double number);

  [[nodiscard]] std::size_t pushes_begun(std::uint32_t worker) const { return pushes_[worker].size(); }

  /// Nothing if there is such an order. Otherwise what is wrong with the pull that leaves no order, the first
  /// by the time of its end.
  [[nodiscard]] std::optional<std::string> violation() const;

 private:
  static constexpr Time kNever = UINT64_MAX;

  struct Push {
    Time begun = 0;
    Time ended = kNever;
  };
  struct Pull {
    std::uint32_t worker = 0;
    Time begun = 0;
    Time ended = 0;
    double number = 0;
    std::vector<std::uint64_t> holds;  ///< how many pushes, by worker
    std::uint64_t size = 0;            ///< how many pushes of all workers
  };
  /// The worker's push with this index, from 0.
  struct PushName {
    std::uint32_t worker = 0;
    std::uint64_t index = 0;
  };

  [[nodiscard]] const Push& push(const PushName& name) const { return pushes_[name.worker][name.index]; }
  /// How the pull violates (1) or (2).
  [[nodiscard]] std::optional<std::string> wrong_by_itself(const Pull& pull) const;
  /// Whether (3) and (4) hold.
  [[nodiscard]] static bool are_in_a_row(std::vector<const Pull*> pulls);
  /// How the pull violates (3) or (4) together with another one, which had ended before.
  [[nodiscard]] static std::optional<std::string> wrong_beside(const Pull& pull, const Pull& other);

  Digits digits_;
  std::vector<std::vector<Push>> pushes_;  ///< by worker
  std::vector<Pull> pulls_;
};

}  // namespace verbena::linearizability
