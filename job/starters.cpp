#include "job/starters.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <optional>

#include "base/decimal.hpp"

namespace verbena::job {
namespace {

/// A program that starts many processes and tells each how many there are. If it speaks another protocol than
/// PMIx, each process would be a whole job, and all would write the same files.
struct Starter {
  const char* size;  ///< the environment variable
  const char* name;
  const char* remedy;
};
constexpr const char* kElse =
    "it does not speak PMIx; mpirun of Open MPI and srun --mpi=pmix do (docs/cluster.md)";
constexpr const char* kPals = "it needs --pmi=pmix";
/// Slurm, Flux and PALS come first: they also set variables of the others.
constexpr Starter kStarters[] = {
    {"SLURM_STEP_NUM_TASKS", "srun", "it needs --mpi=pmix"},
    {"FLUX_JOB_SIZE", "flux run",
     "it needs -o pmi=pmix (the plugin flux-pmix), or mpirun inside of flux alloc"},
    {"PALS_SIZE", "mpiexec of Cray PALS", kPals},
    {"PALS_LOCAL_SIZE", "mpiexec of Cray PALS", kPals},  // the only one that older versions set
    {"JSM_NAMESPACE_SIZE", "jsrun", "it needs its own PMIx, which --smpiargs=\"off\" takes away"},
    {"OMPI_COMM_WORLD_SIZE", "mpirun", "this Open MPI was built without PMIx"},
    {"MV2_COMM_WORLD_SIZE", "MVAPICH's mpirun", kElse},
    {"PMI_SIZE", "mpiexec (of MPICH, Intel MPI or alike)", kElse},
    {"MPI_LOCALNRANKS", "mpiexec (of MPICH, Intel MPI or alike)", kElse},
};

struct Started {
  const Starter& by;
  std::uint32_t processes;
};

std::optional<Started> started_together(const Environment& variable) {
  for (const Starter& starter : kStarters) {
    const char* const text = variable(starter.size);
    const auto processes = base::parse_decimal<std::uint32_t>(text == nullptr ? "" : text);
    if (processes && *processes > 1) return Started{starter, *processes};
  }
  return std::nullopt;
}

}  // namespace

absl::Status check_started_apart(const Environment& variable) {
  const std::optional<Started> started = started_together(variable);
  if (variable("PMIX_RANK") != nullptr || !started) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("{} has started {} processes that cannot find each other: {}",
                                                started->by.name, started->processes, started->by.remedy));
}

absl::Status check_started_once(const Environment& variable) {
  const std::optional<Started> started = started_together(variable);
  if (!started) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "{} has started {} processes, each of which would do the whole work and write the same files: "
      "start one; of the commands only `verbena run` shares its work out",
      started->by.name, started->processes));
}

}  // namespace verbena::job
