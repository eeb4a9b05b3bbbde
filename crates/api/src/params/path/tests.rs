use super::*;

#[test]
fn common_subset_is_accepted() {
    for (path, rfc) in [
        (".status.observedGeneration", "$['status']['observedGeneration']"),
        (
            ".metadata.annotations.kuadrant\\.io/revision",
            "$['metadata']['annotations']['kuadrant.io/revision']",
        ),
        (
            ".metadata.annotations['kuadrant\\.io/revision']",
            "$['metadata']['annotations']['kuadrant.io/revision']",
        ),
        (".status.conditions[0].type", "$['status']['conditions'][0]['type']"),
        (
            ".status.conditions[?(@.type==\"Ready\")].status",
            "$['status']['conditions'][?@['type'] == \"Ready\"]['status']",
        ),
    ] {
        assert_eq!(StatusPath::parse(path).unwrap().to_rfc9535(), rfc);
    }
}

#[test]
fn other_paths_are_rejected_with_their_position() {
    for (path, error) in [
        ("", "expected `.` and a name at character 1"),
        ("status", "expected `.` or `[` at character 1"),
        ("$.status", "a path must start with `.` at character 1"),
        ("{.status}", "a path must start with `.` at character 1"),
        (".status.", "expected a name at character 9"),
        ("..status", "`..` can select more than one value at character 2"),
        (".status.*", "a wildcard can select more than one value at character 9"),
        (".status[*]", "a wildcard can select more than one value at character 9"),
        (".status[-1]", "not all agents support an index from the end at character 9"),
        (".status[01]", "01 is not an index at character 9"),
        (".status[\"x\"]", "a name in brackets must be quoted with ' at character 9"),
        (".status['x", "expected ' at character 11"),
        (".a['b.c']", "a dot in a quoted name is written `\\.` at character 6"),
        (".a[?(@.b>1)]", "a filter must compare with `==` at character 9"),
        (".a[?(@.b==1)]", "a filter must compare with a quoted string at character 11"),
        (".a[?(@.b==\"x\")][?(@.c==\"y\")]", "a second filter at character 16"),
        (".status x", "expected `.` or `[` at character 8"),
    ] {
        assert_eq!(StatusPath::parse(path).unwrap_err().to_string(), error, "{path}");
    }
}
