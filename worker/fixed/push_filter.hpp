// What of a clock's updates travels at its end, and what is kept back: whole rows, or what their values lose
// when they are rounded (Li et al., OSDI'14, section 3.5; error feedback: Karimireddy et al., ICML'19). What
// is kept back waits in a buffer of its own for the next updates of its rows, which are added to it, and
// where its worker sees it; so nothing is lost. Only rows that were pushed to in the clock are looked at: so
// what a filter costs does not grow with what it has kept. protocol/filter_rule.hpp has the choices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "consistency/rules.hpp"
#include "protocol/filter_rule.hpp"
#include "worker/fixed/update_buffer.hpp"
#include "worker/row_layout.hpp"

namespace verbena::worker {

/// Thread safety: none; belongs to its table.
class PushFilter {
 public:
  /// `worker`: whose updates they are; each draws for itself.
  PushFilter(const protocol::FilterRule& rule, std::uint32_t worker) : rule_(rule), worker_(worker) {}

  [[nodiscard]] bool sends_all() const { return rule_.sends_all(); }
  [[nodiscard]] bool rounds() const { return rule_.rounding != protocol::FilterRule::Rounding::kNone; }
  /// `current`, the updates of a clock, becomes what travels of them and of what was kept back of their rows;
  /// the rest is in `kept`. Returns how many rows are kept back of those that `current` had; nullopt: memory
  /// is short.
  std::optional<std::uint32_t> select(UpdateBuffer& current, UpdateBuffer& kept, const RowLayout& layout,
                                      consistency::Clock clock);
  /// `current` becomes all of them. False: memory is short.
  static bool take_all(UpdateBuffer& current, UpdateBuffer& kept, const RowLayout& layout);

 private:
  std::optional<std::uint32_t> try_to_select(UpdateBuffer& current, UpdateBuffer& kept,
                                             const RowLayout& layout, consistency::Clock clock);
  /// False: memory is short.
  [[nodiscard]] bool round(UpdateBuffer& current, UpdateBuffer& kept, const RowLayout& layout);
  void mark_small(const UpdateBuffer& current, const RowLayout& layout);
  void mark_largest(std::size_t count);
  void mark(const UpdateBuffer& current, const RowLayout& layout, consistency::Clock clock);

  protocol::FilterRule rule_;
  std::uint32_t worker_;
  std::vector<bool> travels_;        ///< by record
  float scale_ = 0;                  ///< values are rounded to multiples of it; 0: they are not
  std::vector<std::byte> residual_;  ///< scratch
  std::vector<double> sizes_;        ///< scratch
  std::vector<double> sorted_;
};

}  // namespace verbena::worker
