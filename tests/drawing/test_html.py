"""The page: one file without dependencies, which reports the same as `ladderspec diff`."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from drawing.pictures import GROUPED, SPECS
from ladderspec.api import graph, load, loads
from ladderspec.cli import main
from ladderspec.drawing import draw, render
from ladderspec.drawing.boxes import details
from ladderspec.drawing.options import DEFAULT_LABELS
from ladderspec.drawing.picture import picture_of
from ladderspec.drawing.typesetting import text_of
from ladderspec.errors import SpecError, UsageError
from ladderspec.names import Role, show_arrow
from ladderspec.schedule.plan import schedule
from ladderspec.wiring.compare import compare
from ladderspec.wiring.graph import parameters

TINY = SPECS / "ommnist/rladder_tiny.yaml"
VIDEO = SPECS / "related/video_ladder.yaml"
ACTION = SPECS / "related/action_video.yaml"
SIAMESE = SPECS / "related/siamese.yaml"
APPENDIX = SPECS / "ommnist/appendix_c.yaml"
LEARNED = """
name: learned
input: {channels: 1, size: [8, 8]}
time: {frames: 5}
levels:
  - name: one
    encoder: {cell: ConvLSTM, channels: 4, initial: learned}
    decoder: {cell: convG3, filter: 3, initial: learned}
  - name: two
    encoder: {cell: ConvGRU, channels: 8, initial: learned}
    decoder: {cell: convG3, filter: 3, initial: learned}
edges:
  recurrent_decoder: all
  add: ["encoder.one(t-2) -> encoder.two", "encoder.input -> encoder.two"]
tasks:
  next_frame: {kind: prediction, at: decoder.input}
  sort: {kind: classification, at: encoder.two, head: 3}
"""

# --- the file -------------------------------------------------------------------------------------


def page_of(what: Any, **options: Any) -> str:
    return str(render(what, "html", **options))


def test_one_file_without_dependencies() -> None:
    page = page_of(load(TINY))
    assert page.startswith("<!doctype html>")
    assert "{{" not in page
    assert set(re.findall(r"https?://[^\s\"'<]+", page)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<(link|iframe|img|object|embed)\b|\ssrc=|@import|url\(", page)
    assert "default-src 'none'" in page


def test_same_bytes() -> None:
    assert page_of(load(TINY)) == page_of(graph(load(TINY)))


def test_titles_cannot_break_out() -> None:
    hostile = "</script><script>alert(1)</script><b>&"
    text = VIDEO.read_text().replace("title: Video Ladder", f"title: '{hostile}'")
    page = page_of(loads(text))
    assert hostile not in page
    assert page.count("</script>") == 2
    assert json.loads(_between(page, 'id="data">', "</script>"))["name"] == "video-ladder"


def _between(text: str, start: str, end: str) -> str:
    return text.partition(start)[2].partition(end)[0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"view": "mini"}, "not mini"),
        ({"fold": True}, "every row"),
        ({"group": True}, "every row"),
        ({"height": "9cm"}, "as large as its window"),
        ({"layout": "dot"}, "cannot be written as html"),
        ({"base": load(VIDEO, "no_recurrence")}, "one network"),
    ],
)
def test_invalid_options(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        render(load(VIDEO), "html", **options)


def test_views_and_command(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    assert main(["draw", str(VIDEO), "-o", str(path), "--view", "rolled", "--theme", "dark"]) == 0
    page = path.read_text(encoding="utf-8")
    own = page.partition("<template data-network")[0]
    assert re.findall(r'<template data-view="(\w+)"', own) == ["1", "2", "3", "4"]
    assert "color-scheme: dark" in page
    six = page_of(load(SPECS / "music/rladder.yaml"), iterations=6)
    assert '"views":["rolled","1","2","3","4","5","6"]' in six
    assert '"views":["1"]' in page_of(load(SPECS / "related/ladder.yaml"))
    short = page_of(loads(LEARNED.replace("frames: 5", "frames: 3")))
    assert '"views":["rolled","1","2","3"]' in short


# --- the page at work -----------------------------------------------------------------------------

FLAGS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--force-prefers-reduced-motion",
]  # fmt: skip


FRAME = 143  # pixels of a window around its page


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("no chromium and chromedriver: clicks were not compared with the command")
    webdriver = pytest.importorskip(
        "selenium.webdriver", reason="no selenium: clicks were not compared with the command"
    )
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in [*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    chrome.set_window_size(1400, 1000 + FRAME)
    yield chrome
    chrome.quit()


@pytest.fixture
def visit(browser: Any, tmp_path: Path) -> Iterator[Callable[[Any], Any]]:
    def go(what: Any, **options: Any) -> Any:
        (path,) = draw(what, tmp_path / "page.html", **options)
        browser.get(path.as_uri())
        return browser

    yield go
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


SAYS = """
const texts = (what) => [...document.querySelectorAll(what)].map((each) => each.textContent);
const problems = [...document.querySelectorAll("#problems li")].map((each) => each.dataset.message);
return {
  parameters: Number(document.getElementById("count").dataset.value),
  pruned: texts("#pruned li").sort(),
  arrows: texts("#arrows li").map((text) => text.replace(/ \\(\\w[\\w ]*\\)$/, "")).sort(),
  problems: problems.sort(),
};
"""
CLICK = "arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true}))"


def says(browser: Any) -> dict[str, Any]:
    found: dict[str, Any] = browser.execute_script(SAYS)
    return found


def one(browser: Any, css: str) -> Any:
    return browser.find_element("css selector", css)


def agree(found: dict[str, Any], before: Any, read: Callable[..., Any], *without: str) -> None:
    """The page reports the same as the command with the same selectors."""
    after, refused = None, []
    try:
        after = graph(read(without=without))
    except SpecError as error:
        refused = sorted(each.message for each in error.findings)
    assert found["problems"] == refused, without
    if after is None:
        return
    differences = compare(before, after)
    assert {each.sign for each in differences} <= {"-"}
    gone = {kind: sorted(d.name for d in differences if d.kind == kind) for kind in KINDS}
    assert found["parameters"] == parameters(after), without
    assert found["pruned"] == gone["node"], without
    assert found["arrows"] == gone["arrow"], without


KINDS = ("node", "arrow")


def selector_of(role: Role) -> str:
    return f"{role}@*" if role in (Role.ENCODER, Role.DECODER) else role.value


def reader(what: Path | str) -> Callable[..., Any]:
    return lambda **words: (loads if isinstance(what, str) else load)(what, **words)


NETWORKS = [TINY, VIDEO, APPENDIX, LEARNED, GROUPED]
network = pytest.mark.parametrize(
    "what", NETWORKS, ids=["tiny", "video", "appendix", "learned", "grouped"]
)


@network
def test_every_kind(visit: Any, what: Path | str) -> None:
    read = reader(what)
    before = graph(read())
    browser = visit(before)
    assert says(browser)["parameters"] == parameters(before)
    for role in dict.fromkeys(role for _, _, role in before.edges(data="role")):
        one(browser, f'[data-kind="{role.value}"]').click()
        agree(says(browser), before, read, selector_of(role))
        one(browser, "#undo").click()
        assert says(browser)["parameters"] == parameters(before)


@network
def test_every_arrow(visit: Any, what: Path | str) -> None:
    read = reader(what)
    before = graph(read())
    browser = visit(before)
    for source, target, facts in before.edges(data=True):
        ends = f'[data-source="{source}"][data-target="{target}"][data-delay="{facts["delay"]}"]'
        wire = one(browser, f'.wire{ends}[data-role="{facts["role"].value}"]')
        browser.execute_script(CLICK, wire)
        agree(says(browser), before, read, show_arrow(source, target, facts["delay"]))
        assert "gone" in wire.get_attribute("class")
        browser.execute_script(CLICK, wire)
    assert says(browser)["arrows"] == []


COUNTS = """
return Object.fromEntries([...document.querySelectorAll("#stage .node:not(.gone)")].map((g) => {
  g.dispatchEvent(new PointerEvent("pointermove", {bubbles: true, pointerType: "mouse"}));
  const tip = document.getElementById("tip").textContent;
  g.dispatchEvent(new FocusEvent("focusin", {bubbles: true}));
  const about = document.getElementById("about").textContent;
  const count = (text) => Number(text.match(/([\\d,]+) parameters?/)[1].replaceAll(",", ""));
  return [g.dataset.node, {
    box: [...g.querySelectorAll("text")].map((each) => each.textContent),
    name: count(g.getAttribute("aria-label")),
    tip: count(tip),
    about: Number(about.match(/parameters([\\d,]+)/)[1].replaceAll(",", "")),
  }];
}));
"""


@network
def test_nodes_are_recounted(visit: Any, what: Path | str) -> None:
    """Box, tooltip, name and details of every node show the command's counts after a click."""
    read = reader(what)
    before = graph(read())
    browser = visit(before, iterations=1)
    for role in (Role.LATERAL, Role.DECODER_TO_ENCODER, Role.RECURRENT_DECODER, Role.STATE):
        for source, target, facts in before.edges(data=True):
            arrow = show_arrow(source, target, facts["delay"])
            if facts["role"] is role and not _refused(read, arrow):
                break
        else:
            continue
        css = f'.wire[data-source="{source}"][data-target="{target}"][data-role="{role}"]'
        browser.execute_script(CLICK, one(browser, css))
        parts = picture_of(graph(read(without=[arrow]))).parts
        found = browser.execute_script(COUNTS)
        assert set(found) == set(parts)
        for name, part in parts.items():
            said = found[name]
            assert text_of(details(part, DEFAULT_LABELS)) in [*said["box"], ""], (arrow, name)
            assert {said["name"], said["tip"], said["about"]} == {part.parameters}, (arrow, name)
        browser.execute_script(CLICK, one(browser, css))


def _refused(read: Callable[..., Any], arrow: str) -> bool:
    try:
        graph(read(without=[arrow]))
    except SpecError:
        return True
    return False


def test_one_is_singular(visit: Any) -> None:
    browser = visit(load(VIDEO))
    browser.execute_script(CLICK, one(browser, '.wire[data-target="decoder.input"]'))
    assert one(browser, "#arrows summary").text == "1 arrow fewer"


def test_the_command_itself(visit: Any, capsys: pytest.CaptureFixture[str]) -> None:
    browser = visit(load(TINY))
    one(browser, '[data-kind="decoder_to_encoder"]').click()
    found = says(browser)
    assert main(["diff", str(TINY), "--without", "decoder_to_encoder", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["parameters"][1] == found["parameters"]
    assert sorted(each["name"] for each in told["differences"]) == found["arrows"]
    one(browser, '[data-kind="state"]').click()
    assert main(["diff", str(TINY), "--without", "state"]) == 2
    assert f"error[G205]: {says(browser)['problems'][0]}\n" in capsys.readouterr().err
    assert not one(browser, "#patch").is_displayed()


def test_the_patch(visit: Any, tmp_path: Path) -> None:
    """Kinds and arrows together; the YAML as it stands makes that variant."""
    browser = visit(load(APPENDIX))
    for kind in ("recurrent_decoder", "lateral"):
        one(browser, f'[data-kind="{kind}"]').click()
    back = one(browser, '.wire[data-role="lateral"][data-target="decoder.conv_2"]')
    also = one(browser, '.wire[data-role="upward_diagonal"][data-target="encoder.top"]')
    for wire in (back, also):
        browser.execute_script(CLICK, wire)
    found, patch = says(browser), one(browser, "#patch").text
    shutil.copytree(SPECS / "ommnist", tmp_path / "specs")
    spec = tmp_path / "specs/mine.yaml"
    spec.write_text(f"extends: {APPENDIX.name}\n{patch}")
    variant = re.findall(r"^  (\w+):$", patch, re.MULTILINE)[0]
    agree(found, graph(load(APPENDIX)), lambda without: load(spec, variant))


def test_the_patch_of_a_variant(visit: Any) -> None:
    browser = visit(load(TINY, "no_prediction"))
    one(browser, '[data-kind="decoder_to_encoder"]').click()
    assert "    of: [no_prediction]\n" in one(browser, "#patch").text + "\n"


# --- looking around -------------------------------------------------------------------------------


def test_walk(visit: Any) -> None:
    """Every value that a step reads was made before: within t in order, and from earlier t."""
    built = graph(load(APPENDIX))
    browser = visit(built)
    steps = browser.execute_script("""
        const walk = document.getElementById("walk"), found = [];
        for (let i = 1; i <= Number(walk.max); i++) {
          walk.value = i; walk.oninput();
          const here = document.querySelectorAll(".here");
          found.push([here.length, here[0].dataset.node, Number(here[0].dataset.iteration)]);
        }
        return found;
    """)
    assert [count for count, *_ in steps] == [1] * 2 * len(built)
    when = {(node, t): index for index, (_, node, t) in enumerate(steps)}
    for source, target, delay in built.edges(data="delay"):
        for t in range(delay, 2):
            assert when[source, t - delay] < when[target, t]
    assert not browser.find_elements("css selector", ".later")


def test_views(visit: Any) -> None:
    browser = visit(load(VIDEO))
    one(browser, '[data-kind="state"]').click()
    for index, count in enumerate([1, 1, 2, 3, 4], start=1):
        one(browser, f"#views label:nth-of-type({index}) input").click()
        nodes = browser.find_elements("css selector", '#stage [data-node="encoder.conv1"]')
        assert len(nodes) == count
        gone = browser.find_elements("css selector", '#stage .gone[data-role="state"]')
        assert len(gone) == len(browser.find_elements("css selector", "#stage [data-role=state]"))


def test_mouse(visit: Any) -> None:
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.actions.wheel_input import ScrollOrigin

    browser = visit(load(VIDEO))

    def box() -> list[float]:
        return [float(n) for n in one(browser, "#stage svg").get_dom_attribute("viewBox").split()]

    wire = one(browser, '.wire[data-role="lateral"][data-target="decoder.input"] .hit')
    ActionChains(browser).move_to_element(wire).click().perform()
    assert says(browser)["arrows"] == ["encoder.input -> decoder.input"]
    assert "click to restore" in one(browser, "#tip").text
    start = box()
    ActionChains(browser).drag_and_drop_by_offset(one(browser, "#stage"), 60, 90).perform()
    assert box()[0] < start[0]
    assert box()[2] == start[2]
    assert says(browser)["arrows"] == ["encoder.input -> decoder.input"]
    origin = ScrollOrigin.from_element(one(browser, "#stage"))
    ActionChains(browser).scroll_from_origin(origin, 0, -100).perform()
    assert box()[2] < start[2]
    one(browser, "[data-zoom=fit]").click()
    assert box() == start
    node = one(browser, '[data-node="lateral.conv2"]')
    ActionChains(browser).move_to_element(node).click().perform()
    about = one(browser, "#about").text
    assert "32x8x8" in about
    assert "video_ladder.yaml:" in about
    assert "laterals.conv2" in about


def test_keyboard(visit: Any) -> None:
    from selenium.webdriver import Keys

    browser = visit(load(VIDEO))

    def focus() -> Any:
        return browser.switch_to.active_element

    one(browser, "body").send_keys(Keys.TAB)
    assert focus().text == "Skip the drawing"
    focus().send_keys(Keys.TAB)
    walked = [focus().get_attribute("data-node")]
    for key in (Keys.ARROW_UP, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_DOWN, Keys.HOME):
        focus().send_keys(key)
        walked.append(focus().get_attribute("data-node"))
    assert walked == [
        "encoder.input", "encoder.conv1", "lateral.conv1", "decoder.conv1", "decoder.input",
        "encoder.input",
    ]  # fmt: skip
    before = one(browser, "#stage svg").get_dom_attribute("viewBox")
    focus().send_keys("+")
    assert one(browser, "#stage svg").get_dom_attribute("viewBox") != before
    focus().send_keys(Keys.ENTER)
    assert focus().accessible_name.startswith("Remove encoder.input -> ")
    pressed = focus().get_attribute("data-arrow")
    focus().send_keys(Keys.ENTER)
    assert focus().get_attribute("data-arrow") == pressed
    assert focus().accessible_name.startswith("Restore ")
    one(browser, "#search").send_keys("conv3", Keys.ENTER)
    assert one(browser, "#hits").text.startswith("3 found")
    assert len(browser.find_elements("css selector", "#stage .hit-node")) == 6
    assert "encoder.conv3" in one(browser, "#say").get_attribute("textContent")


def test_print_and_phone(visit: Any) -> None:
    browser = visit(load(TINY))
    assert base64.b64decode(browser.print_page()).count(b"/Type /Page\n") == 1
    resources = "return performance.getEntriesByType('resource').length"
    assert browser.execute_script(resources) == 0
    phone = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        wide = "return [document.documentElement.scrollWidth, innerWidth]"
        assert browser.execute_script(wide) == [390, 390]
        small = """return [...document.querySelectorAll("button, #views span, #kinds label")]
            .filter((each) => each.offsetParent && each.offsetHeight < 40).length"""
        assert browser.execute_script(small) == 0
        browser.refresh()  # two iterations would be too small to read
        assert one(browser, "#views input:checked").get_attribute("value") == "rolled"
        nodes = browser.find_elements("css selector", '#stage [data-node="encoder.input"]')
        assert len(nodes) == 1
        browser.execute_script("scrollTo(0, document.body.scrollHeight)")
        assert one(browser, "#count").rect["y"] - browser.execute_script("return scrollY") >= 0
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def middle(browser: Any, css: str) -> tuple[float, float]:
    box = one(browser, css).rect
    return (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)


def test_a_found_node_is_centred_and_marked_with_its_arrows(visit: Any) -> None:
    from selenium.webdriver import Keys

    browser = visit(load(TINY))
    one(browser, "#search").send_keys("decoder.lstm6", Keys.ENTER)
    node = '#stage [data-node="decoder.lstm6"][data-iteration="1"]'
    assert middle(browser, node) == pytest.approx(middle(browser, "#stage"), abs=2)
    assert "chosen" in one(browser, node).get_attribute("class")
    near = browser.execute_script("""return [...document.querySelectorAll(".wire.near")].map(
        (g) => [g.dataset.source, g.dataset.target])""")
    assert near
    assert all("decoder.lstm6" in ends for ends in near)
    ends = [(a, b) for a, b in graph(load(TINY)).edges() if "decoder.lstm6" in (a, b)]
    assert {tuple(pair) for pair in near} == set(ends)


def test_the_tooltip_goes_when_the_drawing_moves(visit: Any) -> None:
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.actions.wheel_input import ScrollOrigin

    browser = visit(load(VIDEO))
    node = one(browser, '#stage [data-node="encoder.conv1"]')
    ActionChains(browser).move_to_element(node).perform()
    assert one(browser, "#tip").is_displayed()
    ActionChains(browser).scroll_from_origin(ScrollOrigin.from_element(node), 0, -80).perform()
    assert not one(browser, "#tip").is_displayed()


def test_the_drawing_cannot_be_lost(visit: Any) -> None:
    from selenium.webdriver import ActionChains

    browser = visit(load(VIDEO))
    for _ in range(12):
        ActionChains(browser).drag_and_drop_by_offset(one(browser, "#stage"), 400, 350).perform()
    x, y, width, height = (
        float(n) for n in one(browser, "#stage svg").get_dom_attribute("viewBox").split()
    )
    assert (x, y) == pytest.approx((-width / 2, -height / 2), abs=0.1)


def test_count_legend_and_keys_stay_in_sight(visit: Any) -> None:
    browser = visit(load(APPENDIX))
    inside = """
        const r = arguments[0].getBoundingClientRect();
        return r.top >= 0 && r.left >= 0 && r.bottom <= innerHeight && r.right <= innerWidth;"""
    for kind in ("lateral", "recurrent_decoder"):
        one(browser, f'[data-kind="{kind}"]').click()
    arrows = browser.find_elements("css selector", "#stage .wire[data-role=encoder]")
    for wire in arrows[: len(arrows) // 2 - 1]:
        browser.execute_script(CLICK, wire)
    for step in (0, 400, 9000):
        browser.execute_script(f"document.getElementById('panel').scrollTop = {step}")
        assert browser.execute_script(inside, one(browser, "#count"))
    browser.execute_script("document.getElementById('yaml').hidden = false")
    browser.execute_script("document.getElementById('patch').textContent = '- x\\n'.repeat(99)")
    assert one(browser, "#patch").rect["height"] <= 13 * 16 + 4
    for factor in (0.8, 0.8, 1.25):
        one(browser, f'[data-zoom="{factor}"]').click()
    assert browser.execute_script(inside, one(browser, "#legend"))
    stage, legend = one(browser, "#stage").rect, one(browser, "#legend").rect
    assert stage["y"] + stage["height"] <= legend["y"], "it covers nothing"
    gone = browser.find_elements("css selector", "#legend .gone")
    assert {each.text for each in gone} == {"lateral", "recurrent decoder"}
    one(browser, "#keyboard summary").click()
    assert "Shift + arrow key" in one(browser, "#keys").text


def test_variants_can_be_chosen(browser: Any, tmp_path: Path) -> None:
    """From the command; the page then counts and removes arrows of that network."""
    path = tmp_path / "page.html"
    assert main(["draw", str(TINY), "-o", str(path)]) == 0
    browser.get(path.as_uri())
    names = list(load(TINY).config.variants)
    found = [
        each.get_attribute("value") for each in browser.find_elements("css selector", "option")
    ]
    assert found == ["", *names]
    for name in names:
        browser.get("about:blank")
        browser.get(f"{path.as_uri()}#{name}")
        variant = graph(load(TINY, name))
        assert says(browser)["parameters"] == parameters(variant)
        assert one(browser, "h1").text == variant.graph["title"]
        nodes = browser.find_elements("css selector", "#stage .node")
        assert {each.get_attribute("data-node") for each in nodes} == set(variant)
        role = next(role for _, _, role in variant.edges(data="role") if role is Role.ENCODER)
        assert one(browser, f'[data-kind="{role.value}"]').is_selected()
    browser.execute_script(
        "const s = document.getElementById('network'); s.value = ''; s.onchange({target: s})"
    )
    browser.get("about:blank")
    browser.get(path.as_uri())
    assert says(browser)["parameters"] == parameters(graph(load(TINY)))
    assert [e for e in browser.get_log("browser") if e["level"] == "SEVERE"] == []


def test_dark_if_the_reader_prefers_it(visit: Any) -> None:
    media = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    fill = """return getComputedStyle(document.querySelector("#stage .node rect")).fill"""
    ground = "return getComputedStyle(document.body).backgroundColor"
    try:
        browser = visit(load(VIDEO))
        light = browser.execute_script(fill), browser.execute_script(ground)
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        assert browser.execute_script(fill) != light[0]
        assert browser.execute_script(ground) == "rgb(22, 24, 29)"
        visit(load(VIDEO), theme="safe")  # chosen by the author
        assert browser.execute_script(ground) == "rgb(255, 255, 255)"
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_the_drawing_can_be_saved(visit: Any) -> None:
    from xml.etree import ElementTree

    browser = visit(load(VIDEO))
    whole = one(browser, "#stage svg").get_dom_attribute("viewBox")
    one(browser, '[data-kind="lateral"]').click()
    one(browser, '[data-zoom="0.8"]').click()
    text = browser.execute_script("""
        let kept;
        const real = window.Blob;
        window.Blob = function (parts, type) { kept = parts[0]; return new real(parts, type); };
        HTMLAnchorElement.prototype.click = () => {};
        document.getElementById("download").click();
        window.Blob = real;
        return kept;""")
    root = ElementTree.fromstring(text)
    assert root.tag.endswith("svg")
    assert root.get("viewBox") != one(browser, "#stage svg").get_dom_attribute("viewBox")
    assert whole
    assert ".gone" in text
    assert "var(" not in text
    assert 'class="hit"' not in text


@pytest.mark.parametrize(
    ("what", "size", "shown"),
    [
        (SPECS / "ommnist/rladder.yaml", (1300, 900), "2"),
        (APPENDIX, (1300, 900), "2"),
        (SPECS / "textured/rtagger.yaml", (1300, 900), "2"),
        (TINY, (1400, 1000), "2"),
        (TINY, (1300, 740), "rolled"),
        (TINY, (860, 760), "rolled"),
        (VIDEO, (1100, 900), "rolled"),
    ],
)
def test_a_page_opens_whole_and_rolled_if_words_are_small(
    browser: Any, visit: Any, what: Path, size: tuple[int, int], shown: str
) -> None:
    before = browser.get_window_size()
    try:
        browser.set_window_size(size[0], size[1] + FRAME)
        visit(load(what))
        assert browser.execute_script("return [innerWidth, innerHeight]") == list(size)
        assert one(browser, "#views input:checked").get_attribute("value") == shown
        assert_whole_and_readable(browser)
    finally:
        browser.set_window_size(before["width"], before["height"])


def assert_whole_and_readable(browser: Any) -> None:
    smallest, inside = browser.execute_script("""
        const area = document.getElementById("stage").getBoundingClientRect();
        const texts = [...document.querySelectorAll("#stage text")];
        const parts = [...document.querySelectorAll("#stage .node, #stage text")];
        const unit = document.querySelector("#stage svg").getScreenCTM().a;
        return [
          Math.min(...texts.map((each) => Number(each.getAttribute("font-size")) * unit)),
          parts.map((each) => each.getBoundingClientRect()).every((box) =>
            box.top >= area.top && box.bottom <= area.bottom
            && box.left >= area.left && box.right <= area.right),
        ];""")
    assert smallest >= 7
    assert inside


@pytest.mark.parametrize(
    ("what", "size"),
    [
        *((TINY, (390, 844)), (VIDEO, (390, 844)), (ACTION, (390, 844)), (SIAMESE, (390, 844))),
        *((APPENDIX, (390, 844)), (APPENDIX, (844, 390)), (VIDEO, (844, 390))),
    ],
)
def test_a_phone_shows_the_whole_drawing_and_scrolls(
    visit: Any, what: Path, size: tuple[int, int]
) -> None:
    """One finger scrolls the page; it moves the drawing only after a zoom."""
    browser = visit(load(what))
    phone = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": True}
    touch = "return getComputedStyle(document.getElementById('stage')).touchAction"
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        browser.refresh()
        assert_whole_and_readable(browser)
        assert browser.execute_script("return document.documentElement.scrollWidth") == size[0]
        assert browser.execute_script(touch) == "pan-y"
        one(browser, '[data-zoom="0.8"]').click()
        assert browser.execute_script(touch) == "none"
        one(browser, '[data-zoom="fit"]').click()
        assert browser.execute_script(touch) == "pan-y"
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


OVERFLOW = """
return [...document.querySelectorAll("svg .node")].flatMap((g) => {
  const box = g.querySelector("rect").getBBox();
  return [...g.querySelectorAll("text")].filter((text) => {
    text.removeAttribute("textLength");
    const own = text.getBBox();
    return own.x < box.x || own.x + own.width > box.x + box.width;
  }).map((text) => `${g.dataset.node}: ${text.textContent}`);
});
"""


@pytest.mark.parametrize("family", ["Liberation Sans", "DejaVu Sans"])
def test_boxes_have_room_for_other_fonts(browser: Any, tmp_path: Path, family: str) -> None:
    """Also in programs that ignore `textLength`."""
    for options in ({}, {"view": "rolled", "group": True, "width": "8.5cm"}):
        for spec in (SPECS / "ommnist/rladder.yaml", VIDEO, SPECS / "music/rladder.yaml"):
            text = str(render(load(spec), "svg", **options))  # type: ignore[call-overload]
            page = tmp_path / "fonts.html"
            page.write_text(re.sub('font-family="Helvetica[^"]*"', f'font-family="{family}"', text))
            browser.get(page.as_uri())
            assert browser.execute_script(OVERFLOW) == []


# --- for everyone ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("axe")
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("no npm to fetch axe-core with: accessibility was not checked")
    done = subprocess.run(
        [npm, "pack", "--silent", "axe-core@4"], cwd=folder, capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("axe-core could not be fetched: accessibility was not checked")
    with tarfile.open(next(folder.glob("*.tgz"))) as archive:
        member = archive.extractfile("package/axe.min.js")
        assert member is not None
        return member.read().decode()


AXE = """
const done = arguments[arguments.length - 1];
axe.run(document, {resultTypes: ["violations"]}).then((found) => done(found.violations.map(
  (each) => `${each.id}: ${each.help}: ${each.nodes.map((node) => node.html.slice(0, 120))}`)));
"""


@pytest.mark.parametrize("theme", ["paper", "mono", "safe", "dark"])
def test_accessible(visit: Any, axe: str, theme: str) -> None:
    browser = visit(load(VIDEO), theme=theme)
    browser.execute_script(axe)
    assert browser.execute_async_script(AXE) == []
    one(browser, '[data-kind="lateral"]').click()
    browser.execute_script(CLICK, one(browser, '#stage [data-node="encoder.conv2"]'))
    one(browser, "#search").send_keys("conv")
    assert browser.execute_async_script(AXE) == []


def test_plan_order_is_that_of_the_page() -> None:
    built = graph(load(TINY))
    data = json.loads(_between(page_of(built), 'id="data">', "</script>"))
    assert data["order"] == [node for phase in schedule(built).phases for node in phase.nodes]
