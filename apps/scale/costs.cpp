#include "apps/scale/costs.hpp"

#include <algorithm>

namespace verbena::apps::scale {

bool all_known(const Costs& costs) {
  return std::all_of(kCostFields.begin(), kCostFields.end(),
                     [&](const CostField& field) { return costs.*field.value >= 0; });
}

}  // namespace verbena::apps::scale
