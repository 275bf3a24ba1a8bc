// What a processor's work costs: the unit of a simulated job's time.
#pragma once

#include <array>
#include <string_view>

namespace verbena::apps::scale {

/// Nanoseconds of one processor; below 0: not known.
struct Costs {
  double example = -1;             ///< worker: computing on one example
  double worker_row = -1;          ///< worker: pulling a cached row, pushing an update to it
  double received_row = -1;        ///< worker: taking in a row that was pushed eagerly
  double message = -1;             ///< either side: sending one or receiving one, whatever is in it
  double applied_row = -1;         ///< server: an update applied to its row
  double held_row = -1;            ///< server: keeping an update for later
  double pushed_row = -1;          ///< server: a row gathered for an eager push to one worker
  double advance_per_worker = -1;  ///< server: an advance of the min clock by one, for each worker of the job
  double turn_per_worker = -1;     ///< server: a turn in which there was work, for each worker of the job
};

struct CostField {
  std::string_view name;  ///< as in --applied-row-ns
  std::string_view what;
  double Costs::*value;
};
inline constexpr std::array<CostField, 9> kCostFields = {{
    {"example", "a worker's computing on one example", &Costs::example},
    {"worker-row", "a worker's pulling a cached row and pushing an update to it", &Costs::worker_row},
    {"received-row", "a worker's taking in an eagerly pushed row", &Costs::received_row},
    {"message", "sending or receiving a message, at either side", &Costs::message},
    {"applied-row", "a server's applying an update to its row", &Costs::applied_row},
    {"held-row", "a server's keeping an update until the clock has ended", &Costs::held_row},
    {"pushed-row", "a server's gathering a row for one worker", &Costs::pushed_row},
    {"advance-per-worker", "an advance of the min clock at a server, for each worker of the job",
     &Costs::advance_per_worker},
    {"turn-per-worker", "a turn of a server that had work, for each worker of the job",
     &Costs::turn_per_worker},
}};

[[nodiscard]] bool all_known(const Costs& costs);

}  // namespace verbena::apps::scale
