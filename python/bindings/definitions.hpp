// What the module consists of.
#pragma once

#include <pybind11/pybind11.h>

namespace verbena::python {

void define_session(pybind11::module_& module);
void define_table(pybind11::module_& module);
void define_held_rows(pybind11::module_& module);
void define_bags(pybind11::module_& module);
void define_sampling(pybind11::module_& module);
void define_data_cursor(pybind11::module_& module);
void define_server(pybind11::module_& module);
void define_observer(pybind11::module_& module);

}  // namespace verbena::python
