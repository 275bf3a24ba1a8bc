// `verbena completion SHELL`: a script for a shell, which asks `verbena complete -- WORD…` what can come
// next. So it knows the options of whichever `verbena` the command line begins with.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>
#include <memory>

#include "absl/strings/str_join.h"
#include "apps/launcher/job_options.hpp"
#include "apps/options/completion.hpp"
#include "apps/options/validators.hpp"
#include "apps/program/commands.hpp"
#include "apps/report/console.hpp"
#include "apps/report/exit_status.hpp"

namespace verbena::apps {
namespace {

// Readline replaces only what stands behind the last = or : of a word, or behind an open quotation mark.
// Without the package bash-completion nothing else knows that. An own reading of the line, for the shell
// would cut it at these, too, and leave quotation marks in.
constexpr const char* kBashScript =
    R"script(# bash completion of verbena; `source` it, or install it as share/bash-completion/completions/verbena
_verbena() {
    local line=${COMP_LINE:0:COMP_POINT} current= begun= quote= before= before_quote= paths= word letter
    local -a words
    local -i i
    for ((i = 0; i < ${#line}; ++i)); do
        letter=${line:i:1}
        if [[ $letter == \\ && $quote != "'" ]]; then
            current+=${line:(++i):1} begun=1
        elif [[ -n $quote ]]; then
            if [[ $letter == "$quote" ]]; then quote=; else current+=$letter; fi
        elif [[ $letter == [\'\"] ]]; then
            quote=$letter before_quote=$current begun=1
        elif [[ $letter == [[:space:]] ]]; then
            [[ -n $begun ]] && words+=("$current")
            current= begun= before=
        else
            current+=$letter begun=1
            [[ $letter == [=:] && $COMP_WORDBREAKS == *"$letter"* ]] && before=$current
        fi
    done
    words+=("$current")
    [[ -n $quote ]] && before=$before_quote
    COMPREPLY=()
    while IFS= read -r word; do
        if [[ -z $paths ]]; then
            paths=$word
        else
            word=${word%%$'\t'*}
            COMPREPLY+=("${word#"$before"}")
        fi
    done < <("${words[0]/#\~/$HOME}" complete -- "${words[@]:1}" 2>/dev/null)
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=:] ]]; then
        compopt -o nospace 2>/dev/null
    fi
    case $paths in
        files | folders)
            compopt -o filenames 2>/dev/null
            local kind=-f path=$current
            [[ $paths == folders ]] && kind=-d
            [[ $current == --*=* ]] && path=${current#*=}
            while IFS= read -r word; do
                word=${current%"$path"}$word
                COMPREPLY+=("${word#"$before"}")
            done < <(compgen "$kind" -- "$path")
            ;;
    esac
}
complete -o bashdefault -o default -F _verbena verbena
)script";

constexpr const char* kZshScript = R"script(#compdef verbena
# zsh completion of verbena; `source` it, or install it as _verbena in a folder of fpath
_verbena() {
    local program=${(Q)words[1]} line word about
    local -a answer entries open
    answer=("${(@f)$("${program/#\~/$HOME}" complete -- "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
    for line in "${(@)answer[2,-1]}"; do
        word=${line%%$'\t'*} about=${line#*$'\t'}
        if [[ $word == *[=:] ]]; then
            open+=("${word//:/\\:}${about:+:$about}")
        else
            entries+=("${word//:/\\:}${about:+:$about}")
        fi
    done
    local found=1
    (( $#entries )) && _describe -V verbena entries && found=0
    (( $#open )) && _describe -V verbena open -S '' && found=0
    case $answer[1] in
        files) [[ $PREFIX == --*=* ]] && compset -P 1 '*='; _files && found=0 ;;
        folders) [[ $PREFIX == --*=* ]] && compset -P 1 '*='; _files -/ && found=0 ;;
    esac
    return found
}
if [[ $funcstack[1] == _verbena ]]; then
    _verbena "$@"
else
    compdef _verbena verbena
fi
)script";

constexpr const char* kFishScript =
    R"script(# fish completion of verbena; `source` it, or install it as share/fish/vendor_completions.d/verbena.fish
function __verbena_complete
    set -l words (commandline -opc)
    # As it stands there; if a quotation mark is open, it is no word yet.
    set -l raw (commandline -ct)
    set -l current (string unescape -- "$raw"; or string replace -r -- '^(-[^=]*=)?["\']' '$1' "$raw")
    set -l program (string replace -r '^~' -- $HOME $words[1])
    set -l answer ($program complete -- $words[2..-1] "$current" 2>/dev/null)
    set -l before (string match -r -- '^--[^=]*=' "$current")
    set -l path (string replace -r -- '^--[^=]*=' '' "$current")
    switch "$answer[1]"
        case files
            for found in (__fish_complete_path "$path")
                echo "$before$found"
            end
        case folders
            for found in (__fish_complete_directories (string escape --no-quoted -- "$path") '')
                echo "$before$found"
            end
    end
    if set -q answer[2]
        printf '%s\n' $answer[2..-1]
    end
end
complete -c verbena -f -a '(__verbena_complete)'
)script";

const std::map<std::string, const char*>& shell_scripts() {
  static const std::map<std::string, const char*> kScripts = {
      {"bash", kBashScript}, {"fish", kFishScript}, {"zsh", kZshScript}};
  return kScripts;
}

/// The first line says what paths can stand there; each other one is a word, and behind a tab what it is.
int show_completion(const CLI::App& program, const std::vector<std::string>& words) {
  const Completion completion = complete(program, words);
  static const std::map<Completion::Paths, const char*> kPaths = {{Completion::Paths::kNone, "none"},
                                                                  {Completion::Paths::kFiles, "files"},
                                                                  {Completion::Paths::kFolders, "folders"}};
  print_out("{}\n", kPaths.at(completion.paths));
  for (const Completion::Word& word : completion.words) print_out("{}\t{}\n", word.text, word.about);
  return kExitOk;
}

}  // namespace

void add_completion_commands(CLI::App& program, const std::vector<std::string>& words, Run* run) {
  std::vector<std::string> shells;
  for (const auto& [shell, script] : shell_scripts()) shells.push_back(shell);
  auto shell = std::make_shared<std::string>();
  CLI::App* command = program.add_subcommand("completion",
                                             "print what makes a shell complete the commands and options of "
                                             "verbena\n\nWhere `cmake --install` has put "
                                             "it among the shell's own completions, nothing is left to do. "
                                             "The script asks the program itself what can "
                                             "come next, so it does not grow old.");
  command->add_option("SHELL", *shell, "Which shell.")
      ->type_name(absl::StrJoin(shells, "|"))
      ->check(one_of(shells))
      ->required();
  command->footer(examples({"source <(verbena completion bash)     (in ~/.bashrc)",
                            "source <(verbena completion zsh)      (in ~/.zshrc)",
                            "verbena completion fish | source      (in ~/.config/fish/config.fish)"}));
  command->callback([shell, run] {
    *run = [shell](const job::LaunchLetter&) {
      put(stdout, shell_scripts().at(*shell));
      return kExitOk;
    };
  });

  CLI::App* of_scripts = program.add_subcommand(
      "complete", "say what can come next: verbena complete -- WORD…, the last one incomplete");
  of_scripts->group("");  // not for people
  of_scripts->callback([&program, words, run] {
    *run = [&program, words](const job::LaunchLetter&) { return show_completion(program, words); };
  });
}

}  // namespace verbena::apps
