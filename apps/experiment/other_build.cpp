#include "apps/experiment/other_build.hpp"

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace verbena::apps {
namespace {

class OtherBuild final : public Peer {
 public:
  OtherBuild(std::string application, std::vector<std::string> arguments)
      : application_(std::move(application)), arguments_(std::move(arguments)) {}

  [[nodiscard]] std::string_view name() const override { return "other build"; }
  [[nodiscard]] std::string_view program() const override { return "verbena"; }
  [[nodiscard]] std::string_view application() const override { return application_; }
  [[nodiscard]] std::string_view objective() const override { return ""; }
  [[nodiscard]] std::vector<std::string> files(const std::string& /*folder*/) const override { return {}; }
  absl::Status prepare(const std::string& /*data*/, std::uint64_t /*seed*/,
                       const std::string& /*folder*/) override {
    return absl::OkStatus();
  }
  [[nodiscard]] std::vector<std::string> arguments(const PeerTask& /*task*/) const override {
    return arguments_;
  }
  /// A line of its metrics (docs/metrics.md), which stand among what it prints.
  [[nodiscard]] std::optional<PeerIteration> read(std::string_view line, const PeerTask& /*task*/,
                                                  double /*seconds*/) const override {
    const nlohmann::json said = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!said.is_object()) return std::nullopt;
    try {
      if (said.value("kind", "") != "iteration") return std::nullopt;
      return PeerIteration{.iteration = said.at("iteration").get<std::int64_t>(),
                           .items = said.at("items").get<double>(),
                           .seconds = said.at("seconds").get<double>()};
    } catch (const nlohmann::json::exception&) {
      return std::nullopt;  // a line of another version
    }
  }

 private:
  const std::string application_;
  const std::vector<std::string> arguments_;
};

}  // namespace

PlannedRun by_other_build(PlannedRun run, const std::string& program) {
  std::vector<std::string> arguments = run.arguments;
  arguments.insert(arguments.begin(), "run");
  arguments.insert(arguments.end(), {"--quiet", "--metrics=/dev/stdout"});
  run.peer = std::make_shared<OtherBuild>(run.application, std::move(arguments));
  run.program = program;
  run.label += ", the other build";
  return run;
}

}  // namespace verbena::apps
