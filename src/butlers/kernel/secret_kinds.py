r"""The table of secrets: what each kind looks like, and where it has to stand to be one.

A kind is looked for where one of its `anchors` stands in the text, in small letters: most texts
cost a search for some short words and no pattern at all. Its pattern matches from there and is the
secret, or has it in the group `secret`; what a pattern cannot say, a check does. A kind without
anchors is looked for everywhere.

Time stays linear in the length of the text: what may be of any length is not followed by anything
that could fail, and everything else is bounded.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from butlers.kernel import secret_checks as checks


@dataclass(frozen=True, slots=True)
class SecretKind:
    """One kind of secret, under the name that its mark bears."""

    name: str
    shape: re.Pattern[str]
    anchors: tuple[str, ...]
    check: Callable[[str], bool] | None = None


def kind(
    name: str,
    pattern: str,
    *anchors: str,
    check: Callable[[str], bool] | None = None,
    flags: int = 0,
) -> SecretKind:
    """A kind by its pattern as it is written in a table."""
    return SecretKind(name, re.compile(pattern, flags), anchors, check)


_ANY = re.IGNORECASE
_PRIVATE_KEY = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"

_PLACES = (
    # A block that was cut off still holds most of its key.
    kind(
        "private key",
        rf"-----BEGIN {_PRIVATE_KEY}.*?(?:-----END {_PRIVATE_KEY}|\Z)",
        "-----begin ",
        flags=re.DOTALL,
    ),
    # Services that complain of a key show it with stars in its middle.
    kind("api key", r"\bsk-[\w*-]{6,}", "sk-", check=checks.is_key),
    kind(
        "authorization",
        r"\b(?:bearer|basic)\s{1,4}(?P<secret>[\w.~+/=-]{6,})",
        *("bearer", "basic"),
        check=checks.is_credential,
        flags=_ANY,
    ),
    # A password that was not quoted may hold any sign; a port is none.
    kind(
        "password",
        r"://[^\s/@:]{0,200}:(?!\d{1,5}(?:[/?#\s]|\Z))(?P<secret>\S{1,200})(?=@)",
        "://",
    ),
    # A token in the place of a user; a user's name is seldom long and has seldom digits.
    kind("token", r"://(?P<secret>[^\s/@:]{8,200})(?=@)", "://", check=checks.is_long_or_numbered),
    kind(
        "signature",
        r"(?<![A-Za-z])(?:sig|signature|code|auth|key|sid)=(?P<secret>[^\s&#\"'<>;]{16,})",
        *("sig=", "signature=", "code=", "auth=", "key=", "sid="),
        check=checks.is_random,
        flags=_ANY,
    ),
    kind(
        "key",
        r"(?:client-key-data|token-data|dockerconfigjson|_auth(?:token)?)[\"']?\s{0,4}[:=]\s{0,4}"
        r"[\"']?(?P<secret>[\w+/=.-]{8,})",
        *("client-key-data", "token-data", "dockerconfigjson", "_auth"),
        flags=_ANY,
    ),
    kind("password", r"\"auth\"\s{0,4}:\s{0,4}\"(?P<secret>[A-Za-z0-9+/=]{8,})\"", '"auth"'),
    kind(
        "password",
        r"\b(?:machine|default)\s[^\n]{0,160}?\bpassword\s{1,4}(?P<secret>\S{2,})",
        *("machine ", "default "),
    ),
    kind(
        "password",
        r"(?<=\w):(?:\d{4,5}|\*):[\w*-]{1,63}:[\w*@.-]{1,63}:(?P<secret>[^\s:]{4,200})",
        *(":*:", ":5432:", ":5433:", ":6432:"),
    ),
    kind(
        "password",
        r"\b(?:curl|wget|https?)\s[^\n|;]{0,200}?(?<=\s)(?:-u|--user)[ =]?[\"']?[^\s:\"']{1,100}:"
        r"(?P<secret>[^\s\"']{1,200})",
        *("curl ", "wget ", "http ", "https "),
    ),
    kind(
        "password",
        r"(?:sshpass|mysql\w{0,6}|mariadb|twine|docker login|redis-cli)\b[^\n|;]{0,120}?\s"
        r"(?:-p ?|-a )(?P<secret>[^\s\"'-][^\s\"']{3,})",
        *("sshpass", "mysql", "mariadb", "twine", "docker login", "redis-cli"),
        check=checks.looks_chosen,
    ),
    kind("password", r"WIFI:[^\n]{0,120}?P:(?P<secret>[^;\n]{1,63})", "wifi:"),
    kind(
        "session",
        r"(?:session|sessid|sess|sid|csrf|xsrf|remember|auth)(?:[_-]?(?:id|token|key))?"
        r"=(?P<secret>[\w%.+/=:~-]{16,})",
        *("sess", "sid", "csrf", "xsrf", "remember", "auth"),
        check=checks.has_digit,
        flags=_ANY,
    ),
)

# Names of variables, settings and columns, by what their last word starts with.
_BEFORE_KEY = "|".join(
    f"(?<={before})|(?<={before}[ _-])"
    for before in [
        "api",
        "access",
        "private",
        "account",
        "auth",
        "signing",
        "encryption",
        "license",
    ]
)
_NAMES = (
    ("password", "pass", r"pass(?:word|wd|phrase|wort)|(?<![^\W_])pass"),
    ("password", "kennwort", "kennwort"),
    ("password", "pw", r"(?<![^\W_])pwd?"),
    ("token", "token", "token"),
    ("secret", "secret", "secret"),
    ("secret", "credential", "credentials?"),
    ("secret", "psk", r"(?<![^\W_])psk"),
    ("key", "key", rf"(?:{_BEFORE_KEY})key"),
)
_UNQUOTED = r"[^\s\"'`,;<>&|\]})]"


def _named(name: str, anchor: str, word: str) -> tuple[SecretKind, ...]:
    """What stands after a name: in quotes, or plainly, or as an option of a command."""
    said = rf"(?:{word})[\"']?\s{{0,4}}"
    quoted = r"(?P<quote>[\"'`])(?P<secret>[^\n]{1,300}?)(?P=quote)"
    return (
        kind(
            name, rf"{said}(?:=>?|:=?)\s{{0,4}}{quoted}", anchor, check=checks.is_given, flags=_ANY
        ),
        kind(
            name,
            rf"{said}(?:=>?|:=)\s{{0,4}}(?P<secret>{_UNQUOTED}{{1,}})",
            anchor,
            check=checks.is_assigned,
            flags=_ANY,
        ),
        # Prose has colons too: what follows one there is a secret only if it looks like one.
        kind(
            name,
            rf"{said}:[ \t]{{0,4}}(?P<secret>{_UNQUOTED}{{4,}})",
            anchor,
            check=checks.looks_chosen,
            flags=_ANY,
        ),
        kind(
            name,
            rf"(?<=-){said}(?<=[ ])(?P<secret>[^\s\"'-][^\s\"']{{3,}})",
            anchor,
            check=checks.is_assigned,
            flags=_ANY,
        ),
    )


# How people say it: the word for a password, whose it is, and what it is.
_SPOKEN = {
    "pass": r"pass(?:word|wort|ord|code| ?phrase)|(?<=mot de )passe",
    **{word: word for word in ("kennwort", "contraseña", "contrasena", "clave", "senha", "parola")},
    **{word: word for word in ("wachtwoord", "hasło", "haslo", "lösenord", "adgangskode", "heslo")},
    **{word: word for word in ("salasana", "şifre", "sifre", "пароль", "пароля", "κωδικός")},
    **{word: word for word in ("كلمة السر", "كلمة المرور", "סיסמה", "mật khẩu")},
}
# After these only what looks like a password is one: secrets are of other sorts, too.
_SPOKEN_OF_MUCH = {
    "pw": r"pwd?",
    "secret": "secret",
    "key": r"(?:(?<=wifi )|(?<=wi-fi )|(?<=wlan )|(?<=api )|(?<=secret ))key",
}
_SPOKEN_IS = (
    r"(?!.(?:manager|polic|hash|hint|length|field|generator|protect))"
    r"[^\n.!?:=]{0,30}?(?:[ \t]{0,3}(?:[:=：→]|->|[–—-] )|\s(?:is|was|are|ist|lautet|war|est|es"
    r"|era|é|è|jest|är|er|on|to|auf|là|είναι|היא|הוא|هي|هو):?\s)\s{0,3}[\"'`«„“「]?"
)
_UNSPACED = ("密码", "密碼", "口令", "パスワード", "暗証番号", "비밀번호", "암호")
_CODES = {
    "pin": r"(?<!\w)(?:pin|(?<=code )pin|(?<=código )pin)(?:[- ]?code)?",
    "code": r"(?:(?<=door )|(?<=gate )|(?<=alarm )|(?<=entry )|(?<=access )|(?<=safe )|(?<=pass)"
    r"|(?<=tür)|(?<=haustür)|(?<=zugangs)|(?<=unlock )|(?<=keypad ))code",
    "cv": r"(?<!\w)cv[vc]2?",
    "geheimzahl": "geheimzahl",
    "пин": r"(?<!\w)пин(?:-код)?",
}
_RANDOM = r"[A-Za-z0-9_+/=.~-]"

_SAID = (
    kind(
        "password",
        rf"(?<![^\W_])(?:{'|'.join((_SPOKEN | _SPOKEN_OF_MUCH).values())})\b{_SPOKEN_IS}"
        r"(?P<secret>[^\s\"'`,;«»“”」，。、]{3,128}(?<![.!?:)*]))",
        *_SPOKEN,
        *_SPOKEN_OF_MUCH,
        check=checks.looks_chosen,
        flags=_ANY,
    ),
    kind(
        "password",
        rf"(?<!\w)(?:{'|'.join(_SPOKEN.values())})\b{_SPOKEN_IS}"
        r"(?P<secret>[^\W\d_]{5,64})(?=[\"'`»“”]?[ \t]{0,3}(?:[.!;]?(?:\n|\Z)|[.!;]\s))",
        *_SPOKEN,
        check=checks.is_uncommon,
        flags=_ANY,
    ),
    kind(
        "password",
        rf"(?:{'|'.join(_UNSPACED)})[^\n。！？!?:：]{{0,12}}?(?:[:：=]|是|为|為|は|が|이|은|는)\s{{0,4}}"
        r"[\"'「“]?(?P<secret>[!-~]{4,64})",
        *_UNSPACED,
        check=checks.looks_chosen,
    ),
    kind(
        "pin",
        rf"(?:{'|'.join(_CODES.values())})\b[^\n\d.!?]{{0,30}}?(?<![\d.,$€£])"
        r"(?P<secret>\d{3,8})(?![\d%]|[.,:/-]\d)",
        *_CODES,
        check=checks.is_no_year,
        flags=_ANY,
    ),
    kind(
        "key",
        rf"(?:key|token|secret|credential)s?\b[^\n]{{0,40}}?[\s:=\"'`(](?P<secret>{_RANDOM}{{16,}})",
        *("key", "token", "secret", "credential"),
        check=checks.is_random,
        flags=_ANY,
    ),
    kind(
        "key",
        rf"(?:client|login|configure|authenticate)\(\s{{0,4}}[\"'](?P<secret>{_RANDOM}{{20,}})",
        *("client(", "login(", "configure(", "authenticate("),
        check=checks.is_random,
        flags=_ANY,
    ),
    kind(
        "seed phrase",
        r"\b(?:seed|recovery|mnemonic|backup|wallet)\b[^\n]{0,60}?(?<![a-z])"
        r"(?P<secret>(?:(?:\d{1,2}[.)]\s?)?[a-z]{3,8}[ ,\n]{1,3}){11,23}[a-z]{3,8})\b",
        *("seed", "recovery", "mnemonic", "backup", "wallet"),
    ),
    kind(
        "social security number",
        r"\b(?:ssn|social security)\b[^\n\d]{0,30}(?P<secret>\d{3}[- ]?\d\d[- ]?\d{4})\b",
        *("ssn", "social security"),
        flags=_ANY,
    ),
)

_NUMBERS = (
    kind(
        "card number",
        r"(?<![\w.,-])(?:[2-6]\d{3}(?:[ -]?\d{4}){3}|3\d{3}[ -]?\d{6}[ -]?\d{4,5})(?![\w-]|[.,]\d)",
        check=checks.is_card,
    ),
    kind(
        "iban",
        r"(?<![A-Za-z0-9])[A-Z]{2}\d\d(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?![A-Za-z0-9])",
        check=checks.is_iban,
    ),
)

KINDS = (*_PLACES, *_NUMBERS, *(found for one in _NAMES for found in _named(*one)), *_SAID)
"""Beside the providers', in the order in which they name a secret that several of them find."""
