// A chart as data: what is drawn. How, is apps/report's.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace verbena::apps {

/// One of several curves. Six curves have different colours; if there are more, dash the later ones.
struct Series {
  std::string label;
  std::vector<std::pair<double, double>> points;  ///< x ascending
  bool dashed = false;
};

/// Several curves in one frame; values that are not finite are left out.
struct CurveChart {
  std::string x_label;
  std::string y_label;
  std::vector<Series> series;
};

/// A chart that an application adds to the page of a run.
struct ModelChart {
  std::string title;
  CurveChart curves;
  std::string note;  ///< small text below it; may be empty
};

}  // namespace verbena::apps
