// --allocation: whether the rows that an application trains stay in place or move (docs/allocation.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/word_copy.hpp"
#include <verbena/session.hpp>

namespace CLI {
class App;
}  // namespace CLI

namespace verbena::apps {

enum class RowAllocation : std::uint8_t {
  kStatic,    ///< rows stay on their server
  kLocalize,  ///< each worker localizes what it is about to train
  kIntent,    ///< each worker says what it is about to train, and when
};

/// Whether rows are held and trained in place (Table::hold()). Not under the thread sanitizer, which does not
/// know that kernels and samplers write them number by number.
inline constexpr bool kRowsAreHeld = !VERBENA_WORDS_ARE_ATOMIC;

/// The allocation with which the tables are made.
Allocation table_allocation(RowAllocation allocation);

/// The option. By default, "auto", the allocation follows from the consistency model: rows move under the
/// models that let them. If no model is given either, and all rows lie on one node, the model is the fastest
/// there: mostly one that lets rows move, so that they are trained where they lie instead of being copied.
/// (Several servers of one host could only hand rows to and fro.)
class AllocationOption {
 public:
  /// `of_one`, `of_several`: the fastest model for one worker, and for several that share one node.
  AllocationOption(ConsistencyModel of_one, ConsistencyModel of_several)
      : of_one_(of_one), of_several_(of_several) {}

  void add(CLI::App& command);
  /// Application::default_consistency(). `otherwise`: for rows that are not on one node.
  [[nodiscard]] std::string default_consistency(bool is_one_node, std::uint32_t workers,
                                                const std::string& otherwise) const;
  /// See Application::set_job_shape().
  void set_consistency(const ConsistencyModel& consistency);
  /// Application::leaves_open()
  [[nodiscard]] bool leaves_open() const { return was_auto_ || text_ == "auto"; }
  /// Application::chosen()
  [[nodiscard]] std::optional<std::string> chosen(std::string_view option) const;
  /// INVALID_ARGUMENT, in one line, if rows cannot be allocated in this way under that model.
  [[nodiscard]] absl::Status check(const ConsistencyModel& consistency) const;

  /// Of "auto", as long as there is no model: kStatic. INVALID_ARGUMENT if the option has no value that it
  /// may have.
  [[nodiscard]] absl::StatusOr<RowAllocation> parsed() const;
  /// REQUIRES: parsed() is OK.
  [[nodiscard]] RowAllocation value() const { return *parsed(); }
  [[nodiscard]] bool moves() const { return value() != RowAllocation::kStatic; }
  /// For messages.
  [[nodiscard]] std::string name() const;

 private:
  const ConsistencyModel of_one_;
  const ConsistencyModel of_several_;
  std::string text_ = "auto";
  bool was_auto_ = false;  ///< the model has decided it
};

}  // namespace verbena::apps
