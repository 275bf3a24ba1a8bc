// Is there one order of all synchronous operations on one number, that agrees with time and explains every
// pull? That is linearizability (Herlihy & Wing, 1990), of one number of one key.
//
// To find such an order is exponential in general: Wing & Gong (1993) search, Lowe (2017) remembers what was
// searched. It is easy where each read names the writes that it has seen (Gibbons & Korach, 1997), and pushes
// can be chosen so that a sum of them does: each worker has some bits of the number to itself, and each of
// its pushes adds one there (Digits). What a pull returns then says how many pushes of each worker it holds,
// that is, which: a worker's pushes take effect in its order. Say that one operation comes before another if
// it had ended when the other began. An order exists if and only if
//
// 1. no pull misses a push that comes before it, nor holds one that it comes before;
// 2. no pull holds a push, and misses one that comes before that;
// 3. of two pulls one holds all that the other holds;
// 4. and it is not the one that comes before the other, unless they hold the same.
//
// Without each of these there is none, plainly. With all of them, pulls stand in a row by what they hold (3).
// Put each push right before the first of them that holds it, at the end if none does, and leave those that
// thus stand together in the order of time. No operation of a later place comes before one of an earlier
// place: two pushes because of (2), a push and a pull because of (1), two pulls because of (4). So this is
// the order. All of it is looked up in O(n log n).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace verbena::linearizability {

/// Of any clock or counter that all workers share. An operation has ended when another begins if its time is
/// smaller.
using Time = std::uint64_t;

/// Who adds what to the number.
class Digits {
 public:
  /// `bits` is what the number's type holds exactly: 24 of a float, 31 of an int32, 53 at most.
  /// REQUIRES: at least two for each worker.
  Digits(std::uint32_t workers, int bits);

  [[nodiscard]] std::uint32_t workers() const { return workers_; }
  /// What each push of a worker adds.
  [[nodiscard]] double update(std::uint32_t worker) const;
  /// How many pushes a worker may make. Twice as many would do no harm to the others' digits, so that what
  /// was applied twice is blamed on the right one.
  [[nodiscard]] std::uint64_t most_pushes() const { return largest_digit_ / 2; }
  /// The pushes that a number holds, by worker; nothing if no sum of them makes it.
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

  /// A worker begins to push its update. What it pushes takes effect in this order.
  /// REQUIRES: times of one worker's pushes do not go back; it has made fewer than digits().most_pushes().
  void begin_push(std::uint32_t worker, Time now);
  /// All pushes that the worker has begun have ended. One of which that is never said may take effect at any
  /// time after it has begun, or never.
  void end_pushes(std::uint32_t worker, Time now);
  /// A pull that has ended; one that never did needs no mention.
  void add_pull(std::uint32_t worker, Time begun, Time ended, double number);

  [[nodiscard]] std::size_t pushes_begun(std::uint32_t worker) const { return pushes_[worker].size(); }

  /// Nothing if there is such an order. Else what is wrong with the first pull to end that leaves none.
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
    std::vector<std::uint64_t> holds;  ///< pushes, by worker
    std::uint64_t size = 0;            ///< pushes of all workers
  };
  /// A worker's push of that index, from 0.
  struct PushName {
    std::uint32_t worker = 0;
    std::uint64_t index = 0;
  };

  [[nodiscard]] const Push& push(const PushName& name) const { return pushes_[name.worker][name.index]; }
  /// Of (1) and (2).
  [[nodiscard]] std::optional<std::string> wrong_by_itself(const Pull& pull) const;
  /// Of (3) and (4).
  [[nodiscard]] static bool are_in_a_row(std::vector<const Pull*> pulls);
  /// The same, between a pull and one that had ended when it ended.
  [[nodiscard]] static std::optional<std::string> wrong_beside(const Pull& pull, const Pull& other);

  Digits digits_;
  std::vector<std::vector<Push>> pushes_;  ///< by worker
  std::vector<Pull> pulls_;
};

}  // namespace verbena::linearizability
