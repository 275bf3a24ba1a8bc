#include "apps/embedding/embedding_application.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>

#include "apps/embedding/clocks_option.hpp"
#include "apps/enough_memory.hpp"
#include "apps/options/numbers.hpp"
#include "base/return_if_error.hpp"
#include "consistency/model.hpp"

namespace verbena::apps {
namespace {

constexpr std::int64_t kMostOfStatic = 1;  ///< the maximum of --lookahead for static rows, and its default

}  // namespace

void EmbeddingApplication::add_fetch_options(CLI::App& command) {
  // A move takes some messages in both directions, and continues while mini-batches are trained.
  add_fetch_options(
      command,
      {.help =
           "mini-batches whose rows are asked for ahead; 0: each is pulled, trained and pushed before the "
           "next, one step at a time; 1: its rows are pulled while the one before it is trained; more: "
           "rows that move set out so much earlier",
       .usual = 4,
       .most = 1'000});
}

void EmbeddingApplication::add_fetch_options(CLI::App& command, const Lookahead& of_moving) {
  of_moving_ = of_moving;
  allocation().add(command);
  std::string help = fmt::format("{}. Default: {}", of_moving.help, kMostOfStatic);
  if (of_moving.usual != kMostOfStatic) help += fmt::format(", {} where rows move", of_moving.usual);
  add_number(command, "--lookahead", lookahead_, help)->type_name("N");
}

void EmbeddingApplication::add_barrier_option(CLI::App& command) {
  add_number(command, "--barrier-every", barrier_every_,
             "under asp, sequential and vap, which let workers drift apart: iterations after which all "
             "wait for one another, so that the slowest does not train the last ones alone; 0: never")
      ->capture_default_str();
}

std::int64_t EmbeddingApplication::barrier_every(const ConsistencyModel& consistency) const {
  return consistency::rules_of(consistency).lets_workers_drift() ? barrier_every_ : 0;
}

absl::Status EmbeddingApplication::check_common_options() const {
  if (barrier_every_ < 0) {
    return absl::InvalidArgumentError(
        fmt::format("--barrier-every: expected 0 or more, found {}", barrier_every_));
  }
  RETURN_IF_ERROR(allocation().parsed().status());
  const std::int64_t most = rows_move() ? of_moving_.most : kMostOfStatic;
  if (!lookahead_ || (*lookahead_ >= 0 && *lookahead_ <= most)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("--lookahead: expected 0 to {} with --allocation {}, found {}", most, allocation().name(),
                  *lookahead_));
}

FetchOptions EmbeddingApplication::fetch_options() const {
  const std::int64_t usual = rows_move() ? of_moving_.usual : kMostOfStatic;
  return {.allocation = allocation().value(),
          .lookahead = static_cast<std::size_t>(lookahead_.value_or(usual))};
}

std::optional<std::string> EmbeddingApplication::chosen(std::string_view option) const {
  if (option == "lookahead" && job_shape() && allocation().parsed().ok())
    return std::to_string(fetch_options().lookahead);
  return AllocatingApplication::chosen(option);
}

bool EmbeddingApplication::leaves_open(std::string_view option) const {
  if (option == "lookahead") return !lookahead_.has_value();
  return AllocatingApplication::leaves_open(option);
}

std::vector<ChoiceOption> EmbeddingApplication::choices() const {
  // Of intents each mini-batch is a clock.
  if (allocation().parsed().ok() && allocation().value() == RowAllocation::kIntent)
    return {{"allocation"}, {"lookahead"}, {"batch"}};
  return {{"allocation"}, {"lookahead"}, {ClocksOption::kName, ClocksOption::kInSummary}, {"batch"}};
}

absl::Status EmbeddingApplication::check(std::uint32_t workers) {
  RETURN_IF_ERROR(check_common_options());
  RETURN_IF_ERROR(check_options());
  return with_enough_memory(needs_less_memory(), [&] { return check_data(workers); });
}

absl::Status EmbeddingApplication::run_worker(WorkerContext& context) const {
  RETURN_IF_ERROR(check_common_options());
  RETURN_IF_ERROR(check_options());
  return with_enough_memory(needs_less_memory(), [&] { return train_as_worker(context); });
}

absl::StatusOr<std::unique_ptr<ReadAhead>> EmbeddingApplication::read_ahead(std::uint32_t worker,
                                                                            std::uint32_t workers,
                                                                            Reporter& reporter) const {
  RETURN_IF_ERROR(check_common_options());
  RETURN_IF_ERROR(check_options());
  std::unique_ptr<ReadAhead> read;
  RETURN_IF_ERROR(with_enough_memory(needs_less_memory(), [&] {
    absl::StatusOr<std::unique_ptr<ReadAhead>> data = read_data(worker, workers, reporter);
    if (!data.ok()) return data.status();
    read = *std::move(data);
    return absl::OkStatus();
  }));
  return read;
}

absl::Status EmbeddingApplication::run_baseline(BaselineContext& context) const {
  RETURN_IF_ERROR(check_common_options());
  RETURN_IF_ERROR(check_options());
  return with_enough_memory(needs_less_memory(), [&] { return train_alone(context); });
}

}  // namespace verbena::apps
