// What `verbena doctor` says, for people and for programs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "apps/doctor/diagnosis.hpp"

namespace verbena::apps::doctor {

/// A list of checks, each with what mends it, then the verdict. `colour`: with escape sequences of a
/// terminal.
std::string to_text(const Facts& facts, const Diagnosis& diagnosis, bool colour);

/// The same and what was seen; docs/doctor.md describes it.
nlohmann::json to_json(const Facts& facts, const Diagnosis& diagnosis);

}  // namespace verbena::apps::doctor
