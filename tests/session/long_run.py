"""A seeded agent of many steps, and the facts that it needs again long after it met them.

The model is scripted; the tools are real and read and write files of a folder. What the agent needs
at a step is looked for in that step's packet alone, and in what references of that packet fetch.
"""

from __future__ import annotations

import hashlib
import random
import re
from dataclasses import dataclass, field
from pathlib import Path

import sawlog
from sawlog.providers.fake import Call, Reply
from sawlog.work.session import Session
from sawlog.work.step import Step

KINDS = ("constraint", "open", "changed", "result")
REFERENCE = re.compile(r"k[1-9][0-9]*\.[1-9][0-9]*")
WHOLE = re.compile(r"with ref (k[1-9][0-9]*) and a pattern")

_WORDS = (
    "ledger refund order invoice parser worker queue cursor shard token cache retry batch schema "
    "index report export window margin policy vendor handler stream buffer signal"
).split()


@dataclass
class Fact:
    """What the agent met at a step and needs again: a text, or a file in its newest version.

    `about` are the words by which it looks for what it once read; empty for what has to be shown.
    `ends` is the step from which on it no longer holds (an open item that was settled).
    """

    kind: str
    text: str
    born: int
    ends: int = 10**9
    needs: tuple[int, ...] = ()
    path: str = ""
    about: str = ""


@dataclass
class Turn:
    """What happens at a step: what is said before it, noted, settled; what the model replies."""

    said: list[str] = field(default_factory=list[str])
    noted: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    settled: list[str] = field(default_factory=list[str])
    offered: list[str] = field(default_factory=list[str])
    reply: Reply = field(default_factory=Reply)


class Plan:
    """All turns of a run and its facts, made of a seed alone."""

    def __init__(self, seed: int, steps: int, facts: int = 40) -> None:
        self._random = random.Random(seed)
        self._steps = steps
        self.turns = [Turn() for _ in range(steps + 1)]
        self.files = {f"src/{word}.py": self._text(12) for word in _WORDS[:12]}
        self.goal = "Move the billing service to the new ledger."
        self.requirements = ("owner-decision", "rollout-date")
        self._unmet = list(self.requirements)
        self.facts: list[Fact] = []
        calls: list[list[Call]] = [[] for _ in self.turns]
        for number in range(facts):
            born = 1 + number * (steps - 40) // facts
            self._met(KINDS[number % len(KINDS)], number, born, calls)
        for fact in self.facts:
            last = min(steps, fact.ends - 1)
            if last > fact.born:
                later = range(fact.born + 1, last + 1)
                picked = self._random.sample(later, min(6, len(later)))
                fact.needs = tuple(sorted({*picked, last}))
        self.turns[1].said.insert(0, f"{self.goal} Tell me when it is done.")
        for step, turn in enumerate(self.turns):
            turn.reply = self._reply(step, turn, calls[step])

    # --- facts ----------------------------------------------------------------------------------

    def _met(self, kind: str, number: int, born: int, calls: list[list[Call]]) -> None:
        word = _WORDS[number % len(_WORDS)]
        turn = self.turns[born]
        match kind:
            case "constraint":
                rule = self._random.choice(
                    (
                        f"Never touch vendor/{word}{number}.",
                        f"The {word} must stay below {number * 7 + 3} ms.",
                        f"Do not rename the table {word}_{number}.",
                        f"Keep {word}{number}.toml as it is.",
                    )
                )
                turn.said.append(f"{self._text(8)}\n{rule} {self._text(8)}")
                self.facts.append(Fact(kind, rule, born))
            case "open":
                self._open(number, word, born, turn)
            case "changed":
                path = f"src/{word}{number}.py"
                self._write(path, born, calls)
                for _ in range(self._random.randint(0, 3)):
                    self._write(path, self._random.randint(born + 1, self._steps), calls)
                self.facts.append(Fact(kind, path, born, path=path))
            case _:
                port = 1000 + number * 37
                said = f"{word}{number} listens on port {port}"
                path = f"conf/{word}{number}.ini"
                lines = [*self._text(20).split(". "), said, *self._text(30).split(". ")]
                if number % 8 == 3:
                    self.files[path] = "\n".join(lines)
                    calls[born].append(Call("read_file", {"path": path}))
                else:
                    tool = "probe" if number % 8 == 7 and number % 16 == 7 else "migrate"
                    self.files[f"answers/{word}{number}"] = "\n".join(lines)
                    calls[born].append(Call(tool, {"name": f"{word}{number}"}))
                self.facts.append(Fact(kind, said, born, about=f"{word}{number} listens"))

    def _open(self, number: int, word: str, born: int, turn: Turn) -> None:
        text = f"add a test for the {word} of case {number}"
        ends = born + 90 if number % 3 == 0 and born + 90 < self._steps else 10**9
        last = self.turns[ends] if ends < 10**9 else Turn()
        match number // 4 % 4:
            case 0:
                turn.said.append(f"{self._text(8)}\n- [ ] {text}\n{self._text(8)}")
                last.said.append(f"- [x] {text}")
            case 2 if self._unmet:
                born, text = 1, self._unmet.pop()
                last.offered.append(text)
            case 1 | 2:
                turn.reply = Reply(f"Later I shall {text}.")
                turn.noted.append((f"todo-{number}", text))
                last.settled.append(f"todo-{number}")
            case _:
                turn.reply = Reply(f"- [ ] {text}")
                last.reply = Reply(f"- [x] {text}")
        self.facts.append(Fact("open", text, born, ends))

    def _write(self, path: str, step: int, calls: list[list[Call]]) -> None:
        text = f"# written at step {step}\n{self._text(6)}"
        calls[step].append(Call("write_file", {"path": path, "text": text}))

    # --- replies --------------------------------------------------------------------------------

    def _reply(self, step: int, turn: Turn, calls: list[Call]) -> Reply:
        said = [f"Step {step}: {self._text(2)}", turn.reply.text]
        calls = list(calls)
        if not calls or self._random.random() < 0.3:
            sources = [path for path in self.files if path.startswith("src/")]
            calls.append(Call("read_file", {"path": self._random.choice(sources)}))
        if self._random.random() < 0.4:
            calls.append(Call("run_tests", {"only": self._random.choice(_WORDS)}))
        return Reply("\n".join(filter(None, said)), calls=calls)

    def _text(self, sentences: int) -> str:
        """Words that say nothing."""
        out: list[str] = []
        for _ in range(sentences):
            words = self._random.choices(_WORDS, k=self._random.randint(5, 9))
            out.append(f"The {' '.join(words)}.")
        return " ".join(out)


class Folder:
    """The files that the tools read and write."""

    def __init__(self, root: Path, plan: Plan) -> None:
        self.root = root
        for path, text in plan.files.items():
            self._put(path, text)

    def _put(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text, encoding="utf-8")

    def version(self, path: str) -> str:
        """The version of a file as it is now."""
        return hashlib.sha256((self.root / path).read_bytes()).hexdigest()

    def read_file(self, path: str) -> str:
        """Read a file of the project."""
        return (self.root / path).read_text(encoding="utf-8")

    def write_file(self, path: str, text: str) -> str:
        """Write a file of the project."""
        self._put(path, text)
        return f"wrote {len(text)} characters"

    def run_tests(self, only: str) -> str:
        """Run the tests."""
        digest = hashlib.sha256(only.encode()).hexdigest()
        return "\n".join(f"test_{only}_{digest[at : at + 6]} passed" for at in range(0, 58))

    def probe(self, name: str) -> str:
        """Ask a service how it is."""
        return self.read_file(f"answers/{name}")

    def migrate(self, name: str) -> str:
        """Move a service, and tell how it is then."""
        return self.read_file(f"answers/{name}")

    def tools(self) -> list[object]:
        """What the model is offered."""
        read_only = [self.read_file, self.run_tests, self.probe]
        return [
            *(sawlog.tool(one, effect="read_only") for one in read_only),
            self.write_file,
            self.migrate,
        ]

    def run(self, s: Session, call: sawlog.Call) -> None:
        """Run a call of the model as a harness does: a file that is shown is named."""
        with s.tool(call) as run:
            if call.name == "read_file":
                run.result(run.read(call.args["path"], root=self.root))
            else:
                run.result(call.run())
                if call.name == "write_file":
                    run.saw(call.args["path"], root=self.root)


# --- looking for what is needed -------------------------------------------------------------------


class Looking:
    """Finds facts in a step's packet, and behind the references that stand in its checkpoint."""

    def __init__(self, s: Session, folder: Folder) -> None:
        read = s.read_output.function
        assert read is not None
        self._read = read
        self._folder = folder
        self._fetched: dict[str, str] = {}

    def found(self, fact: Fact, step: Step) -> str:
        """`shown`, `fetched` (by a name that the checkpoint cites), `searched` (in all that the
        checkpoint stands for, by words the agent knows), or nothing."""
        entries = list(step.packet.entries)
        checkpoint = "".join(one.text for one in entries if one.section == "checkpoint")
        if fact.path:
            line = f'- "{fact.path}", version {self._folder.version(fact.path)[:12]}'
            if any(text.startswith(line) for text in checkpoint.split("\n")):
                return "shown"
            written = f'"path":"{fact.path}"'
            return "shown" if any(written in one.text for one in entries) else ""
        if any(fact.text in one.text for one in entries):
            return "shown"
        if not fact.about:
            return ""
        for name in dict.fromkeys(REFERENCE.findall(checkpoint)):
            if fact.text in self.fetched(name):
                return "fetched"
        whole = WHOLE.search(checkpoint)
        listed = self._read(whole[1], pattern=fact.about) if whole else ""
        return "searched" if fact.text in listed else ""

    def fetched(self, name: str) -> str:
        """All that `read_output` gives for a reference, read piece by piece."""
        if name not in self._fetched:
            pieces: list[str] = []
            start = 0
            while True:
                text = self._read(name, start)
                head, _, rest = text.partition("\n")
                assert head.startswith("[bytes "), head
                more = re.search(r"\n\[go on with start=([0-9]+)\]\Z", rest)
                pieces.append(rest[: more.start()] if more else rest)
                if more is None:
                    break
                start = int(more[1])
            self._fetched[name] = "".join(pieces)
        return self._fetched[name]
