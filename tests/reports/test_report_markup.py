"""Nothing that comes from a user can become markup."""

from __future__ import annotations

import json

import pytest

from calibrant.reports.markup import Embedded, element, escaped, json_data


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
    with pytest.raises(ValueError, match="no tag"):
        element(tag)


@pytest.mark.parametrize("name", ["onclick", "ONLOAD", "style", "src", "srcdoc", "a b", "x=y"])
def test_an_attribute_that_runs_or_loads_is_refused(name):
    with pytest.raises(ValueError, match="no attribute"):
        element("p", **{name: "x"})


@pytest.mark.parametrize("link", ["javascript:alert(1)", "https://example.org", "//x", "page.html"])
def test_links_stay_on_the_page(link):
    with pytest.raises(ValueError, match="stay on the page"):
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
