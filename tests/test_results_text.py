"""Lines of text: sentences and tables that fit into a terminal."""

from __future__ import annotations

from calibrant._results import LINE_WIDTH, ended, filled, text_table


def test_a_sentence_is_broken_between_words_and_never_inside_a_number_s_company():
    text = "x" * 60 + " and then n = 4,000 or [0.1234, 0.5678] or 1.0 - miscalibration 0.25"
    lines = filled(text).splitlines()
    assert " ".join(line.strip() for line in lines) == text
    for whole in ("n = 4,000", "[0.1234, 0.5678]", "- miscalibration 0.25"):
        assert any(whole in line for line in lines)
    assert all(line.startswith("  ") for line in lines[1:])
    assert max(map(len, lines)) <= LINE_WIDTH


def test_a_word_longer_than_a_line_is_kept_whole():
    assert filled("see " + "x" * 100).splitlines()[1].strip() == "x" * 100


def test_a_period_ends_several_sentences_once():
    assert ended("at most 0.1 (n = 4)") == "at most 0.1 (n = 4)"
    assert ended("Undecided. More rows") == "Undecided. More rows."
    assert ended("Undecided. More rows.") == "Undecided. More rows."


def test_columns_without_room_follow_in_a_second_table():
    head = ["group", *(f"column {i:02}" for i in range(10))]
    rows = [["a", *"0123456789"], ["b", *"9876543210"]]
    first, second = "\n".join(text_table(head, rows)).split("\n\n")
    assert first.split("\n")[0].split()[-1] == "04", "tables share the columns evenly"
    assert [block.split("\n")[1].split()[0] for block in (first, second)] == ["a", "a"]
    told = first.split("\n")[1].split()[1:] + second.split("\n")[1].split()[1:]
    assert told == list("0123456789")
    assert max(map(len, f"{first}\n{second}".split("\n"))) <= LINE_WIDTH


def test_a_long_name_goes_on_below_and_its_numbers_stay_beside_its_beginning():
    name = "a ward of the university hospital in the city by the sea"
    head, line, rest = text_table(["group", "rows"], [[name, "12"]])
    assert head.split() == ["group", "rows"]
    assert line.endswith("  12")
    assert f"{line.removesuffix('12').strip()} {rest.strip()}" == name


def test_a_table_without_rows_is_its_head():
    assert text_table(["a", "b"], []) == ["a  b"]
