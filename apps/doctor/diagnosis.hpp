// Derives from what was seen on a host what it means and how to mend it. It does not look at the host itself.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/doctor/host.hpp"
#include "apps/doctor/trial.hpp"
#include "transport/verbs/verbs_transport.hpp"

namespace verbena::apps::doctor {

struct Facts {
  Host host;
  transport::VerbsOptions wanted;  ///< device and port, as asked for
  transport::VerbsSurvey verbs;
  std::optional<Trial> verbs_trial;  ///< trial of the port that would be used; nullopt: there is none
  Trial shm_trial;
  Trial tcp_trial;
};

/// A port of a device in VerbsSurvey::devices, by the indices of both.
struct PortChoice {
  std::size_t device = 0;
  std::size_t port = 0;
};

/// The port that a transport would use.
std::optional<PortChoice> choose_port(const transport::VerbsSurvey& verbs,
                                      const transport::VerbsOptions& wanted);

struct Remedy {
  std::string what;  ///< what it does, or where to run it; one line
  std::vector<std::string> commands;
};

struct Finding {
  enum class Level {
    kOk,
    kNote,     ///< only a fact, but it may surprise
    kWarning,  ///< verbs works, but slowly, or not for long
    kProblem,  ///< verbs does not work because of it (or shared memory, if that is the subject)
  };
  std::string subject;
  Level level = Level::kOk;
  std::string text;                  ///< one line
  std::vector<std::string> details;  ///< one line each
  std::vector<Remedy> remedies;      ///< to be carried out in this order, unless they say "or"
};
std::string_view to_string(Finding::Level level);

struct Diagnosis {
  bool verbs = false;          ///< works
  bool shared_memory = false;  ///< works
  bool tcp = false;            ///< works
  std::optional<PortChoice> choice;
  std::string choice_reason;  ///< why this port
  std::string gid;            ///< the GID of that port that is used; empty if none is chosen by address
  std::vector<Finding> findings;
};

Diagnosis diagnose(const Facts& facts);

}  // namespace verbena::apps::doctor
