use super::*;

const HOST: &str = "policy-sync-webhook.policies.svc";
const NOW: Moment = Moment(1_800_000_000_000);

fn days(days: u64) -> Moment {
    NOW.after(Duration::from_secs(days * DAY.as_secs()))
}

fn new() -> Kept {
    assert_eq!(due(&Kept::default(), HOST, true, NOW), Due::Both);
    made(&Kept::default(), Due::Both, HOST, NOW).unwrap()
}

/// Performs the renewal that is due at `now`, when all configurations trust the CA.
fn next(kept: &Kept, now: Moment) -> Kept {
    made(kept, due(kept, HOST, true, now), HOST, now).unwrap()
}

#[test]
fn certificate_lasts_ninety_days_and_is_renewed_after_sixty() {
    let kept = new();
    assert_eq!(due(&kept, HOST, true, NOW), Due::Nothing);
    assert_eq!(due(&kept, HOST, true, days(59)), Due::Nothing);
    assert_eq!(due(&kept, HOST, true, days(61)), Due::Certificate);
    let renewed = next(&kept, days(61));
    assert_eq!((&renewed.authorities, &renewed.authority_key), (&kept.authorities, &kept.authority_key));
    assert_ne!(renewed.certificate, kept.certificate);
    assert_eq!(due(&renewed, HOST, true, days(61)), Due::Nothing);
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
    assert_eq!(due(&kept, HOST, true, now), Due::Nothing, "it was renewed by the old one");
    now = days(3_286);
    assert_eq!(due(&kept, HOST, true, now), Due::Authority);
    let both = next(&kept, now);
    let [new, old] = &certificates(&both.authorities)[..] else { panic!("two are trusted") };
    assert_eq!(*old, certificates(&kept.authorities)[0]);
    assert_eq!((&both.certificate, &both.key), (&kept.certificate, &kept.key), "what is served stays");
    assert_eq!(due(&both, HOST, true, now), Due::Nothing);
    // Until all configurations trust the new CA, the certificate signed by the old one stays.
    let later = days(3_345);
    assert_eq!(due(&both, HOST, false, later), Due::Nothing);
    let renewed = next(&both, later);
    assert!(is_good(&renewed, std::slice::from_ref(new), HOST, later));
    assert!(!is_good(&renewed, std::slice::from_ref(old), HOST, later));
    // The old CA expires.
    now = days(3_651);
    let renewed = next(&renewed, now);
    assert_eq!(due(&renewed, HOST, true, now), Due::Nothing);
    assert_eq!(certificates(&renewed.authorities), std::slice::from_ref(new));
}

#[test]
fn unusable_certificate_is_replaced_even_if_the_ca_is_not_trusted() {
    let kept = new();
    for broken in [
        Kept { certificate: String::new(), ..kept.clone() },
        Kept { certificate: "nonsense".to_owned(), ..kept.clone() },
        Kept { key: kept.authority_key.clone(), ..kept.clone() },
        Kept { certificate: new().certificate, ..kept.clone() },
    ] {
        assert_eq!(due(&broken, HOST, false, NOW), Due::Certificate);
    }
    assert_eq!(due(&kept, "other.policies.svc", false, NOW), Due::Certificate, "another address");
    assert_eq!(due(&kept, HOST, false, days(91)), Due::Certificate, "expired");
}

fn years(years: u64) -> Moment {
    days(365 * years)
}

#[test]
fn ca_from_a_clock_that_is_ahead_is_replaced() {
    for ahead in [days(1), years(3), years(30), years(500), years(7_900), years(8_000)] {
        let Ok(early) = made(&Kept::default(), Due::Both, HOST, ahead) else {
            assert_eq!(ahead, years(8_000), "its end is no date of a certificate");
            continue;
        };
        assert_eq!(due(&early, HOST, true, NOW), Due::Both, "{ahead:?}");
        let remade = next(&early, NOW);
        assert_eq!(due(&remade, HOST, true, NOW), Due::Nothing, "{ahead:?}");
        let authorities = certificates(&remade.authorities);
        assert!(authorities.len() == 1 && is_valid(&authorities[0], NOW), "{ahead:?}");
    }
}

#[test]
fn ca_from_a_clock_that_is_behind_is_replaced_once_expired() {
    let old = made(&Kept::default(), Due::Both, HOST, Moment(0)).unwrap();
    assert_eq!(due(&old, HOST, true, NOW), Due::Both);
    assert_eq!(due(&next(&old, NOW), HOST, true, NOW), Due::Nothing);
}

#[test]
fn certificate_from_a_clock_that_is_ahead_is_replaced_by_the_same_ca() {
    let kept = new();
    let early = made(&kept, Due::Certificate, HOST, years(3)).unwrap();
    assert_eq!(due(&early, HOST, true, NOW), Due::Certificate);
    let remade = next(&early, NOW);
    assert_eq!(remade.authorities, kept.authorities);
    assert_eq!(due(&remade, HOST, true, NOW), Due::Nothing);
}

#[test]
fn ca_that_is_not_valid_yet_is_removed() {
    let (kept, early) = (new(), made(&Kept::default(), Due::Both, HOST, years(3)).unwrap());
    let both = Kept { authorities: format!("{}{}", kept.authorities, early.authorities), ..kept.clone() };
    assert_eq!(due(&both, HOST, true, NOW), Due::Expired);
    assert_eq!(certificates(&next(&both, NOW).authorities), certificates(&kept.authorities));
}

#[test]
fn api_server_time_is_used_if_the_local_clock_is_an_hour_off() {
    let minutes = |minutes: u64| NOW.after(Duration::from_secs(60 * minutes));
    assert_eq!(agreed(NOW, None), NOW);
    assert_eq!(agreed(NOW, Some(minutes(59))), NOW);
    assert_eq!(agreed(minutes(59), Some(NOW)), minutes(59));
    assert_eq!(agreed(NOW, Some(minutes(61))), minutes(61));
    assert_eq!(agreed(years(30), Some(NOW)), NOW);
}

#[test]
fn ca_and_certificate_are_replaced_if_the_ca_cannot_sign() {
    let kept = new();
    for broken in [
        Kept { authorities: "nonsense".to_owned(), ..kept.clone() },
        Kept { authority_key: String::new(), ..kept.clone() },
        Kept { authority_key: new().authority_key, ..kept.clone() },
    ] {
        assert_eq!(due(&broken, HOST, true, NOW), Due::Both);
        assert_eq!(due(&next(&broken, NOW), HOST, true, NOW), Due::Nothing);
    }
    assert_eq!(due(&kept, HOST, true, days(3_651)), Due::Both, "it has expired");
}

#[test]
fn renewal_on_the_day_of_a_new_ca_is_signed_by_the_old_one() {
    let kept = new();
    let now = days(3_286);
    assert_eq!(due(&kept, HOST, true, now), Due::Certificate, "it has expired, too");
    let kept = next(&kept, now);
    assert_eq!(certificates(&kept.authorities).len(), 1);
    assert_eq!(due(&kept, HOST, true, now), Due::Authority);
}

#[test]
fn certificates_end_no_later_than_their_ca() {
    let kept = new();
    let now = days(3_640);
    let kept = next(&kept, now);
    let authorities = certificates(&kept.authorities);
    let lasts = |kept: &Kept, at: Moment| is_good(kept, &certificates(&kept.authorities), HOST, at);
    assert!(lasts(&kept, days(3_649)) && !lasts(&kept, days(3_651)), "it ends with its authority");
    assert_eq!(due(&kept, HOST, true, now), Due::Authority);
    let both = next(&kept, now);
    assert_eq!(due(&both, HOST, false, now), Due::Nothing, "not everybody trusts it yet");
    assert_eq!(due(&both, HOST, true, now), Due::Certificate);
    let renewed = next(&both, now);
    assert!(lasts(&renewed, days(3_720)));
    assert!(!is_good(&renewed, &authorities, HOST, now));
    assert_eq!(due(&renewed, HOST, true, now), Due::Nothing);
}

#[test]
fn certificates_can_be_for_ip_addresses() {
    for host in ["127.0.0.1", "::1", "hooks.example.com"] {
        let kept = made(&Kept::default(), Due::Both, host, NOW).unwrap();
        assert_eq!(due(&kept, host, true, NOW), Due::Nothing, "{host}");
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
