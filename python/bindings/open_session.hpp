// A session as Python's objects share it: tables and pending operations keep it, and are of no use once it is
// closed.
//
// All functions need the interpreter's lock, but for what they run without it.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "python/bindings/lock.hpp"
#include <verbena/session.hpp>

namespace verbena::python {

namespace py = pybind11;

class PendingState;
class PythonHeldRows;

class OpenSession : public std::enable_shared_from_this<OpenSession> {
 public:
  /// Connects; a signal's handler that raises an exception ends that. `is_told`: the servers come from what
  /// has started this process (Session::from_environment()).
  static std::shared_ptr<OpenSession> open(SessionOptions options, bool is_told);
  /// Says goodbye, and waits for a server in this process.
  ~OpenSession();
  OpenSession(const OpenSession&) = delete;
  OpenSession& operator=(const OpenSession&) = delete;

  /// In a call that calls Python back (CallingBack), nothing may be done but what is kNested.
  enum class Place : std::uint8_t { kAlone, kNested };
  /// What is done while other threads run Python. Throws if the session is closed, is another thread's, or is
  /// in the middle of a call: a signal's handler, which runs in between, must not use it.
  template <class Use>
  auto use(Use&& use, Place place = Place::kAlone) {
    const Call call(*this, place);
    const Unlocked unlocked;
    return use(*session_);
  }
  /// The same with the lock, for what only looks.
  template <class Use>
  auto look(Use&& use) {
    const Call call(*this, Place::kNested);
    return use(*session_);
  }
  /// For what any thread may ask. Throws if the session is closed.
  [[nodiscard]] const Session& constants() const;
  /// In the middle of a call, Python is called back.
  class CallingBack {
   public:
    explicit CallingBack(OpenSession& session) : session_(session) {
      --session_.calls_;
      ++session_.calls_back_;
    }
    ~CallingBack() {
      --session_.calls_back_;
      ++session_.calls_;
    }
    CallingBack(const CallingBack&) = delete;
    CallingBack& operator=(const CallingBack&) = delete;

   private:
    OpenSession& session_;
  };

  /// An operation has begun. If it is under way, it and what it writes to are kept until it has ended.
  /// REQUIRES: the thread owns the session.
  void note_begun(const std::shared_ptr<PendingState>& pending);
  /// They are given back before the session ends.
  void note_held(const std::shared_ptr<PythonHeldRows>& rows);
  /// As long as somebody else refers to it, arrays lie in memory that goes with the session.
  void note_seen(const py::object& base);
  [[nodiscard]] bool is_open() const { return session_ != nullptr; }
  /// Of the thread and process that may use it.
  [[nodiscard]] bool is_own() const;
  void take_over();
  /// Says goodbye; with a reason, gives up before. Does nothing if it is closed already. Throws if it is in
  /// use, or if arrays lie in its memory and there is no reason.
  void close(const std::string& why_given_up = {});
  /// For the end of the interpreter: close() of all that are open, in whichever thread, but those in use. One
  /// that cannot be closed gives up, and says why on standard error.
  static void close_all(const std::string& why_given_up);

 private:
  explicit OpenSession(std::unique_ptr<Session> session);

  /// The session is in use.
  class Call {
   public:
    Call(OpenSession& session, Place place);
    ~Call() { --session_.calls_; }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    OpenSession& session_;
  };

  void forget_ended();
  /// Gives back all rows that are held; returns whether arrays still lie in some. REQUIRES: the thread owns
  /// the session.
  bool is_seen();
  void end(const std::string& why_given_up);

  std::unique_ptr<Session> session_;  ///< nullptr: closed
  std::vector<std::shared_ptr<PendingState>> under_way_;
  std::vector<std::weak_ptr<PythonHeldRows>> held_;
  std::vector<py::object> seen_;
  std::size_t begun_ = 0;  ///< operations, since those that have ended were forgotten
  std::uint64_t thread_;
  std::uint64_t process_;
  int calls_ = 0;
  int calls_back_ = 0;  ///< how many CallingBack there are
};

}  // namespace verbena::python
