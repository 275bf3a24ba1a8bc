// Operations under way.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "python/bindings/open_session.hpp"
#include <verbena/table.hpp>

namespace verbena::python {

namespace py = pybind11;

/// What the session keeps of an operation: how it ends, and the array that it fills, which must not go before
/// that.
class PendingState {
 public:
  PendingState(Pending operation, py::object fills)
      : operation_(PendingOf{std::move(operation)}), fills_(std::move(fills)) {}
  explicit PendingState(PendingResult call) : operation_(PendingOf{std::move(call)}) {}

  /// If the operation has ended, notes how, and lets go of it; returns whether it has. REQUIRES: the thread
  /// owns the session, if it is open.
  bool settle();
  /// The session is about to end.
  void abandon();
  /// Drives the session until the operation has ended; without the interpreter's lock. REQUIRES: !settle()
  void wait();
  [[nodiscard]] const Pending& operation() const { return operation_->pending(); }
  [[nodiscard]] bool is_settled() const { return !operation_.has_value(); }
  /// What it has come to, or throws why it has failed. REQUIRES: is_settled()
  [[nodiscard]] py::object result() const;

 private:
  struct PendingOf {
    std::variant<Pending, PendingResult> kind;
    [[nodiscard]] const Pending& pending() const {
      return std::visit([](const auto& one) -> const Pending& { return one; }, kind);
    }
  };

  std::optional<PendingOf> operation_;  ///< none: settled
  py::object fills_;                    ///< the result of a pull
  absl::Status status_;
  std::optional<FunctionResult> said_;  ///< the result of a call
};

/// As Python sees it.
struct PythonPending {
  std::shared_ptr<OpenSession> session;
  std::shared_ptr<PendingState> state;
};

/// Keeps the operation as long as it is under way. Throws if it has failed already.
PythonPending begun(const std::shared_ptr<OpenSession>& session, std::shared_ptr<PendingState> state);
/// Of a sequence of Pending; those that have ended are left out.
OperationOptions operations_after(const OpenSession& session, const py::iterable& after);
py::object python_result(const FunctionResult& result);

void define_pending(py::module_& module);

}  // namespace verbena::python
