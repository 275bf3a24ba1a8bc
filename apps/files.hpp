// The files that a command reads and writes. They are compared before the first one is written.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace verbena::apps {

struct NamedFile {
  std::string option;  ///< the option that named it: "--output"
  std::string path;
};

struct Files {
  std::vector<NamedFile> inputs;
  std::vector<NamedFile> outputs;

  /// An empty path means that the option was not given; it is ignored.
  void reads(const std::string& option, const std::string& path) { add(inputs, option, path); }
  void writes(const std::string& option, const std::string& path) { add(outputs, option, path); }

 private:
  static void add(std::vector<NamedFile>& files, const std::string& option, const std::string& path) {
    if (!path.empty()) files.push_back({option, path});
  }
};

}  // namespace verbena::apps
