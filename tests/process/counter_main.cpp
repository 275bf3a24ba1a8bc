#include "apps/program/commands.hpp"
#include "tests/process/counter.hpp"

int main(int argc, char** argv) {
  verbena::apps::Applications applications;
  applications.push_back(verbena::apps::make_counter());
  return verbena::apps::verbena_main(argc, argv, applications);
}
