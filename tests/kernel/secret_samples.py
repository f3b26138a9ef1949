"""Made-up secrets of 82 kinds in the sentences they turn up in, two for each kind.

No key here was ever issued: the random part of each is drawn anew from a fixed seed, and prefixes
are put together, so that nothing in this file has a secret's shape.
"""

import random
import string
from collections.abc import Iterator
from dataclasses import dataclass

_LETTERS = string.ascii_letters + string.digits
_LOWER = string.ascii_lowercase + string.digits
_UPPER = string.ascii_uppercase + string.digits
_SHORT_WORDS = """river candle sunset orbit velvet maple cousin drift hollow anchor pepper quiz
saddle timber usual violin wagon xenon yellow zebra harvest kitten lemon mimic"""


@dataclass(frozen=True, slots=True)
class Sample:
    """A sentence with a secret of a kind; `secret` is what must not be left of it."""

    kind: str
    text: str
    secret: str


class _Maker:
    """Draws what looks random, the same at every run."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def of(self, alphabet: str, length: int) -> str:
        return "".join(self._random.choices(alphabet, k=length))

    def mixed(self, length: int) -> str:
        """Letters and digits, both of them surely."""
        return self.of(_LETTERS, length - 3) + "q7X"

    def hex(self, length: int) -> str:
        return self.of("0123456789abcdef", length)

    def base64(self, length: int) -> str:
        return self.of(_LETTERS + "+/", length - 3) + "x9/"

    def digits(self, length: int) -> str:
        return self.of("123456789", length)

    def card(self, prefix: str, length: int) -> str:
        """Digits that pass Luhn's check."""
        body = prefix + self.of(string.digits, length - len(prefix) - 1)
        return next(body + last for last in string.digits if _luhn(body + last))

    def iban(self, country: str, length: int) -> str:
        """An account number with the check digits it needs."""
        account = self.of(string.digits, length - 4)
        number = int("".join(str(int(one, 36)) for one in f"{account}{country}00"))
        return f"{country}{98 - number % 97:02}{account}"

    def phrase(self, count: int) -> str:
        return " ".join(self._random.sample(_SHORT_WORDS.split(), count))


def _luhn(digits: str) -> bool:
    doubled = [int(one) * (1 + place % 2) for place, one in enumerate(reversed(digits))]
    return sum(one - 9 * (one > 9) for one in doubled) % 10 == 0


def _pem(kind: str, body: str) -> str:
    edge = "-" * 5
    lines = "\n".join(body[start : start + 64] for start in range(0, len(body), 64))
    return f"{edge}BEGIN {kind}{edge}\n{lines}\n{edge}END {kind}{edge}"


def tuned() -> Iterator[Sample]:  # noqa: C901, PLR0912, PLR0915 - a table, row by row
    """The half of the kinds that the table was tried against while it was written."""
    m = _Maker("tuned")
    both = (("aws key id", "AK" + "IA"), ("aws key id", "AS" + "IA"))
    for kind, prefix in both:
        key = prefix + m.of(_UPPER, 16)
        yield Sample(kind, f"the uploader runs as {key} in eu-west-1", key)
    for text in ("aws configure asked for the secret: {}", "aws_secret_access_key = {}"):
        key = m.base64(40)
        yield Sample("aws secret", text.format(key), key)
    for text in ("DefaultEndpointsProtocol=https;AccountName=shop;AccountKey={};E=core",) * 2:
        key = m.base64(86) + "=="
        yield Sample("azure storage", text.format(key), key)
    for prefix in ("gh" + "p_", "gh" + "s_"):
        key = prefix + m.mixed(36)
        yield Sample("github classic", f"I pushed with {key} from the laptop", key)
    for length in (82, 82):
        key = "github" + "_pat_" + m.mixed(length)
        yield Sample("github fine-grained", f"renovate uses {key}.", key)
    for prefix in ("xox" + "b-", "xox" + "p-"):
        key = f"{prefix}{m.digits(12)}-{m.digits(12)}-{m.mixed(24)}"
        yield Sample("slack", f"The bot signs in with {key}", key)
    for _ in range(2):
        key = f"{m.of(_UPPER, 9)}/B{m.of(_UPPER, 8)}/{m.mixed(24)}"
        yield Sample("slack webhook", "post to https://hooks.slack" + f".com/services/{key}", key)
    for _ in range(2):
        key = f"{m.mixed(26)}.{m.of(_LETTERS, 6)}.{m.mixed(38)}"
        yield Sample("discord", f"client.run('M{key}')", key)
    for _ in range(2):
        key = f"{m.digits(9)}:AA{m.mixed(33)}"
        yield Sample("telegram", f"BotFather gave me {key} for the door bell", key)
    for prefix in ("sk" + "_live_", "rk" + "_live_"):
        key = prefix + m.mixed(24)
        yield Sample("stripe", f"charges go through {key}", key)
    for prefix in ("sk-" + "proj-", "sk-" + "svcacct-"):
        key = prefix + m.mixed(48)
        yield Sample("openai", f"set it to {key} and restart", key)
    for _ in range(2):
        key = "sk-" + "ant-api03-" + m.mixed(93)
        yield Sample("anthropic", f"he pasted {key} into the chat", key)
    for _ in range(2):
        key = "gs" + "k_" + m.mixed(52)
        yield Sample("groq", f"groq works with {key} now", key)
    for _ in range(2):
        key = "hf" + "_" + m.of(string.ascii_letters, 34)
        yield Sample("hugging face", f"huggingface-cli login --token {key}", key)
    for _ in range(2):
        key = "npm" + "_" + m.mixed(36)
        yield Sample("npm", f"//registry.example/:_authToken={key}", key)
    for prefix in ("hvs", "s"):
        key = f"{prefix}." + (m.mixed(90) if prefix == "hvs" else m.mixed(24))
        yield Sample("vault", f"vault login {key}", key)
    for _ in range(2):
        key = "dap" + "i" + m.hex(32)
        yield Sample("databricks", f"The cluster takes {key}", key)
    for prefix in ("shp" + "at_", "shp" + "ss_"):
        key = prefix + m.hex(32)
        yield Sample("shopify", f"the shop's app has {key}", key)
    for text in ("DD_API_KEY={}", "datadog api key {} for the agent"):
        key = m.hex(32)
        yield Sample("datadog", text.format(key), key)
    for host in ("o4501.ingest.example", "sentry.example"):
        key = m.hex(32)
        yield Sample("sentry dsn", f"dsn https://{key}@{host}/4505", key)
    for _ in range(2):
        key = "lin" + "_api_" + m.mixed(40)
        yield Sample("linear", f"Linear: {key}", key)
    for _ in range(2):
        key = f"eyJ{m.mixed(33)}.eyJ{m.mixed(60)}.{m.mixed(43)}"
        yield Sample("jwt", f"curl with {key} works", key)
    for kind in ("RSA PRIVATE KEY", "EC PRIVATE KEY"):
        body = m.base64(400)
        yield Sample("pem key", f"deploy key:\n{_pem(kind, body)}\nkeep it", body[70:120])
    for _ in range(2):
        body = m.base64(300)
        text = _pem("OPENSSH PRIVATE KEY", body)
        yield Sample("openssh key", f"cat id_ed25519\n{text}", body[64:120])
    for field in ("client-key-data", "client-key-data"):
        key = m.base64(120) + "=="
        yield Sample("kubeconfig key", f"users:\n- user:\n    {field}: {key}\n", key)
    for _ in range(2):
        key = m.mixed(14)
        text = f"machine git.example login ida password {key}"
        yield Sample("netrc", text, key)
    for name in ("DB_PASS", "MYSQL_PASS"):
        key = m.mixed(12)
        yield Sample("env password", f"export {name}={key}", key)
    for user in ("ida", "admin@shop.example"):
        key = m.mixed(10)
        yield Sample("curl -u", f"curl -u {user}:{key} https://api.example/v1", key)
    for scheme in ("postgresql", "mongodb+srv"):
        key = m.mixed(12)
        text = f"{scheme}://app:{key}@db.example/shop?ssl=true"
        yield Sample("database url", text, key)
    for key in (m.card("4", 16), m.card("34", 15)):
        yield Sample("card", f"Pay with {key}, it expires in 11/29", key)
    for key in (m.iban("DE", 22), m.iban("NL", 18)):
        yield Sample("iban", f"Ida's account is {key} at her bank", key)
    for count in (12, 24):
        key = m.phrase(count)
        yield Sample("seed phrase", f"my wallet's seed phrase: {key}", key)
    for key in ("Sonnenblume7", "hering!42"):
        yield Sample("said, German", f"Das Passwort ist {key}, bitte merken.", key)
    for key in ("Tournesol7", "hareng!42"):
        yield Sample("said, French", f"Le mot de passe : {key}", key)
    for key, word in (("4711", "PIN"), ("90125", "pin code")):
        yield Sample("pin", f"The {word} of the garage is {key}.", key)
    for name in ("Backstube", "office"):
        key = m.mixed(11)
        yield Sample("wifi", f"The wifi password for {name} is {key}", key)
    for _ in range(2):
        key = m.of("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 32)
        yield Sample("otpauth", f"otpauth://totp/shop:ida?secret={key}&issuer=shop", key)
    for name in ("sessionid", "JSESSIONID"):
        key = m.hex(32)
        yield Sample("cookie", f"Cookie: theme=dark; {name}={key}; lang=en", key)
    for _ in range(2):
        key = m.mixed(40)
        yield Sample("bearer", f'-H "Authorization: Bearer {key}"', key)
    for key in (m.mixed(20), m.mixed(32)):
        yield Sample("said, English", f"my api key for the weather is {key}", key)


def held_out() -> Iterator[Sample]:  # noqa: C901, PLR0912, PLR0915 - as above
    """The other half, written before the table and first tried when that was finished."""
    m = _Maker("held out")
    for text in ("maps need {} in the header", "GOOGLE_API_KEY: {}"):
        key = "AI" + "za" + m.mixed(35)
        yield Sample("google", text.format(key), key)
    for _ in range(2):
        body = m.base64(600)
        key = "\\n".join(body[start : start + 64] for start in range(0, 600, 64))
        edge = "-" * 5
        text = f'{{"private_key": "{edge}BEGIN PRIVATE KEY{edge}\\n{key}\\n{edge}END"}}'
        yield Sample("gcp service account", text, body[64:120])
    for text in ("Endpoint=sb://q.example/;SharedAccessKeyName=root;SharedAccessKey={}",) * 2:
        key = m.base64(43) + "="
        yield Sample("azure service bus", text.format(key), key)
    for _ in range(2):
        key = m.mixed(40) + "%2B" + m.mixed(8) + "%3D"
        text = f"https://shop.blob.example/a.txt?sv=2024-05-04&se=2026-12-01&sr=b&sp=r&sig={key}"
        yield Sample("azure sas", text, key)
    for prefix in ("glp" + "at-", "gldt" + "-"):
        key = prefix + m.mixed(20)
        yield Sample("gitlab", f"the mirror job has {key}", key)
    for account in ("AC", "SK"):
        key = m.hex(32)
        text = f"twilio: {account}{m.hex(32)} with auth token {key}"
        yield Sample("twilio", text, key)
    for _ in range(2):
        key = "S" + f"G.{m.mixed(22)}.{m.mixed(43)}"
        yield Sample("sendgrid", f"mail goes out with {key}", key)
    for _ in range(2):
        key = "key" + "-" + m.hex(32)
        yield Sample("mailgun", f"mailgun wants api:{key}", key)
    for _ in range(2):
        key = "r8" + "_" + m.mixed(37)
        yield Sample("replicate", f"The image model runs with {key}", key)
    for text in ("COHERE_API_KEY={}", "co = cohere.Client('{}')"):
        key = m.mixed(40)
        yield Sample("cohere", text.format(key), key)
    for _ in range(2):
        key = "pypi" + "-AgEIcHlwaS5vcmc" + m.mixed(120)
        yield Sample("pypi", f"twine upload -u __token__ -p {key}", key)
    for prefix in ("dckr" + "_pat_", "dckr" + "_oat_"):
        key = prefix + m.mixed(27)
        yield Sample("docker", f"docker login with {key}", key)
    for text in ("CONSUL_HTTP_TOKEN={}", "the consul token is {}"):
        key = "-".join(m.hex(size) for size in (8, 4, 4, 4, 12))
        yield Sample("consul", text.format(key), key)
    for prefix in ("dop" + "_v1_", "doo" + "_v1_"):
        key = prefix + m.hex(64)
        yield Sample("digitalocean", f"droplets are made with {key}", key)
    for text in ("HEROKU_API_KEY={}", "heroku's API key is {}"):
        key = "-".join(m.hex(size) for size in (8, 4, 4, 4, 12))
        yield Sample("heroku", text.format(key), key)
    for prefix in ("EA" + "AA", "sq0" + "csp-"):
        key = prefix + m.mixed(60 if prefix[0] == "E" else 43)
        yield Sample("square", f"the till sends {key}", key)
    for prefix, size in (("NR" + "AK-", 27), ("NRJS" + "-", 19)):
        key = prefix + m.of(_UPPER, size)
        yield Sample("new relic", f"new relic takes {key}", key)
    for prefix in ("gl" + "sa_", "gl" + "c_"):
        key = prefix + (m.mixed(32) + "_" + m.hex(8) if prefix[2] == "s" else "eyJ" + m.mixed(90))
        yield Sample("grafana", f"dashboards are read with {key}", key)
    for prefix in ("secret" + "_", "ntn" + "_"):
        key = prefix + m.mixed(43)
        yield Sample("notion", f"Notion page sync: {key}", key)
    for _ in range(2):
        key = "pa" + "t" + m.mixed(14) + "." + m.hex(64)
        yield Sample("airtable", f"the base answers to {key}", key)
    for text in ("Authorization: SSWS {}", "okta api token {}"):
        key = "00" + m.mixed(40)
        yield Sample("okta", text.format(key), key)
    for _ in range(2):
        body = m.base64(500)
        text = _pem("PGP PRIVATE KEY BLOCK", body)
        yield Sample("pgp key", f"gpg --export-secret-keys gave\n{text}", body[70:120])
    for _ in range(2):
        key = "AGE" + "-SECRET-KEY-1" + m.of(_UPPER, 58)
        yield Sample("age", f"# created yesterday\n{key}", key)
    for port in ("5432", "*"):
        key = m.mixed(12)
        yield Sample("pgpass", f"~/.pgpass: db.example:{port}:shop:app:{key}", key)
    for text in ("https://ida:{}@git.example/shop.git", "ftp://backup:{}@files.example/"):
        key = m.mixed(9)
        yield Sample("basic auth url", text.format(key), key)
    for text in (
        "Server=tcp:db.example,1433;User ID=app;Password={};Encrypt=True",
        "Data Source=db.example;Initial Catalog=shop;uid=app;Pwd={};",
    ):
        key = m.mixed(13)
        yield Sample("sql server", text.format(key), key)
    for text in ("jdbc:mysql://db.example/shop?user=app&password={}", "redis://:{}@cache:6379/0"):
        key = m.mixed(13)
        yield Sample("jdbc or redis", text.format(key), key)
    for text in ("mysql -u root -p{} shop", "sshpass -p {} ssh ida@shop.example"):
        key = m.mixed(10)
        yield Sample("command option", text.format(key), key)
    for key in (m.card("51", 16), m.card("6011", 16)):
        spaced = " ".join(key[start : start + 4] for start in range(0, 16, 4))
        yield Sample("card, spaced", f"My Mastercard is {spaced} if you need it", spaced)
    for key in (m.iban("FR", 27), m.iban("GB", 22)):
        spaced = " ".join(key[start : start + 4] for start in range(0, len(key), 4))
        yield Sample("iban, spaced", f"Transfer the rent to {spaced} please", spaced)
    for key in ("girasol77", "Arenque!42"):
        yield Sample("said, Spanish", f"La contraseña es {key}", key)
    for key in ("podsolnuh7", "Сельдь42"):
        yield Sample("said, Russian", f"Пароль от почты: {key}", key)
    for key in ("xiangrikui7", "kaoya#42"):
        yield Sample("said, Chinese", f"我的密码是{key}，别忘了", key)
    for key in ("himawari77", "nishin#42"):
        yield Sample("said, Japanese", f"パスワードは{key}です", key)
    for key in ("girassol77", "girasole77"):
        word = "A senha é" if "ss" in key else "La password è"
        yield Sample("said, Portuguese or Italian", f"{word} {key}.", key)
    for word in ("PIN-Code", "Türcode"):
        key = m.digits(6)
        yield Sample("pin, German", f"Der {word} lautet {key}", key)
    for area in (123, 547):
        key = f"{area}-{m.digits(2)}-{m.digits(4)}"
        yield Sample("us ssn", f"her SSN is {key}", key)
    for count in (12, 15):
        key = m.phrase(count)
        yield Sample("recovery phrase", f"Recovery words of the wallet are {key}", key)
    for name in ("X-Api-Key", "X-Auth-Token"):
        key = m.mixed(32)
        yield Sample("header", f"curl -H '{name}: {key}' https://api.example", key)
    for text in ("WIFI:T:WPA;S:Backstube;P:{};;", 'network={{ssid="x"\n psk="{}"}}'):
        key = m.mixed(11)
        yield Sample("wifi code", text.format(key), key)
    for text in ("Set-Cookie: __Host-session={}; Secure", "connect.sid=s%3A{}"):
        key = m.mixed(40)
        yield Sample("session cookie", text.format(key), key)
    for text in ('{{"auths": {{"reg.example": {{"auth": "{}"}}}}}}', '"auth": "{}"'):
        key = m.base64(36)
        yield Sample("docker config", text.format(key), key)


SAMPLES = [*tuned(), *held_out()]
