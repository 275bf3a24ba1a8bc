// What the library says in structs, as Python's dictionaries and the named tuples of
// python/verbena/_records.py.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <vector>

#include <verbena/server_function.hpp>
#include <verbena/session.hpp>

namespace verbena::python {

pybind11::dict statistics_record(const SessionStatistics& statistics);
pybind11::dict staleness_record(const StalenessHistogram& staleness);
/// By the names of the fields, and "bytes".
pybind11::dict memory_record(const TableMemory& memory);
pybind11::object checkpoint_record(const CheckpointSummary& summary,
                                   const std::vector<std::string>& damaged = {});

}  // namespace verbena::python
