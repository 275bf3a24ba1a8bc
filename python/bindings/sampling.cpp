// Keys drawn at random.
#include <random>

#include "python/bindings/arrays.hpp"
#include "python/bindings/definitions.hpp"
#include "python/bindings/errors.hpp"
#include <verbena/sampling.hpp>

namespace verbena::python {

void define_sampling(py::module_& module) {
  py::class_<std::mt19937_64>(module, "Random", "A generator of random numbers, for samples.")
      .def(py::init<std::uint64_t>(), py::arg("seed"));
  py::class_<KeyDistribution>(module, "KeyDistribution", "Keys, and how likely each is.")
      .def_static(
          "uniform",
          [](const py::object& keys) {
            const KeyRange range = range_of(keys);
            if (range.size() == 0) refuse("keys: the range is empty");
            return KeyDistribution::uniform(range);
          },
          py::arg("keys"), "All keys of a range are equally likely.")
      .def_static(
          "weighted",
          [](Key first, const py::object& weights) {
            return value_of(KeyDistribution::weighted(first, numbers_of(weights, "weights")));
          },
          py::arg("first"), py::arg("weights"), "Key first + i in proportion to weights[i].")
      .def("draw", &KeyDistribution::draw, py::arg("random"))
      .def_property_readonly("keys", [](const KeyDistribution& distribution) {
        const KeyRange range = distribution.range();
        return py::module_::import("builtins").attr("range")(range.first, range.last);
      });
  py::class_<Sample>(module, "Sample", "Keys that were drawn and are to be pulled.")
      .def_property_readonly("keys", [](const Sample& sample) { return copy_of(sample.keys()); })
      .def_property_readonly("redrawn", &Sample::redrawn);
}

}  // namespace verbena::python
