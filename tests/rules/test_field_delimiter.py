"""The meaning of field.delim.regex: every expected value here was printed by Java 17."""

import pickle
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mutator.rules.delimiter.field_delimiter import Delimiter, parse

# regex, row, Arrays.asList(row.split(regex, -1)) in Java
JAVA = [
    # literals
    (r"\|", "a|b||", ["a", "b", "", ""]),
    (r"\|", "", [""]),
    (r"\|", "|", ["", ""]),
    (r"\t", "a\tb\t", ["a", "b", ""]),
    (r"\x01", "a\x01b", ["a", "b"]),
    (r"\u0001", "a\x01\x01b", ["a", "", "b"]),
    (r"\Q||\E", "a||b|||c", ["a", "b", "|c"]),
    (r"\Q|.", "a|.b", ["a", "b"]),
    (r"\Q\E,", "a,b", ["a", "b"]),
    (r"a\Q.\Eb", "1a.b2axb3", ["1", "2axb3"]),
    ("::", "a::b:::c", ["a", "b", ":c"]),
    (r"\\.\\.", "a\\x\\yb", ["a", "b"]),
    (r"\.", "a.b", ["a", "b"]),
    ("a b", "1a b2", ["1", "2"]),
    (r"\x{1}", "a\x01b", ["a", "b"]),
    (r"\01", "a\x01b", ["a", "b"]),
    (r"\054", "a,b", ["a", "b"]),
    (r"\0101", "1A2", ["1", "2"]),
    (r"\0477", "a'7b", ["a", "b"]),
    (r"\cA", "a\x01b", ["a", "b"]),
    (r"\ca", "1!2", ["1", "2"]),
    (r"\e", "a\x1bb", ["a", "b"]),
    (r"\a", "a\x07b", ["a", "b"]),
    (r"\f", "a\x0cb", ["a", "b"]),
    ("aa", "aaaa1aaa", ["", "", "1", "a"]),
    ("]]", "a]]b", ["a", "b"]),
    ("é;", "aé;b", ["a", "b"]),
    (r"\u00e9", "aéb", ["a", "b"]),
    (r"\x{1F600}", "a😀b", ["a", "b"]),
    (r"\uD83D\uDE00", "a😀b", ["a", "b"]),
    ("(,)", "a,b", ["a", "b"]),
    (r"\_", "a_b", ["a", "b"]),
    # classes
    ("[,;]", "a,b;;c;", ["a", "b", "", "c", ""]),
    ("[|]", "a|b", ["a", "b"]),
    ("[^a-z]", "ab,cd1", ["ab", "cd", ""]),
    ("[]|]", "a]b|c", ["a", "b", "c"]),
    ("[^]|]", "a]b|c", ["", "]", "|", ""]),
    ("[a-]", "1a2-3", ["1", "2", "3"]),
    (r"[\w-.]", "a-.,", ["", "", "", ","]),
    ("[+-/]", "1+2/3-4:5", ["1", "2", "3", "4:5"]),
    ("[,[;:]]", "a,b;c:d", ["a", "b", "c", "d"]),
    ("[,-[;]]", "a,b-c;d", ["a", "b", "c", "d"]),
    (r"[\n-\r]", "a\x0bb", ["a", "b"]),
    ("[[^a-z]x]", "axb,c", ["a", "b", "c"]),
    (r"[\Q^-]\E]", "a^b-c]d", ["a", "b", "c", "d"]),
    (r"[\x2c\u003b\073\t]", "a,b;c\td", ["a", "b", "c", "d"]),
    (r"[\d-z]", "a1b-czd", ["a", "b", "c", "d"]),
    ("[--/]", "a-b.c/d", ["a", "b", "c", "d"]),
    ("[&|]", "a&b|c", ["a", "b", "c"]),
    ("[^^]", "^a^", ["^", "^"]),
    ("[.$*]", "a.b$c*d", ["a", "b", "c", "d"]),
    (r"[\s,]+", "a ,\tb", ["a", "b"]),
    ("[[:alpha:]]", "a:b", ["", "", "b"]),
    ("[é€]", "aéb€c", ["a", "b", "c"]),
    ("[^é]b", "éb€b", ["éb", ""]),
    ("[à-ÿ]", "aéb÷c😀", ["a", "b", "c😀"]),
    ("[^,]", "é,€", ["", ",", ""]),
    # sets
    (r"\d", "a1b٣c", ["a", "b٣c"]),
    (r"\D", "1a2é", ["1", "2", ""]),
    (r"\w", "a é", ["", " é"]),
    (r"\W+", "ab, é1", ["ab", "1"]),
    (r"\s", "a b\tc\x0bd\x0ce\xa0f\x1cg", ["a", "b", "c", "d", "e\xa0f\x1cg"]),
    (r"\S", "a é", ["", " ", ""]),
    (r"\h", "a\tb\xa0c\u3000d\x0be", ["a", "b", "c", "d\x0be"]),
    (r"\H", "\t\xe9 ", ["\t", " "]),
    (r"\v", "a\x0bb\x0cc\x85d\u2028e f", ["a", "b", "c", "d", "e f"]),
    (r"\V", "\x0b\xe9", ["\x0b", ""]),
    (r"\R", "a\x0bb\x85c\u2029d", ["a", "b", "c", "d"]),
    (r"\p{Punct}", "a!b~c`d^e$f|g€h", ["a", "b", "c", "d", "e", "f", "g€h"]),
    (r"\P{Punct}", "a!é", ["", "!", ""]),
    (r"\p{Lower}", "aBé", ["", "Bé"]),
    (r"\p{Upper}", "aBÉ", ["a", "É"]),
    (r"\p{ASCII}", "aé", ["", "é"]),
    (r"\p{Alpha}", "a1Zé", ["", "1", "é"]),
    (r"\p{Digit}", "a1", ["a", ""]),
    (r"\p{Alnum}", "a,1", ["", ",", ""]),
    (r"\p{Graph}", "a b\x7f", ["", " ", "\x7f"]),
    (r"\p{Print}", "a b\t", ["", "", "", "\t"]),
    (r"\p{Blank}", "a b\tc\x0b", ["a", "b", "c\x0b"]),
    (r"\p{Cntrl}", "a\x00b\x1fc\x7fd", ["a", "b", "c", "d"]),
    (r"\p{XDigit}", "aGf0", ["", "G", "", ""]),
    (r"\p{Space}", "a b\x0bc", ["a", "b", "c"]),
    (r"[\p{Punct}]", "a,b", ["a", "b"]),
    # the dot
    (".,", "ab,c,", ["a", "", ""]),
    (".,", "\xe9,\u20ac,\x85,\r,", ["", "", "\x85,\r,"]),
    ("(?s).,", "\x85,\r,a,", ["", "", "", ""]),
    ("(?s).,(?-s).;", "\r,a;\r,\r;", ["", "\r,\r;"]),
    # repetition
    (r"\s*,\s*", "a , b,c ,", ["a", "b", "c", ""]),
    (" +", "a  b c", ["a", "b", "c"]),
    (",{2}", "a,b,,c,,,d", ["a,b", "c", ",d"]),
    (",{2,}", "a,b,,c,,,d", ["a,b", "c", "d"]),
    (",{1,2}", "a,,,b", ["a", "", "b"]),
    (",+?", "a,,b", ["a", "", "b"]),
    (",*?;", "a,,;b", ["a", "b"]),
    ("é+", "aééb", ["a", "b"]),
    (r"\Q,;\E+", "a,;;b,;", ["a", "b", ""]),
    ("(?:a|ab){2}+c", "abacabc", ["abacabc"]),
    ("(?:a|ab){2}c", "xabacy", ["x", "y"]),
    (",++,", "a,,,b", ["a,,,b"]),
    ("x*+,", "axx,b", ["a", "b"]),
    ("(,;)+", "a,;,;b", ["a", "b"]),
    ("(,|;)(?:!)?", "a,!b;c", ["a", "b", "c"]),
    # groups, look-around, back references
    ("(?:,|;)", "a,b;c", ["a", "b", "c"]),
    ("(?<sep>,)x?", "a,xb", ["a", "b"]),
    ("a|ab", "xaby", ["x", "by"]),
    ("ab|a", "xabya", ["x", "y", ""]),
    (r"(,|;)\1", "a,,b,;c;;d", ["a", "b,;c", "d"]),
    (r"(?<q>['x])\k<q>", "a''b'xc", ["a", "b'xc"]),
    (r"(,)\11", "a,,1b,,", ["a", "b,,"]),
    (r"(a|b)\1|,", "aa,b", ["", "", "b"]),
    (r"(?i)(x)\1", "axXb", ["a", "b"]),
    (r"(?<!\\),", "a,b\\,c", ["a", "b\\,c"]),
    ("(?<=a|bc),", "a,bc,c,", ["a", "bc", "c,"]),
    ("(?<!a|bc),", "a,bc,c,", ["a,bc,c", ""]),
    ("(?<=[^a]),", "a,é,b,", ["a,é", "b", ""]),
    (r"(?<!\W),", "é,a,", ["é,a", ""]),
    (r",(?=\d)", "a,1,b", ["a", "1,b"]),
    (",(?! )", "a, b,c", ["a, b", "c"]),
    ("(?>a|ab)c", "abcac", ["abc", ""]),
    ("(a(?=,)),", "a,b,", ["", "b,"]),
    ("()()(,)", "a,b", ["a", "b"]),
    ("(|;),", "a;,b,c", ["a", "b", "c"]),
    # flags
    ("(?i)x,", "aX,bx,c", ["a", "b", "c"]),
    ("a(?i)b|c", "aBxCxAb", ["", "x", "xAb"]),
    ("(?i:x)y", "XyXY", ["", "XY"]),
    ("((?i)x)x", "XxXX", ["", "XX"]),
    ("(?i)a(?-i)b", "AbAB", ["", "AB"]),
    ("(?-i:x)(?i)y", "xYXy", ["", "Xy"]),
    ("(?i)[a-c]", "1B2d", ["1", "2d"]),
    ("(?i)[^a]", "aAb", ["aA", ""]),
    ("(?i)é", "aéÉb", ["a", "Éb"]),
    ("(?i)[Z-a]", "zZ_^b", ["", "", "", "", "b"]),
    ("(?is).x", "\rXaX", ["", "", ""]),
    (r"(?i)\Qx\E", "aXb", ["a", "b"]),
    ("(?:(?i)a|b)c", "BcAcBC", ["", "", "BC"]),
    ("(?i-s)k", "aKb", ["a", "b"]),
    ("(?i),", "a,b", ["a", "b"]),
    # anchors
    ("^,", ",a,b", ["", "a,b"]),
    (",$", "a,b,", ["a,b", ""]),
    (",$", "a,b,\r", ["a,b", "\r"]),
    (",$", "a,\u2028", ["a", "\u2028"]),
    (",$", "a,\n", ["a", "\n"]),
    (r"[,\r]$", "a\r\n", ["a\r\n"]),
    (r"[,\r]$", "a,\r\n", ["a", "\r\n"]),
    (r",\z", "a,\r", ["a,\r"]),
    (r",\Z", ",a,\r", [",a", "\r"]),
    (r"\A,", ",,a", ["", ",a"]),
    ("a$|,", "a,ba", ["a", "b", ""]),
    ("^a|b", "aab", ["", "a", ""]),
    # empty fields
    (",", ",,,", ["", "", "", ""]),
    ("[,;]", ",;,", ["", "", "", ""]),
    ("[,;]", "", [""]),
    # a line feed may be part of the regex if a match is possible without it
    (r",|\n", "a,b", ["a", "b"]),
    (r"\r?,", "a,b\r,c", ["a", "b", "c"]),
]


@pytest.mark.parametrize(("regex", "row", "fields"), JAVA)
def test_splits_as_java(regex: str, row: str, fields: list[str]) -> None:
    assert parse(regex).split(row.encode()) == [field.encode() for field in fields]


# set, its members below U+0080 as bits, the number of its members from U+0080 on (without surrogates)
JAVA_SETS = [
    (r"\d", 0x000000000000000003FF000000000000, 0),
    (r"\w", 0x07FFFFFE87FFFFFE03FF000000000000, 0),
    (r"\s", 0x00000000000000000000000100003E00, 0),
    (r"\h", 0x00000000000000000000000100000200, 17),
    (r"\v", 0x00000000000000000000000000003C00, 3),
    (r".", 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFDBFF, 1111933),
    (r"\p{Lower}", 0x07FFFFFE000000000000000000000000, 0),
    (r"\p{Upper}", 0x0000000007FFFFFE0000000000000000, 0),
    (r"\p{ASCII}", 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF, 0),
    (r"\p{Alpha}", 0x07FFFFFE07FFFFFE0000000000000000, 0),
    (r"\p{Digit}", 0x000000000000000003FF000000000000, 0),
    (r"\p{Alnum}", 0x07FFFFFE07FFFFFE03FF000000000000, 0),
    (r"\p{Punct}", 0x78000001F8000001FC00FFFE00000000, 0),
    (r"\p{Graph}", 0x7FFFFFFFFFFFFFFFFFFFFFFE00000000, 0),
    (r"\p{Print}", 0x7FFFFFFFFFFFFFFFFFFFFFFF00000000, 0),
    (r"\p{Blank}", 0x00000000000000000000000100000200, 0),
    (r"\p{Cntrl}", 0x800000000000000000000000FFFFFFFF, 0),
    (r"\p{XDigit}", 0x0000007E0000007E03FF000000000000, 0),
    (r"\p{Space}", 0x00000000000000000000000100003E00, 0),
]
EVERY_CHARACTER = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x110000)])).encode()


@pytest.mark.thorough(keep=3)
@pytest.mark.parametrize(("text", "ascii_bits", "others"), JAVA_SETS)
def test_sets_have_the_same_members_as_in_java(text: str, ascii_bits: int, others: int) -> None:
    inside, outside = parse(f"(?:{text})"), parse(f"[^{text}]") if text != "." else parse(f"(?!{text})(?s:.)")
    found = sum(1 << c for c in range(128) if inside.split(bytes([c])) == [b"", b""])
    assert f"{found:032X}" == f"{ascii_bits:032X}"
    members = ascii_bits.bit_count() + others
    assert len(inside.split(EVERY_CHARACTER)) - 1 == members
    assert len(outside.split(EVERY_CHARACTER)) - 1 == 0x110000 - 0x800 - members


@pytest.mark.parametrize("c", [*"|.\\^$*+?()[]{}-, \t;aZ0", "\x01", "\x00", "é", "€", "😀"])
def test_one_character_matches_itself(c: str) -> None:
    assert parse(c) == Delimiter(c.encode(), None, c)
    assert parse(c).split(f"è{c}{c}b".encode()) == ["è".encode(), b"", b"b"]


@pytest.mark.parametrize(
    ("regex", "literal"),
    [
        (r"\|", b"|"),
        (r"\t", b"\t"),
        (r"\x01", b"\x01"),
        (r"\u0001", b"\x01"),
        (r"\x{1}", b"\x01"),
        (r"\01", b"\x01"),
        (r"\cA", b"\x01"),
        (r"\e\a\f", b"\x1b\x07\x0c"),
        (r"\Q||\E", b"||"),
        (r"\Q||", b"||"),
        (r"\Q\\E", b"\\"),
        (r"\|\|", b"||"),
        (r"\\\.", b"\\."),
        ("::", b"::"),
        ("a b", b"a b"),
        ("[|]", b"|"),
        ("(é)", b"\xc3\xa9"),
        ("(?:,)(?i);", b",;"),
    ],
)
def test_a_regex_that_matches_one_text_becomes_a_literal(regex: str, literal: bytes) -> None:
    assert parse(regex) == Delimiter(literal, None, regex)


def test_a_literal_with_ignored_case_stays_a_regex() -> None:
    assert parse("(?i)x,").literal is None


# regex, a part of the message
REFUSED = [
    ("", "empty: give one character"),
    ("x" * 1001, "has 1001 characters: give at most 1000"),
    # can match the empty string
    ("||", r"`||` can match the empty string: make a part of it required"),
    ("||", r"or write `\|\|` or `\Q||\E` if its characters are meant as they are"),
    (r"\s*", "can match the empty string"),
    ("a|b*", "can match the empty string"),
    ("(?=,)", "can match the empty string"),
    ("(?<=,)", "can match the empty string"),
    (r"(|,)\1", "can match the empty string"),
    (",{0,2}", "can match the empty string"),
    (",??", "can match the empty string"),
    (r"\Q\E", "can match the empty string"),
    ("(?:,?){1}", "can match the empty string"),
    ("^$", "can match the empty string"),
    # rows end there
    ("\n", "needs a line feed"),
    (r"\n", "needs a line feed"),
    (",\\u000a", "needs a line feed"),
    ("[\\r\\n]+", "needs a line feed or carriage return"),
    # not supported, or different between versions of Java
    (r",\b", r"`\b` at character 2 is not supported"),
    (r"\G,", r"`\G` at character 1 is not supported"),
    (r"\X,", r"`\X` at character 1 is not supported"),
    (r",\p{L}", r"`\p{L}` at character 2 is not supported"),
    (r"\pL", r"`\p` at character 1 is not supported"),
    (r"\p{IsPunct}", r"`\p{IsPunct}` at character 1 is not supported"),
    (r"(?i)\p{Lower}", r"`\p{Lower}` at character 5 is read differently by versions of Java"),
    ("x[^a[b]]", "`[^a[` at character 2 is read differently by Java 8 and 9"),
    ("[a-z&&[^x]]", "`&&` at character 5 intersects classes"),
    (r"[\v-x]", r"`\v` at character 2 is a vertical tab for Java"),
    ("(?m)^,", "`(?m` at character 1 begins an unsupported group"),
    ("(?x) ,", "`(?x` at character 1 begins an unsupported group"),
    ("(?P<a>,)", "`(?P` at character 1 begins an unsupported group"),
    ("(a?)*,", "`(a?)*` at character 1 repeats what can match the empty string"),
    (r"(a)?,\1", r"`\1` at character 6 refers to a group that may be unset here"),
    (r"(?:(a)|b)\1", r"`\1` at character 10 refers to a group"),
    (r"(?:b|(a))\1", r"`\1` at character 10 refers to a group"),
    (r"(a)|b\1", r"`\1` at character 6 refers to a group"),
    (r"(?=(a))\1", r"`\1` at character 8 refers to a group"),
    (r"(a\1)", r"`\1` at character 3 refers to a group"),
    (r",\k<n>", r"`\k<n>` at character 2 refers to a group"),
    ("x(?<=a*),", "`(?<=a*)` at character 2 looks behind for texts of unknown length"),
    # not a regex
    ("a\\", "`\\` at character 2 is not supported"),
    (r"\y,", r"`\y` at character 1 is not supported"),
    (r",\E", r"`\E` at character 2 is not supported"),
    (r"\0", r"`\0` at character 1 is not supported"),
    (r"\x4", r"`\x` at character 1 is not supported"),
    (r"\x{110000}", "at character 1 is not supported"),
    (r"\ud83d,", r"`\ud83d` at character 1 is not supported"),
    ("\ud83d,", "half a surrogate pair"),
    ("(,", "`(,` at character 1 lacks its closing )"),
    (",)", "`)` at character 2 closes no group"),
    ("[,", "`[,` at character 1 lacks its closing ]"),
    ("[]", "`[]` at character 1 lacks its closing ]"),
    ("[z-a]", "`z-a` at character 2 is not a range"),
    (r"[\Qz\E-a]", r"`z\E-a` at character 4 is not a range"),
    (r"[a-\d]", r"`a-\d` at character 2 is not a range"),
    (r"[^\s\S]", r"`[^\s\S]` at character 1 has no character"),
    ("*,", "`*` at character 1 repeats nothing"),
    ("(?i)*,", "`*` at character 5 repeats nothing"),
    ("a**", "`a**` at character 1 is repeated wrongly"),
    ("a{b}", "`a{` at character 1 is repeated wrongly"),
    (",{2,1}", "too much for Python's re"),
    (",{99999999999}", "too much for Python's re"),
    ("(?<a>x)(?<a>y)", "`(?<a>` at character 8 names a second group so"),
    ("(" * 450 + "," + ")" * 450, "too much for Python's re"),
    (r"\Qab\E\b", r"`\b` at character 7 is not supported"),
]


@pytest.mark.parametrize(("regex", "message"), REFUSED)
def test_errors_name_position_and_cure(regex: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        parse(regex)
    assert type(caught.value) is ValueError  # UnicodeError and re.error would be accidents
    assert ": " in str(caught.value)  # the fault, then the cure


@pytest.mark.parametrize(
    ("regex", "row", "fields"),
    [
        (",", b"\xff,\xfe", [b"\xff", b"\xfe"]),
        ("[,;]", b"\xff,\xfe;\xc3", [b"\xff", b"\xfe", b"\xc3"]),
        ("é", b"\xc3,\xc3\xa9\xa9", [b"\xc3,", b"\xa9"]),
        # a stray byte matches only negated sets and the dot
        ("[^a]b", b"x\xffb\xc3b\xa9b", [b"x", b"", b"", b""]),
        (".b", b"\xe2\x82b", [b"\xe2", b""]),
        (r"\W", b"a\xc3b\xa9\xa9c", [b"a", b"b", b"", b"c"]),
        ("[à-ÿ]", b"\xc3\xc3\xa9\xa9", [b"\xc3", b"\xa9"]),
        # bytes that look like characters but are not: an overlong form, a surrogate, beyond the last code point
        (r"\D", b"\xc0\xaf", [b"", b"", b""]),
        (r"\D", b"\xed\xa0\x80", [b"", b"", b"", b""]),
        (r"\D", b"\xf4\x90\x80\x80", [b"", b"", b"", b"", b""]),
        (r"\D", b"\xf0\x9f\x98\x80", [b"", b""]),
        (r"[^\x00-\x{10FFFF}]", b"a\xff\xc3\xa9", [b"a", b"\xc3\xa9"]),
    ],
)
def test_rows_that_are_not_utf8_survive(regex: str, row: bytes, fields: list[bytes]) -> None:
    assert parse(regex).split(row) == fields


@pytest.mark.parametrize("regex", [",", r"\s*[^\w.]\s*", r"(,|;)\1"])
def test_pickles_stay_small_and_equal_after_use(regex: str) -> None:
    before = parse(regex)
    size = len(pickle.dumps(before))
    before.split(b"a,b")
    assert len(pickle.dumps(before)) == size < 1000
    after = pickle.loads(pickle.dumps(before))
    assert after == before
    assert hash(after) == hash(before)
    assert after.split(b"a,,b") == before.split(b"a,,b")


def test_only_groups_with_back_references_are_kept() -> None:
    assert re.compile(parse("(,|;)(?<x>!)?").pattern or b"").groups == 0
    assert re.compile(parse(r"(a)(?<x>,|;)\k<x>").pattern or b"").groups == 1


CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\n\r")


@given(st.text(CHARACTERS, min_size=1, max_size=5), st.lists(st.binary(max_size=8), min_size=1))
@example(text="\\", fields=[b"", b"\\"])
@example(text="\\E", fields=[b"", b"E"])
def test_literal_join_and_split_round_trip(text: str, fields: list[bytes]) -> None:
    regex = text if len(text) == 1 else re.sub(r"([^a-zA-Z0-9])", r"\\\1", text)
    literal = text.encode()
    fields = [field.replace(literal[-1:], b"") for field in fields]  # no field or boundary contains a delimiter
    assert parse(regex).literal == literal
    assert parse(regex).split(literal.join(fields)) == fields


# a Java regex, and the equivalent regex of Python's re on characters
BROAD = [
    (r"\D", "[^0-9]"),
    (r"\W", "[^a-zA-Z0-9_]"),
    (r"\S", r"[^ \t-\r]"),
    (r"\H", "[^\t \xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000]"),
    (r"\V", "[^\n\x0b\f\r\x85\u2028\u2029]"),
    (r"\P{Punct}", r"[^!-/:-@\[-`{-~]"),
    ("[^é]b", "[^é]b"),
    ("(?s).b", "(?s).b"),
    ("(?:.)", "[^\n\r\x85\u2028\u2029]"),
    ("[é-€]", "[é-€]"),
    ("(?<=[^a])b", "(?<=[^a])b"),
    (r"(?<!\W)b", r"(?<![^a-zA-Z0-9_])b"),
]


@pytest.mark.parametrize(("java", "python"), BROAD)
@given(text=st.text(st.sampled_from("ab1, éè€😀\x85") | CHARACTERS))
@example(text="éb€b😀b")
def test_no_match_begins_or_ends_inside_a_character(java: str, python: str, text: str) -> None:
    assert [field.decode() for field in parse(java).split(text.encode())] == re.split(python, text)


@given(st.text(st.sampled_from(r"ab,|.()[]{}*+?^$-\&<>=!:iQEdwR1é"), max_size=12), st.binary(max_size=12))
def test_any_text_gives_a_delimiter_or_a_reason(text: str, row: bytes) -> None:
    try:
        found = parse(text)
    except ValueError as refusal:
        reason = refusal
    else:
        fields = found.split(row)
        assert sum(map(len, fields)) + len(fields) - 1 <= len(row)  # each delimiter needs at least a byte
        return
    assert type(reason) is ValueError
