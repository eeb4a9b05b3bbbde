use serde_json::{Value, json};

use super::*;
use crate::api::object::WithText;

/// As the hub writes a list: what it says of itself stands before the objects.
const HEAD: &str = r#"{"kind":"GatewayList","apiVersion":"gateway.networking.k8s.io/v1","metadata":{"resourceVersion":"20","continue":"more"},"items":"#;

fn page(text: &str) -> Result<Page, PageError> {
    Page::new(text.to_owned())
}

fn names(page: &Page) -> Result<Vec<String>, PageError> {
    let mut names = Vec::new();
    page.each::<HubObject>(|object| names.push(object.metadata.name))?;
    Ok(names)
}

#[test]
fn what_a_page_says_of_itself_is_known_before_its_objects_are_read() {
    let cut = page(&format!("{HEAD}[{{")).unwrap();
    assert_eq!((cut.next(), cut.version()), (Some("more"), "20"));
    assert_eq!(names(&cut).unwrap_err().number, Some(1));
}

#[test]
fn it_may_stand_anywhere() {
    let whole: Value =
        serde_json::from_str(&format!(r#"{HEAD}[{{"metadata":{{"name":"web"}}}}]}}"#)).unwrap();
    let fields = ["kind", "apiVersion", "metadata", "items"];
    for turned in 0..fields.len() {
        let fields: Vec<String> = (0..4)
            .map(|place| fields[(place + turned) % 4])
            .map(|name| format!("{name:?}:{}", whole[name]))
            .collect();
        let page = page(&format!("{{{}}}", fields.join(","))).unwrap();
        assert_eq!((page.next(), page.version()), (Some("more"), "20"));
        page.each::<WithText>(|object| {
            assert_eq!((&*object.kind, &*object.api_version), ("Gateway", "gateway.networking.k8s.io/v1"));
            assert_eq!(object.text.unwrap().get(), r#"{"metadata":{"name":"web"}}"#);
        })
        .unwrap();
    }
}

#[test]
fn a_list_may_be_empty_and_need_not_say_anything() {
    for list in [json!({"items": []}), json!({"items": null}), json!({"metadata": {}, "items": []})] {
        let page = page(&list.to_string()).unwrap();
        assert_eq!((page.next(), page.version(), names(&page).unwrap()), (None, "", Vec::new()));
    }
}

#[test]
fn what_is_no_list_is_not_taken_for_an_empty_one() {
    for text in ["", "[]", "3", r#"{"kind":"#, r#"{"metadata":3}"#] {
        assert_eq!(page(text).unwrap_err().number, None, "{text}");
    }
    let texts = [
        r#"{"kind":"Status","apiVersion":"v1","metadata":{}}"#.to_owned(),
        format!("{HEAD}3}}"),
        format!("{HEAD}[]"),
        format!("{HEAD}[]}}]"),
        format!("{HEAD}[],\"items\":[]}}"),
    ];
    for text in texts {
        assert_eq!(names(&page(&text).unwrap()).unwrap_err().number, None, "{text}");
    }
}

#[test]
fn an_object_that_cannot_be_read_is_told_by_its_number() {
    for second in ["3", r#"{"metadata":{"labels":3}}"#, r#"{"metadata":"#] {
        let page = page(&format!(r#"{HEAD}[{{}},{second}]}}"#)).unwrap();
        assert_eq!(names(&page).unwrap_err().number, Some(2), "{second}");
    }
}
