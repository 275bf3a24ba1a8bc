// One whole job, simulated: real servers and sessions over the simulated transport, a random workload, every
// read checked. All of it is a function of the seed.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "transport/transport.hpp"

namespace verbena::simulation {

/// The model of the job's first table; further tables have random ones.
enum class Model : std::uint8_t {
  kBsp,
  kSsp,
  kEssp,
  kBoundedDelay,
  kAsp,
  kSequential,
  kVap,
  kABsp,
  kMoving,   ///< sequential, and its rows move
  kIntent,   ///< sequential or asp; rows move, and workers say what they will use
  kDeath,    ///< sequential; rows move, and the job outlives workers or a node that die
  kTrouble,  ///< of any kind, for up to 16 workers; what befalls the job is what it is about
};
inline constexpr std::array kModels = {
    Model::kBsp, Model::kSsp,  Model::kEssp,   Model::kBoundedDelay, Model::kAsp,   Model::kSequential,
    Model::kVap, Model::kABsp, Model::kMoving, Model::kIntent,       Model::kDeath, Model::kTrouble};
/// "bsp", "bounded-delay"…; INVALID_ARGUMENT for others.
absl::StatusOr<Model> parse_model(std::string_view name);
std::string_view to_string(Model model);
/// Likewise, without what a test's name may not have.
std::string test_name(Model model);

struct JobResult {
  std::optional<std::string> failure;  ///< what promise was broken; nothing if all were kept
  std::uint64_t numbers_checked = 0;   ///< in rows that were read
  std::uint64_t steps = 0;             ///< of all tasks
  std::uint64_t digest = 0;            ///< of the whole schedule: equal if two runs were
  transport::Duration time{0};         ///< virtual
  std::uint64_t final_rows = 0;        ///< digest of the tables at the end
  std::uint64_t ended_early = 0;       ///< iterations of a worker
  std::uint64_t rows_localized = 0;
  std::uint64_t rows_moved_by_intent = 0;
  std::uint64_t rows_replicated = 0;
  std::uint64_t replicas_used = 0;  ///< pulled or pushed
  std::uint64_t losses = 0;         ///< operations that ended since a row was lost with the dead
};

struct Scenario;
JobResult run_job(const Scenario& scenario, const std::function<void(const std::string&)>& trace = nullptr);
/// `trace`, if set, is told line by line what happens.
JobResult run_job(Model model, std::uint64_t seed,
                  const std::function<void(const std::string&)>& trace = nullptr);

}  // namespace verbena::simulation
