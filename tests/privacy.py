"""What must not stand anywhere: addresses, telephone numbers, social security numbers, URLs with a
user's name."""

import html
import re
import unicodedata
from urllib.parse import unquote

from companion.measures import public_addresses as public

DOT = r"(?:\.| ?[(\[]dot[)\]] ?)"
PATTERNS = {
    "e-mail address": re.compile(
        r"(?<![\w.%+-])[\w.%+-]*\w\"?(?:@| ?[(\[](?:at|@)[)\]] ?"
        r"|(?<=\w\w) @ (?=[\w-]+\.(?:com|org|net|edu|gov|de|uk|fr|io|info|test)\b))"
        rf"[\w-]+(?:{DOT}[\w-]+)*{DOT}[^\W\d_]{{2,}}",
        re.IGNORECASE,
    ),
    "social security number": re.compile(r"(?<![\d.-])\d{3}-\d{2}-\d{4}(?!\d|[.-]\d)"),
    "telephone number": re.compile(
        # of North America
        r"(?<![\w.+/-])(?:\+?\d{1,3}[ .-])?(?:\(\d{3}\) ?\d{3}[ .-]?"
        r"|\d{3}(?P<sign>[ .-])\d{3}(?P=sign))\d{4}(?![\w-]|\.\d)"
        r"|(?<![\w.+-])\+1 ?\d{10}(?!\w)"
        # of other countries: eight digits and more
        r"|(?<![\w.+-])(?:\+[2-9]\d{0,2}|00[2-9]\d{1,2} )(?: ?\(0\))?"
        r"(?=(?:[ .-]?\d){7,13}(?![\w.]))"
        r"(?:[ -]?\d{2,}|[ -]\d)(?:[ -]?\d{2,}){1,5}(?![\w.])"
        # as they are dialled in France and in Germany
        r"|(?<![\w.,+/-])0[1-9](?:(?P<between>[ .-])\d\d)(?:(?P=between)\d\d){3}(?![\w.,/-])"
        r"|(?<![\w.+/-])0[1-9]\d{1,3}/\d{6,8}(?![\w./-])"
    ),
    "URL with a user": re.compile(
        r"[a-z][a-z+.-]{0,20}://[^\s/\"'<>@\\]{1,300}@[^\s\"'<>]+"
        r"|//[^\s\"'<>]{1,99}/~[A-Za-z][\w-]*",
        re.IGNORECASE,
    ),
}
# what may: a pattern of the whole, and why
ALLOWED = {
    r".*@(?:[a-z0-9-]+\.)*example\.(?:com|org|net)": "reserved by RFC 2606: nobody has mail there",
    r".*@[a-z0-9.]*example": "reserved by RFC 2606",
    r"lewis\.david@email\.com": "the paper's own example of a tokenisation, invented",
    r"9\d\d-[0-4]\d-\d{4}": "area 9xx with a group below 50 was never issued",
    r"(?:123-45-6789|000-00-0000|666-\d\d-\d{4})": "never issued, known as an example",
    r".*555[.-]01\d\d": "555-01xx is reserved for fiction",
    r"(?:ssh:/{2})?git[@](?:github|gitlab)\.com.*": "how everybody fetches a repository",
} | {re.escape(one["address"]): one["reason"] for one in public.addresses()}


def found(text: str) -> list[tuple[str, str]]:
    """(what it is, its first and last sign) for everything in a text that is not allowed.

    Written with %40, &#64;, \\u0040, \\x40, =40, a wide @ or a soft hyphen too; the place is that
    in the text without these.
    """
    hits = []
    plain = re.sub(
        r"\\(?:u00|x)([0-7][0-9a-f])",
        lambda match: chr(int(match[1], 16)),
        unquote(unquote(html.unescape(text))),
        flags=re.IGNORECASE,
    )
    plain = unicodedata.normalize("NFKC", plain).replace("\u00ad", "").replace("=40", "@")
    for what, pattern in PATTERNS.items():
        for match in pattern.finditer(plain):
            if not any(re.fullmatch(allowed, match[0], re.IGNORECASE) for allowed in ALLOWED):
                hits.append((what, f"{match[0][:2]}…{match[0][-2:]} at character {match.start()}"))
    return hits
