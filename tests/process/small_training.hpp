// A training of each application that can be saved, small enough to be repeated: what jobs of real processes
// must get the same of, byte for byte, whatever comes between.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "tests/process/chance.hpp"
#include "tests/process/program.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::process_test {

inline constexpr int kIterationsOfSmallTraining = 10;
inline constexpr std::size_t kServersOfSmallTraining = 2;

/// What is trained, and what comes of it.
struct SmallTraining {
  std::string application;
  std::vector<std::string> options;  ///< without those that name files
  std::vector<std::string> models;   ///< the ends of the names of the files that it writes
};
std::ostream& operator<<(std::ostream& out, const SmallTraining& training);

std::vector<SmallTraining> small_trainings();
/// Beside these, those of the other applications.
std::vector<SmallTraining> trainings_of_all_applications();
/// Others, some seconds long, whose workers have no state of their own. The last one draws no random numbers.
std::vector<SmallTraining> stateless_trainings();
/// Some examples for it, in a file or folder of this name.
void write_data(const SmallTraining& training, const std::string& path);

/// Trains one in jobs of two servers and two workers, under BSP unless another model is given, with a
/// checkpoint after each iteration.
class SmallTrainingTest : public ::testing::TestWithParam<SmallTraining> {
 protected:
  SmallTrainingTest() { write_data(GetParam(), folder_.path("data")); }

  /// The folder of the checkpoints.
  [[nodiscard]] std::string saved() const { return folder_.path("saved"); }
  [[nodiscard]] std::unique_ptr<Program> start(const std::vector<std::string>& more,
                                               const std::string& output = "model",
                                               const std::string& consistency = "bsp") const;
  /// What that one has written, byte for byte; "" of a file that is not there.
  [[nodiscard]] std::vector<std::string> model(const std::string& output = "model") const;
  /// Of lda: the sum of its counts. Each token has one topic, so these are kTokens, if each update has
  /// counted once, and no worker has seen less than what others were told of.
  [[nodiscard]] int tokens(const std::string& output = "model") const;
  static constexpr int kTokens = 300;

  Chance chance_;
  verbena::testing::TemporaryFolder folder_;
};

}  // namespace verbena::process_test
