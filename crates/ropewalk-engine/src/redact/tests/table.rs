//! Texts and what becomes of them.

use super::*;

#[test]
fn every_detector_finds_its_secrets_wherever_they_stand() {
    let redactor = builtin();
    for sample in SAMPLES {
        let (secret, name) = (sample.secret(), sample.name);
        for (before, after) in [
            ("", ""),
            ("key=", ""),
            ("export KEY=\"", "\" # mine"),
            ("(", ")"),
            ("é", "é"),
            ("is: ", ", and"),
            ("\n", "\n"),
            ("--key ", "."),
        ] {
            let text = format!("{before}{secret}{after}");
            check(&redactor, &text, &format!("{before}<{name}>{after}"));
            let quoted = serde_json::to_string(&text).unwrap();
            let expected = serde_json::to_string(&format!("{before}<{name}>{after}")).unwrap();
            check(&redactor, &quoted, &expected);
        }
    }
}

#[test]
fn every_built_in_detector_has_a_sample() {
    // These need text around them; their tests are below.
    let in_context = [
        "aws-secret-key",
        "azure-account-key",
        "private-key",
        "slack-webhook",
        "url-password",
        "bearer-token",
    ];
    for detector in detectors::DETECTORS {
        let has_sample = SAMPLES.iter().any(|sample| sample.name == detector.name);
        assert!(has_sample || in_context.contains(&detector.name), "{}", detector.name);
        assert!(placeholder::is_name(detector.name));
    }
}

#[test]
fn what_is_too_short_or_within_a_word_stays() {
    let redactor = builtin();
    for sample in SAMPLES {
        let short = sample.of_length(5);
        // Where the end of a sample is long, a short middle does not make the whole too short.
        if sample.name != "slack-token" {
            check(&redactor, &short, &short);
        }
        let within = format!("x{}", sample.secret());
        if sample.name != "jwt" && sample.name != "sendgrid-key" && sample.name != "sentry-token" {
            check(&redactor, &within, &within);
        }
    }
}

#[test]
fn near_misses_stay() {
    for text in [
        // Words and names that begin like keys.
        "sk-fading-circle-animation-with-a-very-long-class-name-in-it",
        "a task-12345678901234567890123456789012 and disk-usage",
        "sk-abcdefghijklmnopqrstuvwxyzabcdefghijkl",
        "npm_config_cache=/tmp/x npm_lifecycle_event npm_package_name_is_a_long_one_of_thirty",
        "hf_hub_download(repo_id) hf_transfer",
        "ghp_ is the prefix; github_pat_ too",
        "AKIA is a prefix, AKIAIOSFODNN7EXAMPLEX is too long, akiaiosfodnn7example is lower case",
        "pypi-server, xoxo, xox-press, glpat-short",
        "eyJhbGciOiJIUzI1NiJ9 alone is no token",
        "eyJhbGciOiJIUzI1NiJ9.abcdefghijkl.abcdefghijkl",
        // Public halves.
        "-----BEGIN PUBLIC KEY-----\nMIIBIjANBg\n-----END PUBLIC KEY-----",
        "-----BEGIN CERTIFICATE-----\nMIIBIjANBg\n-----END CERTIFICATE-----",
        // URLs without a password.
        "https://example.org:8080/a@b ssh://git@host/x http://[::1]:80/ mailto:a@b.c",
        "postgres://${USER}:${PASSWORD}@localhost/db http://host/path:x@y",
        "https://user:@host/ https://a:b c@host",
        // No bearer of anything.
        "Bearer authentication-without-any-digits is described below",
        "bearer of bad news, Bearer <token>, Bearer $TOKEN",
        "aws_secret_access_key = os.environ['X'] and SecretAccessKey: string",
        "AccountKey=short==",
    ] {
        check(&builtin(), text, text);
        let quoted = serde_json::to_string(text).unwrap();
        check(&builtin(), &quoted, &quoted);
    }
}

#[test]
fn secrets_that_need_their_context() {
    let aws = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYzzzzzzzKEY";
    let account = format!("{}==", "Ab1+".repeat(22).get(..86).unwrap());
    let token = "abc123.def-456_ghi~789";
    for (text, expected) in [
        (
            format!("aws_secret_access_key = {aws}\n"),
            "aws_secret_access_key = <aws-secret-key>\n",
        ),
        (
            format!("AWS_SECRET_ACCESS_KEY=\"{aws}\""),
            "AWS_SECRET_ACCESS_KEY=\"<aws-secret-key>\"",
        ),
        (
            format!(r#"{{"SecretAccessKey\": \"{aws}\""#),
            r#"{"SecretAccessKey\": \"<aws-secret-key>\""#,
        ),
        (
            format!("AccountName=x;AccountKey={account};"),
            "AccountName=x;AccountKey=<azure-account-key>;",
        ),
        (
            "postgres://app:hunter2@db:5432/x".to_owned(),
            "postgres://app:<url-password>@db:5432/x",
        ),
        (
            "redis://:p%40ss!word@10.0.0.1".to_owned(),
            "redis://:<url-password>@10.0.0.1",
        ),
        (
            r"https:\/\/u:secret\u0031@host\/".to_owned(),
            r"https:\/\/u:secret\u0031@host\/",
        ),
        (
            format!("curl -H 'Authorization: Bearer {token}' x"),
            "curl -H 'Authorization: Bearer <bearer-token>' x",
        ),
        (
            "https://hooks.slack.com/services/T0123/B0456/abcDEF123456".to_owned(),
            "https://hooks.slack.com/services/<slack-webhook>",
        ),
    ] {
        check(&builtin(), &text, expected);
    }
    // Escaped as some encoders do, it is found once it is decoded.
    check(
        &builtin(),
        r#"["https:\/\/u:secret\u0031@host\/", "\u0068ttps\u003a//u:secret@host"]"#,
        r#"["https:\/\/u:<url-password>@host\/", "\u0068ttps\u003a//u:<url-password>@host"]"#,
    );
    let anthropic = Sample::named("anthropic-key").secret();
    check(&builtin(), &format!("Bearer {anthropic}"), "Bearer <anthropic-key>");
}
