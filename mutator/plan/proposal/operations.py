"""What mutations do: the op code field and its delete codes, or the prefix of delete files."""

import posixpath
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from mutator.errors.display import counted
from mutator.plan.inspect.delete_files import delete_pattern
from mutator.plan.proposal.choices import Choice, Value
from mutator.plan.proposal.tables import Inputs, SampleRows
from mutator.rules.facts import form_of
from mutator.rules.file_names import delete_word, first_few, may_be_place
from mutator.rules.op_codes import (
    MOST_CODES,
    CodeFacts,
    counted_codes,
    delete_marks,
    is_delete_time,
    is_op_code,
    looks_like_upsert,
    named_like_op_codes,
)

OP, DELETE_CODES, KEEP_OP = "op.code.field.ordinal", "deleted.op.code", "op.code.keep"
IGNORE_CODES, TRUNCATE_CODES, DELETE_WHEN = "ignore.op.code", "truncate.op.code", "delete.when"
DELETE_PREFIX, DELETE_PATTERN = "deleted.record.file.prefix", "deleted.record.file.pattern"

_PLAIN = {b"I", b"U", b"D", b"i", b"u", b"d"}
_LONGEST_CODE = 16
_SHORTEST = 3  # letters of a prefix


def op_field(inputs: Inputs, widths: tuple[int, int]) -> str | None:
    """Return the field of the feed with the op codes; None without one.

    widths: the numbers of fields of whole rows of master and feed, where they are known by position, in the file's own
    numbers.
    """
    feed = SampleRows.of(inputs.feed)
    codes = {name: CodeFacts.of(feed.columns[name]) for name in feed.fields}
    short = {name: found for name, found in codes.items() if _may_be_codes(found.counts)}
    usual = [name for name, found in short.items() if found.are_usual]
    if inputs.named:
        master = {name for table in inputs.master for name in table.fields}
        extra = [name for name in feed.fields if name not in master] if master else []
        marks = [
            name
            for name in (extra if master else feed.fields)
            if delete_marks(name, codes[name].counts) or is_delete_time(name, codes[name].counts)
        ]
        called = [name for name in short if named_like_op_codes(name)]
        some = [name for name in extra if name in usual and _has_letters(short[name].counts)]
        return next(iter([*called, *some, *marks]), None)
    master_width, feed_width = widths
    if inputs.master and feed_width == master_width + 1:
        some = [name for name, found in short.items() if any(code and is_op_code(code) for code in found.counts)]
        aligned = _aligned(inputs, feed, [*usual, *(name for name in some if name not in usual)])
        if aligned is not None:
            return aligned
    return next((name for name in usual if _is_certain(inputs, name, short[name])), None)


def _may_be_codes(codes: Collection[bytes]) -> bool:
    return len(codes) <= MOST_CODES and any(codes) and all(len(code) <= _LONGEST_CODE for code in codes)


def _has_letters(codes: Collection[bytes]) -> bool:
    return any(code.strip(b" \"'+-").isalpha() for code in codes)


def _is_certain(inputs: Inputs, name: str, codes: CodeFacts) -> bool:
    """Return whether usual codes are op codes, though the master may have the field as well.

    Other fields have such values, too: sizes are S and M.
    """
    both = CodeFacts.of([*codes.counts, *SampleRows.of(inputs.master).columns.get(name, ())])
    if not both.are_usual:
        return False
    if codes.deletes and any(code and looks_like_upsert(code) for code in codes.counts):
        return True
    found = {code for code in both.counts if code}
    return found <= _PLAIN and len(found) > 1


def _aligned(inputs: Inputs, feed: SampleRows, candidates: Sequence[str]) -> str | None:
    """Return the candidate without which the other fields have the forms of the master's; the first of the best."""
    master = SampleRows.of(inputs.master)
    own = [_forms(master.columns[name]) for name in master.fields]

    def mismatches(name: str) -> int:
        others = [_forms(feed.columns[other]) for other in feed.fields if other != name]
        return sum(not ours & theirs for ours, theirs in zip(own, others, strict=False))

    return min(candidates, key=lambda name: (mismatches(name), candidates.index(name)), default=None)


def _forms(values: Sequence[bytes | None]) -> set[bytes]:
    return {form_of(value or b"") for value in values[:200]}


def op_choices(inputs: Inputs, name: str, label: Value) -> list[Choice]:
    """Return the settings of op codes. name: the field; label: its value in the configuration."""
    feed, master = SampleRows.of(inputs.feed), SampleRows.of(inputs.master)
    codes = CodeFacts.of(feed.columns[name], name)
    in_master = any(master.columns.get(name, ()))
    rows = counted(sum(codes.counts.values()), "row")
    shown = counted_codes(codes.counts, MOST_CODES)
    whose = "the master's rows have it, too" if in_master else "the master's rows lack it"
    choices = [Choice(OP, label, f"the feed has the op codes {shown} there, and {whose}")]
    if in_master:
        why = "the master's rows have the op code, too, and a run removes it from the rows that it writes"
        question = f"Shall the result keep the op code column of the master? Then set {{{KEEP_OP}}} to true."
        choices.append(Choice(KEEP_OP, False, why, [(True, "keeps the column in the result")], question))
    if is_delete_time(name, codes.counts):
        deletes = counted(sum(codes.where(bool).values()), "row")
        why = (
            f"{deletes} of {rows.partition(' ')[0]} of the feed {'has' if deletes == '1 row' else 'have'} a time there"
        )
        return [*choices, Choice(DELETE_WHEN, "not null", why)]
    if marks := delete_marks(name, codes.counts):
        why = f"{counted_codes(codes.where(marks.__contains__))} in {rows} of the feed marks deletes"
        return [*choices, Choice(DELETE_CODES, sorted(map(_text, marks)), why)]
    before, truncates = (
        {code: count for code, count in codes.meaning(meaning).items() if code == code.strip()}
        for meaning in ("before", "truncate")
    )
    if before:
        why = f"{counted_codes(before)} in {rows} are images before updates"
        choices.append(Choice(IGNORE_CODES, sorted(map(_text, before)), why))
    if truncates:
        why = f"{counted_codes(truncates)} in {rows} are codes of truncates, each of which deletes all older records"
        question = (
            f"Do rows with {counted_codes(truncates)} delete all records? If not, use {{{IGNORE_CODES}}} instead."
        )
        choices.append(Choice(TRUNCATE_CODES, sorted(map(_text, truncates)), why, [], question))
    return [*choices, _delete_codes(codes, rows)]


def _delete_codes(codes: CodeFacts, rows: str) -> Choice:
    """Return the setting of the codes of deletes, with the question that other codes leave. rows: counted."""
    deletes, unknown = codes.deletes, codes.unknown
    # A setting has no blanks around a code.
    unwritable = {code: count for code, count in deletes.items() if code != code.strip() or b"," in code}
    value = sorted(_text(code) for code in deletes if code not in unwritable) or ["D"]
    why = f"no delete among {rows} of the feed; D is the default"
    if deletes:
        why = f"{counted_codes(deletes)} in {rows} of the feed"
    question = None
    alternatives: list[tuple[Value, str]] = []
    if unknown:
        shown = counted_codes(unknown)
        alternatives = [([*value, *map(_text, unknown)], f"if {shown} are deletes")]
        question = (
            f"Is {shown} an op code of deletes? Then add it to {{{DELETE_CODES}}}; if its rows are not mutations, to "
            f"{{{IGNORE_CODES}}}; if they are upserts, name all codes of upserts in {{upsert.op.code}}. A run stops at "
            "codes that are not known."
        )
    folded = Counter(code.lower() for code in codes.counts)
    spellings = codes.where(lambda code: folded[code.lower()] > 1 and code not in deletes)
    if spellings and not unknown:
        shown = counted_codes(spellings)
        question = (
            f"Are {shown} all upserts? If one of them is a mistake, name the codes of upserts in {{upsert.op.code}}: "
            "rows of other codes are then rejected."
        )
    if unwritable:
        question = (
            f"Op codes with blanks or commas ({counted_codes(unwritable)}) cannot be set: have them delivered without."
        )
    return Choice(DELETE_CODES, value, why, alternatives, question)


def _text(code: bytes) -> str:
    return code.decode("utf-8", "backslashreplace")


def prefix_choice(named: Mapping[str, str], others: Sequence[str]) -> Choice | None:
    """Return the prefix of delete files, or the pattern of their names.

    named: names of feed files that have a word for deletes -> this word. others: names of other feed files.
    """
    if not named:
        return None
    if not all(name.startswith(word) for name, word in named.items()):
        why = f"{first_few([*named])}: these names have a word for deletes"
        return Choice(DELETE_PATTERN, delete_pattern(named), why)
    words = Counter(named.values())
    word, _ = words.most_common(1)[0]
    common = posixpath.commonprefix(list(words))
    if len(words) > 1 and len(common) >= _SHORTEST and not any(name.startswith(common) for name in others):
        why = f"{first_few(list(named))}: these names begin with words for deletes"
        return Choice(DELETE_PREFIX, common, why)
    own = [name for name in named if name.startswith(word)]
    following = {name[len(word) : len(word) + 1] for name in own}
    # The longer prefix is safer: other names may begin with these letters, too.
    clear = not any(name.startswith(word) for name in others)
    prefix = word if clear and following != {"_"} else word + max(following, key=lambda end: (end == "_", end))
    why = f"{first_few(own)}: {'these names begin' if len(own) > 1 else 'this name begins'} with a word for deletes"
    like = [name for name in others if name.startswith(word) and not name.startswith(prefix)]
    question = None
    if like:
        question = f"Are the rows of {first_few(like)} deletes, too? Then set {{{DELETE_PREFIX}}} to '{word}'."
    elif len(words) > 1:
        missing = first_few([name for name in named if not name.startswith(word)])
        question = f"A run has one prefix of delete files, and {missing} has another: rename it."
    return Choice(DELETE_PREFIX, prefix, why, [(word, "if other names are meant, too")] if like else (), question)


def possible_prefix(names: Sequence[str]) -> Choice | None:
    """Return a question on names that may begin with a word for deletes, or with a place. names: of feed files."""
    found = [name for name in names if (word := delete_word(name)) and may_be_place(name) and name[len(word) :][:1]]
    if not found:
        return None
    word = delete_word(found[0]) or ""
    prefix = word + found[0][len(word)]
    why = f"{first_few(found)}: nothing shows whether '{word}' in this name means deletes"
    question = f"Are all rows of {first_few(found)} deletes? Then set {{{DELETE_PREFIX}}} to '{prefix}'."
    return Choice(DELETE_PREFIX, None, why, [(prefix, "if they are deletes")], question)
