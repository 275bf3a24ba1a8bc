#include "job/starters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/decimal.hpp"

namespace verbena::job {
namespace {

/// A program that starts many processes and tells each how many there are. If it neither speaks PMIx nor says
/// where they meet, each process would be a whole job, and all would write the same files.
struct Starter {
  const char* rank;  ///< the environment variable; nullptr: none that counts all processes
  const char* size;
  const char* name;
  const char* remedy;
};
constexpr const char* kElse = "it does not speak PMIx; mpirun of Open MPI and srun --mpi=pmix do";
constexpr const char* kPals = "it needs --pmi=pmix";
/// torchrun is what another one of them may have started; Slurm, Flux and PALS also set variables of those
/// after them.
constexpr Starter kStarters[] = {
    {"RANK", "WORLD_SIZE", "torchrun or alike", "MASTER_ADDR and MASTER_PORT, where rank 0 is, are not set"},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "srun", "it needs --mpi=pmix"},
    {"FLUX_TASK_RANK", "FLUX_JOB_SIZE", "flux run",
     "it needs -o pmi=pmix (the plugin flux-pmix), or mpirun inside of flux alloc"},
    {"PALS_RANKID", "PALS_SIZE", "mpiexec of Cray PALS", kPals},
    {nullptr, "PALS_LOCAL_SIZE", "mpiexec of Cray PALS", kPals},  // the only one that older versions set
    {"JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "jsrun",
     "it needs its own PMIx, which --smpiargs=\"off\" takes away"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "mpirun", "this Open MPI was built without PMIx"},
    {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MVAPICH's mpirun", kElse},
    {"PMI_RANK", "PMI_SIZE", "mpiexec (of MPICH, Intel MPI or alike)", kElse},
    {nullptr, "MPI_LOCALNRANKS", "mpiexec (of MPICH, Intel MPI or alike)", kElse},
};

struct Started {
  const Starter* by;
  std::uint32_t processes;
};

bool is_torchrun(const Starter& starter) {
  return std::string_view(starter.size) == "WORLD_SIZE";
}

std::optional<Started> started_by(const Starter& starter, const Environment& variable) {
  const char* const text = variable(starter.size);
  const auto processes = base::parse_decimal<std::uint32_t>(text == nullptr ? "" : text);
  if (!processes || *processes <= 1) return std::nullopt;
  // The names are such that others may use them, too.
  if (is_torchrun(starter) && variable(starter.rank) == nullptr) return std::nullopt;
  return Started{&starter, *processes};
}

std::optional<Started> started_together(const Environment& variable) {
  for (const Starter& starter : kStarters) {
    if (const std::optional<Started> started = started_by(starter, variable)) return started;
  }
  return std::nullopt;
}

}  // namespace

std::optional<StartedAs> started_as(const Environment& variable) {
  std::optional<Started> started = started_together(variable);
  if (!started) return std::nullopt;
  // Where srun has started the proxies of an mpiexec, its variables count those.
  if (!is_torchrun(*started->by)) {
    const auto is_pmi = [](const Starter& each) { return std::string_view(each.size) == "PMI_SIZE"; };
    if (const auto pmi = started_by(*std::ranges::find_if(kStarters, is_pmi), variable)) started = pmi;
  }
  const char* const text = started->by->rank == nullptr ? nullptr : variable(started->by->rank);
  return StartedAs{.rank = base::parse_decimal<std::uint32_t>(text == nullptr ? "" : text),
                   .processes = started->processes};
}

absl::Status check_started_apart(const Environment& variable) {
  const std::optional<Started> started = started_together(variable);
  if (variable("PMIX_RANK") != nullptr || !started) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{} has started {} processes that cannot find each other: {}; or say where they meet, with "
                  "--rendezvous HOST:PORT (docs/cluster.md)",
                  started->by->name, started->processes, started->by->remedy));
}

absl::Status check_started_once(const Environment& variable) {
  const std::optional<Started> started = started_together(variable);
  if (!started) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "{} has started {} processes, each of which would do the whole work and write the same files: "
      "start one; of the commands only `verbena run` shares its work out",
      started->by->name, started->processes));
}

}  // namespace verbena::job
