// The module verbena._verbena: what the package takes from the library.
#include <pybind11/pybind11.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <string>

#include "python/bindings/definitions.hpp"
#include "python/bindings/errors.hpp"
#include "python/bindings/open_session.hpp"
#include "python/bindings/pending.hpp"
#include <verbena/consistency.hpp>
#include <verbena/verbena.h>

namespace {

/// What the library says to people does not belong among what a program prints. Who has a logger already, as
/// a C++ module of the same process may, keeps it.
void log_to_standard_error() {
  if (!spdlog::default_logger()->name().empty()) return;
  spdlog::set_default_logger(spdlog::stderr_logger_mt("verbena"));
  spdlog::set_level(spdlog::level::warn);  // as the program's, unless it is asked for more
}

}  // namespace

PYBIND11_MODULE(_verbena, module) {
  using namespace verbena::python;  // NOLINT(google-build-using-namespace): the macro's function is outside
                                    // of any
  module.doc() = "Verbena's library for Python; use the package verbena.";
  log_to_standard_error();
  define_pending(module);
  define_sampling(module);
  define_session(module);
  define_held_rows(module);
  define_table(module);
  define_bags(module);
  define_data_cursor(module);
  define_server(module);
  define_observer(module);
  module.def(
      "_close_sessions",
      [](const pybind11::object& error) {
        OpenSession::close_all(error.is_none() ? std::string() : text_of_exception(error));
      },
      pybind11::arg("error"));
  module.def(
      "parse_consistency",
      [](const std::string& text) { return verbena::to_string(value_of(verbena::parse_consistency(text))); },
      pybind11::arg("text"), "The whole text of what names a model.");
  module.attr("__version__") = verbena_version();
}
