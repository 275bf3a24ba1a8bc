// What applications that train rows of numbers have in common.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/embedding/allocating_application.hpp"
#include "apps/embedding/row_store.hpp"

namespace verbena::apps {

class EmbeddingApplication : public AllocatingApplication {
 public:
  absl::Status check(std::uint32_t workers) final;
  absl::Status run_worker(WorkerContext& context) const final;
  absl::StatusOr<std::unique_ptr<ReadAhead>> read_ahead(std::uint32_t worker, std::uint32_t workers,
                                                        Reporter& reporter) const final;
  absl::Status run_baseline(BaselineContext& context) const final;
  [[nodiscard]] std::optional<std::string> chosen(std::string_view option) const override;
  [[nodiscard]] bool leaves_open(std::string_view option) const override;
  [[nodiscard]] std::vector<ChoiceOption> choices() const override;

 protected:
  using AllocatingApplication::AllocatingApplication;

  /// The option --lookahead: its help text, and its default and maximum if rows move.
  struct Lookahead {
    std::string_view help;
    std::int64_t usual = 1;
    std::int64_t most = 1;
  };
  /// Adds --allocation and --lookahead; the latter counts mini-batches.
  void add_fetch_options(CLI::App& command);
  void add_fetch_options(CLI::App& command, const Lookahead& of_moving);
  [[nodiscard]] bool rows_move() const { return allocation().moves(); }
  /// As given.
  [[nodiscard]] const std::optional<std::int64_t>& lookahead() const { return lookahead_; }
  /// REQUIRES: the options have been checked.
  [[nodiscard]] FetchOptions fetch_options() const;
  /// Adds --barrier-every.
  void add_barrier_option(CLI::App& command);
  /// See ScheduleOptions; 0 under models that bound by themselves how far workers drift apart.
  [[nodiscard]] std::int64_t barrier_every(const ConsistencyModel& consistency) const;

 private:
  /// Checks the application's own options; those that this class adds have been checked.
  virtual absl::Status check_options() const = 0;
  absl::Status check_common_options() const;
  /// See check(). REQUIRES: check_options() has returned OK.
  virtual absl::Status check_data(std::uint32_t workers) const = 0;
  /// As run_worker() and run_baseline(), but the options have been checked.
  virtual absl::Status train_as_worker(WorkerContext& context) const = 0;
  /// As read_ahead().
  virtual absl::StatusOr<std::unique_ptr<ReadAhead>> read_data(std::uint32_t /*worker*/,
                                                               std::uint32_t /*workers*/,
                                                               Reporter& /*reporter*/) const {
    return nullptr;
  }
  virtual absl::Status train_alone(BaselineContext& context) const = 0;
  /// What to change when memory has run out: "a smaller --dimension".
  [[nodiscard]] virtual std::string_view needs_less_memory() const = 0;

  std::optional<std::int64_t> lookahead_;
  Lookahead of_moving_;
  std::int64_t barrier_every_ = 5;
};

}  // namespace verbena::apps
