#include "python/bindings/open_session.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "python/bindings/errors.hpp"
#include "python/bindings/held_rows.hpp"
#include "python/bindings/pending.hpp"
#include "python/bindings/signals.hpp"

namespace verbena::python {
namespace {

std::set<OpenSession*>& open_sessions() {
  static auto& all = *new std::set<OpenSession*>;
  return all;
}

/// A connection that is being made, in a thread of its own: nothing ends a wait for servers that are not
/// there, and Ctrl-C must not wait for them.
struct Opening {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<absl::StatusOr<std::unique_ptr<Session>>> result;
  std::atomic<bool> is_abandoned = false;
  std::atomic<bool> is_over = false;  ///< from now on the interpreter's thread has the session
};

void make_connection(const std::shared_ptr<Opening>& opening, SessionOptions options, bool is_told) {
  auto made = is_told ? Session::from_environment(std::move(options)) : Session::connect(options);
  const std::scoped_lock lock(opening->mutex);
  if (!opening->is_abandoned) opening->result = std::move(made);
  opening->changed.notify_all();
}

absl::Status when_waiting(const Opening& opening) {
  if (opening.is_over) return look_for_signals();
  return opening.is_abandoned ? absl::CancelledError("interrupted") : absl::OkStatus();
}

}  // namespace

OpenSession::OpenSession(std::unique_ptr<Session> session)
    : session_(std::move(session)), thread_(PyThread_get_thread_ident()), process_(process_number()) {
  open_sessions().insert(this);
}

std::shared_ptr<OpenSession> OpenSession::open(SessionOptions options, bool is_told) {
  const auto opening = std::make_shared<Opening>();
  options.on_wait = [opening] { return when_waiting(*opening); };
  const auto is_made = [&] { return opening->result.has_value(); };
  {
    const Unlocked unlocked;
    std::thread maker =
        thread_without_signals([opening, options, is_told] { make_connection(opening, options, is_told); });
    std::unique_lock lock(opening->mutex);
    while (!opening->changed.wait_for(lock, kSignalInterval, is_made)) {
      lock.unlock();
      const bool is_interrupted = !look_for_signals().ok();
      lock.lock();
      if (!is_interrupted) continue;
      opening->is_abandoned = true;
      break;
    }
    if (!is_made()) {
      maker.detach();
    } else {
      lock.unlock();
      maker.join();
      opening->is_over = true;
      if (opening->result->ok()) (**opening->result)->take_over();
    }
  }
  if (PyErr_Occurred() != nullptr) {
    // What has come in the last moment before an interruption was made for nothing. It says goodbye now: it
    // would live on with `opening`, which its options know.
    const py::error_already_set interrupted;
    {
      const Unlocked unlocked;
      opening->result.reset();
    }
    throw interrupted;
  }
  return std::shared_ptr<OpenSession>(new OpenSession(value_of(*std::move(opening->result))));
}

const Session& OpenSession::constants() const {
  if (!is_open()) check(absl::FailedPreconditionError("this session is closed"));
  return *session_;
}

OpenSession::Call::Call(OpenSession& session, Place place) : session_(session) {
  if (!session.is_open()) check(absl::FailedPreconditionError("this session is closed"));
  if (!session.is_own()) {
    check(session.session_->poll());  // says whose it is
    check(absl::FailedPreconditionError("this session is another thread's"));
  }
  if (session.calls_ > 0 || (session.calls_back_ > 0 && place == Place::kAlone)) {
    check(
        absl::FailedPreconditionError("this session is in the middle of a call, in which a signal's handler "
                                      "must not use it, and what a scan "
                                      "calls must only pull"));
  }
  ++session.calls_;
}

bool OpenSession::is_own() const {
  return thread_ == PyThread_get_thread_ident() && process_ == process_number();
}

void OpenSession::take_over() {
  if (!is_open()) check(absl::FailedPreconditionError("this session is closed"));
  if (process_ != process_number()) check(session_->poll());
  if (calls_ + calls_back_ > 0)
    check(absl::FailedPreconditionError("this session is in the middle of a call: it cannot be taken over"));
  session_->take_over();
  thread_ = PyThread_get_thread_ident();
}

void OpenSession::note_begun(const std::shared_ptr<PendingState>& pending) {
  constexpr std::size_t kFew = 16;
  // Often enough for arrays not to stay for long, and rarely enough to cost nothing.
  if (++begun_ > std::max(kFew, under_way_.size())) {
    begun_ = 0;
    forget_ended();
  }
  if (!pending->is_settled()) under_way_.push_back(pending);
}

void OpenSession::forget_ended() {
  std::erase_if(under_way_, [](const std::shared_ptr<PendingState>& pending) { return pending->settle(); });
}

void OpenSession::note_held(const std::shared_ptr<PythonHeldRows>& rows) {
  std::erase_if(held_, [](const std::weak_ptr<PythonHeldRows>& each) {
    const std::shared_ptr<PythonHeldRows> before = each.lock();
    return before == nullptr || before->is_released();
  });
  held_.push_back(rows);
}

void OpenSession::note_seen(const py::object& base) {
  std::erase_if(seen_, [](const py::object& each) { return each.ref_count() == 1; });
  seen_.push_back(base);
}

bool OpenSession::is_seen() {
  for (const std::weak_ptr<PythonHeldRows>& each : std::exchange(held_, {})) {
    if (const std::shared_ptr<PythonHeldRows> rows = each.lock(); rows != nullptr) rows->release();
  }
  return std::ranges::any_of(seen_, [](const py::object& each) { return each.ref_count() > 1; });
}

void OpenSession::close(const std::string& why_given_up) {
  if (!is_open()) return;
  if (process_ == process_number()) {
    static_cast<void>(Call(*this, Place::kAlone));  // throws if it is in use
    if (is_seen() && why_given_up.empty()) {
      PyErr_SetString(PyExc_BufferError,
                      "arrays that were made of rows that were held are still there; the session cannot be "
                      "closed, since their memory would go with it");
      throw py::error_already_set();
    }
  }
  end(why_given_up);
  if (PyErr_Occurred() != nullptr) throw py::error_already_set();
}

void OpenSession::end(const std::string& why_given_up) {
  open_sessions().erase(this);
  std::unique_ptr<Session> session = std::move(session_);
  const bool is_here = process_ == process_number();
  if (is_here) forget_ended();
  const bool is_seen_still = is_here && is_seen();
  for (const std::shared_ptr<PendingState>& pending : under_way_) pending->abandon();
  {
    const Unlocked unlocked;
    if (is_seen_still) {
      // Its memory must stay, so that nothing crashes; and so it cannot say goodbye.
      session
          ->give_up(absl::AbortedError(why_given_up.empty() ? "arrays of rows that were held were kept"
                                                            : why_given_up))
          .IgnoreError();
      static_cast<void>(session.release());
    } else {
      if (!why_given_up.empty()) session->give_up(absl::AbortedError(why_given_up)).IgnoreError();
      session.reset();
    }
  }
  under_way_.clear();  // only now does nothing write into their arrays any more
}

OpenSession::~OpenSession() {
  if (!is_open()) return;
  py::error_scope others;  // what is raised where the last reference goes away
  try {
    if (process_ == process_number()) session_->take_over();
    end({});
    if (PyErr_Occurred() != nullptr) PyErr_WriteUnraisable(nullptr);
  } catch (const std::exception& error) {  // who drops a reference expects none
    PySys_FormatStderr("verbena: a session that was not closed: %s\n", error.what());
  }
}

void OpenSession::close_all(const std::string& why_given_up) {
  const std::vector<OpenSession*> all(open_sessions().begin(), open_sessions().end());
  for (OpenSession* const each : all) {
    if (!open_sessions().contains(each)) continue;
    const std::shared_ptr<OpenSession> session = each->weak_from_this().lock();
    if (session == nullptr || session->calls_ + session->calls_back_ > 0) continue;
    try {
      if (session->process_ == process_number()) session->take_over();
      session->close(why_given_up);
    } catch (py::error_already_set& raised) {
      const std::string why = text_of_exception(raised.value());
      raised.restore();
      PyErr_WriteUnraisable(nullptr);
      if (session->is_open()) session->end(why);
      if (PyErr_Occurred() != nullptr) PyErr_WriteUnraisable(nullptr);
    }
  }
}

}  // namespace verbena::python
