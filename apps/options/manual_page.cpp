#include "apps/options/manual_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <sstream>
#include <string_view>

#include "apps/options/manual_formatter.hpp"

namespace verbena::apps {
namespace {

/// What troff prints as it stands here: without this it makes a hyphen, quotation marks and accents of what
/// people type.
std::string_view escape_of(char letter) {
  switch (letter) {
    case '\\':
      return "\\e";
    case '-':
      return "\\-";
    case '\'':
      return "\\(aq";
    case '`':
      return "\\(ga";
    case '^':
      return "\\(ha";
    case '~':
      return "\\(ti";
    default:
      return "";
  }
}

/// The text as troff prints it; nothing at the begin of a line is a request.
std::string escaped(std::string_view text) {
  std::string out;
  if (text.starts_with('.')) out += "\\&";
  for (const char letter : text) {
    const std::string_view escape = escape_of(letter);
    if (escape.empty()) {
      out += letter;
    } else {
      out += escape;
    }
  }
  return out;
}

/// "verbena-run-lda"
std::string page_name(const CLI::App& app) {
  std::string name = full_name(app);
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

/// `between`: the request that begins another paragraph.
std::string paragraphs(const std::string& text, const char* between) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    out += (out.empty() ? "" : between) + escaped(line) + "\n";
  }
  return out;
}

std::string entry(const Manual::Entry& entry) {
  std::string out = ".TP\n\\fB" + escaped(entry.name) + "\\fR";
  if (!entry.value.empty()) out += " \\fI" + escaped(entry.value) + "\\fR";
  return out + "\n" + (entry.text.empty() ? "\\&\n" : paragraphs(entry.text, ".IP\n"));
}

/// The pages of the command above, and of those below.
std::string others(const CLI::App& app) {
  std::vector<const CLI::App*> near = shown_commands(app);
  if (app.get_parent() != nullptr) near.insert(near.begin(), app.get_parent());
  std::string out;
  for (const CLI::App* other : near) {
    out += fmt::format("{}\\fB{}\\fR(1)", out.empty() ? "" : ",\n", escaped(page_name(*other)));
  }
  return out.empty() ? out : ".SH SEE ALSO\n" + out + "\n";
}

std::string page_of(const CLI::App& app, const std::string& version) {
  const Manual manual = manual_of(app);
  std::string title = page_name(app);
  std::transform(title.begin(), title.end(), title.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::toupper(letter)); });
  std::string out = fmt::format(".TH {} 1 \"\" \"{}\" \"Verbena\"\n.SH NAME\n{} \\- {}\n", escaped(title),
                                escaped(version), escaped(page_name(app)), escaped(manual.summary));
  for (const Manual::Section& section : manual.sections) {
    out += fmt::format(".SH \"{}\"\n{}", escaped(section.title), paragraphs(section.text, ".PP\n"));
    for (const Manual::Entry& command : section.commands) out += entry(command);
    for (const Manual::Entry& option : section.options) out += entry(option);
    if (section.lines.empty()) continue;
    out += ".nf\n";
    std::istringstream lines(section.lines);
    for (std::string line; std::getline(lines, line);) out += escaped(line) + "\n";
    out += ".fi\n";
  }
  return out + others(app);
}

void add_pages(const CLI::App& app, const std::string& version, std::vector<ManualPage>& pages) {
  pages.push_back({.file = page_name(app) + ".1", .text = page_of(app, version)});
  for (const CLI::App* command : shown_commands(app)) add_pages(*command, version, pages);
}

}  // namespace

std::vector<ManualPage> manual_pages(const CLI::App& program, const std::string& version) {
  std::vector<ManualPage> pages;
  add_pages(program, version, pages);
  return pages;
}

}  // namespace verbena::apps
