// The frame of a report: one page for any browser, light and dark. The page loads nothing from elsewhere.
#pragma once

#include <string>
#include <string_view>

#include "apps/report/provenance.hpp"

namespace verbena::apps {

/// `body` is markup; the rest is text.
std::string html_page(std::string_view title, std::string_view heading, std::string_view how,
                      const Provenance& made, std::string_view body);

/// A part of the page with a heading; `body` is markup, `note` small text below it.
std::string html_card(std::string_view title, std::string_view body, std::string_view note = "",
                      bool wide = false);

/// A highlighted number.
std::string html_figure(std::string_view value, std::string_view label);

}  // namespace verbena::apps
