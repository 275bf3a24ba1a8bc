#include "apps/report/provenance.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

namespace verbena::apps {
namespace {

/// The arguments that this process was given, with its name instead of its path.
std::vector<std::string> own_command() {
  std::vector<std::string> words;
  std::ifstream file("/proc/self/cmdline");
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  if (words.empty()) return {"verbena"};
  words.front() = words.front().substr(words.front().rfind('/') + 1);
  return words;
}

bool needs_quotes(const std::string& word) {
  constexpr std::string_view kPlain = "-_./:=,+@%^";
  return word.empty() || !std::ranges::all_of(word, [&](unsigned char letter) {
           return std::isalnum(letter) != 0 ||
                  kPlain.find(static_cast<char>(letter)) != std::string_view::npos;
         });
}

}  // namespace

std::string shell_command(std::span<const std::string> words) {
  std::string command;
  for (const std::string& word : words) {
    if (!command.empty()) command += ' ';
    if (!needs_quotes(word)) {
      command += word;
      continue;
    }
    command += '\'';
    for (const char letter : word) command += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
    command += '\'';
  }
  return command;
}

std::string version() {
  return VERBENA_VERSION;
}

Provenance provenance() {
  std::array<char, 256> host{};
  const bool named = ::gethostname(host.data(), host.size() - 1) == 0;
  return {.command = shell_command(own_command()),
          .host = named ? host.data() : "",
          .date = fmt::format("{:%FT%TZ}", fmt::gmtime(std::time(nullptr)))};
}

void add_provenance(const Provenance& provenance, nlohmann::json& json) {
  json["command"] = provenance.command;
  json["host"] = provenance.host;
  json["date"] = provenance.date;
}

}  // namespace verbena::apps
