#include "python/bindings/pending.hpp"

#include <utility>

#include "python/bindings/arrays.hpp"
#include "python/bindings/errors.hpp"

namespace verbena::python {
namespace {

py::object wait_for_pending(const PythonPending& pending) {
  if (!pending.state->is_settled()) {
    pending.session->use([&](Session&) { pending.state->wait(); });
    pending.state->settle();
  }
  return pending.state->result();
}

bool is_pending_done(const PythonPending& pending) {
  return pending.state->is_settled() || pending.state->operation().done();
}

/// Goes on with what can be done now; returns whether the operation has ended.
bool poll_pending(const PythonPending& pending) {
  if (pending.state->is_settled()) return true;
  const absl::Status status = pending.session->use([](Session& session) { return session.poll(); });
  if (pending.state->operation().done()) return pending.state->settle();
  check(status);
  return false;
}

}  // namespace

bool PendingState::settle() {
  if (is_settled()) return true;
  if (!operation().done()) return false;
  wait();  // it does not wait any more
  operation_.reset();
  return true;
}

void PendingState::wait() {
  if (auto* const call = std::get_if<PendingResult>(&operation_->kind)) {
    absl::StatusOr<FunctionResult> result = call->result();
    status_ = result.status();
    if (result.ok()) said_ = *std::move(result);
  } else {
    status_ = std::get<Pending>(operation_->kind).wait();
  }
}

void PendingState::abandon() {
  if (is_settled()) return;
  operation_.reset();
  status_ = absl::FailedPreconditionError("the session was closed before the operation had ended");
}

py::object PendingState::result() const {
  check(status_);
  if (said_) return python_result(*said_);
  return fills_ ? fills_ : py::none();
}

py::object python_result(const FunctionResult& result) {
  return py::module_::import("verbena._records")
      .attr("FunctionResult")(copy_of(result.keys), copy_of(result.numbers));
}

PythonPending begun(const std::shared_ptr<OpenSession>& session, std::shared_ptr<PendingState> state) {
  const bool has_ended = state->settle();
  session->note_begun(state);
  if (has_ended) static_cast<void>(state->result());  // a call that is wrong throws at once
  return {session, std::move(state)};
}

OperationOptions operations_after(const OpenSession& session, const py::iterable& after) {
  OperationOptions options;
  for (const py::handle& each : after) {
    const auto& pending = each.cast<const PythonPending&>();
    if (pending.session.get() != &session) refuse("after: an operation of another session");
    if (!pending.state->is_settled()) options.after.push_back(pending.state->operation());
  }
  return options;
}

void define_pending(py::module_& module) {
  py::class_<PythonPending>(module, "Pending", "An operation in progress.")
      .def("wait", &wait_for_pending,
           "Waits until the operation has ended, and returns what it has come to: the values of a pull, the "
           "FunctionResult of a call, None of others.")
      .def("poll", &poll_pending, "Does what can be done now, without waiting; returns whether it has ended.")
      .def_property_readonly("done", &is_pending_done)
      .def("__await__", [](const py::object& self) {
        return py::module_::import("verbena._awaiting").attr("until_done")(self).attr("__await__")();
      });
}

}  // namespace verbena::python
