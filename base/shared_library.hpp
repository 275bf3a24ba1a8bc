// Libraries that are loaded when they are wanted, so that the program runs where they are not.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace verbena::base {

/// A library and the first thing that went wrong with it.
class SharedLibrary {
 public:
  /// Loads `file`, of the Debian package `package`. It stays loaded until the process ends: libraries that
  /// have threads or providers do not like to be unloaded. `otherwise` ends the sentence "install the package
  /// …" in errors: " or use …".
  SharedLibrary(const char* file, const char* package, const char* otherwise = "");

  /// Does nothing if something went wrong before.
  template <class Function>
  void find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(find(name));
  }
  /// UNAVAILABLE says what to install.
  [[nodiscard]] const absl::Status& status() const { return status_; }

 private:
  void* find(const char* name);

  const char* file_;
  const char* package_;
  void* handle_;
  absl::Status status_;
};

}  // namespace verbena::base
