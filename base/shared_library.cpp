#include "base/shared_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

namespace verbena::base {

SharedLibrary::SharedLibrary(const char* file, const char* package, const char* otherwise)
    : file_(file), package_(package), handle_(::dlopen(file, RTLD_NOW | RTLD_LOCAL)) {
  if (handle_ != nullptr) return;
  const char* const reason = ::dlerror();
  status_ = absl::UnavailableError(fmt::format("{} cannot be loaded ({}); install the package {}{}", file_,
                                               reason == nullptr ? "no reason given" : reason, package_,
                                               otherwise));
}

void* SharedLibrary::find(const char* name) {
  if (!status_.ok()) return nullptr;
  void* const found = ::dlsym(handle_, name);
  if (found == nullptr) {
    status_ = absl::UnavailableError(
        fmt::format("{} has no function {}; install a newer package {}", file_, name, package_));
  }
  return found;
}

}  // namespace verbena::base
