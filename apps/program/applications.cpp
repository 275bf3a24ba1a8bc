// Which applications and subcommands there are.
#include "apps/application.hpp"
#include "apps/ctr/ctr.hpp"
#include "apps/kge/kge.hpp"
#include "apps/lda/lda.hpp"
#include "apps/mf/mf.hpp"
#include "apps/program/bench_command.hpp"
#include "apps/program/checkpoint_command.hpp"
#include "apps/program/cluster_command.hpp"
#include "apps/program/commands.hpp"
#include "apps/program/doctor_command.hpp"
#include "apps/program/experiment_command.hpp"
#include "apps/program/generate_command.hpp"
#include "apps/program/table_command.hpp"
#include "apps/sketch/sketch.hpp"
#include "apps/word2vec/word2vec.hpp"

namespace verbena::apps {

std::vector<std::unique_ptr<Application>> make_applications() {
  std::vector<std::unique_ptr<Application>> applications;
  applications.push_back(make_lda());
  applications.push_back(make_mf());
  applications.push_back(make_kge());
  applications.push_back(make_word2vec());
  applications.push_back(make_ctr());
  applications.push_back(make_sketch());
  return applications;
}

std::vector<AddCommand> make_commands() {
  return {add_generate_command,   add_experiment_command, add_table_command, add_cluster_command,
          add_checkpoint_command, add_bench_command,      add_doctor_command};
}

}  // namespace verbena::apps
