// Where a report or record comes from; this tells two of them apart.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

namespace verbena::apps {

struct Provenance {
  std::string command;  ///< in the form that a shell accepts
  std::string host;
  std::string date;  ///< UTC, as "2026-11-25T14:05:33Z": when provenance() was called
};

/// The version of Verbena, such as "0.1.0".
std::string version();

/// Of this process, now. Of PMIx's many, rank 0's.
Provenance provenance();

/// The words, quoted so that a shell reads them back.
std::string shell_command(std::span<const std::string> words);

/// Adds "command", "host" and "date" to an object.
void add_provenance(const Provenance& provenance, nlohmann::json& json);

}  // namespace verbena::apps
