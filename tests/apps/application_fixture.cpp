#include "tests/apps/application_fixture.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

namespace verbena::apps {

std::unique_ptr<Application> with_options(std::unique_ptr<Application> application,
                                          std::vector<std::string> arguments,
                                          const std::vector<std::pair<std::string, std::string>>& defaults) {
  for (const auto& [option, value] : defaults) {
    if (std::find(arguments.begin(), arguments.end(), option) == arguments.end())
      arguments.insert(arguments.end(), {option, value});
  }
  CLI::App command;
  application->add_options(command);
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
  command.parse(arguments);
  return application;
}

absl::Status run_baseline(Application& application, Recorder& recorder) {
  BaselineContext context{recorder, recorder.stop};
  return application.run_baseline(context);
}

}  // namespace verbena::apps
