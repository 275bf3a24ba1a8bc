#!/usr/bin/env python3
"""Runs clang-tidy on sources joined with others, for what it does is parse and walk headers, mostly.

    scripts/tidy.py BUILD SOURCE…

BUILD holds compile_commands.json. What joining breaks, and what clang-tidy finds, is looked at again source by source, so
that nothing is found for the neighbours' sake. Missed are unused constants and aliases of namespaces, which clang looks for
in main files only: a few sources are not joined. A source that clang-tidy was content with is left out until it, a
header of ours that it includes, .clang-tidy or the tool changes (BUILD/content remembers).
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

MOST_SOURCES = 16  # joined; more would leave the last processor with too much to do
FEW_SOURCES = 8    # each by itself
OWN_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.MULTILINE)
# A program's main, and what Highway compiles several times by including it again.
ONE_OF_A_KIND = re.compile(rb"^int main\(|^BENCHMARK_MAIN|foreach_target\.h", re.MULTILINE)
# An application's, which makes names of its own those of all applications: nothing may come after it.
LAST = re.compile(rb"^using namespace", re.MULTILINE)
SHOWN_UNITS = 5


def closure(source, root, known):
    """The source and all of our headers that it includes, in an order that only they decide."""
    found, left = {source}, [source]
    while left:
        path = left.pop()
        if path not in known:
            known[path] = OWN_INCLUDE.findall(path.read_bytes())
        for name in known[path]:
            header = root / os.fsdecode(name)
            if header not in found and header.is_file():
                found.add(header)
                left.append(header)
    return sorted(found)


def options_of(command):
    """What decides how a source is parsed."""
    words, options = shlex.split(command["command"])[1:], []
    while words:
        word = words.pop(0)
        if word in ("-o", "-c"):
            words.pop(0)
        elif word in ("-isystem", "-I", "-D", "-include"):
            options.append((word, words.pop(0)))
        elif not re.match(r"-O|-g\d?$|-f(?!p-contract)", word):
            options.append((word,))
    return options


class Tidy:
    def __init__(self, build, sources):
        self.root = pathlib.Path.cwd()
        self.build = self.root / build
        self.content = self.build / "content"
        self.content.mkdir(exist_ok=True)
        self.sources = [self.root / source for source in sources]
        commands = json.loads((self.build / "compile_commands.json").read_text(encoding="utf-8"))
        self.options = {pathlib.Path(command["file"]): options_of(command) for command in commands}
        for source in self.sources:
            if source not in self.options:
                sys.exit(f"scripts/tidy.py: no target compiles {source}")

    def keys(self):
        """By source: what its result depends on."""
        version = subprocess.run(["clang-tidy", "--version"], check=True, stdout=subprocess.PIPE).stdout
        common = version + (self.root / ".clang-tidy").read_bytes()
        known, keys = {}, {}
        for source in self.sources:
            digest = hashlib.sha256(common)
            digest.update(repr(self.options[source]).encode())
            for path in closure(source, self.root, known):
                digest.update(hashlib.sha256(path.read_bytes()).digest() + os.fsencode(path.relative_to(self.root)))
            keys[source] = digest.hexdigest()
        return keys

    def units(self, sources):
        """Neighbours together, for they include the same."""
        if len(sources) <= FEW_SOURCES:
            return [[source] for source in sources]
        kinds = {pattern: [source for source in sources if pattern.search(source.read_bytes())]
                 for pattern in (ONE_OF_A_KIND, LAST)}
        alone = kinds[ONE_OF_A_KIND]
        last = [source for source in kinds[LAST] if source not in alone]
        joined = [source for source in sources if source not in alone and source not in last]
        count = -(-len(joined) // MOST_SOURCES)
        bounds = [len(joined) * at // max(count, 1) for at in range(count + 1)]
        units = [joined[begin:end] for begin, end in zip(bounds, bounds[1:])]
        for unit in units:
            unit.extend(last[:1])
            del last[:1]
        return units + [[source] for source in alone + last]

    def run(self, sources):
        """clang-tidy's status, what it said, and how long it took."""
        options = [word for option in dict.fromkeys(option for source in sources for option in self.options[source])
                   for word in option]
        file = sources[0]
        if len(sources) > 1:
            file = self.build / f"joined_{hashlib.sha256(repr(sources).encode()).hexdigest()[:16]}.cpp"
            file.write_text("".join(f'#include "{source}"  // NOLINT(bugprone-suspicious-include)\n'
                                    for source in sources), encoding="utf-8")
        begin = time.monotonic()
        done = subprocess.run(["clang-tidy", "--quiet", f"--config-file={self.root}/.clang-tidy", str(file), "--", *options],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        said = "".join(line for line in done.stdout.splitlines(keepends=True)
                       if not re.match(r"\d+ warnings? (and \d+ errors? )?generated\.$", line))
        if len(sources) > 1:
            file.unlink()
        return done.returncode, said, time.monotonic() - begin

    def main(self):
        keys = self.keys()
        left = [source for source in self.sources if not (self.content / keys[source]).exists()]
        print(f"{len(self.sources)} sources, {len(left)} of them new or changed", flush=True)
        failed, times = False, []
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            running = {pool.submit(self.run, unit): unit for unit in self.units(left)}
            while running:
                done, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
                for result in done:
                    unit = running.pop(result)
                    status, said, duration_s = result.result()
                    times.append((duration_s, unit))
                    if status == 0:
                        for source in unit:
                            (self.content / keys[source]).touch()
                    elif len(unit) == 1:
                        failed = True
                        print(said, flush=True)
                    else:
                        first = next((line for line in said.splitlines() if ": error: " in line), said)
                        print(f"{len(unit)} sources joined are not content, now each by itself: {first}", flush=True)
                        running.update({pool.submit(self.run, [source]): [source] for source in unit})
        names = lambda unit: os.path.relpath(unit[0], self.root) + (f" and {len(unit) - 1} more" if unit[1:] else "")
        for duration_s, unit in sorted(times, reverse=True)[:SHOWN_UNITS]:
            print(f"  {duration_s:4.0f} s  {names(unit)}")
        return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(Tidy(sys.argv[1], sys.argv[2:]).main())
