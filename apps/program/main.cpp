// The program `verbena`.
#include "apps/program/commands.hpp"

int main(int argc, char** argv) {
  using namespace verbena::apps;
  return verbena_main(argc, argv, make_applications(), make_commands());
}
