"""Keys and tokens that say by their shape whose they are: the services' part of the table."""

from butlers.kernel import secret_checks as checks
from butlers.kernel.secret_kinds import kind

LEAST_OF_A_PROVIDER = 20
"""How long each of them is at least."""

_GITLAB = tuple(
    f"gl{what}-" for what in ["pat", "dt", "rt", "ptt", "ft", "soat", "cbt", "imt", "oas", "agent"]
)

PROVIDERS = (
    kind("jwt", r"\beyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)?", "eyj"),
    kind("stripe key", r"\b[srp]k_(?:live_|test_)?[A-Za-z0-9]{16,}", "sk_", "rk_", "pk_"),
    kind("webhook secret", r"\bwhsec_[A-Za-z0-9+/=]{16,}", "whsec_"),
    kind("github token", r"\bgh[pousr]_[A-Za-z0-9]{20,}", "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
    kind("github token", r"\bgithub_pat_\w{20,}", "github_pat_"),
    kind("gitlab token", r"\bgl[a-z]{2,5}-[\w.-]{16,}", *_GITLAB),
    kind("aws key id", r"\bA(?:KIA|SIA|ROA|IDA)[A-Z0-9]{16}\b", "akia", "asia", "aroa", "aida"),
    kind("google key", r"\bAIza[\w-]{30,}|\bya29\.[\w-]{20,}", "aiza", "ya29."),
    kind("google key", r"\bGOCSPX-[\w-]{20,}", "gocspx-"),
    kind("slack token", r"\bxox[a-z]-[\w-]{10,}|\bxapp-[\w-]{10,}", "xox", "xapp-"),
    kind("discord token", r"\b[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,}"),
    kind("telegram token", r"\b\d{8,10}:AA[\w-]{30,}"),
    kind("sendgrid key", r"\bSG\.[\w-]{16,}\.[\w-]{16,}", "sg."),
    kind("mailgun key", r"\bkey-[0-9a-f]{32}\b", "key-"),
    kind("mailchimp key", r"\b[0-9a-f]{32}-us\d{1,2}\b"),
    kind("twilio key", r"\bSK[0-9a-f]{32}\b", "sk"),
    kind("groq key", r"\bgsk_[A-Za-z0-9]{20,}", "gsk_"),
    kind("xai key", r"\bxai-[A-Za-z0-9]{40,}", "xai-"),
    kind("perplexity key", r"\bpplx-[A-Za-z0-9]{30,}", "pplx-"),
    kind("nvidia key", r"\bnvapi-[\w-]{40,}", "nvapi-"),
    kind("replicate token", r"\br8_[A-Za-z0-9]{20,}", "r8_"),
    kind("hugging face token", r"\bhf_[A-Za-z0-9]{20,}", "hf_"),
    kind("npm token", r"\bnpm_[A-Za-z0-9]{20,}", "npm_"),
    kind("pypi token", r"\bpypi-[\w-]{20,}", "pypi-"),
    kind("docker token", r"\bdckr_[a-z]{3}_[\w-]{20,}", "dckr_"),
    kind("butlers token", r"\bbtl_[\w-]{20,}", "btl_"),
    kind("vault token", r"\bhv[sbr]\.[\w-]{20,}", "hvs.", "hvb.", "hvr."),
    kind("vault token", r"\bs\.[A-Za-z0-9]{24}\b", "s.", check=checks.is_mixed),
    kind("terraform token", r"\.atlasv1\.[\w-]{40,}", ".atlasv1."),
    kind("databricks token", r"\bdapi[0-9a-f]{32}(?:-\d)?\b", "dapi"),
    kind("digitalocean token", r"\bdo[opr]_v1_[0-9a-f]{40,}", "dop_", "doo_", "dor_"),
    kind("shopify token", r"\bshp[a-z]{2}_[0-9A-Za-z]{20,}", "shp"),
    kind("square token", r"\bEAAA[\w-]{50,}|\bsq0[a-z]{3}-[\w-]{22,}", "eaaa", "sq0"),
    kind("facebook token", r"\bEAA[A-Za-z0-9]{80,}", "eaa"),
    kind("new relic key", r"\bNR[A-Z]{2}-[A-Za-z0-9]{16,}", "nrak-", "nrjs-", "nrii-", "nrbr-"),
    kind("grafana token", r"\bgl(?:sa|c)_[\w+/=-]{20,}", "glsa_", "glc_"),
    kind("linear key", r"\blin_(?:api|oauth)_[A-Za-z0-9]{20,}", "lin_"),
    kind("notion token", r"\b(?:secret|ntn)_[A-Za-z0-9]{40,}", "secret_", "ntn_"),
    kind("airtable token", r"\bpat[A-Za-z0-9]{14}\.[0-9a-f]{64}\b", "pat"),
    kind("okta token", r"\bSSWS\s{1,3}(?P<secret>[\w-]{20,})", "ssws"),
    kind("postman key", r"\bPMAK-[0-9a-f]{24}-[0-9a-f]{34}\b", "pmak-"),
    kind("doppler token", r"\bdp\.[a-z]{2}\.[\w.-]{20,}", "dp."),
    kind("fly token", r"\bfo1_[\w-]{30,}|\bFlyV1 [\w+/=,-]{30,}", "fo1_", "flyv1"),
    kind("supabase key", r"\bsb(?:[ps]|_secret)_[\w-]{16,}", "sbp_", "sbs_", "sb_secret_"),
    kind("figma token", r"\bfig[dour]_[\w-]{30,}", "figd_", "figo_", "figu_", "figr_"),
    kind("atlassian token", r"\bAT(?:ATT3|BB)[\w=-]{24,}", "atatt3", "atbb"),
    kind("age key", r"\bAGE-SECRET-KEY-1[0-9A-Z]{40,}", "age-secret-key"),
    kind("aws secret", r"(?<![\w+/=.-])[A-Za-z0-9+/]{40}(?![\w+/=-])", check=checks.is_aws_secret),
    kind(
        "webhook",
        r"[./](?:slack\.com/(?:services|workflows|triggers)|api/webhooks|webhook\.office\.com)/"
        r"(?P<secret>[\w/@%.+-]{6,})",
        *(".slack.com/", "/api/webhooks/", ".webhook.office.com/"),
    ),
)
