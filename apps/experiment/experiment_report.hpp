// What an experiment leaves: a table for the terminal, numbers for programs, a page for people.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "apps/experiment/experiment.hpp"
#include "apps/report/provenance.hpp"

namespace verbena::apps {

/// Changes when a field is removed or gets another meaning, not when one is added.
inline constexpr int kExperimentSchema = 1;

/// "4 workers, 2 servers; …", one line.
std::string circumstances(const Experiment& experiment, const ExperimentOptions& options,
                          std::uint32_t cores);

/// The command with which a user can repeat the run.
std::string command_line(const PlannedRun& run);

/// What a report is about.
struct ReportSubject {
  std::string name;
  std::string description;
  std::string method;
  std::string circumstances;
  Provenance made;
};
/// A run as a report shows it.
struct ReportedRun {
  std::string label;
  std::string command;
  std::string failure;  ///< empty: it has succeeded
};
std::string report_text(const ReportSubject& subject, const Judgement& judgement,
                        const std::vector<ReportedRun>& runs);
/// `runs` are the raw numbers.
nlohmann::json report_json(const ReportSubject& subject, const Judgement& judgement, nlohmann::json runs);
std::string report_html(const ReportSubject& subject, const Judgement& judgement,
                        const std::vector<ReportedRun>& runs);

// --- the reports of an experiment that makes runs

std::string experiment_text(const Experiment& experiment, const std::string& circumstances,
                            const Judgement& judgement, const std::vector<RunFigures>& runs);
nlohmann::json experiment_json(const Experiment& experiment, const std::string& circumstances,
                               const Judgement& judgement, const std::vector<RunFigures>& runs);
std::string experiment_html(const Experiment& experiment, const std::string& circumstances,
                            const Judgement& judgement, const std::vector<RunFigures>& runs);

}  // namespace verbena::apps
