// The program `verbena`: which applications and subcommands there are.
#include "apps/verbena/bench_command.hpp"
#include "apps/verbena/commands.hpp"
#include "apps/verbena/doctor_command.hpp"
#include "apps/verbena/experiment_command.hpp"
#include "apps/verbena/generate_command.hpp"

int main(int argc, char** argv) {
  using namespace verbena::apps;
  return verbena_main(argc, argv, make_applications(),
                      {
                          add_generate_command,
                          add_experiment_command,
                          add_bench_command,
                          add_doctor_command,
                      });
}
