use super::*;

/// The value of `expression`; `None` if it is undefined.
fn eval(expression: &str) -> Result<Option<Value>> {
    let mut engine = Engine::new();
    engine.set_strict_builtin_errors(false);
    add_to(&mut engine)?;
    let results = engine.eval_query(format!("x = {expression}"), false)?;
    Ok(results.result.into_iter().next().map(|result| result.bindings["x"].clone()))
}

pub(super) fn is(expression: &str, expected: &str) {
    let expected = eval(expected).unwrap();
    assert_eq!(eval(expression).unwrap(), expected, "{expression}");
}

pub(super) fn is_undefined(expression: &str) {
    assert_eq!(eval(expression).unwrap(), None, "{expression}");
}

pub(super) fn ends(expression: &str, expected: &str) {
    let error = eval(expression).unwrap_err().to_string();
    assert!(error.contains(expected), "{expression}: {error}");
}

#[test]
fn missing_builtins_behave_as_in_opa() {
    is("re_match(`^a+$`, \"aaa\")", "true");
    is("re_match(`^a+$`, \"b\")", "false");
    is("any([false, true])", "true");
    is("any({false})", "false");
    is("any([])", "false");
    is("all([true, false])", "false");
    is("all([])", "true");
    is("all({true})", "true");
    is("set_diff({1, 2}, {2})", "{1}");
    is("cast_array({2, 1})", "[1, 2]");
    is("cast_array([1])", "[1]");
    is("cast_set([1, 1])", "{1}");
    is("cast_boolean(true)", "true");
    is("cast_null(null)", "null");
    is("cast_string(\"a\")", "\"a\"");
    is("cast_object({\"a\": 1})", "{\"a\": 1}");
    is("net.cidr_overlap(\"10.0.0.0/8\", \"10.1.0.0\")", "true");
    is("net.cidr_overlap(\"10.0.0.0/8\", \"11.1.0.0\")", "false");
}

#[test]
fn arguments_of_another_type_are_undefined() {
    for expression in [
        "re_match(1, 2)",
        "re_match(`(`, \"a\")",
        "any(1)",
        "all(\"a\")",
        "set_diff([1], {2})",
        "cast_array(1)",
        "cast_set(1)",
        "cast_boolean(1)",
        "cast_null(1)",
        "cast_string(1)",
        "cast_object([])",
        "numbers.range(\"a\", 1)",
        "bits.lsh(\"a\", 1)",
        "net.cidr_expand(1)",
    ] {
        is_undefined(expression);
    }
}

#[test]
fn excessive_results_end_the_evaluation() {
    ends("numbers.range(1, 1e10)", "numbers.range: more than 100000 elements");
    ends("numbers.range(1e10, 1)", "numbers.range: more than 100000 elements");
    ends("numbers.range(0, 100000)", "numbers.range: more than 100000 elements");
    ends("numbers.range_step(0, 1e10, 2)", "numbers.range_step: more than 100000 elements");
    ends("numbers.range_step(0, 300000, 2)", "numbers.range_step: more than 100000 elements");
    ends("net.cidr_expand(\"10.0.0.0/8\")", "net.cidr_expand: 10.0.0.0/8 has more than 100000 addresses");
    ends(
        "net.cidr_expand(\"2001:db8::/64\")",
        "net.cidr_expand: 2001:db8::/64 has more than 100000 addresses",
    );
    ends("net.cidr_expand(\"10.0.0.0/15\")", "more than 100000 addresses");
    ends("bits.lsh(1, 1e10)", "bits.lsh: 10000000000 bits are more than 65536");
    ends("bits.lsh(1, 65537)", "bits.lsh: 65537 bits are more than 65536");
    is("count(numbers.range(1, 100000))", "100000");
    is("numbers.range(3, 1)", "[3, 2, 1]");
    is("numbers.range_step(1, 5, 2)", "[1, 3, 5]");
    is("count(net.cidr_expand(\"10.0.0.0/24\"))", "256");
    is("bits.lsh(1, 70)", "1180591620717411303424");
}

#[test]
fn keys_and_signatures_of_tokens_have_limits() {
    const TOKEN: &str = "\"eyJhbGciOiJSUzI1NiJ9.e30.AA\"";
    let rsa = |bytes: usize| {
        let number = format!("concat(\"\", [\"-\" | some i in numbers.range(1, {})])", bytes / 3 * 4);
        format!("{{\"kty\": \"RSA\", \"e\": \"AQAB\", \"n\": {number}}}")
    };
    let (large, small) = (format!("json.marshal({})", rsa(1_026)), format!("json.marshal({})", rsa(1_023)));
    ends(
        &format!("io.jwt.verify_rs256({TOKEN}, {large})"),
        "io.jwt.verify_rs256: a key of RSA has more than 8192 bits",
    );
    ends(
        &format!("io.jwt.decode_verify({TOKEN}, {{\"cert\": {large}}})"),
        "io.jwt.decode_verify: a key of RSA has more than 8192 bits",
    );
    is(&format!("io.jwt.verify_rs256({TOKEN}, {small})"), "false");
    // The key is not parsed.
    is(&format!("io.jwt.verify_es256({TOKEN}, {large})"), "false");
    let set = |keys: usize| {
        format!(
            "json.marshal({{\"keys\": [key | some j in numbers.range(1, {keys}); key := {}]}})",
            rsa(1_023)
        )
    };
    is(&format!("io.jwt.verify_rs256({TOKEN}, {})", set(64)), "false");
    ends(
        &format!("io.jwt.verify_rs256({TOKEN}, {})", set(65)),
        "io.jwt.verify_rs256: more than 64 signatures to verify",
    );
}

#[test]
fn tokens_are_verified_at_the_time_of_the_evaluation() {
    let token = |token| format!("io.jwt.decode_verify(\"{token}\", {{\"secret\": \"secret\"}})");
    is(
        &token("eyJhbGciOiJIUzI1NiJ9.eyJleHAiOjQwMDAwMDAwMDB9.Q4lnK8tdL89spj2GDQcFN_0wkfxefeshC0_CRwMkgmM"),
        "[true, {\"alg\": \"HS256\"}, {\"exp\": 4000000000}]",
    );
    is(
        &token("eyJhbGciOiJIUzI1NiJ9.eyJleHAiOjEwMDB9.ROkUxbfucB7B40Bk3G7B_TTnEtP-yKiyfxzXp0X1RBs"),
        "[false, {}, {}]",
    );
    is("time.now_ns() > 1700000000000000000", "true");
    is("count([y | time.now_ns(y)])", "1");
}
