//! The shapes of common secrets.
//!
//! A detector has anchors, short pieces of text that its secrets cannot do without, and a pattern that is tried where an anchor
//! stands. So a text without anchors costs one search for all of them at once, and no pattern is run over a whole text.
//!
//! A shape is in the table when text that is no secret hardly ever has it. Order matters: of two that find the same, the first
//! names it.

/// One kind of secret.
#[derive(Debug, Clone, Copy)]
pub(super) struct Detector {
    /// In placeholders: lower case, digits, hyphens.
    pub(super) name: &'static str,
    pub(super) anchors: &'static [Anchor],
    /// Tried at the anchor. Its first group is the secret; without a group, all of it.
    pub(super) pattern: &'static str,
    pub(super) before: Before,
    /// No letter or digit may follow: the length is fixed, and a longer word is something else.
    pub(super) is_exact: bool,
    /// Words are no secrets.
    pub(super) needs_digit: bool,
}

/// A literal, and what can be said about it without decoding the text around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Anchor {
    pub(super) literal: &'static str,
    pub(super) look: Look,
}

/// A cheap look behind an anchor, in text that may have escapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// Some characters of a token follow.
    Token,
    /// An `@` comes before anything that ends the authority of a URL.
    At,
    /// Rare enough.
    Nothing,
}

/// What may stand in front of an anchor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Before {
    Anything,
    /// No letter, digit or underscore: `task-` is no `sk-`.
    NoWord,
    /// Nor anything that base64 consists of: an image may well contain `AIza`.
    NoBase64,
}

const fn token(literal: &'static str) -> Anchor {
    Anchor {
        literal,
        look: Look::Token,
    }
}

const fn rare(literal: &'static str) -> Anchor {
    Anchor {
        literal,
        look: Look::Nothing,
    }
}

const fn at_sign(literal: &'static str) -> Anchor {
    Anchor {
        literal,
        look: Look::At,
    }
}

/// A prefix that nothing else begins with, and as much as follows.
const fn prefixed(name: &'static str, anchors: &'static [Anchor], pattern: &'static str) -> Detector {
    Detector {
        name,
        anchors,
        pattern,
        before: Before::NoWord,
        is_exact: false,
        needs_digit: false,
    }
}

const fn exact(detector: Detector) -> Detector {
    Detector {
        is_exact: true,
        ..detector
    }
}

const fn no_base64(detector: Detector) -> Detector {
    Detector {
        before: Before::NoBase64,
        ..detector
    }
}

const fn anywhere(detector: Detector) -> Detector {
    Detector {
        before: Before::Anything,
        ..detector
    }
}

const fn with_digit(detector: Detector) -> Detector {
    Detector {
        needs_digit: true,
        ..detector
    }
}

pub(super) static DETECTORS: &[Detector] = &[
    // Providers of models.
    prefixed("anthropic-key", &[token("sk-")], r"sk-ant-[A-Za-z0-9_-]{24,}"),
    prefixed("openrouter-key", &[token("sk-")], r"sk-or-(?:v\d-)?[A-Za-z0-9]{32,}"),
    prefixed(
        "langfuse-key",
        &[token("sk-")],
        r"sk-lf-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    ),
    prefixed(
        "openai-key",
        &[token("sk-")],
        r"sk-(?:proj|svcacct|admin|service|None)-[A-Za-z0-9_-]{20,}",
    ),
    // The older form, which other providers have taken over.
    with_digit(prefixed("openai-key", &[token("sk-")], r"sk-[A-Za-z0-9]{32,}")),
    exact(no_base64(prefixed(
        "google-key",
        &[token("AIza")],
        r"AIza[A-Za-z0-9_-]{35}",
    ))),
    prefixed("google-key", &[token("AQ.Ab")], r"AQ\.Ab[A-Za-z0-9_-]{30,}"),
    prefixed("google-oauth", &[token("ya29.")], r"ya29\.[A-Za-z0-9_-]{20,}"),
    prefixed("google-oauth", &[token("GOCSPX-")], r"GOCSPX-[A-Za-z0-9_-]{20,}"),
    prefixed("groq-key", &[token("gsk_")], r"gsk_[A-Za-z0-9]{40,}"),
    prefixed("xai-key", &[token("xai-")], r"xai-[A-Za-z0-9]{60,}"),
    prefixed("perplexity-key", &[token("pplx-")], r"pplx-[A-Za-z0-9]{40,}"),
    prefixed("replicate-token", &[token("r8_")], r"r8_[A-Za-z0-9]{32,}"),
    prefixed("nvidia-key", &[token("nvapi-")], r"nvapi-[A-Za-z0-9_-]{50,}"),
    prefixed("huggingface-token", &[token("hf_")], r"hf_[A-Za-z0-9]{30,}"),
    // Clouds.
    exact(no_base64(prefixed(
        "aws-key-id",
        &[token("AKIA"), token("ASIA")],
        r"A[KS]IA[A-Z2-7]{16}",
    ))),
    exact(anywhere(prefixed(
        "aws-secret-key",
        &[rare("t_access_key"), rare("tAccessKey"), rare("T_ACCESS_KEY")],
        r#"(?:t_access_key|tAccessKey|T_ACCESS_KEY)[\s"'\\:=>,]{1,12}([A-Za-z0-9/+]{40})"#,
    ))),
    no_base64(prefixed(
        "bedrock-key",
        &[token("ABSK")],
        r"ABSK[A-Za-z0-9+/]{90,}={0,2}",
    )),
    anywhere(prefixed(
        "azure-account-key",
        &[rare("AccountKey=")],
        r"AccountKey=([A-Za-z0-9+/]{86}==)",
    )),
    prefixed("digitalocean-token", &[token("dop_v1_")], r"dop_v1_[0-9a-f]{64}"),
    prefixed("vault-token", &[token("hvs.")], r"hvs\.[A-Za-z0-9_-]{24,}"),
    exact(prefixed(
        "databricks-token",
        &[token("dapi")],
        r"dapi[0-9a-f]{32}(?:-\d)?",
    )),
    prefixed(
        "tailscale-key",
        &[token("tskey-")],
        r"tskey-[a-z]+-[A-Za-z0-9]+-[A-Za-z0-9]{16,}",
    ),
    prefixed("supabase-token", &[token("sbp_")], r"sbp_[0-9a-f]{40}"),
    // Code, packages, containers.
    prefixed(
        "github-token",
        &[
            token("ghp_"),
            token("gho_"),
            token("ghu_"),
            token("ghs_"),
            token("ghr_"),
        ],
        r"gh[pousr]_[A-Za-z0-9]{36,}",
    ),
    prefixed("github-token", &[token("github_pat_")], r"github_pat_[A-Za-z0-9_]{22,}"),
    prefixed("gitlab-token", &[token("glpat-")], r"glpat-[A-Za-z0-9_-]{20,}"),
    exact(prefixed("npm-token", &[token("npm_")], r"npm_[A-Za-z0-9]{36}")),
    prefixed("pypi-token", &[token("pypi-AgE")], r"pypi-AgE[A-Za-z0-9_-]{50,}"),
    prefixed("docker-token", &[token("dckr_pat_")], r"dckr_pat_[A-Za-z0-9_-]{24,}"),
    // Services.
    prefixed("slack-token", &[token("xox")], r"xox[abceoprs]-[A-Za-z0-9-]{10,}"),
    prefixed("slack-token", &[token("xapp-")], r"xapp-\d-[A-Z0-9]+-\d+-[0-9a-f]{16,}"),
    anywhere(prefixed(
        "slack-webhook",
        &[rare("hooks.slack.com")],
        r"hooks\.slack\.com/(?:services|workflows)/([A-Za-z0-9/]{20,})",
    )),
    prefixed(
        "stripe-key",
        &[token("sk_live_"), token("rk_live_")],
        r"[sr]k_live_[A-Za-z0-9]{16,}",
    ),
    prefixed("stripe-key", &[token("whsec_")], r"whsec_[A-Za-z0-9+/]{32,}"),
    prefixed(
        "sendgrid-key",
        &[token("SG.")],
        r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64}",
    ),
    prefixed("shopify-token", &[token("shp")], r"shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32}"),
    prefixed("linear-key", &[token("lin_api_")], r"lin_api_[A-Za-z0-9]{32,}"),
    prefixed("notion-token", &[token("ntn_")], r"ntn_[A-Za-z0-9]{40,}"),
    prefixed(
        "atlassian-token",
        &[token("ATATT3")],
        r"ATATT3[A-Za-z0-9_-]{60,}(?:=[0-9A-F]{8})?",
    ),
    prefixed("postman-key", &[token("PMAK-")], r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    prefixed(
        "sentry-token",
        &[token("sntrys_")],
        r"sntrys_[A-Za-z0-9+/]{20,}={0,2}_[A-Za-z0-9+/]{20,}",
    ),
    // Whatever it is for.
    prefixed("age-key", &[token("AGE-SECRET-KEY-1")], r"AGE-SECRET-KEY-1[0-9A-Z]{58}"),
    anywhere(prefixed("private-key", &[rare("-----BEGIN ")], PRIVATE_KEY)),
    no_base64(prefixed(
        "jwt",
        &[token("eyJ")],
        r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",
    )),
    anywhere(prefixed(
        "url-password",
        &[at_sign("://"), at_sign(r":\/\/")],
        r#":(?://|\\/\\/)[^\s/:@"'\\<>`{}$]{0,128}:([^\s/@"'\\<>`{}$]{3,256})@[A-Za-z0-9\[]"#,
    )),
    with_digit(anywhere(prefixed(
        "bearer-token",
        &[rare("Bearer "), rare("bearer ")],
        r"[Bb]earer +([A-Za-z0-9._~+/-]{16,}={0,2})",
    ))),
];

/// A whole block, in which no two hyphens follow each other (so that a search for its end stops at the next block); or, where its end is missing, its first line and everything that can belong to it. Line ends may stand
/// escaped, once or twice, because files are quoted in JSON that is quoted in JSON.
const PRIVATE_KEY: &str = r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----(?:(?:[^-]|-[^-])*-----END (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----|[A-Za-z0-9+/=\s\\]*)";
