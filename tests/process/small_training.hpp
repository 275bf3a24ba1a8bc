// A training of each application that can be saved, small enough to be repeated: what jobs of real processes
// must get the same of, byte for byte, whatever comes between.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace verbena::process_test {

inline constexpr int kIterationsOfSmallTraining = 10;

/// What is trained, and what comes of it.
struct SmallTraining {
  std::string application;
  std::vector<std::string> options;  ///< without those that name files
  std::vector<std::string> models;   ///< the ends of the names of the files that it writes
};
std::ostream& operator<<(std::ostream& out, const SmallTraining& training);

std::vector<SmallTraining> small_trainings();
/// Some examples for it, in a file or folder of this name.
void write_data(const SmallTraining& training, const std::string& path);

}  // namespace verbena::process_test
