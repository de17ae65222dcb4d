"""Nothing that comes from a user can become markup."""

from __future__ import annotations

import json

import pytest

from calibrant._html import (
    LENGTH,
    Embedded,
    element,
    escaped,
    json_data,
    png_image,
    short,
    shown,
)


def test_text_and_attributes_are_escaped():
    written = str(element("p", "<b>&\"'", title='"><script>'))
    assert written == '<p title="&quot;&gt;&lt;script&gt;">&lt;b&gt;&amp;&quot;&#x27;</p>'


def test_children_may_be_nested_and_missing():
    assert str(element("ul", [element("li", "a"), None, [element("li", "b")]])) == (
        "<ul><li>a</li><li>b</li></ul>"
    )


def test_a_number_that_is_zero_is_written_and_a_missing_attribute_is_not():
    assert str(element("rect", x=0, y=1.5, id=None, hidden=True, open=False)) == (
        '<rect x="0" y="1.5" hidden></rect>'
    )


@pytest.mark.parametrize("tag", ["script", "style", "SCRIPT", "iframe", "p onclick=x", "a>b", ""])
def test_a_tag_that_runs_or_breaks_out_is_refused(tag):
    with pytest.raises(ValueError, match="tag not allowed in a report"):
        element(tag)


@pytest.mark.parametrize("name", ["onclick", "ONLOAD", "style", "src", "srcdoc", "a b", "x=y"])
def test_an_attribute_that_runs_or_loads_is_refused(name):
    with pytest.raises(ValueError, match="attribute not allowed in a report"):
        element("p", **{name: "x"})


@pytest.mark.parametrize("link", ["javascript:alert(1)", "https://example.org", "//x", "page.html"])
def test_links_stay_on_the_page(link):
    with pytest.raises(ValueError, match="it leaves the page"):
        element("a", "x", href=link)


def test_characters_that_no_document_may_hold_are_replaced():
    assert escaped("a\x00\x1b\x9f\ud800\uffffb\tc\n") == "a\ufffd\ufffd\ufffd\ufffd\ufffdb\tc\n"
    escaped("\ud800").encode("utf-8")


def test_data_for_the_script_cannot_close_it_and_survives():
    value = {"name": "</script><!--<script>&", "x": [1, 2.5]}
    written = "".join(json_data("d", value).parts())
    inside = written[written.index(">") + 1 : written.rindex("</script>")]
    assert not set(inside) & set("<>&")
    assert json.loads(inside) == value


def test_a_source_that_would_close_its_own_tag_is_refused():
    with pytest.raises(ValueError, match="must not hold"):
        Embedded("script", "x = '</script>'")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("plain", "plain"),
        (7, "7"),
        ("a\n\tb\u2028c", "a b c"),
        ("\u202eabc", "\ufffdabc"),
        ("\x1b[31m", "\ufffd[31m"),
        ("\ud800", "\ufffd"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("", "␣"),
        ("  ", "␣"),
    ],
)
def test_a_name_as_it_is_shown(name, expected):
    assert short(name) == expected


@pytest.mark.parametrize("name", ["x" * 10_000, " " * 10_000 + "y", "<" * 49])
def test_a_long_name_is_cut_and_says_so(name):
    assert len(short(name)) <= LENGTH
    assert short(name).endswith("…")


def test_a_name_of_the_full_length_is_not_cut():
    assert short("x" * LENGTH) == "x" * LENGTH


def test_a_name_is_set_apart_from_the_text_around_it():
    assert str(shown("<i>")) == "<bdi>&lt;i&gt;</bdi>"


def test_a_picture_is_part_of_the_document_and_its_description_is_text():
    written = str(png_image(b"\x89PNG", '"><script>'))
    assert written == ('<img alt="&quot;&gt;&lt;script&gt;" src="data:image/png;base64,iVBORw==">')
