"""Pictures of image tiles and lines of text, written as PNG or SVG without a drawing library."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal
from xml.sax.saxutils import escape

import numpy as np
from numpy.typing import NDArray

from ladderspec.data.dataset import DataError
from ladderspec.files import write_atomic

Pixels = NDArray[np.uint8]  # (H, W, 3)
Colour = tuple[int, int, int]
Anchor = Literal["start", "middle", "end"]

PAPER: Colour = (255, 255, 255)
INK: Colour = (31, 36, 48)
GREY: Colour = (107, 114, 128)
FRAME: Colour = (205, 211, 220)


@dataclass(frozen=True)
class Tile:
    """An image, enlarged by `scale`, in a thin frame."""

    x: int
    y: int
    image: Pixels
    scale: tuple[int, int]  # down, across

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        return self.image.shape[0] * self.scale[0], self.image.shape[1] * self.scale[1]

    def pixels(self) -> Pixels:
        """The enlarged image: pixels stay sharp in viewers that interpolate small images."""
        return self.image.repeat(self.scale[0], 0).repeat(self.scale[1], 1)


@dataclass(frozen=True)
class SheetText:
    """A line of text; (x, y) is its anchor on the baseline."""

    x: int
    y: int
    text: str
    anchor: Anchor = "start"
    colour: Colour = INK


@dataclass(frozen=True)
class ImageSheet:
    """Tiles and lines of text on a white page."""

    width: int
    height: int
    tiles: tuple[Tile, ...]
    texts: tuple[SheetText, ...]

    def save(self, path: str | Path) -> Path:
        """Write a .png or .svg file."""
        writers: dict[str, Callable[[ImageSheet], str | bytes]] = {".png": to_png, ".svg": to_svg}
        suffix = Path(path).suffix.lower()
        if suffix not in writers:
            raise DataError(f"{path}: pictures are written as .png or .svg")
        return write_atomic(path, writers[suffix](self))


def shade(values: NDArray[Any], ink: Colour = INK, paper: Colour = PAPER) -> Pixels:
    """Colours of values: 0 is paper, 1 is ink; values outside [0, 1] are clipped."""
    share = np.clip(np.asarray(values, np.float32), 0, 1)[..., None]
    mixed = share * np.array(ink, np.float32) + (1 - share) * np.array(paper, np.float32)
    return np.asarray(np.rint(mixed), np.uint8)


# --- PNG ------------------------------------------------------------------------------------------


def encode_png(pixels: Pixels) -> bytes:
    """A PNG file of 8-bit RGB."""
    height, width, _ = pixels.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1)

    def chunk(kind: bytes, data: bytes) -> bytes:
        checked = kind + data
        return struct.pack(">I", len(data)) + checked + struct.pack(">I", zlib.crc32(checked))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows.tobytes(), 9))
    return b"\x89PNG\r\n\x1a\n" + body + chunk(b"IEND", b"")


def to_png(picture: ImageSheet) -> bytes:
    sheet = np.full((picture.height, picture.width, 3), PAPER, np.uint8)
    for tile in picture.tiles:
        height, width = tile.size
        sheet[tile.y - 1 : tile.y + height + 1, tile.x - 1 : tile.x + width + 1] = FRAME
        sheet[tile.y : tile.y + height, tile.x : tile.x + width] = tile.pixels()
    for text in picture.texts:
        ink = text_coverage(text.text)
        x = text.x - {"start": 0, "middle": ink.shape[1] // 2, "end": ink.shape[1]}[text.anchor]
        y = text.y - BASELINE
        part = sheet[max(0, y) : y + len(ink), max(0, x) : x + ink.shape[1]]
        ink = ink[max(0, -y) :, max(0, -x) :][: part.shape[0], : part.shape[1], None]
        part[:] = np.rint(ink * np.array(text.colour) + (1 - ink) * part)
    return encode_png(sheet)


# --- SVG ------------------------------------------------------------------------------------------


def to_svg(picture: ImageSheet) -> str:
    size = f'width="{picture.width}" height="{picture.height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}'
        f' viewBox="0 0 {picture.width} {picture.height}"'
        ' font-family="DejaVu Sans, Verdana, sans-serif" font-size="13">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
    ]
    for tile in picture.tiles:
        height, width = tile.size
        data = base64.b64encode(encode_png(tile.pixels())).decode()
        box = f'width="{width}" height="{height}"'
        lines.append(
            f'<image x="{tile.x}" y="{tile.y}" {box} style="image-rendering: pixelated"'
            f' href="data:image/png;base64,{data}"/>'
        )
        lines.append(
            f'<rect x="{tile.x - 0.5}" y="{tile.y - 0.5}" width="{width + 1}"'
            f' height="{height + 1}" fill="none" stroke="{_hex(FRAME)}"/>'
        )
    for text in picture.texts:
        lines.append(
            f'<text x="{text.x}" y="{text.y}" text-anchor="{text.anchor}"'
            f' fill="{_hex(text.colour)}">{escape(text.text)}</text>'
        )
    return "\n".join([*lines, "</svg>", ""])


def _hex(colour: Colour) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)


# --- font -----------------------------------------------------------------------------------------

# DejaVu Sans at 13 pixels: printable ASCII. `_WIDTHS` has one character per glyph, `4` for four
# pixels; `_SHAPES` is the coverage of all glyphs side by side, in sixteen greys.

FONT_HEIGHT = 15
BASELINE = 12

_WIDTHS = (
    "456;8<:4556;4544888888888844;;;7=999:87::4497;::"
    "8:988:9=989545;66887885884484=888857588;887848;"
)
_SHAPES = (
    "c-rlle{2)y8OOhOKL0#BIRXm}jQHrfX%HG8e@tpwfkUd$)`ERVttyo^bN9!zAxNzL2PLT&ty%?vI%5+<loG1ZE^ABO7S"
    "!-7_JI6=s??D1BWx>nLeeHUfjEJo7Pvj{*-jj0D0G{&ReK%Zz4zXed*AnYKJWK^&cOf6e@zjhqV|oSWJ|Wf4I8J|qPeZ"
    "?-1=|t(;C{GcO*-{L4G|?eiUzxU0TA%$vFm;TVls&rEIIyPaos__4{mYFo!MIm9gtWReX~A-RV?;#Xw~z92$gAUkCPJ0"
    "niCPL~*}7{(zWmXa~0Iz~h7Um_0;>;s{;;9m4S=xTNdyw4o0$jcoE2^YO#Ltn(MCGwW3#qMrrk4Yf%T{hUHqx*E~H#Jo"
    "#gvKWLjC>kH`fYd~tT!rZ-A}ZQoYQC-^a`OnQ_^HwYe%D1+r{eOX!2c&Q-W)@f%8fdMsGimU@waqu#HG3vnBu_pK-%36"
    "`QWyNaBpzmF&GsxmV;{?Zy3d%<$z00fNvg<%O8lFX%wGL2|(0r4X}rPK5HJuecZm>+A%#0;WETUkA!T?%EGWl6g!R4)K"
    "^4Dd)RTPB<_5#tRbsMnN?%k#Aft*Nes`{PI`tcyP^<-rat&;C%+^H`ByaZFxb~uTl5Q%gWKsqAMPWGwH}D#)wr01Gay`"
    ">Ss4(6B?(rca1@W=+|0)Tn$&5aPoSBMER-GX@JS2Q1<DM+^#t{NjL3NzjG&szT!Fk5?ky8q?*i^S1;Y}BISgCFM7RYC{"
    "tfJV>M0>yFp0+ICin>M4}q0f-X-P2Z4I4<M~08ptLgg_@Fz!%G43@8>7^-q?jONIxtiTKZ8$5Z|M8*0=hOc)pBfx~EGb"
    "aPnPSMrXd>rsV+Zy%8ph$SJ!iCv8<f&YG@T~6yQo*W32rS@Db(C-u{uI9;HE<z`p_G-g;D)r0N(HP(A~EsmnuXV+!cyf"
    "%}ge8BY^hi!zlT*o@+im%x$|UNAzIXV3pL~+(~|HMGN<q)JirT)%|d;A5^(r{gQKiQeo!K_3>2~m3Q@MCp^Vbc)lC6rA"
    "+a1%^qF}KINmOO70`LvF28|S6G8^J>dtzy^|Ubl1D_1#%+$957tkBdk;;mm%&Z*qoB=hK#N<kU+R(y*CuHem9V{kU(}<"
    "RMy)Yxj9c4JZQCiBgy&-ypQFX4it5sV4`z^Jt!8ld@*`>I3aJd-M#DJV`#(=3-?ZBDhq(As!Wr<8Z?BTXT**|5Q#i-mo"
    "q-!`$>olQ`2|uNDJRKf-5I*MK_<8hWP*Ev0<WB%&3w&yVQRwhezCf*=o9I!nRNt?bH|)vXUEjIq1?-kG6nA_=`ZTV$8&"
    "42|Ni|rzNkiG=EoI}@(_i@rSijW#TItUAN$w9`@IC$gY^XFpFuiCa9d7}!)=JT!@nC?)hMB+^XcgW(z*(zP&Ni%VX55|"
    "&bZ4cr9~;m5QE#&4U2vVYdG?c=@@roZjDStV!D139~DK6#kjpbXJK*g25F*PtYDc>Il;%c6QtE&z$d4j>rqI#Ny4xAWV"
    "3!*WL+9?4=HK5f0;PqMUykwCZuQq1e&<lrWlooJ_>#tX?YfIe#D$Wr8UI3u+a8^ztXo-A*bLCL%DOy3JR+0r}Q9?Bn;D"
    "{?XidWVG^M>xMc=+`xzz{ZPeljIs;tFBb$b4j;EQqGr;#4N<(l<jW~tY(iNf~8!o`!P@utb0#)4x+~OCQJy=`JHjHl8D"
    "cfWeOg%_GopE3Nn{K({(HL0;nDop-25z%XJBc|w2DgPR(UKDnN^B(y!|ot~Wl9knQ@i<HpN$$0HsH>bA19xKHH<lY3>~"
    "F-QP=$>*!%Lr?Hh-C??xpJx8oflE(X1GGH~ljH3RoFN;kMFmBD?6!R-j`rKP;b`nx#z{%%8K;M3TiPoOQBxNYlE@>UbE"
    "BgEmELSE3ezzcqu6gy?Wos<~d8b#^%v}qPTaGCgQh4?Enms(&xuqgw#5cf*9o$n=5;J&2TeJc)uy8d>E^=a;bb=ku?sY"
    "AKIGR?(qnU?r&%Wp>DC9ttByKUqs_Z!G6x0QJto*$&i_ep0#5#0(xozAE*b{#{x?PPHc-%l$y2yV^ySkNV72|3de&!^n"
    "N<(#x+qhi1v^aTiRG>$1Zj0&YJrEDWR!@Men*rwxMNF>)t^S1&=?O{V>$_XrjyHuJ0H+Mx^I{|JQa|UkmtO0lH+Y-}ni"
    "jqCZLNEbtnx;8H;W~wdlI!UZyqlf0S?%isK5U1Hx#tA~?iX^En?<={H9_#`&k__1Tm75j;mM!SqiATZG@I_su4oSz$l0"
    "{SMtbB>X3_B7iev60VN1u<1WGlyb`+<qi<SnMa^ISkz(%<UDfa=tK=*nG?gRPK67H3pv;;M(0XGAX>~03k*Jf4(Srert"
    "6_lT#n%_Ms4R^(|*@VsCqQ;BLPylt(i~tM63>MPPOkz7;JnH-?Q*M!z`<S8J^RmjFg<E@7%7t6rUzApEX5NAy$yL%H;n"
    "-0&jP>N*A!TC-)l+(4z9jRf@~0*2_-jhE@x!6r;7)>+yX1VUPh}|(b4mtomgr$CEdrKvSLymBLKe@koSSf7Lix9K=rFO"
    "$9@B!dK|h6O%Ri?@b-+?%muh5dJfaWC6LM}pV|L!9b4m`}sMP2Vb1#G2M#()(wV9#NtZP)^`h@1B-;j)zY&<NRH(!H;m"
    "Z-x18fk;k^(#b<H8fGVYp&O!on93vE#X;OvLUI_G|L8G9D}=scGz6Fxm^R2vo5JJbGoihYNqqivSgLSUnf@L!WHU}lFo"
    "uK)5>gGvM&GY`mM?35~5+Or1#dB@8NCACFgBk^*p~)y30qj-T5~6`8^DW;4YsC_icZ-h~M$;r6ngtzfI}QJgA$&Jw2G$"
    "X7OEkQ2E#2qaQy1m%IHDW}*5Oei^-o;1hnaNc^h}pPYO&6U+<wUm>-eA6N31>de_OKyX(b`XBj$qagSndN9+$+pd^hT^"
    "Vls@ipPTIZlZ=Jl^~d)tjhS"
)


def text_width(text: str) -> int:
    """Width of a line of text in pixels."""
    return int(text_coverage(text).shape[1])


def text_coverage(text: str) -> NDArray[np.float32]:
    """(15, width): coverage of each pixel by ink, 0 to 1; characters beyond ASCII become `?`."""
    glyphs = [_glyphs().get(character, _glyphs()["?"]) for character in text]
    return np.concatenate([np.zeros((FONT_HEIGHT, 0), np.float32), *glyphs], axis=1)


@cache
def _glyphs() -> dict[str, NDArray[np.float32]]:
    pairs = np.frombuffer(zlib.decompress(base64.b85decode(_SHAPES)), np.uint8)
    greys = np.stack([pairs >> 4, pairs & 15], axis=1).ravel()
    widths = [ord(mark) - ord("0") for mark in _WIDTHS]
    sheet = greys[: FONT_HEIGHT * sum(widths)].reshape(FONT_HEIGHT, -1)
    shapes = np.split(sheet.astype(np.float32) / np.float32(15), np.cumsum(widths)[:-1], axis=1)
    return {chr(32 + i): shape for i, shape in enumerate(shapes)}
