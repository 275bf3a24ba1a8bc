// Which keys of a sparse table get rows. More than half of the features of click-through data come once: rows
// for them take memory, and teach nothing.
//
//   always                   a key gets its row with the first push to it; the usual choice
//   count(least=2)           with the second, third, … push to it, at most the 255th
//   probability(p=0.1)       with each push with that probability
//
// Pushes to a key before it has its row are dropped, and it reads as its initial values. What a worker pushes
// to a key until it travels, mostly in a clock, is one push. Counts are estimates (count_min.hpp): some keys
// get their rows sooner, none later. Whether a push admits a key by probability depends on the table's seed,
// the key, the worker and its clock, so that it does not depend on servers and lanes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "protocol/count_min.hpp"
#include <verbena/keys.hpp>

namespace verbena::protocol {

inline constexpr std::string_view kAdmitAlways = "always";

/// Who pushes, and when.
struct PushOrigin {
  std::uint32_t worker = 0;
  std::int64_t clock = 0;
};

/// One of these choices. A small value, to be copied.
class AdmissionRule {
 public:
  /// Always.
  AdmissionRule() = default;
  /// INVALID_ARGUMENT: the text is none of the above.
  static absl::StatusOr<AdmissionRule> find(std::string_view text, std::uint64_t seed);

  [[nodiscard]] bool admits_all() const { return least_ == 1 && probability_ == 1; }
  [[nodiscard]] std::uint32_t least() const { return least_; }
  /// What `probability` says about a push.
  [[nodiscard]] bool draws(Key key, const PushOrigin& origin) const;

 private:
  std::uint32_t least_ = 1;
  double probability_ = 1;
  std::uint64_t seed_ = 0;
};

/// The rule at work on some of a table's keys. Each of the 4,096 parts that keys are divided into by their
/// hashes has a sketch of its own, so that what a key's count is does not depend on servers and lanes. Thread
/// safety: none; one owner.
class Admission {
 public:
  /// `expected`: how many keys the whole table will have, as far as that is known; any number is right. If
  /// more come, it takes more memory, in steps that double.
  Admission(const AdmissionRule& rule, std::uint64_t expected);

  /// There is another push to a key without a row; true: it gets one.
  [[nodiscard]] bool admits(Key key, const PushOrigin& origin) {
    return rule_.admits_all() || (!parts_.empty() ? count(key) : rule_.draws(key, origin));
  }
  /// For what it has counted.
  [[nodiscard]] std::size_t bytes() const;

  /// All that it has counted, for a checkpoint; empty if the rule does not count.
  [[nodiscard]] std::vector<std::byte> save() const;
  /// Goes on from what save() has returned, as far as it is about keys of `parts` (by KeyHash::part()); it
  /// may have been another server's. Does nothing if the rule does not count. INVALID_ARGUMENT: save() has
  /// not written it. Throws std::bad_alloc.
  absl::Status load(std::span<const std::byte> saved, KeyRange parts);

 private:
  [[nodiscard]] bool count(Key key);

  AdmissionRule rule_;
  std::uint32_t counter_bits_ = 8;  ///< enough for a count of one less than the rule's
  struct Part {
    /// A key's count is the sum of its counts in all of them. Only the last one counts on; it has twice as
    /// many lines as the one before. (One that grew by copying its lines would keep their errors, too.)
    std::vector<CountMin> counts;
    std::uint64_t keys = 0;  ///< that the last one has, nearly
  };
  std::uint32_t first_shift_ = 0;  ///< lines of a part's first sketch, as a power of two
  std::vector<Part> parts_;        ///< by KeyHash::part(); empty: the rule does not count
};

}  // namespace verbena::protocol
