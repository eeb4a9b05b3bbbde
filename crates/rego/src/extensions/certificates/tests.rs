use super::*;

/// An element of DER.
fn element(tag: u8, contents: &[u8]) -> Vec<u8> {
    let length = u16::try_from(contents.len()).unwrap().to_be_bytes();
    let length = match (length, contents.len()) {
        ([_, length], ..0x80) => vec![length],
        ([0, length], _) => vec![0x81, length],
        (length, _) => [&[0x82][..], &length].concat(),
    };
    [&[tag][..], &length, contents].concat()
}

fn sequence(elements: &[&[u8]]) -> Vec<u8> {
    element(0x30, &elements.concat())
}

/// A certificate of an authority with this `SubjectPublicKeyInfo`, and a signature with the algorithm
/// 1.2.840.113549.1.1.11.
fn certificate(key: &[u8], serial_number: u8) -> Vec<u8> {
    let algorithm = sequence(&[&element(6, &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 11])]);
    let times = [element(0x17, b"200101000000Z"), element(0x18, b"99991231235959Z")].concat();
    let authority = element(4, &sequence(&[&[1, 1, 0xff]]));
    let extension = sequence(&[&element(6, &[0x55, 0x1d, 0x13]), &authority]);
    let to_be_signed = sequence(&[
        &element(0xa0, &[2, 1, 2]),
        &[2, 1, serial_number],
        &algorithm,
        &sequence(&[]),
        &element(0x30, &times),
        &sequence(&[]),
        key,
        &element(0xa3, &sequence(&[&extension])),
    ]);
    sequence(&[&to_be_signed, &algorithm, &element(3, &[0])])
}

fn ed25519_key() -> Vec<u8> {
    sequence(&[&sequence(&[&element(6, &[0x2b, 0x65, 0x70])]), &element(3, &[0; 33])])
}

/// An RSA key whose modulus has this number of bytes.
fn rsa_key(bytes: usize) -> Vec<u8> {
    let algorithm = sequence(&[&element(6, &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1]), &[5, 0]]);
    let numbers = sequence(&[&element(2, &vec![0x7f; bytes]), &[2, 1, 3]]);
    sequence(&[&algorithm, &element(3, &[&[0][..], &numbers].concat())])
}

fn encoded(der: &[u8]) -> Value {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(der).into()
}

fn pem(label: &str, der: &[u8]) -> Value {
    let text = encoded(der).as_string().unwrap().to_string();
    format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n").into()
}

fn error(result: Result<Value>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn arguments_have_limits() {
    let long: Value = "a".repeat(TEXT + 1).into();
    for (name, arity, function) in crate::extensions::FUNCTIONS {
        if !name.starts_with("crypto.x509.") && name != "crypto.parse_private_keys" {
            continue;
        }
        let mut arguments = vec![Value::new_object(); arity];
        arguments[0] = long.clone();
        assert_eq!(error(function(arguments)), format!("{name}: more than 65536 bytes"));
    }
    let many = |count| vec![encoded(&certificate(&ed25519_key(), 1).repeat(count))];
    let parsed = parse_certificates(many(ITEMS)).unwrap();
    assert_eq!(parsed.as_array().unwrap().len(), ITEMS);
    let expected = "crypto.x509.parse_certificates: more than 64 certificates or keys";
    assert_eq!(error(parse_certificates(many(ITEMS + 1))), expected);
    let expected = "crypto.x509.parse_and_verify_certificates: more than 64 certificates or keys";
    assert_eq!(error(parse_and_verify_certificates(many(ITEMS + 1))), expected);
}

#[test]
fn keys_of_rsa_have_limits() {
    let chain = |bytes| {
        let key = rsa_key(bytes);
        vec![encoded(&[certificate(&key, 1), certificate(&key, 2)].concat())]
    };
    // Both certificates have the same subject and key, so they do not form a chain.
    assert_eq!(parse_and_verify_certificates(chain(1_025)).unwrap()[0], false.into());
    let chain = |bytes| {
        vec![encoded(&[certificate(&rsa_key(bytes), 1), certificate(&rsa_key(bytes - 1), 2)].concat())]
    };
    assert_eq!(
        error(parse_and_verify_certificates(chain(1_025))),
        "crypto.x509.parse_and_verify_certificates: a key of RSA has more than 8192 bits"
    );
    assert_eq!(parse_and_verify_certificates(chain(1_024)).unwrap()[0], false.into());

    let number = |bytes| element(2, &vec![0x7f; bytes]);
    let key = |bytes: usize, more: &[u8]| {
        let (large, half) = (number(bytes), number(bytes / 2));
        let der = sequence(&[&[2, 1, 0], &large, &[2, 1, 3], &large, &half, &half, more]);
        pem("RSA PRIVATE KEY", &der)
    };
    let residues = number(512).repeat(3);
    let too_large = error(parse_private_keys(vec![key(1_025, &residues)]));
    assert_eq!(too_large, "crypto.parse_private_keys: a private key of RSA has more than 8192 bits");
    assert_eq!(parse_private_keys(vec![key(1_024, &residues)]).unwrap(), Value::Undefined);
    let primes = |count: usize| {
        let prime = sequence(&[&[2, 1, 11], &[2, 1, 1], &[2, 1, 1]]);
        [&residues[..], &element(0x30, &prime.repeat(count))].concat()
    };
    let too_many = error(parse_private_keys(vec![key(128, &primes(15))]));
    assert_eq!(too_many, "crypto.parse_private_keys: a private key of RSA has more than 16 primes");
    assert_eq!(parse_private_keys(vec![key(128, &primes(14))]).unwrap(), Value::Undefined);
    let large = [&residues[..], &sequence(&[&sequence(&[&number(1_025), &[2, 1, 1], &[2, 1, 1]])])].concat();
    let too_large = error(parse_private_keys(vec![key(128, &large)]));
    assert_eq!(too_large, "crypto.parse_private_keys: a private key of RSA has more than 8192 bits");
    let too_slow = error(parse_rsa_private_key(vec![key(513, &[])]));
    let expected = "a private key of RSA without its coefficient has more than 4096 bits";
    assert_eq!(too_slow, format!("crypto.x509.parse_rsa_private_key: {expected}"));
    assert_eq!(parse_rsa_private_key(vec![key(512, &[])]).unwrap(), Value::Undefined);
}

#[test]
fn chains_are_verified_at_the_time_of_the_evaluation() {
    let der = certificate(&ed25519_key(), 1).repeat(2);
    assert_eq!(parse_and_verify_certificates(vec![encoded(&der)]).unwrap()[0], true.into());
    let verified = |nanoseconds: i64| {
        let options = [("CurrentTime".into(), nanoseconds.into())];
        let options = Value::from(std::collections::BTreeMap::<Value, Value>::from(options));
        parse_and_verify_certificates_with_options(vec![encoded(&der), options]).unwrap()[0].clone()
    };
    assert_eq!(verified(1_577_836_800_000_000_000), true.into());
    assert_eq!(verified(1_577_836_799_999_999_999), false.into());
}
