// What an experiment leaves: a table for the terminal, numbers for programs, a page for people.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "apps/verbena/experiment.hpp"

namespace verbena::apps {

/// Changes when a field is taken away or changes its meaning, not when one is added.
inline constexpr int kExperimentSchema = 1;

/// "4 workers, 2 servers; …", one line.
std::string circumstances(const ExperimentOptions& options, std::uint32_t cores);

/// The command that makes the run, to be repeated by hand.
std::string command_line(const PlannedRun& run);

std::string experiment_text(const Experiment& experiment, const std::string& circumstances,
                            const Judgement& judgement, const std::vector<RunFigures>& runs);
nlohmann::json experiment_json(const Experiment& experiment, const std::string& circumstances,
                               const Judgement& judgement, const std::vector<RunFigures>& runs);
std::string experiment_html(const Experiment& experiment, const std::string& circumstances,
                            const Judgement& judgement, const std::vector<RunFigures>& runs);

}  // namespace verbena::apps
