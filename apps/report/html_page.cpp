#include "apps/report/html_page.hpp"

#include <fmt/format.h>

#include "apps/report/svg_chart.hpp"

namespace verbena::apps {
namespace {

constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --page: #f7f6fa; --card: #ffffff; --ink: #26222f; --soft: #6d667c; --rule: #e4e0ec;
        --accent: #7b3fa6; --shadow: 0 1px 3px rgb(40 20 60 / .12); }
@media (prefers-color-scheme: dark) {
  :root { --page: #17151c; --card: #211e28; --ink: #ece8f3; --soft: #a59db5; --rule: #383342; --accent: #c08be8;
          --shadow: none; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 32px 20px 48px; }
h1 { font-size: 26px; margin: 0; } h2 { font-size: 16px; margin: 0 0 12px; }
.how { color: var(--soft); margin: 4px 0 24px; }
.figures { display: flex; flex-wrap: wrap; gap: 12px; margin-bottom: 16px; }
.figure, section { background: var(--card); border-radius: 10px; box-shadow: var(--shadow); }
.figure { padding: 12px 18px; flex: 1 1 150px; } .figure b { display: block; font-size: 21px; white-space: nowrap; }
.figure span { color: var(--soft); font-size: 13px; overflow-wrap: anywhere; }
.cards { display: grid; gap: 16px; grid-template-columns: repeat(auto-fit, minmax(min(100%, 440px), 1fr)); }
section { padding: 18px 20px; min-width: 0; } section.wide { grid-column: 1 / -1; }
.note { color: var(--soft); font-size: 13px; margin: 8px 0 0; }
svg { display: block; width: 100%; height: auto; } svg text { fill: var(--soft); font-size: 13px; }
.end { text-anchor: end; } .middle { text-anchor: middle; }
.grid line { stroke: var(--rule); } .curve { fill: none; stroke: var(--accent); stroke-width: 2; stroke-linejoin: round; }
.dots circle { fill: var(--accent); } .bar { fill: var(--accent); }
.series { fill: none; stroke-width: 2; stroke-linejoin: round; } .dashed { stroke-dasharray: 6 4; }
.s0 { stroke: var(--accent); } .s1 { stroke: #2f8f83; } .s2 { stroke: #c77a1c; } .s3 { stroke: #3c6fc4; }
.s4 { stroke: #b8405e; } .s5 { stroke: #7d7d86; } .marks circle { stroke: none; } .marks .f0 { fill: var(--accent); }
.marks .f1 { fill: #2f8f83; } .marks .f2 { fill: #c77a1c; } .marks .f3 { fill: #3c6fc4; } .marks .f4 { fill: #b8405e; }
.marks .f5 { fill: #7d7d86; } .scroll { overflow-x: auto; } .scroll td, .scroll th { padding: 5px 8px; white-space: nowrap; }
table { border-collapse: collapse; width: 100%; } td, th { padding: 5px 0; border-top: 1px solid var(--rule); }
tr:first-child > * { border-top: 0; } th { text-align: left; font-weight: normal; color: var(--soft); }
td { text-align: right; font-variant-numeric: tabular-nums; }
pre { margin: 0; overflow-x: auto; font: 13px/1.5 ui-monospace, "DejaVu Sans Mono", monospace; }
footer { color: var(--soft); font-size: 13px; margin-top: 24px; } .command { white-space: pre-wrap; }
.events line { stroke: #b8405e; stroke-width: 1.5; stroke-dasharray: 2 3; }
.track { fill: var(--rule); }
)";

}  // namespace

std::string html_card(std::string_view title, std::string_view body, std::string_view note, bool wide) {
  std::string out =
      fmt::format("<section{}>\n<h2>{}</h2>\n{}", wide ? " class=\"wide\"" : "", escape_markup(title), body);
  if (!note.empty()) out += fmt::format("<p class=\"note\">{}</p>\n", escape_markup(note));
  return out + "</section>\n";
}

std::string html_figure(std::string_view value, std::string_view label) {
  return fmt::format("<div class=\"figure\"><b>{}</b><span>{}</span></div>\n", escape_markup(value),
                     escape_markup(label));
}

std::string html_page(std::string_view title, std::string_view heading, std::string_view how,
                      const Provenance& made, std::string_view body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>{}</title>\n"
      "<style>{}</style>\n</head>\n<body>\n<main>\n<h1>{}</h1>\n<p class=\"how\">{}</p>\n{}"
      "<footer><pre class=\"command\">{}</pre>{}, on {}, Verbena {}</footer>\n</main>\n</body>\n</html>\n",
      escape_markup(title), kStyle, escape_markup(heading), escape_markup(how), body,
      escape_markup(made.command), escape_markup(made.date), escape_markup(made.host), version());
}

}  // namespace verbena::apps
