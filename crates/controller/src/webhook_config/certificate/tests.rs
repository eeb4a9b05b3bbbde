use super::*;

const HOST: &str = "policy-sync-webhook.policies.svc";
const NOW: Moment = Moment(1_800_000_000_000);

fn days(days: u64) -> Moment {
    NOW.after(Duration::from_secs(days * DAY.as_secs()))
}

fn new() -> CertificateSecret {
    assert_eq!(renewal(&CertificateSecret::default(), HOST, true, NOW), Renewal::Both);
    issue(&CertificateSecret::default(), Renewal::Both, HOST, NOW).unwrap()
}

/// Performs the renewal that is due at `now`, when all configurations trust the CA.
fn next(kept: &CertificateSecret, now: Moment) -> CertificateSecret {
    issue(kept, renewal(kept, HOST, true, now), HOST, now).unwrap()
}

#[test]
fn certificate_lasts_ninety_days_and_is_renewed_after_sixty() {
    let kept = new();
    assert_eq!(renewal(&kept, HOST, true, NOW), Renewal::Nothing);
    assert_eq!(renewal(&kept, HOST, true, days(59)), Renewal::Nothing);
    assert_eq!(renewal(&kept, HOST, true, days(61)), Renewal::Certificate);
    let renewed = next(&kept, days(61));
    assert_eq!((&renewed.authorities, &renewed.authority_key), (&kept.authorities, &kept.authority_key));
    assert_ne!(renewed.certificate, kept.certificate);
    assert_eq!(renewal(&renewed, HOST, true, days(61)), Renewal::Nothing);
    let authorities = certificates(&renewed.authorities);
    assert!(is_good(&renewed, &authorities, HOST, days(150)));
    assert!(!is_good(&renewed, &authorities, HOST, days(152)));
    assert!(!is_good(&renewed, &authorities, "other.policies.svc", days(100)));
}

#[test]
fn new_ca_is_created_a_year_before_expiry_and_both_are_trusted() {
    let kept = new();
    let mut now = days(3_283);
    let kept = next(&kept, now);
    assert_eq!(renewal(&kept, HOST, true, now), Renewal::Nothing, "it was renewed by the old one");
    now = days(3_286);
    assert_eq!(renewal(&kept, HOST, true, now), Renewal::Authority);
    let both = next(&kept, now);
    let [new, old] = &certificates(&both.authorities)[..] else { panic!("two are trusted") };
    assert_eq!(*old, certificates(&kept.authorities)[0]);
    assert_eq!((&both.certificate, &both.key), (&kept.certificate, &kept.key), "what is served stays");
    assert_eq!(renewal(&both, HOST, true, now), Renewal::Nothing);
    // Until all configurations trust the new CA, the certificate signed by the old CA stays.
    let later = days(3_345);
    assert_eq!(renewal(&both, HOST, false, later), Renewal::Nothing);
    let renewed = next(&both, later);
    assert!(is_good(&renewed, std::slice::from_ref(new), HOST, later));
    assert!(!is_good(&renewed, std::slice::from_ref(old), HOST, later));
    // The old CA has expired.
    now = days(3_651);
    let renewed = next(&renewed, now);
    assert_eq!(renewal(&renewed, HOST, true, now), Renewal::Nothing);
    assert_eq!(certificates(&renewed.authorities), std::slice::from_ref(new));
}

#[test]
fn unusable_certificate_is_replaced_even_if_the_ca_is_not_trusted() {
    let kept = new();
    for broken in [
        CertificateSecret { certificate: String::new(), ..kept.clone() },
        CertificateSecret { certificate: "nonsense".to_owned(), ..kept.clone() },
        CertificateSecret { key: kept.authority_key.clone(), ..kept.clone() },
        CertificateSecret { certificate: new().certificate, ..kept.clone() },
    ] {
        assert_eq!(renewal(&broken, HOST, false, NOW), Renewal::Certificate);
    }
    assert_eq!(renewal(&kept, "other.policies.svc", false, NOW), Renewal::Certificate, "another address");
    assert_eq!(renewal(&kept, HOST, false, days(91)), Renewal::Certificate, "expired");
}

fn years(years: u64) -> Moment {
    days(365 * years)
}

#[test]
fn ca_from_a_clock_that_is_ahead_is_replaced() {
    for ahead in [days(1), years(3), years(30), years(500), years(7_900), years(8_000)] {
        let Ok(early) = issue(&CertificateSecret::default(), Renewal::Both, HOST, ahead) else {
            assert_eq!(ahead, years(8_000), "its end is no date of a certificate");
            continue;
        };
        assert_eq!(renewal(&early, HOST, true, NOW), Renewal::Both, "{ahead:?}");
        let remade = next(&early, NOW);
        assert_eq!(renewal(&remade, HOST, true, NOW), Renewal::Nothing, "{ahead:?}");
        let authorities = certificates(&remade.authorities);
        assert!(authorities.len() == 1 && is_valid(&authorities[0], NOW), "{ahead:?}");
    }
}

#[test]
fn ca_from_a_clock_that_is_behind_is_replaced_once_expired() {
    let old = issue(&CertificateSecret::default(), Renewal::Both, HOST, Moment(0)).unwrap();
    assert_eq!(renewal(&old, HOST, true, NOW), Renewal::Both);
    assert_eq!(renewal(&next(&old, NOW), HOST, true, NOW), Renewal::Nothing);
}

#[test]
fn certificate_from_a_clock_that_is_ahead_is_replaced_by_the_same_ca() {
    let kept = new();
    let early = issue(&kept, Renewal::Certificate, HOST, years(3)).unwrap();
    assert_eq!(renewal(&early, HOST, true, NOW), Renewal::Certificate);
    let remade = next(&early, NOW);
    assert_eq!(remade.authorities, kept.authorities);
    assert_eq!(renewal(&remade, HOST, true, NOW), Renewal::Nothing);
}

#[test]
fn ca_that_is_not_valid_yet_is_removed() {
    let (kept, early) = (new(), issue(&CertificateSecret::default(), Renewal::Both, HOST, years(3)).unwrap());
    let both = CertificateSecret {
        authorities: format!("{}{}", kept.authorities, early.authorities),
        ..kept.clone()
    };
    assert_eq!(renewal(&both, HOST, true, NOW), Renewal::Expired);
    assert_eq!(certificates(&next(&both, NOW).authorities), certificates(&kept.authorities));
}

#[test]
fn api_server_time_is_used_if_the_local_clock_is_an_hour_off() {
    let minutes = |minutes: u64| NOW.after(Duration::from_secs(60 * minutes));
    assert_eq!(certificate_time(NOW, None), NOW);
    assert_eq!(certificate_time(NOW, Some(minutes(59))), NOW);
    assert_eq!(certificate_time(minutes(59), Some(NOW)), minutes(59));
    assert_eq!(certificate_time(NOW, Some(minutes(61))), minutes(61));
    assert_eq!(certificate_time(years(30), Some(NOW)), NOW);
}

#[test]
fn ca_and_certificate_are_replaced_if_the_ca_cannot_sign() {
    let kept = new();
    for broken in [
        CertificateSecret { authorities: "nonsense".to_owned(), ..kept.clone() },
        CertificateSecret { authority_key: String::new(), ..kept.clone() },
        CertificateSecret { authority_key: new().authority_key, ..kept.clone() },
    ] {
        assert_eq!(renewal(&broken, HOST, true, NOW), Renewal::Both);
        assert_eq!(renewal(&next(&broken, NOW), HOST, true, NOW), Renewal::Nothing);
    }
    assert_eq!(renewal(&kept, HOST, true, days(3_651)), Renewal::Both, "it has expired");
}

#[test]
fn renewal_on_the_day_of_a_new_ca_is_signed_by_the_old_one() {
    let kept = new();
    let now = days(3_286);
    assert_eq!(renewal(&kept, HOST, true, now), Renewal::Certificate, "it has expired, too");
    let kept = next(&kept, now);
    assert_eq!(certificates(&kept.authorities).len(), 1);
    assert_eq!(renewal(&kept, HOST, true, now), Renewal::Authority);
}

#[test]
fn certificates_end_no_later_than_their_ca() {
    let kept = new();
    let now = days(3_640);
    let kept = next(&kept, now);
    let authorities = certificates(&kept.authorities);
    let lasts =
        |kept: &CertificateSecret, at: Moment| is_good(kept, &certificates(&kept.authorities), HOST, at);
    assert!(lasts(&kept, days(3_649)) && !lasts(&kept, days(3_651)), "it ends with its authority");
    assert_eq!(renewal(&kept, HOST, true, now), Renewal::Authority);
    let both = next(&kept, now);
    assert_eq!(renewal(&both, HOST, false, now), Renewal::Nothing, "not everybody trusts it yet");
    assert_eq!(renewal(&both, HOST, true, now), Renewal::Certificate);
    let renewed = next(&both, now);
    assert!(lasts(&renewed, days(3_720)));
    assert!(!is_good(&renewed, &authorities, HOST, now));
    assert_eq!(renewal(&renewed, HOST, true, now), Renewal::Nothing);
}

#[test]
fn certificates_can_be_for_ip_addresses() {
    for host in ["127.0.0.1", "::1", "hooks.example.com"] {
        let kept = issue(&CertificateSecret::default(), Renewal::Both, host, NOW).unwrap();
        assert_eq!(renewal(&kept, host, true, NOW), Renewal::Nothing, "{host}");
    }
}

#[test]
fn pem_text_round_trips() {
    let kept = new();
    assert_eq!(
        certificates(&kept.authorities).iter().map(pem).collect::<String>().replace('\r', ""),
        kept.authorities.replace('\r', "")
    );
}
