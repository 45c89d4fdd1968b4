"""Where files are, whether they are right, and how they are fetched from mirrors that misbehave."""

import contextlib
import hashlib
import http.server
import json
import os
import threading
import time
from pathlib import Path

import pytest

from ladderspec.cli import main
from ladderspec.data import DataError, data_config, registered, sources
from ladderspec.data import download as download_module
from ladderspec.data.download import download
from ladderspec.data.sources import File, State, check, folder, locate

CONTENT = bytes(range(256)) * 800
FILE = File("mnist/small.gz", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """No test reads or writes what belongs to the user."""
    place = tmp_path / "cache"
    monkeypatch.setattr(sources, "cache_folder", lambda: place)
    for name in (sources.VARIABLE, download_module.VARIABLE):
        monkeypatch.delenv(name, raising=False)
    return place


@pytest.fixture
def table(monkeypatch):
    registered()  # the data sets publish their files
    monkeypatch.setattr(sources, "FILES", {FILE.path: FILE})


def put(root, content=CONTENT, path=FILE.path):
    place = Path(root) / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)
    return place


# --- where ----------------------------------------------------------------------------------------


def test_the_folder_is_given_or_in_the_environment_or_the_users_own(tmp_path, cache, monkeypatch):
    assert folder() == cache / "data"
    monkeypatch.setenv(sources.VARIABLE, str(tmp_path / "there"))
    assert folder() == tmp_path / "there"
    assert folder(tmp_path / "here") == tmp_path / "here"


@pytest.mark.parametrize(
    ("platform", "variable", "expected"),
    [
        ("linux", "XDG_CACHE_HOME", "x/ladderspec"),
        ("linux", None, "home/.cache/ladderspec"),
        ("darwin", None, "home/Library/Caches/ladderspec"),
        ("win32", "LOCALAPPDATA", "x/ladderspec"),
        ("win32", None, "home/AppData/Local/ladderspec"),
    ],
)
def test_each_platform_has_its_cache(monkeypatch, platform, variable, expected):
    monkeypatch.undo()
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setattr(Path, "home", lambda: Path("home"))
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    if variable:
        monkeypatch.setenv(variable, "x")
    assert sources.cache_folder() == Path(expected)


@pytest.mark.parametrize("path", ["mnist/small.gz", "small.gz", "MNIST/raw/small.gz"])
def test_files_are_found_in_three_places(tmp_path, path):
    assert locate(FILE, tmp_path) is None
    place = put(tmp_path, path=path)
    assert locate(FILE, tmp_path) == place


# --- whether --------------------------------------------------------------------------------------


def test_a_file_is_hashed_once_while_it_does_not_change(tmp_path, monkeypatch):
    place = put(tmp_path)
    hashed = []
    original = sources.sha256_of
    monkeypatch.setattr(sources, "sha256_of", lambda p: hashed.append(p) or original(p))
    assert [check(FILE, place) for _ in range(3)] == [State.RIGHT] * 3
    assert len(hashed) == 1
    assert check(FILE, place, fresh=True) is State.RIGHT
    assert len(hashed) == 2
    place.write_bytes(CONTENT[:-1] + b"!")
    os.utime(place, ns=(1, 1))
    assert check(FILE, place) is State.WRONG
    place.write_bytes(CONTENT[:-1])
    assert check(FILE, place) is State.SHORT


def test_verification_works_where_nothing_can_be_remembered(tmp_path, cache):
    cache.write_text("a file where the folder should be")
    assert check(FILE, put(tmp_path)) is State.RIGHT


def test_a_damaged_memory_is_forgotten(tmp_path, cache):
    cache.mkdir()
    place = put(tmp_path)
    for text in ("{", "[]", '{"x": 1}', json.dumps({str(place.resolve()): 1})):
        (cache / "digests.json").write_text(text)
        assert check(FILE, place) is State.RIGHT


def test_missing_and_damaged_files_are_named_with_their_checksums(tmp_path, table):
    with pytest.raises(DataError) as caught:
        sources.obtain([FILE.path], tmp_path)
    said = str(caught.value)
    for fact in (
        "small.gz is missing",
        FILE.sha256,
        "204,800 bytes",
        "data download mnist",
        "--data",
    ):
        assert fact in said
    put(tmp_path, CONTENT[::-1])
    with pytest.raises(DataError, match="its checksum differs"):
        sources.obtain([FILE.path], tmp_path)


TEXTURES = 7_321_194 + 518_774  # 20 of Brodatz and three under CC0


def test_the_table_is_that_of_the_published_files():
    registered()
    assert sum(file.bytes for file in sources.FILES.values()) == 13_233_456 + TEXTURES
    assert all(len(file.sha256) == 64 for file in sources.FILES.values())
    assert {file.group for file in sources.FILES.values()} == set(sources.MIRRORS)
    for name in ("JSB_Chorales", "Nottingham", "MuseData", "Piano_midi"):
        assert data_config("music", name=name).files()[0] in sources.FILES
    assert set(data_config("occluded_mnist").files()) < set(sources.FILES)
    assert data_config("occluded_mnist", digits="embedded").files() == ()


def test_a_data_set_publishes_its_files(monkeypatch):
    for name in ("FILES", "MIRRORS"):
        monkeypatch.setattr(sources, name, dict(getattr(sources, name)))
    file = File("birds/swallows.npz", 3, "0" * 64)
    mirrors, table = ["https://example.org/{name}"], f"swallows.npz 3 {'0' * 64}"
    assert sources.publish("birds", mirrors, table) == ("birds/swallows.npz",)
    assert sources.select(["birds"]) == [file]
    assert download_module._mirrors(file, []) == ["https://example.org/swallows.npz"]


# --- fetching -------------------------------------------------------------------------------------


class Mirror:
    """A server on this machine. `ways` says how it answers each request; the last one stays."""

    def __init__(self, *ways):
        self.ways = list(ways)
        self.ranges = []
        mirror = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                mirror.ranges.append(self.headers.get("Range"))
                way = mirror.ways.pop(0) if len(mirror.ways) > 1 else mirror.ways[0]
                way(self)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def answer(handler, content, status=200, length=None, **headers):
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(content) if length is None else length))
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(content)
    handler.wfile.flush()


def serve(content=CONTENT, ranges=True, stop_after=None):
    """Send the content, or what a Range asks for; perhaps break off after so many bytes."""

    def way(handler):
        asked = handler.headers.get("Range")
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and ranges else 0
        if start >= len(content):
            return answer(handler, b"", 416)
        rest = content[start:]
        sent = rest if stop_after is None else rest[:stop_after]
        extra = (
            {"Content_Range": f"bytes {start}-{len(content) - 1}/{len(content)}"} if start else {}
        )
        return answer(handler, sent, 206 if start else 200, len(rest), **extra)

    return way


def status(code):
    return lambda handler: answer(handler, b"sorry", code)


def fetch(root, *mirrors, **options):
    return download([FILE], root, [mirror.url for mirror in mirrors], pause=0.001, **options)[0]


def assert_right(place):
    assert place.read_bytes() == CONTENT
    assert [path.name for path in place.parent.iterdir()] == [place.name]


def test_a_file_is_fetched_once(tmp_path):
    seen = []
    with Mirror(serve()) as mirror:
        place = fetch(tmp_path, mirror, progress=lambda file, have: seen.append(have))
        assert_right(place)
        assert fetch(tmp_path, mirror) == place
        assert mirror.ranges == [None]
    assert seen[-1] == len(CONTENT)


def test_a_connection_that_breaks_off_is_taken_up_again(tmp_path):
    with Mirror(serve(stop_after=30_000)) as mirror:
        assert_right(fetch(tmp_path, mirror))
    assert mirror.ranges == [None, *(f"bytes={n}-" for n in range(30_000, 204_800, 30_000))]


def test_a_killed_download_goes_on_where_it_stopped(tmp_path):
    put(tmp_path, CONTENT[:1234], FILE.path + ".part")
    with Mirror(serve()) as mirror:
        assert_right(fetch(tmp_path, mirror))
    assert mirror.ranges == ["bytes=1234-"]


def test_a_complete_part_needs_no_request(tmp_path):
    put(tmp_path, CONTENT, FILE.path + ".part")
    with Mirror(serve()) as mirror:
        assert_right(fetch(tmp_path, mirror))
    assert mirror.ranges == []


def test_a_server_without_ranges_sends_all_again(tmp_path):
    ways = serve(ranges=False, stop_after=50_000), serve(ranges=False)
    with Mirror(*ways) as mirror:
        assert_right(fetch(tmp_path, mirror))
    assert mirror.ranges == [None, "bytes=50000-"]


def test_a_part_of_something_else_is_thrown_away(tmp_path):
    put(tmp_path, b"?" * 5000, FILE.path + ".part")
    with Mirror(serve()) as mirror:
        assert_right(fetch(tmp_path, mirror))
    assert mirror.ranges == ["bytes=5000-", None]
    put(tmp_path / "b", b"?" * (len(CONTENT) + 7), FILE.path + ".part")
    with Mirror(serve()) as mirror:
        assert_right(fetch(tmp_path / "b", mirror))


def test_wrong_bytes_are_refused_and_the_next_mirror_is_asked(tmp_path):
    with Mirror(serve(CONTENT[::-1])) as bad, Mirror(serve()) as good:
        assert_right(fetch(tmp_path, bad, good))
        assert len(bad.ranges) == 1
    with Mirror(serve(CONTENT[::-1])) as bad, pytest.raises(DataError) as caught:
        fetch(tmp_path / "again", bad)
    for fact in ("sends other bytes", FILE.sha256, "without a network, copy into"):
        assert fact in str(caught.value)
    assert list((tmp_path / "again/mnist").iterdir()) == []


def test_a_page_instead_of_the_file_is_refused_at_once(tmp_path):
    with Mirror(serve(b"<html>please log in</html>")) as mirror, pytest.raises(DataError) as caught:
        fetch(tmp_path, mirror)
    assert "offers 26 bytes instead of 204,800" in str(caught.value)
    assert len(mirror.ranges) == 1


def test_a_busy_server_is_asked_again_and_a_missing_file_is_not(tmp_path):
    with Mirror(status(503), status(429), serve()) as busy:
        assert_right(fetch(tmp_path, busy))
        assert len(busy.ranges) == 3
    with Mirror(status(404)) as gone, Mirror(serve()) as good:
        assert_right(fetch(tmp_path / "b", gone, good))
        assert len(gone.ranges) == 1
    with Mirror(status(500)) as broken, pytest.raises(DataError, match="answers 500"):
        fetch(tmp_path / "c", broken)
    assert len(broken.ranges) == download_module.ATTEMPTS


def test_a_server_that_never_gets_further_is_given_up(tmp_path):
    with Mirror(serve(ranges=False, stop_after=1000)) as mirror:
        with pytest.raises(DataError, match="broke off at 1,000 of 204,800 bytes"):
            fetch(tmp_path, mirror)
        assert len(mirror.ranges) == 1 + download_module.ATTEMPTS


def test_a_server_that_breaks_off_at_varying_places_is_given_up(tmp_path):
    """Without ranges it starts again each time, sometimes further than the last time."""
    places = [1000, 3000, 500, 2000, 700, 2900] * 20
    with Mirror(*(serve(ranges=False, stop_after=at) for at in places)) as mirror:
        with pytest.raises(DataError, match="broke off at"):
            fetch(tmp_path, mirror)
        assert len(mirror.ranges) <= 2 + download_module.ATTEMPTS


def test_a_server_that_gives_a_few_bytes_per_request_is_given_up(tmp_path):
    with Mirror(serve(stop_after=10)) as mirror:
        with pytest.raises(DataError, match=r"broke off at .*, after 40 requests"):
            fetch(tmp_path, mirror)
        assert len(mirror.ranges) == download_module.REQUESTS


def test_a_server_that_is_too_slow_is_given_up(tmp_path, monkeypatch):
    """It sends a byte now and then, so the connection never times out."""
    monkeypatch.setattr(download_module, "PERIOD", 0.3)

    def trickle(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(CONTENT)))
        handler.end_headers()
        with contextlib.suppress(OSError):
            for byte in CONTENT[:1000]:
                handler.wfile.write(bytes([byte]))
                time.sleep(0.02)

    with Mirror(trickle) as slow, Mirror(serve()) as good:
        started = time.monotonic()
        assert_right(fetch(tmp_path / "a", slow, good))
        assert time.monotonic() - started < 5
    with (
        Mirror(trickle) as slow,
        pytest.raises(DataError, match="less than 1,000 bytes per second"),
    ):
        fetch(tmp_path / "b", slow)


ENDLESS = {
    "header": (b"HTTP/1.1 200 OK\r\n", b"x"),
    "100 Continue": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "size of a chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"0"),
    "trailer": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"a: b\r\n"),
}


@pytest.mark.parametrize(("begin", "again"), ENDLESS.values(), ids=ENDLESS)
def test_a_server_that_never_comes_to_the_content_is_given_up(begin, again, tmp_path, monkeypatch):
    monkeypatch.setattr(download_module, "PERIOD", 0.3)

    def way(handler):
        handler.wfile.write(begin)
        with contextlib.suppress(OSError):
            for _ in range(200):
                handler.wfile.write(again)
                time.sleep(0.02)

    with Mirror(way) as mirror:
        with pytest.raises(DataError, match="less than 1,000 bytes per second"):
            fetch(tmp_path, mirror)
        assert len(mirror.ranges) == 1


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Length": "abc"},
        {"Content-Length": "-5"},
        {"Content-Length": "1e3"},
        {"Content-Length": ""},
        {"Content-Length": "9" * 5000},
        {"Location": "gopher://x/"},
        {"Location": "http://[::1"},
        {"Location": "http://\u00e9\u00e9" + "x" * 300 + "/"},
        {"Content-Range": "bytes x-y/z", "Content-Length": "7"},
    ],
    ids=lambda headers: next(iter(headers.items()))[1][:20] or "empty",
)
def test_bad_headers_are_said(tmp_path, headers):
    def way(handler):
        handler.send_response(302 if "Location" in headers else 200)
        for name, value in headers.items():
            handler._headers_buffer.append(f"{name}: {value}\r\n".encode())
        handler.end_headers()
        handler.wfile.write(b"content")

    with Mirror(way) as mirror, pytest.raises(DataError, match="could not download"):
        fetch(tmp_path, mirror)
    assert len(mirror.ranges) <= download_module.ATTEMPTS


def test_no_network_is_said_with_what_to_do(tmp_path):
    with Mirror(serve()) as mirror:
        url = mirror.url
    with pytest.raises(DataError) as caught:
        download([FILE], tmp_path, [url], pause=0.001)
    for fact in ("refused", FILE.path, FILE.sha256, "LADDERSPEC_DATA"):
        assert fact in str(caught.value)


def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "mnist").write_text("a file where the folder should be")
    with Mirror(serve()) as mirror, pytest.raises(DataError, match="cannot write"):
        fetch(tmp_path, mirror)


def test_a_full_disk_is_said_and_what_arrived_is_kept(tmp_path, monkeypatch):
    def full(handle, data, write=download_module._write):
        if handle.tell() > 100_000:
            raise OSError(28, "No space left on device")
        write(handle, data)

    monkeypatch.setattr(download_module, "_write", full)
    with Mirror(serve()) as mirror, pytest.raises(DataError, match="no space left on device"):
        fetch(tmp_path, mirror)
    assert (tmp_path / "mnist/small.gz.part").stat().st_size > 100_000


def test_mirrors_come_from_the_environment_and_may_be_folders(tmp_path, monkeypatch):
    put(tmp_path / "share")
    monkeypatch.setenv(download_module.VARIABLE, f"{(tmp_path / 'none').as_uri()}, "
                       f"{(tmp_path / 'share').as_uri()}")  # fmt: skip
    assert_right(download([FILE], tmp_path / "mine", pause=0.001)[0])
    with pytest.raises(DataError, match="ftp://x is not a mirror"):
        download([FILE], tmp_path / "b", ["ftp://x"])


def test_addresses_follow_the_form_of_a_mirror():
    registered()
    forms = ["http://a/b/", "http://a/{name}?raw=1", "http://a/{path}"]
    assert download_module._mirrors(FILE, forms) == [
        "http://a/b/mnist/small.gz",
        "http://a/small.gz?raw=1",
        "http://a/mnist/small.gz",
    ]
    published = download_module._mirrors(FILE, [])
    assert all(address.endswith("/mnist/small.gz") for address in published)


def test_two_processes_do_not_mix_their_bytes(tmp_path):
    """Both wait for one lock; the second finds the file and asks for nothing."""
    with Mirror(serve(stop_after=60_000)) as mirror:
        threads = [threading.Thread(target=fetch, args=(tmp_path, mirror)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert_right(tmp_path / FILE.path)
        assert len(mirror.ranges) == 4


# --- the command ----------------------------------------------------------------------------------


def test_the_commands_list_path_verify_and_download(tmp_path, table, capsys):
    where = ["--data", str(tmp_path)]
    assert main(["data", "verify", *where]) == 1
    said = capsys.readouterr()
    assert "missing" in said.out
    assert FILE.sha256 in said.err
    with Mirror(serve(stop_after=90_000)) as mirror:
        assert main(["data", "download", "mnist", "--mirror", mirror.url, *where]) == 0
    assert capsys.readouterr().out.startswith("mnist/small.gz  204,800 bytes  verified")
    assert main(["data", "verify", *where]) == 0
    assert main(["data", "list", *where]) == 0
    said = capsys.readouterr().out
    assert f"{tmp_path} (--data)" in said
    assert "occluded_mnist  a digit flies behind bars" in said
    assert main(["data", "path", *where]) == 0
    assert main(["data", "path", "small", *where]) == 0
    assert capsys.readouterr().out.split() == [str(tmp_path), str(tmp_path / FILE.path)]
    assert main(["data", "list", "--json", *where]) == 0
    assert json.loads(capsys.readouterr().out)["files"][0]["state"] == "right"


def test_the_commands_say_what_is_wrong(tmp_path, table, capsys):
    put(tmp_path, CONTENT[:-1] + b"!")
    where = ["--data", str(tmp_path)]
    assert main(["data", "verify", "--json", *where]) == 1
    assert json.loads(capsys.readouterr().out)[0]["state"] == "wrong"
    assert main(["data", "path", "nothing", *where]) == 2
    assert "no files `nothing`" in capsys.readouterr().err
    (tmp_path / FILE.path).unlink()
    assert main(["data", "path", "mnist", *where]) == 1
    with Mirror(status(404)) as mirror:
        assert main(["data", "download", "--mirror", mirror.url, *where]) == 2
    assert "answers 404" in capsys.readouterr().err
