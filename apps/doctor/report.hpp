// What `verbena doctor` says, for people and for programs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "apps/doctor/diagnosis.hpp"

namespace verbena::apps::doctor {

/// A list of checks, each with its remedies, then the verdict. `colour`: use a terminal's escape sequences.
std::string to_text(const Facts& facts, const Diagnosis& diagnosis, bool colour);

/// The same, with what was seen on the host; docs/doctor.md describes it.
nlohmann::json to_json(const Facts& facts, const Diagnosis& diagnosis);

}  // namespace verbena::apps::doctor
