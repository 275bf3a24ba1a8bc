// Kinds that a table or a call names, and that a program may add to: update rules and server functions.
#pragma once

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protocol/named_parameters.hpp"

namespace verbena::protocol {

/// `Kind` has a `name` that lives forever, and `parameters`. Thread safety: all functions may be called from
/// several threads.
template <class Kind>
class KindRegistry {
 public:
  /// `what`: what a kind is, for errors: "update rule". `also_known`: other names for errors, each followed
  /// by ", ".
  KindRegistry(std::string_view what, std::span<const Kind> known, std::string also_known = {})
      : what_(what), also_known_(std::move(also_known)) {
    for (const Kind& kind : known) kinds_.emplace(kind.name, kind);
  }

  absl::StatusOr<Kind> find(std::string_view name) {
    const std::lock_guard lock(mutex_);
    if (const auto found = kinds_.find(name); found != kinds_.end()) return found->second;
    std::string known = also_known_;
    for (const auto& [other, kind] : kinds_)
      known += fmt::format("{}\"{}\"", kind.name == kinds_.begin()->first ? "" : ", ", other);
    return absl::InvalidArgumentError(
        fmt::format("no {} \"{}\" is registered in this process, but {}", what_, name, known));
  }

  /// ALREADY_EXISTS; INVALID_ARGUMENT: the name or the number of parameters is not allowed.
  absl::Status add(const Kind& kind) {
    if (kind.name.empty() || kind.name.size() > kMaxKindNameBytes ||
        kind.name.find_first_of("( ") != std::string_view::npos ||
        kind.parameters.size() > kMaxNamedParameters) {
      return absl::InvalidArgumentError(fmt::format(
          "{} \"{}\": expected a name of 1 to {} bytes without \"(\" and blanks, and at most {} parameters",
          what_, kind.name, kMaxKindNameBytes, kMaxNamedParameters));
    }
    const std::lock_guard lock(mutex_);
    if (!kinds_.emplace(kind.name, kind).second) return exists(kind.name);
    return absl::OkStatus();
  }
  [[nodiscard]] absl::Status exists(std::string_view name) const {
    return absl::AlreadyExistsError(fmt::format("there is already the {} \"{}\"", what_, name));
  }

 private:
  const std::string_view what_;
  const std::string also_known_;
  std::mutex mutex_;
  std::map<std::string_view, Kind> kinds_;
};

}  // namespace verbena::protocol
